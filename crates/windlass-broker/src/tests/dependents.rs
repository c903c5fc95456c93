use windlass_core::{CancelReason, Links, StateName};

use super::*;
use crate::{Failed, Node, SubmitWorkflow};

pub(super) fn behind(text: &str, parents: &[&str]) -> Submit {
    let dependencies = parents.iter().map(|text| id(text)).collect();
    Submit { links: Some(Box::new(Links { dependencies, workflow: None })), ..named(text) }
}

/// Has a worker complete the next task, which must be this one.
pub(super) async fn finish(broker: &Broker, text: &str) {
    let task = broker.claim(ClaimRequest { wait_ms: 30_000, ..one("w") }).await.unwrap().pop().unwrap();
    assert_eq!(task.record.id, id(text));
    broker.complete(&task.record.id, token(&task), Some(json(&format!("{text:?}")))).await.unwrap();
}

pub(super) async fn state(broker: &Broker, text: &str) -> StateName {
    broker.get(&id(text)).await.unwrap().record.state_name()
}

#[tokio::test(start_paused = true)]
async fn a_chain_runs_in_order_and_sees_results() {
    let broker = start();
    broker.submit(named("a")).await.unwrap();
    let b = broker.submit(behind("b", &["a"])).await.unwrap();
    assert_eq!(b.task.record.state_name(), StateName::Blocked);
    broker.submit(behind("c", &["a", "b"])).await.unwrap();
    let began = Instant::now();
    for text in ["a", "b", "c"] {
        finish(&broker, text).await;
    }
    assert!(began.elapsed() < Duration::from_millis(10), "a hop is a wake-up, not a poll");
    let all = broker.dependencies(&id("c"), 0, 10).await.unwrap();
    assert_eq!((all.total, all.next), (2, None));
    let shown: Vec<_> = all.items.iter().map(|it| (it.id.as_str(), it.state, it.result.clone())).collect();
    let done = Some(StateName::Completed);
    assert_eq!(shown, [("a", done, Some(json("\"a\""))), ("b", done, Some(json("\"b\"")))]);
    let second = broker.dependencies(&id("c"), 1, 1).await.unwrap();
    assert_eq!((second.items[0].id.as_str(), second.next), ("b", None));
    assert_eq!(broker.dependencies(&id("c"), 0, 1).await.unwrap().next, Some(1));
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_waited_for_is_refused_by_name() {
    let broker = start();
    broker.submit(named("gone")).await.unwrap();
    broker.cancel(&id("gone")).await.unwrap();
    let missing = broker.submit(behind("b", &["nowhere"])).await.unwrap_err();
    assert_eq!(
        (missing.code(), &*missing.to_string()),
        ("dependency_missing", "dependencies: there is no task nowhere")
    );
    refused(broker.submit(behind("b", &["gone"])).await, "dependency_cancelled");
    refused(broker.get(&id("b")).await, "not_found");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_takes_those_behind_it_along_and_a_retry_brings_them_back() {
    let broker = start();
    broker.submit(named("a")).await.unwrap();
    broker.submit(behind("b", &["a"])).await.unwrap();
    broker.submit(behind("c", &["b"])).await.unwrap();
    broker.cancel(&id("a")).await.unwrap();
    until(&broker, &id("c"), |record| record.state_name() == StateName::Cancelled).await;
    let b = broker.get(&id("b")).await.unwrap().record;
    assert!(matches!(b.state, State::Cancelled { reason: CancelReason::Dependency, .. }), "{b:?}");
    let refusal = broker.retry(&id("b")).await.unwrap_err();
    assert_eq!(
        (refusal.code(), refusal.to_string().contains("depends on a,")),
        ("dependency_cancelled", true)
    );
    for text in ["a", "b", "c"] {
        broker.retry(&id(text)).await.unwrap();
    }
    assert_eq!(
        (state(&broker, "b").await, state(&broker, "c").await),
        (StateName::Blocked, StateName::Blocked)
    );
    for text in ["a", "b", "c"] {
        finish(&broker, text).await;
    }
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_holds_up_and_a_cleared_one_cancels() {
    let broker = start();
    let task = running(&broker, named("a"), one("w")).await;
    broker.submit(behind("b", &["a"])).await.unwrap();
    let fatal = Failed { error: "boom".to_owned(), retryable: false, retry_after_ms: None };
    broker.fail(&id("a"), token(&task), fatal).await.unwrap();
    pass(60_000).await;
    assert_eq!(state(&broker, "b").await, StateName::Blocked);
    let text = &broker.explain(&id("b")).await.unwrap().reasons[0].text.clone();
    assert_eq!(text, "It waits for task a (dead_letter).");
    broker.clear_dead(crate::Selection::Ids(vec![id("a")])).await.unwrap();
    until(&broker, &id("b"), |record| record.state_name() == StateName::Cancelled).await;
    pass(1000).await;
    refused(broker.get(&id("a")).await, "not_found");
    let text = &broker.explain(&id("b")).await.unwrap().reasons[0].text.clone();
    assert!(text.starts_with("It was cancelled because a task that it depends on was cancelled"), "{text}");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_explanation_names_the_first_few() {
    let broker = start();
    let names: Vec<String> = (0..8).map(|i| format!("p{i}")).collect();
    for text in &names {
        broker.submit(named(text)).await.unwrap();
    }
    let parents: Vec<&str> = names.iter().map(String::as_str).collect();
    broker.submit(behind("c", &parents)).await.unwrap();
    finish(&broker, "p0").await;
    until(&broker, &id("c"), |record| record.state == State::Blocked { open: 7 }).await;
    let explanation = broker.explain(&id("c")).await.unwrap();
    assert_eq!((explanation.runnable, explanation.reasons[0].code), (false, "blocked"));
    let text = "It waits for 7 tasks: p1 (pending), p2 (pending), p3 (pending), p4 (pending), p5 (pending) and 2 more.";
    assert_eq!(explanation.reasons[0].text, text);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_dependencies_of_a_batch_are_bounded() {
    let broker = start();
    let ids = |count| (0..count).map(|i| id(&format!("t{i}"))).collect();
    let wide = |count| Submit {
        links: Some(Box::new(Links { dependencies: ids(count), workflow: None })),
        ..echo()
    };
    let half = limits::BATCH_DEPENDENCIES_MAX / 2;
    let refusal = broker.submit_batch(vec![wide(half), wide(half), wide(1)], true).await.unwrap_err();
    assert!(matches!(refusal, Error::Invalid { field: "tasks", .. }), "{refusal}");
    let answers = broker.submit_batch(vec![wide(half), wide(half)], false).await.unwrap();
    for answer in answers {
        refused(answer, "dependency_missing");
    }
    let node = |i: usize| Node { name: name(&format!("n{i}")), submit: wide(half), after: Vec::new() };
    let nodes = (0..=limits::WORKFLOW_EDGES_MAX / half).map(node).collect();
    let graph = SubmitWorkflow { id: None, nodes, fingerprint: None };
    let refusal = broker.submit_workflow(graph).await.unwrap_err();
    assert!(matches!(refusal, Error::Invalid { field: "tasks", .. }), "{refusal}");
    broker.stop().await;
}
