//! What would keep Redis busy for long is done in slices: each call does a bounded part, and in the end all of it is done. Calls
//! are measured by the commands that they make, not by the clock.

use std::collections::HashSet;
use std::sync::Arc;

use windlass_core::choice::Queue;
use windlass_core::flow::{Ageing, Limit, Scope};
use windlass_core::limits::{PLACES_OPENED_MAX, SHARES_TURNED_MAX, SHUT_MET_MAX};
use windlass_core::{NewTask, Priority};
use windlass_store::clock::ManualClock;
use windlass_store::memory::MemoryStore;
use windlass_store::{Claim, Clock, SetLimit, Store};

use super::flow::{calls_of, commands};
use super::shared::{add, claim, name, task};
use super::{Server, open};

/// Commands for one lane or share, generously.
const EACH: u64 = 40;

/// A store on a server of its own, where nobody else makes commands.
struct Alone {
    _server: Server,
    url: String,
    clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
}

impl Alone {
    async fn start() -> Alone {
        let server = Server::start(&[]);
        let url = format!("redis+unix://{}", server.socket.display());
        let clock = ManualClock::shared();
        let store = open(&url, clock.clone()).await;
        Alone { _server: server, url, clock, store }
    }

    async fn set(&self, scope: Scope, text: &str, limit: Option<Limit>) {
        set(&self.store, scope, text, limit).await;
    }

    /// As the loop of a broker does it; returns how often, and the most commands that one call made.
    async fn go_on(&self) -> (u64, u64) {
        let (mut calls, mut most) = (0, 0);
        loop {
            let before = commands(&self.url).await;
            let next = self.store.open_gates().await.expect("open");
            calls += 1;
            most = most.max(commands(&self.url).await - before);
            if next.is_none_or(|next| next > self.clock.now().wall) {
                return (calls, most);
            }
        }
    }
}

async fn set(store: &Arc<dyn Store>, scope: Scope, text: &str, limit: Option<Limit>) {
    store.set_limit(SetLimit { scope, name: name(text), limit }).await.expect("set");
}

fn paused() -> Option<Limit> {
    Some(Limit { paused: true, ..Limit::default() })
}

async fn add_all(store: &Arc<dyn Store>, tasks: Vec<NewTask>) {
    for some in tasks.chunks(1000) {
        add(store, some.to_vec()).await;
    }
}

#[tokio::test]
async fn a_limit_that_kept_many_queues_opens_in_slices() {
    let queues = 5 * PLACES_OPENED_MAX;
    let alone = Alone::start().await;
    let Alone { url, store, clock, .. } = &alone;
    let now = clock.now().wall;
    let queue = |i: usize| name(&format!("q{i}"));
    let of = |i: usize| NewTask { queue: queue(i), ..task(&format!("task-{i}"), now) };
    add_all(store, (0..queues).map(of).collect()).await;
    alone.set(Scope::Type, "t", paused()).await;
    let asked = |from: usize| Claim {
        queues: (from..from + 100).map(|i| Queue { name: queue(i), weight: 1 }).collect(),
        max: 100,
        ..claim()
    };
    for from in (0..queues).step_by(100) {
        assert!(store.claim(asked(from)).await.expect("claim").is_empty(), "it is paused");
    }
    let before = commands(url).await;
    alone.set(Scope::Type, "t", None).await;
    let spent = commands(url).await - before;
    assert!(spent < EACH * PLACES_OPENED_MAX as u64 / 2, "{spent} commands in one call");
    let (calls, most) = alone.go_on().await;
    assert!(calls >= 4, "{calls} calls for the rest");
    assert!(most < EACH * PLACES_OPENED_MAX as u64 / 2, "{most} commands in one call");
    let mut served = HashSet::new();
    for from in (0..queues).step_by(100) {
        let tasks = store.claim(asked(from)).await.expect("claim");
        served.extend(tasks.into_iter().map(|task| task.record.seq));
    }
    assert_eq!(served.len(), queues, "everything is there again");
}

/// Claims go on with it too, and what closes again in between stays away.
#[tokio::test]
async fn a_limit_that_closes_while_it_opens_keeps_the_rest() {
    let queues = 3 * PLACES_OPENED_MAX;
    let alone = Alone::start().await;
    let Alone { store, clock, .. } = &alone;
    let now = clock.now().wall;
    let queue = |i: usize| name(&format!("q{i}"));
    let of = |i: usize| NewTask { queue: queue(i), ..task(&format!("task-{i}"), now) };
    add_all(store, (0..queues).map(of).collect()).await;
    let all = Claim {
        queues: (0..queues).map(|i| Queue { name: queue(i), weight: 1 }).collect(),
        max: queues as u32,
        ..claim()
    };
    alone.set(Scope::Type, "t", paused()).await;
    assert!(store.claim(all.clone()).await.expect("claim").is_empty());
    alone.set(Scope::Type, "t", None).await;
    alone.set(Scope::Type, "t", paused()).await;
    assert!(store.claim(all.clone()).await.expect("claim").is_empty(), "it is paused again");
    assert_eq!(alone.go_on().await.0, 1, "there is nothing to go on with");
    alone.set(Scope::Type, "t", None).await;
    let mut served = 0;
    loop {
        let tasks = store.claim(all.clone()).await.expect("claim");
        if tasks.is_empty() {
            break;
        }
        served += tasks.len();
    }
    assert_eq!(served, queues);
}

