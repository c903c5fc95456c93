use windlass_core::operation::{Action, Expected, Operation, Order};
use windlass_core::{Change, StateName, Transition};
use windlass_store::faults::{Fault, Faulty, Verb};
use windlass_store::{List, ListOperations};

use super::dependents::{behind, finish};
use super::*;
use crate::Failed;

fn order(action: Action, filter: &str) -> Order {
    Order { action, filter: filter.into(), by: Some("anna".into()) }
}

/// Tasks of one batch.
async fn many(broker: &Broker, count: usize) {
    broker.submit_batch((0..count).map(|_| echo()).collect(), true).await.unwrap();
}

/// Dead letters with this error.
async fn dead(broker: &Broker, count: usize, error: &str) {
    for _ in 0..count {
        let task = running(broker, echo(), one("w")).await;
        let report = Failed { error: error.to_owned(), retryable: false, retry_after_ms: None };
        broker.fail(&task.record.id, token(&task), report).await.unwrap();
    }
}

async fn ended(broker: &Broker, id: &Name) -> Operation {
    for _ in 0..10_000 {
        let operation = broker.operation(id).await.unwrap();
        if !operation.is_running() {
            return operation;
        }
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    panic!("it never ended: {:?}", broker.operation(id).await);
}

async fn count(broker: &Broker, state: StateName) -> u64 {
    broker.stats().await.unwrap().count(state)
}

#[tokio::test(start_paused = true)]
async fn an_operation_changes_all_that_match_and_says_so() {
    let broker = start();
    dead(&broker, 5, "connection timeout").await;
    dead(&broker, 3, "cannot parse").await;
    let mut events = broker.subscribe();
    let begun = broker.start_operation(order(Action::Retry, "state:dead error:timeout")).await.unwrap();
    assert_eq!(begun.expected, Expected { count: 5, at_least: false });
    let done = ended(&broker, &begun.id).await;
    assert_eq!((done.changed, done.skipped, done.failed), (5, 0, 0));
    assert_eq!((done.standing.as_str(), done.order.by.as_deref()), ("done", Some("anna")));
    assert_eq!(count(&broker, StateName::DeadLetter).await, 3);
    assert_eq!(heard(&mut events), vec![EventKind::Retrying; 5]);
    let all = broker.operations(ListOperations { limit: 9, ..ListOperations::default() }).await.unwrap();
    assert_eq!(all, [done]);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn it_takes_many_pages_and_leaves_newer_tasks_alone() {
    let broker = start();
    for _ in 0..3 {
        many(&broker, 900).await;
    }
    let begun = broker.start_operation(order(Action::Delete, "state:pending")).await.unwrap();
    many(&broker, 7).await;
    let done = ended(&broker, &begun.id).await;
    assert_eq!((done.changed, done.expected.count), (2700, 2700));
    assert_eq!(count(&broker, StateName::Pending).await, 7);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn tasks_are_moved_and_reprioritised() {
    let broker = start();
    many(&broker, 3).await;
    let held = broker.claim(one("w")).await.unwrap().pop().unwrap();
    let moved = broker.start_operation(order(Action::Move(name("slow")), "type:echo")).await.unwrap();
    let moved = ended(&broker, &moved.id).await;
    assert_eq!((moved.changed, moved.skipped), (2, 1), "one runs");
    assert_eq!(broker.queue(&name("slow")).await.unwrap().counts.waiting(), 2);
    let raised =
        order(Action::SetPriority(Priority(250)), &format!("id:{},nobody queue:slow", held.record.id));
    let raised = broker.start_operation(raised).await.unwrap();
    assert_eq!(ended(&broker, &raised.id).await.seen(), 0, "it is in another queue");
    let raised =
        broker.start_operation(order(Action::SetPriority(Priority(250)), "queue:slow")).await.unwrap();
    assert_eq!(ended(&broker, &raised.id).await.changed, 2);
    let listed = broker.list(List { queue: Some(name("slow")), limit: 9, ..List::default() }).await.unwrap();
    assert!(listed.tasks.iter().all(|task| task.record.priority == Priority(250)));
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_preview_counts_shows_and_changes_nothing() {
    let broker = start();
    dead(&broker, 2, "boom").await;
    many(&broker, 12).await;
    let preview = broker.preview_operation(&order(Action::Cancel, "type:echo")).await.unwrap();
    assert_eq!(preview.matched, Expected { count: 14, at_least: false });
    assert_eq!(preview.would_change, Expected { count: 12, at_least: false });
    assert_eq!(preview.sample.len(), 10);
    assert_eq!(count(&broker, StateName::Pending).await, 12);
    assert!(
        broker.operations(ListOperations { limit: 9, ..ListOperations::default() }).await.unwrap().is_empty()
    );
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_not_meant_is_refused() {
    let broker = start();
    for filter in ["", "   ", "stat:dead", "since:never"] {
        refused(broker.start_operation(order(Action::Delete, filter)).await, "invalid");
        refused(broker.preview_operation(&order(Action::Delete, filter)).await, "invalid");
    }
    let long = Order { by: Some("x".repeat(300).into()), ..order(Action::Retry, "state:dead") };
    refused(broker.start_operation(long).await, "invalid");
    refused(broker.operation(&name("none")).await, "not_found");
    refused(broker.cancel_operation(&name("none")).await, "not_found");
    broker.stop().await;
}

/// A store that answers a step late, so that something else can happen first.
fn start_faulty() -> (Broker, Arc<Faulty>) {
    let clock = SimulatedClock::shared();
    let store = Faulty::new(MemoryStore::new(clock.clone()));
    (Broker::start(store.clone(), clock, Settings::default()), store)
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_operation_stops_where_it_is() {
    let (broker, faulty) = start_faulty();
    for _ in 0..3 {
        many(&broker, 900).await;
    }
    // The second page comes late.
    faulty.once(Verb::List, Fault::Delay(Duration::ZERO));
    faulty.once(Verb::List, Fault::Delay(Duration::from_secs(5)));
    let begun = broker.start_operation(order(Action::Cancel, "state:pending")).await.unwrap();
    while broker.operation(&begun.id).await.unwrap().changed == 0 {
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    let cancelled = broker.cancel_operation(&begun.id).await.unwrap();
    assert_eq!((cancelled.standing.as_str(), cancelled.changed), ("cancelled", 1000));
    refused(broker.cancel_operation(&begun.id).await, "operation_ended");
    pass(20_000).await;
    assert_eq!(broker.operation(&begun.id).await.unwrap(), cancelled, "the step under way did not count");
    assert_eq!(count(&broker, StateName::Cancelled).await, 1000);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn lost_answers_and_refusals_leave_the_counts_exact() {
    let (broker, faulty) = start_faulty();
    for _ in 0..4 {
        many(&broker, 900).await;
    }
    let begun = broker.start_operation(order(Action::SetPriority(Priority(7)), "type:echo")).await.unwrap();
    for fault in [Fault::LoseAnswer, Fault::Refuse, Fault::LoseAnswer] {
        faulty.once(Verb::WriteOperation, fault);
    }
    let done = ended(&broker, &begun.id).await;
    assert_eq!((done.changed, done.skipped, done.failed), (3600, 0, 0));
    assert_eq!(faulty.fired(), 3);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_changes_meanwhile_is_decided_on_again() {
    let (broker, faulty) = start_faulty();
    many(&broker, 3).await;
    let listed = broker.list(List { limit: 9, ..List::default() }).await.unwrap().tasks;
    let begun = broker.start_operation(order(Action::Cancel, "state:pending")).await.unwrap();
    faulty.once(Verb::WriteOperation, Fault::Delay(Duration::from_secs(1)));
    // While the step waits, one task is finished elsewhere and one gets another priority.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    broker.cancel(&listed[0].record.id).await.unwrap();
    let record = &listed[1].record;
    let change = Change::Reprioritised { at: broker.now().wall.into(), priority: Priority(3) };
    let (id, seq, revision) = (record.id.clone(), record.seq, record.revision);
    broker.commit(vec![Transition { id, seq, revision, change }]).await.unwrap();
    let done = ended(&broker, &begun.id).await;
    assert_eq!((done.changed, done.skipped), (2, 0), "the one that was cancelled by hand no longer matches");
    assert_eq!(count(&broker, StateName::Cancelled).await, 3);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn retried_tasks_wait_for_what_they_depend_on() {
    let broker = start();
    for submit in [named("a"), behind("b", &["a"]), behind("c", &["b", "a"]), named("z"), behind("y", &["z"])]
    {
        broker.submit(submit).await.unwrap();
    }
    for text in ["a", "z"] {
        broker.cancel(&id(text)).await.unwrap();
    }
    for text in ["b", "c", "y"] {
        until(&broker, &id(text), |record| record.state_name() == StateName::Cancelled).await;
    }
    // What y depends on is not meant, so it cannot run.
    let meant = order(Action::Retry, "state:cancelled id:a,b,c,y");
    let preview = broker.preview_operation(&meant).await.unwrap();
    assert_eq!((preview.matched.count, preview.would_change.count), (4, 3));
    let begun = broker.start_operation(meant).await.unwrap();
    let done = ended(&broker, &begun.id).await;
    assert_eq!((done.changed, done.skipped, done.failed), (3, 1, 0));
    assert_eq!(count(&broker, StateName::Blocked).await, 2);
    for text in ["a", "b", "c"] {
        finish(&broker, text).await;
    }
    assert_eq!(broker.get(&id("y")).await.unwrap().record.state_name(), StateName::Cancelled);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_step_takes_only_so_many_dependencies() {
    let broker = start();
    let parents: Vec<Submit> = (0..900).map(|i| named(&format!("p{i}"))).collect();
    broker.submit_batch(parents, true).await.unwrap();
    let names: Vec<String> = (0..900).map(|i| format!("p{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for i in 0..30 {
        let child = broker.submit(behind(&format!("c{i}"), &names)).await.unwrap();
        broker.cancel(&child.task.record.id).await.unwrap();
    }
    let begun = broker.start_operation(order(Action::Retry, "state:cancelled")).await.unwrap();
    let done = ended(&broker, &begun.id).await;
    assert_eq!((done.changed, done.skipped), (30, 0));
    assert_eq!(done.revision - begun.revision, 2, "they do not fit into one step");
    assert_eq!(count(&broker, StateName::Blocked).await, 30);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn old_operations_are_forgotten() {
    let broker = start();
    many(&broker, 1).await;
    let begun = broker.start_operation(order(Action::Cancel, "state:pending")).await.unwrap();
    ended(&broker, &begun.id).await;
    pass(limits::OPERATION_RETENTION_MS - 60_000).await;
    assert!(broker.operation(&begun.id).await.is_ok());
    pass(120_000).await;
    refused(broker.operation(&begun.id).await, "not_found");
    broker.stop().await;
}
