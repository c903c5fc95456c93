use windlass_core::StateName;
use windlass_store::{List, ListQueues};

use super::*;
use crate::{Failed, Selection};

async fn dead(broker: &Broker, submit: Submit, error: &str) -> TaskId {
    let claim = ClaimRequest { queues: vec![Queue { name: submit.queue.clone(), weight: 1 }], ..one("w") };
    let task = running(broker, submit, claim).await;
    let report = Failed { error: error.to_owned(), retryable: false, retry_after_ms: None };
    broker.fail(&task.record.id, token(&task), report).await.unwrap();
    task.record.id
}

async fn state(broker: &Broker, id: &TaskId) -> StateName {
    broker.get(id).await.unwrap().record.state_name()
}

#[tokio::test(start_paused = true)]
async fn a_purge_forgets_what_is_pending_in_one_queue() {
    let broker = start();
    refused(broker.purge_queue(&name("default")).await, "not_found");
    broker.submit_batch((0..450).map(|_| echo()).collect(), true).await.unwrap();
    let task = broker.claim(one("w")).await.unwrap().pop().unwrap();
    let scheduled = broker.submit(Submit { start: Start::AfterMs(99_000), ..echo() }).await.unwrap();
    let elsewhere = broker.submit(Submit { queue: name("other"), ..echo() }).await.unwrap();
    assert_eq!(broker.purge_queue(&name("default")).await.unwrap(), 449);
    assert_eq!(broker.purge_queue(&name("default")).await.unwrap(), 0);
    assert_eq!(state(&broker, &task.record.id).await, StateName::Running);
    assert_eq!(state(&broker, &scheduled.task.record.id).await, StateName::Scheduled);
    assert_eq!(state(&broker, &elsewhere.task.record.id).await, StateName::Pending);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_counted_retried_and_cleared_by_filter_and_by_id() {
    let broker = start();
    let timeout = dead(&broker, echo(), "connection timeout").await;
    let parse = dead(&broker, echo(), "cannot parse").await;
    let elsewhere = dead(&broker, Submit { queue: name("other"), ..echo() }, "timeout").await;
    let pending = broker.submit(echo()).await.unwrap().task.record.id;

    let filter = |queue: Option<&str>, text: Option<&str>| {
        Selection::Filter(List { queue: queue.map(name), text: text.map(str::to_owned), ..List::default() })
    };
    assert_eq!(broker.count_dead(&filter(None, None)).await.unwrap(), 3);
    assert_eq!(broker.count_dead(&filter(Some("default"), None)).await.unwrap(), 2);
    assert_eq!(broker.count_dead(&filter(None, Some("timeout"))).await.unwrap(), 2);

    let which = filter(Some("default"), Some("timeout"));
    assert_eq!(broker.count_dead(&which).await.unwrap(), 1);
    assert_eq!(broker.retry_dead(which).await.unwrap(), 1);
    assert_eq!(state(&broker, &timeout).await, StateName::Pending);
    assert_eq!(state(&broker, &parse).await, StateName::DeadLetter);

    let ids = vec![parse.clone(), pending.clone(), id("nobody")];
    assert_eq!(broker.count_dead(&Selection::Ids(ids.clone())).await.unwrap(), 1);
    assert_eq!(broker.clear_dead(Selection::Ids(ids)).await.unwrap(), 1);
    refused(broker.get(&parse).await, "not_found");
    assert_eq!(state(&broker, &pending).await, StateName::Pending);
    assert_eq!(broker.clear_dead(filter(None, None)).await.unwrap(), 1);
    refused(broker.get(&elsewhere).await, "not_found");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_finished_tasks_are_removed() {
    let broker = start();
    broker.submit(named("a")).await.unwrap();
    refused(broker.remove(&id("a")).await, "wrong_state");
    broker.cancel(&id("a")).await.unwrap();
    broker.remove(&id("a")).await.unwrap();
    refused(broker.remove(&id("a")).await, "not_found");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn health_tells_of_progress() {
    let broker = start();
    broker.submit(echo()).await.unwrap();
    pass(5000).await;
    let health = broker.health().await;
    assert!(health.ok && health.problem.is_none());
    assert_eq!(health.oldest_pending_age_ms, Some(5000));
    assert_eq!(health.last_commit_age_ms, Some(5000));
    assert!(health.loops.iter().all(|it| it.ok_at.is_some() && it.failures == 0));
    broker.store().close().await.unwrap();
    assert!(!broker.health().await.ok);
    refused(broker.submit(echo()).await, "stopping");
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_without_tasks_is_listed_for_some_minutes_more() {
    let broker = start();
    let submit = |queue: &str| Submit { queue: name(queue), retention_ms: 0, ..echo() };
    let task = broker.submit(submit("brief")).await.unwrap().task.record;
    broker.submit(submit("busy")).await.unwrap();
    let listed = async || {
        let queues = broker.queues(ListQueues { after: None, limit: 10 }).await.unwrap();
        queues.iter().map(|queue| queue.counts.name.to_string()).collect::<Vec<_>>()
    };
    broker.cancel(&task.id).await.unwrap();
    pass(limits::NAMES_RELEASE_MS - 60_000).await;
    assert_eq!(listed().await, ["brief", "busy"]);
    pass(limits::NAMES_RELEASE_MS + 120_000).await;
    assert_eq!(listed().await, ["busy"]);
    broker.stop().await;
}
