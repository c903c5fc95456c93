//! Limits on types and keys, which are in queues of several parts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use windlass_core::flow::{Limit, Rate, Scope};
use windlass_core::{NewTask, State, StateName, Transition, transition};
use windlass_store::clock::ManualClock;
use windlass_store::{
    Claim, Clock, Committed, Error, Feature, Insert, Inserted, LimitWritten, ListLimits, SetLimit, Store,
};

use super::super::shared::{add, claim, name};
use super::super::{ask, fresh_prefix, open};
use super::{PARTS, cluster, fresh_url, ids, of, queues, store, two_apart};

async fn set(store: &Arc<dyn Store>, scope: Scope, text: &str, limit: Option<Limit>) -> Result<bool, Error> {
    match store.set_limit(SetLimit { scope, name: name(text), limit }).await? {
        LimitWritten::Done { existed } => Ok(existed),
        LimitWritten::TooMany => panic!("too many"),
    }
}

fn cap(max: u32) -> Option<Limit> {
    Some(Limit { max_concurrency: Some(max), ..Limit::default() })
}

/// The field that was refused.
fn field<T: std::fmt::Debug>(answer: Result<T, Error>) -> &'static str {
    match answer {
        Err(Error::LimitApart(apart)) => {
            assert!(apart.to_string().contains("?shards=1"), "{apart}");
            apart.field
        }
        other => panic!("{other:?}"),
    }
}

fn keyed(queue: &str, id: &str, now: u64) -> NewTask {
    NewTask { key: Some(name("k")), ..of(queue, id, now) }
}

async fn take(store: &Arc<dyn Store>, queue: &str, max: u32) -> Vec<windlass_core::Task> {
    let queues = vec![windlass_core::choice::Queue { name: name(queue), weight: 1 }];
    store.claim(Claim { queues, max, ..claim() }).await.expect("claim")
}

async fn finish(store: &Arc<dyn Store>, tasks: Vec<windlass_core::Task>, now: u64) {
    for windlass_core::Task { record, .. } in tasks {
        let State::Running(lease) = &record.state else { panic!("{record:?}") };
        let change = transition::complete(&record, lease.token, None, now).expect("held").expect("a change");
        let end = Transition { id: record.id, seq: record.seq, revision: record.revision, change };
        assert!(matches!(store.commit(vec![end]).await.expect("commit")[..], [Committed::Done(_)]));
    }
}

#[tokio::test]
async fn a_limit_counts_in_the_part_that_has_its_tasks() {
    let (clock, store) = store().await;
    let now = clock.now().wall;
    assert!(store.capabilities().has(Feature::Flow) && !store.capabilities().has(Feature::FlowTogether));
    let (a, b) = two_apart(&store, now).await;
    for (scope, text) in [(Scope::Type, "t"), (Scope::Key, "k")] {
        let id = |i: usize| format!("{}-{i}", scope.as_str());
        assert!(!set(&store, scope, text, cap(2)).await.expect("set"));
        add(&store, (0..4).map(|i| keyed(&a, &id(i), now)).collect()).await;
        assert_eq!(take(&store, &a, 9).await.len(), 2, "the cap holds");
        // Another part has to be told no, and nothing of it is added.
        let answers = add(&store, vec![keyed(&b, &id(8), now)]).await;
        let [Inserted::LimitApart(apart)] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!((apart.field, apart.scope, &apart.name), (scope.as_str(), scope, &name(text)));
        let status = store.limit(scope, &name(text)).await.expect("limit").expect("it is set");
        assert_eq!((status.limit, status.waiting, status.running), (cap(2).expect("a limit"), 2, 2));
        // When its tasks are done it may count elsewhere.
        for _ in 0..2 {
            let running =
                windlass_store::List { states: vec![StateName::Running], limit: 9, ..Default::default() };
            finish(&store, store.list(running).await.expect("list").tasks, now).await;
            take(&store, &a, 9).await;
        }
        assert!(matches!(add(&store, vec![keyed(&b, &id(8), now)]).await[..], [Inserted::New(_)]));
        assert!(matches!(add(&store, vec![keyed(&a, &id(9), now)]).await[..], [Inserted::LimitApart(_)]));
        let served = take(&store, &b, 9).await;
        assert_eq!(ids(&served), [id(8)]);
        finish(&store, served, now).await;
        assert!(set(&store, scope, text, None).await.expect("set"));
        assert_eq!(store.limits(ListLimits { limit: 9, ..ListLimits::default() }).await.expect("limits"), []);
        assert!(matches!(add(&store, vec![keyed(&a, &id(9), now)]).await[..], [Inserted::New(_)]));
        finish(&store, take(&store, &a, 9).await, now).await;
    }
}

