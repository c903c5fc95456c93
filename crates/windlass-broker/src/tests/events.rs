//! What listeners hear, and what they are told when they cannot hear it.

use std::collections::HashMap;

use windlass_core::flow::{Limit, Scope};
use windlass_core::operation::{Action, Order};
use windlass_core::{CancelReason, OnConflict, Progress, Unique, UniqueKey};

use super::dependents::{behind, finish};
use super::*;
use crate::{Event, EventFilter, Failed, Gap, GapReason, Kinds, Node, SubmitWorkflow};

pub(super) fn failed(retryable: bool) -> Failed {
    Failed { error: "boom".to_owned(), retryable, retry_after_ms: None }
}

pub(super) fn all(events: &mut Listener) -> Vec<Arc<Event>> {
    let event = |heard| match heard {
        Heard::Event(event) => event,
        Heard::Gap(gap) => panic!("nothing should be missing: {gap:?}"),
    };
    std::iter::from_fn(|| events.try_recv()).map(event).collect()
}

/// What was heard of one task.
pub(super) fn of(events: &[Arc<Event>], text: &str) -> Vec<&'static str> {
    let about = |event: &&Arc<Event>| event.task().is_some_and(|facts| facts.id.as_str() == text);
    events.iter().filter(about).map(|event| event.kind.as_str().strip_prefix("task.").unwrap()).collect()
}

/// Every way in which a task changes, and what is heard of it.
const HEARD: &[(&str, &[&str])] = &[
    ("completed", &["submitted", "started", "progress", "completed", "removed"]),
    (
        "retried",
        &[
            "submitted",
            "started",
            "failed",
            "retrying",
            "ready",
            "started",
            "failed",
            "dead_lettered",
            "retrying",
            "cancelled",
        ],
    ),
    ("lost", &["submitted", "started", "failed", "retrying", "cancelled"]),
    ("released", &["submitted", "started", "retrying", "ready", "cancelled"]),
    ("delayed", &["submitted", "ready", "cancelled"]),
    ("expired", &["submitted", "cancelled"]),
    ("replaced", &["submitted", "cancelled"]),
    ("replacing", &["submitted", "cancelled"]),
    ("parent", &["submitted", "started", "completed"]),
    ("child", &["submitted", "ready", "started", "completed"]),
    ("later", &["submitted", "updated", "ready", "cancelled"]),
    ("root", &["submitted", "cancelled"]),
    ("leaf", &["submitted", "cancelled"]),
    ("moved", &["submitted", "updated", "updated", "cancelled"]),
    ("flow:a", &["submitted", "cancelled"]),
    ("flow:b", &["submitted", "cancelled"]),
    ("purged", &["submitted", "removed"]),
];

