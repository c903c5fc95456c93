//! Limits between the threads of the store.

use std::future::Future;

use windlass_core::flow::{Closed, Limit, Rate, Scope};

use super::*;
use crate::clock::Clock;
use crate::embedded::claims::Request;
use crate::embedded::command::Command;
use crate::embedded::desk::COMMITTERS;
use crate::embedded::inbox::{Op, Reply};
use crate::store::{LimitWritten, SetLimit};

fn limit(limit: Limit) -> SetLimit {
    SetLimit { scope: Scope::Type, name: Name::new("t").unwrap(), limit: Some(limit) }
}

fn rate(per_ms: u64) -> SetLimit {
    limit(Limit { rate: Some(Rate { count: 1, per_ms }), ..Limit::default() })
}

#[tokio::test]
async fn what_a_limit_holds_pulls_no_claim_into_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    store.set_limit(limit(Limit { paused: true, ..Limit::default() })).await.unwrap();
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.claim(claim(1, 60_000)).await }
    });
    while !store.shared.has_waiters() {
        tokio::task::yield_now().await;
    }
    let before = store.activity().entries;
    for i in 0..20 {
        add(&store, vec![task(&format!("t-{i}"))]).await.unwrap();
    }
    assert_eq!(store.activity().entries - before, 20, "one for each insert");
    store.set_limit(limit(Limit::default())).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap()[0].record.id.as_str(), "t-0");
    store.close().await.unwrap();
}

/// A claim and then a longer rate wait to be written while time goes by. Were the rate's time that of its caller, it would look like
/// a clock that was set back, and the token would come sooner.
#[tokio::test]
async fn a_limit_has_its_time_from_its_place_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::shared();
    let store = EmbeddedStore::open(options(dir.path()), Arc::clone(&clock) as _).await.unwrap();
    store.set_limit(rate(1000)).await.unwrap();
    add(&store, vec![task("a"), task("b")]).await.unwrap();
    let (reply, claimed) = tokio::sync::oneshot::channel();
    let mut changing = Box::pin(store.set_limit(rate(2000)));
    {
        let held = store.shared.machine.lock();
        // Whoever could commit has a group that it cannot apply.
        for _ in 0..COMMITTERS {
            let command = Command::Pause { queue: Name::new("other").unwrap(), paused: false };
            let entry = command.encode();
            store.shared.inbox.push(Op { command, entry, reply: Reply::Nobody });
            while store.shared.inbox.len() > 0 {
                std::thread::yield_now();
            }
        }
        let (request, _call) = Request::new(reply);
        store.shared.serve(claim(1, 0), request);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(changing.as_mut().poll(&mut context).is_pending());
        clock.advance_ms(500);
        drop(held);
    }
    assert_eq!(changing.await.unwrap(), LimitWritten::Done { existed: true });
    assert_eq!(claimed.await.unwrap().unwrap().take().len(), 1);
    let status = store.limit(Scope::Type, &Name::new("t").unwrap()).await.unwrap().unwrap();
    let until = clock.now().wall + 2000;
    assert_eq!(status.closed, Some(Closed::NoToken { until }));
    store.close().await.unwrap();
}

/// More than one look can take in: somebody who waits moves the time on, and whom it concerns is served.
#[tokio::test]
async fn many_tokens_at_once_forget_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::shared();
    let store = EmbeddedStore::open(options(dir.path()), Arc::clone(&clock) as _).await.unwrap();
    let keys: Vec<Name> = (0..600).map(|i| Name::new(&format!("key-{i}")).unwrap()).collect();
    for key in &keys {
        let limit = Limit { rate: Some(Rate { count: 1, per_ms: 1000 }), ..Limit::default() };
        let set = SetLimit { scope: Scope::Key, name: key.clone(), limit: Some(limit) };
        store.set_limit(set).await.unwrap();
    }
    for round in 0..2 {
        let new = |key: &Name| NewTask { key: Some(key.clone()), ..task(&format!("{key}-{round}")) };
        add(&store, keys.iter().map(new).collect()).await.unwrap();
    }
    assert_eq!(store.claim(claim(1000, 0)).await.unwrap().len(), 600);
    let claims = ["q", "q", "elsewhere"].map(|queue| {
        let queues = vec![Queue { name: Name::new(queue).unwrap(), weight: 1 }];
        let (store, claim) = (Arc::clone(&store), Claim { queues, ..claim(300, 60_000) });
        tokio::spawn(async move { store.claim(claim).await })
    });
    while store.shared.waiting.lock().len() < 3 {
        tokio::task::yield_now().await;
    }
    clock.advance_ms(1000);
    store.open_gates().await.unwrap();
    let [first, second, other] = claims;
    assert_eq!(first.await.unwrap().unwrap().len() + second.await.unwrap().unwrap().len(), 600);
    other.abort();
    store.close().await.unwrap();
}