#[tokio::test]
async fn a_limit_over_parts_is_refused_by_the_field_that_counts() {
    let (clock, store) = store().await;
    let now = clock.now().wall;
    let (a, b) = two_apart(&store, now).await;
    add(&store, vec![keyed(&a, "one", now), keyed(&b, "two", now)]).await;
    let rate = Limit { rate: Some(Rate { count: 1, per_ms: 1000 }), ..Limit::default() };
    let deep = Limit { max_depth: Some(9), ..Limit::default() };
    assert_eq!(field(set(&store, Scope::Type, "t", cap(2)).await), "max_concurrency");
    assert_eq!(field(set(&store, Scope::Key, "k", Some(rate)).await), "rate");
    assert_eq!(field(set(&store, Scope::Key, "k", Some(deep)).await), "max_depth");
    assert_eq!(store.limits(ListLimits { limit: 9, ..ListLimits::default() }).await.expect("limits"), []);
    // What counts nothing holds everywhere.
    let paused = Limit { paused: true, weight: 3, ..Limit::default() };
    set(&store, Scope::Key, "k", Some(paused)).await.expect("set");
    assert!(store.claim(Claim { queues: queues(), max: 9, ..claim() }).await.expect("claim").is_empty());
    let status = store.limit(Scope::Key, &name("k")).await.expect("limit").expect("it is set");
    assert_eq!((status.limit, status.waiting), (paused, 2));
    assert_eq!(field(set(&store, Scope::Key, "k", cap(2)).await), "max_concurrency");
    let status = store.limit(Scope::Key, &name("k")).await.expect("limit").expect("it is set");
    assert_eq!(status.limit, paused, "as it was");
    set(&store, Scope::Key, "k", None).await.expect("set");
    assert_eq!(store.claim(Claim { queues: queues(), max: 9, ..claim() }).await.expect("claim").len(), 2);
}

/// A queue and its part hold all that concerns it, whatever the others do.
#[tokio::test]
async fn limits_on_queues_are_of_their_parts() {
    let (clock, store) = store().await;
    let now = clock.now().wall;
    let mut tasks = Vec::new();
    for (i, queue) in queues().iter().enumerate() {
        set(&store, Scope::Queue, queue.name.as_str(), cap(1 + i as u32)).await.expect("set");
        tasks.extend((0..9).map(|i| of(queue.name.as_str(), &format!("{}-{i}", queue.name), now)));
    }
    add(&store, tasks).await;
    for weighted in [true, false] {
        let mode = if weighted { claim().mode } else { windlass_core::choice::Mode::Strict };
        let served = store.claim(Claim { queues: queues(), mode, max: 99, ..claim() }).await.expect("claim");
        assert_eq!(served.len(), if weighted { 1 + 2 + 3 + 4 + 5 + 6 } else { 0 }, "all that may run");
    }
    let limits = store.limits(ListLimits { limit: 4, ..ListLimits::default() }).await.expect("limits");
    let told = limits.iter().map(|it| (it.name.as_str(), it.running, it.waiting));
    assert_eq!(told.collect::<Vec<_>>(), [("q", 1, 8), ("r", 2, 7), ("s", 3, 6), ("t", 4, 5)]);
}

