//! Limits and fair shares.

use std::future::poll_fn;
use std::task::Poll;

use windlass_core::flow::{Closed, Full, Limit, Rate, Scope};
use windlass_core::{NewTask, Record, StateName, Task};

use super::Harness;
use super::steps::{claim, ids, name, queue};
use super::waits::{begin, served, wait};
use crate::store::{Claim, Hold, Insert, Inserted, LimitWritten, ListLimits, SetLimit};

pub(super) fn of_key(h: &Harness, text: &str, key: &str) -> NewTask {
    NewTask { key: Some(name(key)), ..h.task(text) }
}

fn cap(max: u32) -> Limit {
    Limit { max_concurrency: Some(max), ..Limit::default() }
}

fn rate(count: u32, per_ms: u64) -> Limit {
    Limit { rate: Some(Rate { count, per_ms }), ..Limit::default() }
}

pub(super) fn many(max: u32) -> Claim {
    Claim { max, ..claim() }
}

impl Harness {
    pub(super) async fn set(
        &self,
        scope: Scope,
        text: &str,
        limit: impl Into<Option<Limit>>,
    ) -> LimitWritten {
        let set = SetLimit { scope, name: name(text), limit: limit.into() };
        self.store.set_limit(set).await.expect("set_limit")
    }

    async fn holds(&self, text: &str) -> Vec<Hold> {
        let record = self.peek(text).await;
        self.store.holds(&record).await.expect("holds")
    }

    /// Adds `count` tasks of a key, named after it.
    pub(super) async fn add_of(&self, key: &str, count: usize) -> Vec<Record> {
        let tasks = (0..count).map(|i| of_key(self, &format!("{key}-{i}"), key)).collect();
        self.add(tasks).await
    }
}

fn keys(tasks: &[Task]) -> String {
    tasks.iter().map(|task| task.record.key.as_ref().map_or("-", |key| key.as_str())).collect()
}