async fn live_through_everything(broker: &Broker) {
    let submit = async |submit: Submit| broker.submit(submit).await.unwrap();
    let task = running(broker, Submit { retention_ms: 1, ..named("completed") }, one("w")).await;
    let progress = Progress { fraction: 0.5, note: Some("half".into()) };
    broker.extend(&id("completed"), token(&task), None, Some(progress)).await.unwrap();
    broker.complete(&id("completed"), token(&task), None).await.unwrap();

    let task = running(broker, named("retried"), one("w")).await;
    broker.fail(&id("retried"), token(&task), failed(true)).await.unwrap();
    until(broker, &id("retried"), |record| record.state == State::Pending).await;
    let task = broker.claim(one("w")).await.unwrap().remove(0);
    broker.fail(&id("retried"), token(&task), failed(true)).await.unwrap();
    broker.retry(&id("retried")).await.unwrap();
    broker.cancel(&id("retried")).await.unwrap();

    running(broker, named("lost"), ClaimRequest { lease_ms: Some(1000), ..one("w") }).await;
    until(broker, &id("lost"), |record| record.state == State::Pending).await;
    broker.cancel(&id("lost")).await.unwrap();

    let task = running(broker, named("released"), one("w")).await;
    broker.release(&id("released"), token(&task), Some(100)).await.unwrap();
    until(broker, &id("released"), |record| record.state == State::Pending).await;
    broker.cancel(&id("released")).await.unwrap();

    submit(Submit { start: Start::AfterMs(100), ..named("delayed") }).await;
    until(broker, &id("delayed"), |record| record.state == State::Pending).await;
    broker.cancel(&id("delayed")).await.unwrap();
    let soon = broker.now().wall + 100;
    submit(Submit { expires_at: Some(soon), ..named("expired") }).await;
    until(broker, &id("expired"), |record| record.state.is_terminal()).await;

    let unique = |text| {
        let key = UniqueKey::new("k").unwrap();
        let unique = Unique { key, for_ms: None, on_conflict: OnConflict::Replace };
        Submit { unique: Some(Box::new(unique)), ..named(text) }
    };
    submit(unique("replaced")).await;
    submit(unique("replacing")).await;
    broker.cancel(&id("replacing")).await.unwrap();

    submit(named("parent")).await;
    submit(behind("child", &["parent"])).await;
    finish(broker, "parent").await;
    finish(broker, "child").await;
    submit(named("first")).await;
    submit(Submit { start: Start::AfterMs(500), ..behind("later", &["first"]) }).await;
    finish(broker, "first").await;
    until(broker, &id("later"), |record| record.state == State::Pending).await;
    broker.cancel(&id("later")).await.unwrap();
    submit(named("root")).await;
    submit(behind("leaf", &["root"])).await;
    broker.cancel(&id("root")).await.unwrap();
    until(broker, &id("leaf"), |record| record.state.is_terminal()).await;

    submit(named("moved")).await;
    let operate = async |action, filter: &str| {
        let order = Order { action, filter: filter.into(), by: None };
        let begun = broker.start_operation(order).await.unwrap();
        while broker.operation(&begun.id).await.unwrap().is_running() {
            pass(1).await;
        }
    };
    operate(Action::SetPriority(Priority(200)), "id:moved").await;
    operate(Action::Move(name("other")), "id:moved").await;
    operate(Action::Cancel, "id:moved").await;

    let node = |text: &str, after: &[&str]| Node {
        name: name(text),
        submit: echo(),
        after: after.iter().map(|text| name(text)).collect(),
    };
    let nodes = vec![node("a", &[]), node("b", &["a"])];
    let flow = SubmitWorkflow { id: Some(name("flow")), nodes, fingerprint: None };
    broker.submit_workflow(flow).await.unwrap();
    broker.cancel_workflow(&name("flow")).await.unwrap();
    submit(named("purged")).await;
    broker.purge_queue(&name("default")).await.unwrap();
    until_gone(broker, "completed").await;
}

