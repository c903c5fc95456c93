//! Claims that wait for work.

use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use windlass_core::{NewTask, Task};

use super::Harness;
use super::steps::{claim, ids, name, queue};
use crate::store::{Claim, Error};

/// Only a store that forgot the waiter ever takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) type Pending = Pin<Box<dyn Future<Output = Result<Vec<Task>, Error>> + Send>>;

pub(super) fn wait() -> Claim {
    Claim { wait_ms: 60_000, ..claim() }
}

/// Begins a claim that finds nothing yet.
pub(super) async fn begin(h: &Harness, claim: Claim) -> Pending {
    let store = Arc::clone(&h.store);
    let mut pending: Pending = Box::pin(async move { store.claim(claim).await });
    assert!(!is_ready(&mut pending).await, "there is nothing to claim");
    pending
}

async fn is_ready(pending: &mut Pending) -> bool {
    poll_fn(|context| Poll::Ready(pending.as_mut().poll(context).is_ready())).await
}

pub(super) async fn served(pending: Pending) -> Vec<Task> {
    tokio::time::timeout(PATIENCE, pending).await.expect("the waiting claim was forgotten").expect("claim")
}

pub async fn an_insert_serves_who_waits(h: &mut Harness) {
    let pending = begin(h, wait()).await;
    h.clock.advance_ms(77);
    h.add_named(&["a"]).await;
    let tasks = served(pending).await;
    assert_eq!(ids(&tasks), ["a"]);
    assert_eq!(tasks[0].record.started_at, Some(h.wall()), "the lease begins when the claim is served");
    assert_eq!(h.peek("a").await, tasks[0].record);
}

pub async fn a_promotion_serves_who_waits(h: &mut Harness) {
    h.add(vec![NewTask { scheduled_at: Some(h.wall() + 1000), ..h.task("a") }]).await;
    let pending = begin(h, wait()).await;
    h.clock.advance_ms(1000);
    assert_eq!(h.promote().await.len(), 1);
    assert_eq!(ids(&served(pending).await), ["a"]);
}

pub async fn a_release_serves_who_waits(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let task = h.take_one().await;
    let pending = begin(h, wait()).await;
    h.release(&task.record).await;
    let again = served(pending).await.remove(0);
    assert_eq!((again.record.id.as_str(), again.record.attempts), ("a", 1));
}

pub async fn a_lost_lease_serves_who_waits(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let task = h.take_one().await;
    let pending = begin(h, wait()).await;
    h.lose(&task).await;
    let again = served(pending).await.remove(0);
    assert_eq!((again.record.attempts, again.record.crashes), (2, 1));
}

pub async fn a_requeue_serves_who_waits(h: &mut Harness) {
    let record = h.add_named(&["a"]).await.remove(0);
    let cancelled = h.cancel(&record).await;
    let pending = begin(h, wait()).await;
    h.retry(&cancelled).await;
    assert_eq!(ids(&served(pending).await), ["a"]);
}

pub async fn a_resumed_queue_serves_who_waits(h: &mut Harness) {
    h.pause("q", true).await;
    h.add_named(&["a", "b"]).await;
    let (first, second) = (begin(h, wait()).await, begin(h, wait()).await);
    h.pause("q", false).await;
    assert_eq!(ids(&served(first).await), ["a"]);
    assert_eq!(ids(&served(second).await), ["b"]);
}

pub async fn first_come_first_served(h: &mut Harness) {
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(begin(h, wait()).await);
    }
    for (pending, text) in waiting.into_iter().zip(["a", "b", "c", "d", "e"]) {
        h.add_named(&[text]).await;
        assert_eq!(ids(&served(pending).await), [text]);
    }
}

pub async fn only_what_is_wanted_wakes(h: &mut Harness) {
    let typed = |text: &str, queue: &str, kind: &str| NewTask {
        queue: name(queue),
        kind: name(kind),
        ..h.task(text)
    };
    let queues = vec![queue("q", 1), queue("r", 1)];
    let picky = begin(h, Claim { queues, types: Some(vec![name("x"), name("y")]), ..wait() }).await;
    let other = begin(h, Claim { queues: vec![queue("s", 1)], ..wait() }).await;
    let easy = begin(h, wait()).await;
    h.add(vec![typed("a", "q", "t")]).await;
    assert_eq!(ids(&served(easy).await), ["a"], "who wants it gets it past those who do not");
    h.add(vec![typed("b", "s", "x")]).await;
    assert_eq!(ids(&served(other).await), ["b"]);
    h.add(vec![typed("c", "r", "t"), typed("d", "r", "y"), typed("e", "q", "x")]).await;
    let tasks = served(picky).await;
    assert!(["d", "e"].contains(&ids(&tasks)[0]) && tasks.len() == 1, "{tasks:?}");
}

pub async fn a_wait_ends_empty(h: &mut Harness) {
    let tasks = h.take(Claim { wait_ms: 10, ..claim() }).await;
    assert!(tasks.is_empty());
    h.add_named(&["a"]).await;
    assert_eq!(ids(&h.take(claim()).await), ["a"], "who stopped waiting gets nothing");
}

pub async fn who_goes_away_gets_nothing(h: &mut Harness) {
    drop(begin(h, wait()).await);
    h.add_named(&["a"]).await;
    // Served, but gone before it could look.
    let unaware = begin(h, Claim { types: Some(vec![name("x")]), ..wait() }).await;
    h.add(vec![NewTask { kind: name("x"), ..h.task("b") }]).await;
    drop(unaware);
    let mut found = HashSet::new();
    for _ in 0..2 {
        let store = Arc::clone(&h.store);
        let task = served(Box::pin(async move { store.claim(wait()).await })).await.remove(0);
        assert_eq!(task.record.attempts, 1, "no attempt was used up: {task:?}");
        found.insert(task.record.id.to_string());
    }
    assert_eq!(found, HashSet::from(["a".into(), "b".into()]));
}

pub async fn many_waiters_share_a_batch(h: &mut Harness) {
    let mut waiting = Vec::new();
    for seed in 0..20 {
        waiting.push(begin(h, Claim { seed, max: 3, ..wait() }).await);
    }
    h.add((0..60).map(|i| h.task(&format!("task-{i}"))).collect()).await;
    let mut taken = HashSet::new();
    for pending in waiting {
        let tasks = served(pending).await;
        assert!((1..=3).contains(&tasks.len()), "{}", tasks.len());
        for task in tasks {
            assert!(taken.insert(task.record.id.clone()), "{} was given out twice", task.record.id);
        }
    }
    let rest = h.take(Claim { max: 60, ..claim() }).await;
    assert_eq!(taken.len() + rest.len(), 60);
}