#[tokio::test]
async fn a_queue_with_many_keys_begins_and_ends_to_age_in_slices() {
    let keys = 4 * SHARES_TURNED_MAX;
    let alone = Alone::start().await;
    let Alone { url, store, clock, .. } = &alone;
    let memory: Arc<dyn Store> = MemoryStore::new(clock.clone());
    let now = clock.now().wall;
    let of = |i: usize| NewTask {
        key: Some(name(&format!("k{}", i % keys))),
        priority: Priority(if i < keys { 10 } else { 20 }),
        ..task(&format!("task-{i}"), now)
    };
    let tasks: Vec<NewTask> = (0..2 * keys).map(of).collect();
    for store in [store, &memory] {
        add_all(store, tasks.clone()).await;
    }
    let ages = Some(Limit { ageing: Some(Ageing { every_ms: 1000 }), ..Limit::default() });
    let same = async |rounds: u64, seed: u64| {
        for round in 0..rounds {
            let claim = Claim { max: 3, seed: seed + round, ..claim() };
            let here = store.claim(claim.clone()).await.expect("claim");
            let there = memory.claim(claim).await.expect("claim");
            let seqs =
                |tasks: &[windlass_core::Task]| tasks.iter().map(|it| it.record.seq).collect::<Vec<_>>();
            assert_eq!(seqs(&here), seqs(&there), "in round {round} of {seed}");
        }
    };
    for (seed, limit) in [(1, ages), (1000, None), (2000, ages)] {
        let before = commands(url).await;
        alone.set(Scope::Queue, "q", limit).await;
        let spent = commands(url).await - before;
        assert!(spent < EACH * SHARES_TURNED_MAX as u64, "{spent} commands in one call");
        set(&memory, Scope::Queue, "q", limit).await;
        let (calls, most) = alone.go_on().await;
        assert!(calls >= 2, "{calls} calls for the rest");
        assert!(most < EACH * SHARES_TURNED_MAX as u64, "{most} commands in one call");
        same(30, seed).await;
        clock.advance_ms(700);
    }
    // Some are taken and added while others have yet to be turned over.
    let mut left = 2 * keys - 3 * 3 * 30;
    for (round, limit) in [None, ages, None].into_iter().enumerate() {
        alone.set(Scope::Queue, "q", limit).await;
        let more = |i: usize| NewTask { priority: Priority(5), ..of(i) };
        let more =
            (0..50).map(|i| NewTask { id: format!("more-{round}-{i}").parse().expect("an id"), ..more(i) });
        add(store, more.collect()).await;
        left += 50;
        left -= store.claim(Claim { max: 100, ..claim() }).await.expect("claim").len();
    }
    loop {
        let tasks = store.claim(Claim { max: 500, ..claim() }).await.expect("claim");
        if tasks.is_empty() && alone.go_on().await.0 == 1 {
            break;
        }
        left -= tasks.len();
    }
    assert_eq!(left, 0, "none is forgotten");
}

#[tokio::test]
async fn a_claim_behind_many_shut_keys_passes_them_in_several_calls() {
    let keys = 4 * SHUT_MET_MAX;
    let alone = Alone::start().await;
    let Alone { url, store, clock, .. } = &alone;
    let now = clock.now().wall;
    let key = |i: usize| format!("k{i}");
    let shut = |i: usize| NewTask { key: Some(name(&key(i))), ..task(&format!("task-{i}"), now) };
    add_all(store, (0..keys).map(shut).collect()).await;
    for i in 0..keys {
        alone.set(Scope::Key, &key(i), paused()).await;
    }
    add(store, vec![NewTask { key: Some(name("open")), ..task("last", now) }]).await;
    let before = calls_of(url, "cmdstat_evalsha").await;
    let served = store.claim(claim()).await.expect("claim");
    let calls = calls_of(url, "cmdstat_evalsha").await - before;
    assert_eq!(served.iter().map(|task| task.record.id.as_str()).collect::<Vec<_>>(), ["last"]);
    assert!(calls >= 4, "{calls} calls");
    let before = calls_of(url, "cmdstat_evalsha").await;
    assert!(store.claim(claim()).await.expect("claim").is_empty());
    let calls = calls_of(url, "cmdstat_evalsha").await - before;
    assert!(calls < 4, "they are out of the way: {calls} calls");
}