/// Processes that want one limit in different parts, at once and again and again: it never counts in two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_want_a_limit_elsewhere_one_part_has_it() {
    let clock = ManualClock::shared();
    let url = fresh_url(PARTS);
    let first = open(&url, clock.clone()).await;
    set(&first, Scope::Key, "k", cap(1)).await.expect("set");
    let mut racing = Vec::new();
    // Counted between a claim and the end, so never more than there are.
    let running = Arc::new(AtomicU32::new(0));
    for queue in queues() {
        let (store, now) = (open(&url, clock.clone()).await, clock.now().wall);
        let running = Arc::clone(&running);
        racing.push(tokio::spawn(async move {
            let mut added = 0;
            for i in 0..6 {
                let tasks = vec![keyed(queue.name.as_str(), &format!("{}-{i}", queue.name), now)];
                match store
                    .insert(Insert { tasks: tasks.into(), atomic: false, max_depth: None })
                    .await
                    .as_deref()
                {
                    Ok([Inserted::New(_)]) => added += 1,
                    // Somebody else has it, or was about to.
                    Ok([Inserted::LimitApart(_)]) | Err(Error::Busy) => {}
                    other => panic!("{other:?}"),
                }
                let served = take(&store, queue.name.as_str(), 9).await;
                let more = served.len() as u32;
                assert!(running.fetch_add(more, Ordering::SeqCst) + more <= 1, "more than one runs");
                running.fetch_sub(more, Ordering::SeqCst);
                finish(&store, served, now).await;
            }
            added
        }));
    }
    let mut added = 0;
    for one in racing {
        added += one.await.expect("no panic");
    }
    assert!(added > 5, "only {added} were added");
    assert_eq!(first.ledger().await.expect("ledger").completed, added);
}

/// As when a process was killed while it settled a limit.
#[tokio::test]
async fn a_limit_that_was_left_shut_is_opened_by_the_next_one() {
    let clock = ManualClock::shared();
    let prefix = fresh_prefix();
    let store = open(&cluster().url(&prefix, PARTS), clock.clone()).await;
    let now = clock.now().wall;
    set(&store, Scope::Key, "k", cap(1)).await.expect("set");
    add(&store, vec![keyed("q", "one", now)]).await;
    for part in 0..4 {
        let key = format!("{{{prefix}/{part}}}:limits");
        ask(cluster().ports[0], &["-c", "HSET", &key, "2/k", "0 - - 1 0 0 -"]);
    }
    ask(cluster().ports[0], &["-c", "ZADD", &format!("{{{prefix}/0}}:far_unsettled"), "1", "2/k"]);
    assert!(take(&store, "q", 9).await.is_empty(), "it is shut");
    assert_eq!(store.limit(Scope::Key, &name("k")).await.expect("limit").map(|it| it.limit), cap(1));
    assert!(matches!(add(&store, vec![keyed("q", "two", now)]).await[..], [Inserted::New(_)]));
    assert_eq!(ids(&take(&store, "q", 9).await), ["one"]);
    assert!(take(&store, "q", 9).await.is_empty(), "the cap holds");
}

/// The starts that a rate remembers go along to another part.
#[tokio::test]
async fn a_rate_holds_though_its_tasks_move() {
    let (clock, store) = store().await;
    let now = clock.now().wall;
    let (a, b) = two_apart(&store, now).await;
    let rate = Limit { rate: Some(Rate { count: 2, per_ms: 1000 }), ..Limit::default() };
    set(&store, Scope::Key, "k", Some(rate)).await.expect("set");
    add(&store, vec![keyed(&a, "one", now), keyed(&a, "two", now)]).await;
    let served = take(&store, &a, 9).await;
    assert_eq!(served.len(), 2);
    finish(&store, served, now).await;
    add(&store, vec![keyed(&b, "three", now)]).await;
    assert!(take(&store, &b, 9).await.is_empty(), "the window is full");
    clock.advance_ms(1000);
    assert_eq!(ids(&take(&store, &b, 9).await), ["three"]);
}