/// A queue with room for one more wakes one of those who wait, whatever types they want.
#[tokio::test]
async fn a_freed_place_of_a_queue_pulls_one_claim_into_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    let cap = Limit { max_concurrency: Some(1), ..Limit::default() };
    let name = Name::new("q").unwrap();
    store.set_limit(SetLimit { scope: Scope::Queue, name, limit: Some(cap) }).await.unwrap();
    add(&store, vec![task("first")]).await.unwrap();
    let running = store.claim(claim(1, 0)).await.unwrap().remove(0).record;
    let kinds: Vec<Name> = (0..10).map(|i| Name::new(&format!("t{i}")).unwrap()).collect();
    let new = |kind: &Name| NewTask { kind: kind.clone(), ..task(&format!("of-{kind}")) };
    add(&store, kinds.iter().map(new).collect()).await.unwrap();
    let mut claims = tokio::task::JoinSet::new();
    for kind in kinds {
        let (store, claim) = (Arc::clone(&store), Claim { types: Some(vec![kind]), ..claim(1, 60_000) });
        claims.spawn(async move { store.claim(claim).await });
    }
    while store.shared.waiting.lock().len() < 10 {
        tokio::task::yield_now().await;
    }
    let before = store.activity().entries;
    let change = Change::Completed { at: running.updated_at.into(), result: None };
    store.commit(vec![on(&running, change)]).await.unwrap();
    assert_eq!(claims.join_next().await.unwrap().unwrap().unwrap().len(), 1);
    assert_eq!(store.activity().entries - before, 2, "the end of the one, and the claim of the next");
    claims.shutdown().await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_paused_queue_pulls_no_claim_into_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let queue = Name::new("q").unwrap();
    let store = open(dir.path()).await.unwrap();
    store.set_paused(&queue, true).await.unwrap();
    store.close().await.unwrap();
    // It is known after a restart too.
    let store = open(dir.path()).await.unwrap();
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.claim(claim(1, 60_000)).await }
    });
    while !store.shared.has_waiters() {
        tokio::task::yield_now().await;
    }
    let before = store.activity().entries;
    for i in 0..20 {
        add(&store, vec![task(&format!("t-{i}"))]).await.unwrap();
    }
    assert_eq!(store.activity().entries - before, 20, "one for each insert");
    store.set_paused(&queue, false).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap()[0].record.id.as_str(), "t-0");
    store.close().await.unwrap();
}

#[tokio::test]
async fn moves_and_retries_mind_how_many_lanes_there_may_be() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    let name = |text: &str| Name::new(text).unwrap();
    let keyed = |id: &str, key: &str| NewTask { key: Some(name(key)), ..task(id) };
    let elsewhere = NewTask { queue: name("other"), ..task("elsewhere") };
    add(&store, vec![task("plain"), keyed("a", "k"), keyed("b", "gone"), elsewhere]).await.unwrap();
    let peek = async |id: &str| store.peek(&TaskId::new(id).unwrap()).await.unwrap().unwrap();
    let at = task("x").created_at;
    let commit = async |id: &str, change: Change| {
        let record = peek(id).await;
        store.commit(vec![on(&record, change)]).await.map(|mut answers| answers.remove(0))
    };
    let done = |answer: Result<Committed, Error>| matches!(answer, Ok(Committed::Done(_)));
    let cancelled = || Change::Cancelled { at: at.into(), reason: windlass_core::CancelReason::Asked };
    assert!(done(commit("b", cancelled()).await));
    store.shared.machine.lock().bound_lanes(2, 1);
    let moved = |text: &str| Change::Moved { at: at.into(), queue: name(text) };
    let requeued = || Change::Requeued { at: at.into(), after: Box::new([]) };
    assert!(matches!(commit("plain", moved("new")).await, Err(Error::TooManyLanes)));
    assert!(done(commit("plain", moved("other")).await), "that lane is there");
    assert!(matches!(commit("a", moved("other")).await, Err(Error::TooManyLanes)), "its key has none there");
    assert!(matches!(commit("b", requeued()).await, Err(Error::TooManyLanes)));
    assert!(matches!(add(&store, vec![keyed("c", "new")]).await, Err(Error::TooManyLanes)));
    assert!(matches!(add(&store, vec![keyed("d", "k")]).await.unwrap()[..], [Inserted::New(_)]));
    for id in ["a", "d"] {
        assert!(done(commit(id, cancelled()).await));
    }
    assert!(done(commit("b", requeued()).await), "the place of the other key is free");
    store.close().await.unwrap();
}

fn on(record: &Record, change: Change) -> Transition {
    Transition { id: record.id.clone(), seq: record.seq, revision: record.revision, change }
}