pub async fn keys_take_turns(h: &mut Harness) {
    h.add_of("a", 6).await;
    h.add_of("b", 3).await;
    h.add_named(&["x", "y", "z"]).await;
    let tasks = h.take(many(12)).await;
    let order = keys(&tasks);
    assert_eq!(order.len(), 12);
    // By the middle everybody has had three turns.
    for party in ["a", "b", "-"] {
        assert_eq!(order[..9].matches(party).count(), 3, "{order}");
    }
    let of = |key: &str| {
        let own = tasks.iter().filter(|task| task.record.key.as_ref().map_or("-", |k| k.as_str()) == key);
        own.map(|task| task.record.id.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(of("b"), ["b-0", "b-1", "b-2"]);
    assert_eq!(of("-"), ["x", "y", "z"]);
}

pub async fn a_cap_holds_for_a_queue_a_type_and_a_key(h: &mut Harness) {
    for (scope, text) in [(Scope::Queue, "q"), (Scope::Type, "t"), (Scope::Key, "k")] {
        assert_eq!(h.set(scope, text, cap(2)).await, LimitWritten::Done { existed: false });
        let label = scope.as_str();
        let tasks = (0..5).map(|i| of_key(h, &format!("{label}-{i}"), "k")).collect();
        h.add(tasks).await;
        let first = h.take(many(10)).await;
        assert_eq!(first.len(), 2, "{label}");
        assert!(h.take(many(10)).await.is_empty(), "{label}");
        // One ends in each way there is, and each time one starts.
        h.complete(&first[0].record).await;
        let third = h.take(many(10)).await;
        assert_eq!(third.len(), 1, "{label}");
        h.cancel(&first[1].record).await;
        let fourth = h.take(many(10)).await;
        assert_eq!(fourth.len(), 1, "{label}");
        h.release(&third[0].record).await;
        let fifth = h.take(many(10)).await;
        assert_eq!(ids(&fifth), ids(&third), "it kept its place");
        h.lose(&fifth[0]).await;
        assert_eq!(h.take(many(10)).await.len(), 1, "{label}");
        assert_eq!(h.set(scope, text, None).await, LimitWritten::Done { existed: true });
        for task in h.take(many(10)).await {
            h.complete(&task.record).await;
        }
        let running =
            h.walk(crate::store::List { states: vec![StateName::Running], limit: 100, ..Default::default() });
        for task in running.await {
            h.complete(&task.record).await;
        }
    }
}

pub async fn a_limit_counts_what_runs_already(h: &mut Harness) {
    h.add_of("k", 6).await;
    let running = h.take(many(3)).await;
    h.set(Scope::Key, "k", cap(2)).await;
    h.set(Scope::Type, "t", cap(4)).await;
    for (i, task) in running.iter().enumerate() {
        assert!(h.take(many(1)).await.is_empty(), "{} still run", 3 - i);
        h.complete(&task.record).await;
        if i == 1 {
            break;
        }
    }
    assert_eq!(h.take(many(9)).await.len(), 1);
}

pub async fn what_is_paused_does_not_start(h: &mut Harness) {
    let paused = Limit { paused: true, ..Limit::default() };
    h.add_of("k", 2).await;
    h.add_named(&["plain"]).await;
    h.set(Scope::Key, "k", paused).await;
    assert_eq!(ids(&h.take(many(9)).await), ["plain"]);
    h.set(Scope::Type, "t", paused).await;
    h.set(Scope::Key, "k", Limit::default()).await;
    assert!(h.take(many(9)).await.is_empty());
    h.set(Scope::Type, "t", None).await;
    h.set(Scope::Queue, "q", paused).await;
    assert!(h.take(many(9)).await.is_empty());
    h.set(Scope::Queue, "q", Limit::default()).await;
    assert_eq!(h.take(many(9)).await.len(), 2);
}

pub async fn a_freed_place_serves_who_waits(h: &mut Harness) {
    for (scope, text) in [(Scope::Queue, "q"), (Scope::Type, "t"), (Scope::Key, "k")] {
        let label = scope.as_str();
        h.set(scope, text, cap(1)).await;
        h.add(vec![of_key(h, &format!("{label}-1"), "k"), of_key(h, &format!("{label}-2"), "k")]).await;
        let first = h.take_one().await;
        let pending = begin(h, wait()).await;
        h.complete(&first.record).await;
        let tasks = served(pending).await;
        assert_eq!(ids(&tasks), [format!("{label}-2")]);
        h.complete(&tasks[0].record).await;
        h.set(scope, text, None).await;
    }
}

pub async fn a_changed_limit_serves_who_waits(h: &mut Harness) {
    let paused = Limit { paused: true, ..Limit::default() };
    for (scope, text) in [(Scope::Queue, "q"), (Scope::Type, "t"), (Scope::Key, "k")] {
        for (i, change) in [None, Some(cap(100))].into_iter().enumerate() {
            h.set(scope, text, paused).await;
            let text_id = format!("{}-{i}", scope.as_str());
            h.add(vec![of_key(h, &text_id, "k")]).await;
            let pending = begin(h, wait()).await;
            h.set(scope, text, change).await;
            assert_eq!(ids(&served(pending).await), [text_id]);
        }
    }
}

pub async fn a_rate_holds_in_every_window(h: &mut Harness) {
    h.set(Scope::Type, "t", rate(5, 1000)).await;
    h.add((0..60).map(|i| h.task(&format!("task-{i}"))).collect()).await;
    let mut starts: Vec<u64> = Vec::new();
    for _ in 0..1000 {
        h.clock.advance_ms(9);
        starts.extend(h.take(many(3)).await.iter().map(|task| task.record.started_at.expect("it runs")));
    }
    let within = |i: usize| starts[i..].iter().filter(|at| **at < starts[i] + 1000).count();
    assert!((0..starts.len()).all(|i| within(i) <= 5), "{starts:?}");
    // Nine seconds and one window before them.
    assert!(starts.len() >= 43, "{}", starts.len());
}

pub async fn a_token_serves_who_waits(h: &mut Harness) {
    h.set(Scope::Key, "k", rate(1, 1000)).await;
    h.add_of("k", 3).await;
    h.take_one().await;
    let mut pending = begin(h, wait()).await;
    assert_eq!(h.store.open_gates().await.expect("open_gates"), Some(h.wall() + 1000));
    let ready = poll_fn(|context| Poll::Ready(pending.as_mut().poll(context).is_ready())).await;
    assert!(!ready, "the next token is not there yet");
    h.clock.advance_ms(1000);
    h.store.open_gates().await.expect("open_gates");
    let tasks = served(pending).await;
    assert_eq!(ids(&tasks), ["k-1"]);
    assert_eq!(tasks[0].record.started_at, Some(h.wall()));
    // Who comes when the time is there needs nobody to open.
    h.clock.advance_ms(1000);
    assert_eq!(ids(&h.take(claim()).await), ["k-2"]);
}

pub async fn a_nearer_token_is_signalled(h: &mut Harness) {
    assert_eq!(h.store.open_gates().await.expect("open_gates"), None);
    h.set(Scope::Queue, "q", rate(1, 1000)).await;
    h.add_named(&["a", "b"]).await;
    h.take_one().await;
    let patience = std::time::Duration::from_secs(30);
    tokio::time::timeout(patience, h.store.signals().gates.notified()).await.expect("a signal");
    assert_eq!(h.store.open_gates().await.expect("open_gates"), Some(h.wall() + 1000));
}

pub async fn a_token_that_is_long_there_serves_who_waits(h: &mut Harness) {
    h.set(Scope::Key, "k", rate(1, 1000)).await;
    h.add_of("k", 1).await;
    let first = h.take_one().await;
    h.complete(&first.record).await;
    h.store.signals().gates.notified().await;
    let pending = begin(h, wait()).await;
    h.clock.advance_ms(1000);
    // Nothing waits for the token, so it stays unseen, and nobody is told of it again.
    assert_eq!(h.store.open_gates().await.expect("open_gates"), None);
    let mut told = 0;
    for i in 0..4 {
        h.add(vec![NewTask { queue: name("elsewhere"), ..h.task(&format!("plain-{i}")) }]).await;
        let mut signal = Box::pin(h.store.signals().gates.notified());
        told += poll_fn(|context| Poll::Ready(u32::from(signal.as_mut().poll(context).is_ready()))).await;
    }
    // Of a store that others change too, once may be of another cause: whoever begins to lead looks after everything, and on a busy
    // machine a lead runs out.
    let led = h.store.signals().observed.is_none();
    assert!(told <= u32::from(led), "there is nothing to open");
    h.add(vec![of_key(h, "late", "k")]).await;
    assert_eq!(ids(&served(pending).await), ["late"]);
}

pub async fn a_limit_reaches_over_the_queues_of_one_claim(h: &mut Harness) {
    let (names, mut left) = (["q", "q:r", "q:s"], 0);
    for (scope, text) in [(Scope::Type, "t"), (Scope::Key, "k")] {
        h.set(scope, text, cap(2)).await;
        for i in 0..9 {
            let new = of_key(h, &format!("{}-{i}", scope.as_str()), "k");
            h.add(vec![NewTask { queue: name(names[i % 3]), ..new }]).await;
            left += 1;
        }
        while left > 0 {
            let queues = names.map(|text| queue(text, 1)).to_vec();
            let tasks = h.take(Claim { queues, ..many(9) }).await;
            assert_eq!(tasks.len(), left.min(2), "{scope:?}");
            for task in &tasks {
                h.complete(&task.record).await;
            }
            left -= tasks.len();
        }
        h.set(scope, text, None).await;
    }
}

pub async fn a_full_depth_refuses_by_name(h: &mut Harness) {
    let deep = |max| Limit { max_depth: Some(max), ..Limit::default() };
    h.set(Scope::Key, "k", deep(2)).await;
    h.set(Scope::Type, "t", deep(4)).await;
    h.set(Scope::Queue, "q", deep(5)).await;
    let full = |answer: &Inserted| match answer {
        Inserted::LimitFull(full) => {
            let Full { scope, name, max } = &**full;
            format!("{} {name} {max}", scope.as_str())
        }
        Inserted::New(_) => "new".to_owned(),
        Inserted::Aborted => "aborted".to_owned(),
        answer => panic!("{answer:?}"),
    };
    let told = |answers: &[Inserted]| answers.iter().map(full).collect::<Vec<_>>();
    let batch: Vec<NewTask> = (0..3).map(|i| of_key(h, &format!("k-{i}"), "k")).collect();
    let atomic = Insert { tasks: batch.clone().into(), atomic: true, max_depth: None };
    let answers = h.store.insert(atomic).await.expect("insert");
    assert_eq!(told(&answers), ["aborted", "aborted", "key k 2"]);
    assert_eq!(told(&h.insert(batch).await), ["new", "new", "key k 2"]);
    let plain = |text: &str| h.task(text);
    assert_eq!(told(&h.insert(vec![plain("a"), plain("b"), plain("c")]).await), ["new", "new", "type t 4"]);
    let other = |text: &str| NewTask { kind: name("u"), ..h.task(text) };
    assert_eq!(told(&h.insert(vec![other("d"), other("e")]).await), ["new", "queue q 5"]);
    // What runs does not wait.
    let taken = h.take(many(5)).await;
    assert_eq!(taken.len(), 5);
    assert_eq!(told(&h.insert(vec![of_key(h, "k-3", "k")]).await), ["new"]);
    h.release(&taken[0].record).await;
    h.release(&taken[1].record).await;
    h.set(Scope::Queue, "q", None).await;
    h.set(Scope::Type, "t", None).await;
    let waiting = h.store.limit(Scope::Key, &name("k")).await.expect("limit").expect("it is set").waiting;
    let answers = h.insert(vec![of_key(h, "k-4", "k")]).await;
    assert_eq!(told(&answers) == ["new"], waiting < 2, "{waiting} wait");
}

pub async fn limits_are_set_listed_and_removed(h: &mut Harness) {
    assert_eq!(h.set(Scope::Key, "k", None).await, LimitWritten::Done { existed: false });
    for text in ["c", "a", "b"] {
        h.set(Scope::Key, text, cap(1)).await;
    }
    h.set(Scope::Queue, "q", rate(3, 2000)).await;
    assert_eq!(h.set(Scope::Key, "a", cap(7)).await, LimitWritten::Done { existed: true });
    let list = async |list: ListLimits| {
        let page = h.store.limits(list).await.expect("limits");
        page.iter().map(|it| format!("{}/{}", it.scope.as_str(), it.name)).collect::<Vec<_>>()
    };
    let all = ListLimits { limit: 10, ..ListLimits::default() };
    assert_eq!(list(all.clone()).await, ["queue/q", "key/a", "key/b", "key/c"]);
    let behind = ListLimits { after: Some((Scope::Key, name("a"))), limit: 1, scope: Some(Scope::Key) };
    assert_eq!(list(behind).await, ["key/b"]);
    h.add_of("a", 2).await;
    h.take_one().await;
    let status = h.store.limit(Scope::Key, &name("a")).await.expect("limit").expect("it is set");
    assert_eq!((status.limit, status.waiting, status.running), (cap(7), 1, 1));
    for text in ["a", "b", "c"] {
        h.set(Scope::Key, text, None).await;
    }
    assert_eq!(list(all).await, ["queue/q"]);
    assert_eq!(h.store.limit(Scope::Key, &name("a")).await.expect("limit"), None);
}

pub async fn what_holds_a_task_is_told(h: &mut Harness) {
    h.set(Scope::Key, "k", cap(1)).await;
    h.add_of("k", 2).await;
    assert_eq!(h.holds("k-1").await, []);
    h.take_one().await;
    let held = |scope, text: &str, closed| Hold { scope, name: name(text), closed, held_by: Vec::new() };
    let full = Closed::Full { running: 1, max: 1 };
    let by_first = vec![super::steps::id("k-0")];
    assert_eq!(h.holds("k-1").await, [Hold { held_by: by_first, ..held(Scope::Key, "k", full) }]);
    h.set(Scope::Key, "k", Limit { paused: true, ..Limit::default() }).await;
    assert_eq!(h.holds("k-1").await, [held(Scope::Key, "k", Closed::Paused)]);
    h.set(Scope::Key, "k", rate(1, 1000)).await;
    h.set(Scope::Queue, "q", Limit { paused: true, ..Limit::default() }).await;
    assert_eq!(h.holds("k-1").await, [held(Scope::Queue, "q", Closed::Paused)]);
    h.set(Scope::Queue, "q", None).await;
    h.take_one().await;
    h.add_of("k2", 1).await;
    h.add(vec![of_key(h, "k-9", "k")]).await;
    let until = h.wall() + 1000;
    assert_eq!(h.holds("k-9").await, [held(Scope::Key, "k", Closed::NoToken { until })]);
    h.clock.advance_ms(1000);
    assert_eq!(h.holds("k-9").await, []);
}

pub async fn a_blocked_key_blocks_nobody_else(h: &mut Harness) {
    h.set(Scope::Key, "k", cap(1)).await;
    h.add_of("k", 500).await;
    h.take_one().await;
    h.add_of("other", 2).await;
    h.add_named(&["plain"]).await;
    assert_eq!(keys(&h.take(many(9)).await).matches('k').count(), 0);
    h.check().await;
}

pub async fn a_retried_task_counts_again(h: &mut Harness) {
    h.set(Scope::Key, "k", cap(1)).await;
    h.add_of("k", 1).await;
    let task = h.take_one().await;
    let cancelled = h.cancel(&task.record).await;
    let status = async || h.store.limit(Scope::Key, &name("k")).await.expect("limit").expect("it is set");
    assert_eq!((status().await.waiting, status().await.running), (0, 0));
    h.retry(&cancelled).await;
    assert_eq!((status().await.waiting, status().await.running), (1, 0));
    assert_eq!(ids(&h.take(many(2)).await), ["k-0"]);
    let removed = h.peek("k-0").await;
    h.complete(&removed).await;
    h.remove(&h.peek("k-0").await).await;
    assert_eq!((status().await.waiting, status().await.running), (0, 0));
}

pub async fn flow_outlives_a_reopen(h: &mut Harness) {
    h.set(Scope::Key, "a", Limit { weight: 3, ..cap(4) }).await;
    h.set(Scope::Type, "t", rate(6, 10_000)).await;
    h.set(Scope::Key, "gone", cap(1)).await;
    h.set(Scope::Key, "gone", None).await;
    h.add_of("a", 20).await;
    h.add_of("b", 20).await;
    let taken = h.take(many(5)).await;
    assert_eq!(taken.len(), 5);
    let statuses = h.store.limits(ListLimits { limit: 9, ..ListLimits::default() }).await.expect("limits");
    if !h.reopen().await {
        return;
    }
    let after = h.store.limits(ListLimits { limit: 9, ..ListLimits::default() }).await.expect("limits");
    assert_eq!(after, statuses);
    h.check().await;
    assert_eq!(h.take(many(9)).await.len(), 1, "the window remembers what started before");
    h.clock.advance_ms(10_000);
    let more = keys(&h.take(many(9)).await);
    assert!(more.matches('a').count() <= 4, "the cap counts what runs: {more}");
    h.reopen().await;
    h.check().await;
}
