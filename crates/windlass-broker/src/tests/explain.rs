use windlass_core::flow::{Ageing, Limit, Scope};

use super::*;
use crate::{Explanation, Failed};

/// Checks the codes and that the text of the first reason holds `text`.
#[track_caller]
fn check(explanation: &Explanation, runnable: bool, codes: &[&str], text: &str) {
    let found: Vec<&str> = explanation.reasons.iter().map(|reason| reason.code).collect();
    assert_eq!(found, codes, "{explanation:?}");
    assert_eq!(explanation.runnable, runnable, "{explanation:?}");
    assert!(explanation.reasons[0].text.contains(text), "{explanation:?}");
}

async fn explain(broker: &Broker, task: &str) -> Explanation {
    broker.explain(&id(task)).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_wait_has_its_reason() {
    let broker = start();
    refused(broker.explain(&id("a")).await, "not_found");
    broker.submit(named("a")).await.unwrap();
    check(&explain(&broker, "a").await, false, &["no_worker", "position"], "No worker is connected at all");

    let deaf = ClaimRequest { types: Some(vec![name("email")]), ..one("mailer") };
    broker.claim(deaf).await.unwrap();
    let told = "type echo. Connected: mailer (queues default; types email).";
    check(&explain(&broker, "a").await, false, &["no_worker", "position"], told);

    broker.heartbeat(beat("w", 1, &[])).await.unwrap();
    check(&explain(&broker, "a").await, true, &["position"], "It is next in line");
    broker.submit(named("b")).await.unwrap();
    check(
        &explain(&broker, "b").await,
        true,
        &["position"],
        "One task of its queue and type is ahead of it.",
    );

    broker.pause_worker(&name("w")).await.unwrap();
    check(&explain(&broker, "a").await, false, &["worker_paused", "position"], "is paused (1: w)");
    broker.pause_queue(&name("default")).await.unwrap();
    let codes = ["paused", "worker_paused", "position"];
    check(&explain(&broker, "a").await, false, &codes, "The queue default is paused");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn timers_running_and_finished_tasks_are_explained() {
    let broker = start();
    broker.heartbeat(beat("w", 1, &[])).await.unwrap();
    broker.submit(Submit { start: Start::AfterMs(90_000), ..named("later") }).await.unwrap();
    let later = explain(&broker, "later").await;
    check(&later, false, &["scheduled"], "in 1 m 30 s");
    assert_eq!(later.reasons[0].until, Some(YEAR_2026 + 90_000));

    let task = running(&broker, named("a"), one("w")).await;
    pass(3000).await;
    check(&explain(&broker, "a").await, true, &["running"], "attempt 1 began 3 s ago on worker w");
    let report = Failed { error: "boom\nat main".to_owned(), retryable: true, retry_after_ms: Some(10_000) };
    broker.fail(&id("a"), token(&task), report).await.unwrap();
    let retrying = explain(&broker, "a").await;
    check(&retrying, false, &["retrying"], "Attempt 1 failed (boom); the next one starts in 10 s.");
    assert_eq!(retrying.reasons[0].until, Some(YEAR_2026 + 13_000));

    broker.cancel(&id("a")).await.unwrap();
    check(&explain(&broker, "a").await, false, &["terminal"], "It was cancelled");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_waiting_is_worth_is_told() {
    let broker = start();
    broker.submit(named("a")).await.unwrap();
    let limit = Limit { ageing: Some(Ageing { every_ms: 2500 }), ..Limit::default() };
    broker.set_limit(Scope::Queue, name("default"), limit).await.unwrap();
    tokio::time::advance(Duration::from_secs(30)).await;
    broker.heartbeat(beat("w", 1, &[])).await.unwrap();
    let explained = explain(&broker, "a").await;
    check(&explained, true, &["position"], "next in line among the tasks of its queue, type and priority.");
    let text =
        "Its priority is 100 (normal) and counts as 112, since the queue adds 1 for every 2.5 s of waiting;";
    assert!(explained.reasons[0].text.contains(text), "{explained:?}");
    assert_eq!(broker.queue(&name("default")).await.unwrap().ageing, limit.ageing);
    broker.stop().await;
}