async fn until_gone(broker: &Broker, text: &str) {
    while broker.get(&id(text)).await.is_ok() {
        pass(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_change_is_heard_in_order() {
    let broker = start();
    let mut events = broker.subscribe();
    live_through_everything(&broker).await;
    let events = all(&mut events);
    for (text, expected) in HEARD {
        assert_eq!(of(&events, text), *expected, "{text}");
    }
    assert!(events.is_sorted_by(|a, b| a.id < b.id), "numbers grow");
    let mut revisions: HashMap<&TaskId, u64> = HashMap::new();
    for facts in events.iter().filter_map(|event| event.task()) {
        let before = revisions.insert(&facts.id, facts.revision);
        assert!(before.is_none_or(|before| before <= facts.revision), "{facts:?}");
    }
    let reason = |text: &str| {
        let about = |event: &&Arc<Event>| event.task().is_some_and(|facts| facts.id.as_str() == text);
        events.iter().rfind(about).and_then(|event| event.task()?.reason)
    };
    assert_eq!(reason("expired"), Some(CancelReason::Expired));
    assert_eq!(reason("replaced"), Some(CancelReason::Replaced));
    assert_eq!(reason("leaf"), Some(CancelReason::Dependency));
    assert_eq!(reason("moved"), Some(CancelReason::Asked));
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn workers_and_queues_are_heard_too() {
    let broker = start();
    let mut events = broker.subscribe();
    broker.heartbeat(beat("w", 1, &[])).await.unwrap();
    broker.pause_worker(&name("w")).await.unwrap();
    broker.resume_worker(&name("w")).await.unwrap();
    broker.heartbeat(Beat { leaving: true, ..beat("w", 1, &[]) }).await.unwrap();
    pass(10).await;
    broker.pause_queue(&name("q")).await.unwrap();
    broker.resume_queue(&name("q")).await.unwrap();
    // A limit pauses too, and says so once.
    let limit = |paused| Limit { paused, ..Limit::default() };
    for paused in [true, true, false] {
        broker.set_limit(Scope::Queue, name("q"), limit(paused)).await.unwrap();
        broker.set_limit(Scope::Type, name("q"), limit(paused)).await.unwrap();
    }
    broker.set_limit(Scope::Queue, name("q"), limit(true)).await.unwrap();
    broker.remove_limit(Scope::Queue, name("q")).await.unwrap();
    use EventKind::{QueuePaused, QueueResumed, WorkerJoined, WorkerLeft, WorkerPaused, WorkerResumed};
    let expected = [WorkerJoined, WorkerPaused, WorkerResumed, WorkerLeft];
    let pauses = [QueuePaused, QueueResumed].repeat(3);
    assert_eq!(heard(&mut events), [&expected[..], &pauses].concat());
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_whose_caller_went_away_is_heard() {
    let broker = start();
    let mut events = broker.subscribe();
    // The caller asks and never looks at the answer.
    let mut submit = Box::pin(broker.submit(named("a")));
    let polled = futures_poll(&mut submit);
    drop((submit, polled));
    pass(5).await;
    assert_eq!(heard(&mut events), [EventKind::Submitted]);
    broker.stop().await;
}

fn futures_poll<F: Future + Unpin>(future: &mut F) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::Pin::new(future).poll(&mut context).is_ready()
}

#[tokio::test(start_paused = true)]
async fn filters_let_through_what_they_name() {
    let broker = start();
    let listen = |kinds: &[&str], queues: &[&str], tasks: &[&str]| {
        let mut filter = EventFilter::default();
        if !kinds.is_empty() {
            filter.kinds = Kinds::NONE;
            assert!(kinds.iter().all(|word| filter.kinds.add(word)));
        }
        filter.queues = queues.iter().map(|text| name(text)).collect();
        filter.tasks = tasks.iter().map(|text| id(text)).collect();
        broker.listen(filter, None).unwrap()
    };
    let mut ends = listen(&["task.completed", "task.cancelled"], &[], &[]);
    let mut mail = listen(&["task.*", "queue.paused"], &["mail"], &[]);
    let mut b = listen(&[], &[], &["b"]);
    for text in ["a", "b"] {
        broker.submit(named(text)).await.unwrap();
    }
    broker.submit(Submit { queue: name("mail"), ..named("c") }).await.unwrap();
    broker.pause_queue(&name("mail")).await.unwrap();
    broker.pause_queue(&name("default")).await.unwrap();
    broker.cancel(&id("b")).await.unwrap();
    use EventKind::{Cancelled, QueuePaused, Submitted};
    assert_eq!(heard(&mut ends), [Cancelled]);
    assert_eq!(heard(&mut mail), [Submitted, QueuePaused]);
    assert_eq!(heard(&mut b), [Submitted, Cancelled]);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_back_goes_on_where_it_was() {
    let broker = start();
    let mut events = broker.subscribe();
    broker.submit(named("a")).await.unwrap();
    let last = all(&mut events).last().unwrap().id;
    drop(events);
    broker.submit(named("b")).await.unwrap();
    pass(60_000).await;
    broker.submit(named("c")).await.unwrap();
    let mut again = broker.listen(task_events(), Some(last)).unwrap();
    let heard = all(&mut again);
    assert_eq!((of(&heard, "b"), of(&heard, "c")), (vec!["submitted"], vec!["submitted"]));
    assert!(of(&heard, "a").is_empty(), "nothing is repeated");
    broker.stop().await;
}

pub(super) fn task_events() -> EventFilter {
    let mut kinds = Kinds::NONE;
    kinds.add("task.*");
    EventFilter { kinds, ..EventFilter::default() }
}

fn gap(listener: &mut Listener) -> Gap {
    match listener.try_recv() {
        Some(Heard::Gap(gap)) => gap,
        other => panic!("a gap should be told: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_heard_any_more_is_told() {
    let clock = SimulatedClock::new();
    let store: Arc<dyn Store> = MemoryStore::new(clock.clone());
    let broker = Broker::start(store.clone(), clock.clone(), Settings::default());
    let mut events = broker.subscribe();
    broker.submit(named("a")).await.unwrap();
    let last = all(&mut events).last().unwrap().id;

    // Nobody listens for long enough that nothing is kept.
    drop(events);
    pass(limits::EVENTS_LINGER_MS + 1000).await;
    broker.submit(named("b")).await.unwrap();
    let mut again = broker.listen(task_events(), Some(last)).unwrap();
    let expired = gap(&mut again);
    assert_eq!((expired.missed, expired.reason), (None, GapReason::Expired));
    broker.submit(named("c")).await.unwrap();
    let heard = all(&mut again);
    assert_eq!((of(&heard, "b").len(), of(&heard, "c").len()), (0, 1));
    assert!(heard[0].id > last && expired.id < heard[0].id && expired.id > last);
    let mut behind = broker.listen(task_events(), Some(expired.id)).unwrap();
    assert_eq!(of(&all(&mut behind), "c").len(), 1, "the gap's own number goes on behind it");

    // Another process.
    let last = heard[0].id;
    broker.stop().await;
    pass(1000).await;
    let broker = Broker::start(store, clock, Settings::default());
    let mut again = broker.listen(task_events(), Some(last)).unwrap();
    let restarted = gap(&mut again);
    assert_eq!((restarted.missed, restarted.reason), (None, GapReason::Restart));
    assert!(restarted.id > last, "numbers grow over a restart");
    // A number from the future is of a process whose clock was ahead.
    let mut ahead = broker.listen(task_events(), Some(u64::MAX)).unwrap();
    assert_eq!(gap(&mut ahead).reason, GapReason::Restart);
    broker.submit(named("d")).await.unwrap();
    assert_eq!(of(&all(&mut again), "d").len(), 1);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_falls_behind_is_told_how_much_it_missed() {
    let broker = start();
    let mut slow = broker.listen(task_events(), None).unwrap();
    broker.submit(named("first")).await.unwrap();
    let first = all(&mut slow)[0].id;
    let rounds = limits::EVENTS_KEPT_MAX / 1000 + 10;
    for _ in 0..rounds {
        broker.submit_batch((0..1000).map(|_| echo()).collect(), true).await.unwrap();
    }
    let told = gap(&mut slow);
    let heard = all(&mut slow);
    assert_eq!(told.reason, GapReason::Overrun);
    assert_eq!(told.missed, Some(heard[0].id - first - 1), "exactly those between");
    assert_eq!(heard.len() as u64 + told.missed.unwrap(), rounds as u64 * 1000);
    assert!(heard.len() <= limits::EVENTS_KEPT_MAX);
    assert_eq!(broker.audience().missed, told.missed.unwrap());
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_so_many_may_listen() {
    let broker = start_with(Settings { listeners_max: 2, ..Settings::default() });
    let first = broker.listen(task_events(), None).unwrap();
    let second = broker.listen(task_events(), None).unwrap();
    assert_eq!(broker.listen(task_events(), None).unwrap_err().code(), "too_many_listeners");
    assert_eq!(broker.audience().listeners, 2);
    drop(first);
    second.cut();
    assert!(broker.listen(task_events(), None).is_ok());
    assert_eq!(broker.audience().cut, 1);
    broker.stop().await;
}
