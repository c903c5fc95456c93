//! Queues and types that have no tasks any more.

use windlass_core::flow::{Limit, Rate, Scope};
use windlass_core::transition;
use windlass_core::{Name, NewTask, Record};

use super::Harness;
use super::flow::{many, of_key};
use super::steps::{claim, ids, name, queue};
use super::waits::{begin, served, wait};
use crate::store::{Claim, Feature, List};

impl Harness {
    async fn queue_names(&self) -> Vec<Name> {
        self.store.queues(None).await.expect("queues").into_iter().map(|queue| queue.name).collect()
    }

    /// Looks for names without tasks twice: at the second time those that were found at the first are released.
    async fn release_names(&self) -> usize {
        let mut released = 0;
        for _ in 0..2 {
            released += self.store.release_names().await.expect("release_names").names;
        }
        released
    }

    /// Ends tasks and removes them.
    async fn remove_all(&self, records: &[Record]) {
        for record in records {
            let ended = self.cancel(record).await;
            self.remove(&ended).await;
        }
    }

    fn of(&self, text: &str, queue: &str, kind: &str) -> NewTask {
        NewTask { queue: name(queue), kind: name(kind), ..self.task(text) }
    }
}

pub async fn a_queue_without_tasks_is_released_after_a_while(h: &mut Harness) {
    let records = h.add_named(&["a", "b"]).await;
    let kept = h.add(vec![h.of("c", "q:kept", "t")]).await;
    h.cancel(&kept[0]).await;
    h.remove_all(&records).await;
    let ledger = h.store.ledger().await.expect("ledger");
    assert_eq!(h.store.release_names().await.expect("release_names").names, 0, "it was in use a moment ago");
    assert_eq!(h.counts("q").await.by_state, [0; 8]);
    assert!(h.store.release_names().await.expect("release_names").names > 0);
    assert_eq!(h.queue_names().await, [name("q:kept")], "a finished task keeps its queue");
    assert!(h.store.queues(Some(&name("q"))).await.expect("queues").is_empty());
    assert_eq!(h.store.ledger().await.expect("ledger"), ledger, "what happened is still counted");
    h.check().await;
    h.reopen().await;
    h.check().await;
    h.add_named(&["a"]).await;
    assert_eq!(h.queue_names().await, [name("q"), name("q:kept")]);
    assert_eq!(ids(&h.take(claim()).await), ["a"]);
    h.check().await;
}

pub async fn what_is_paused_or_limited_is_not_released(h: &mut Harness) {
    h.pause("q:paused", true).await;
    let records = h.add(vec![h.of("a", "q:limited", "t"), h.of("b", "q:both", "t")]).await;
    h.pause("q:both", true).await;
    let limited = h.store.capabilities().has(Feature::Flow);
    let cap = Limit { max_concurrency: Some(1), ..Limit::default() };
    if limited {
        h.set(Scope::Queue, "q:limited", cap).await;
    }
    h.remove_all(&records).await;
    h.release_names().await;
    h.reopen().await;
    h.release_names().await;
    h.check().await;
    assert!(h.counts("q:paused").await.paused && h.counts("q:both").await.paused);
    h.add(vec![h.of("c", "q:paused", "t")]).await;
    assert!(h.take(Claim { queues: vec![queue("q:paused", 1)], ..claim() }).await.is_empty());
    if limited {
        assert_eq!(h.counts("q:limited").await.by_state, [0; 8]);
        h.add(vec![h.of("d", "q:limited", "t"), h.of("e", "q:limited", "u")]).await;
        let tasks = h.take(Claim { queues: vec![queue("q:limited", 1)], ..many(9) }).await;
        assert_eq!(ids(&tasks), ["d"], "the limit holds");
        h.set(Scope::Queue, "q:limited", None).await;
        h.remove_all(&[tasks[0].record.clone(), h.peek("e").await]).await;
    }
    h.remove_all(&[h.peek("c").await]).await;
    h.pause("q:paused", false).await;
    h.pause("q:both", false).await;
    h.release_names().await;
    assert!(h.queue_names().await.is_empty(), "nothing holds them any more");
    h.check().await;
}

pub async fn a_rate_outlives_the_names_that_used_it(h: &mut Harness) {
    if !h.store.capabilities().has(Feature::Flow) {
        return;
    }
    let limit = Limit { rate: Some(Rate { count: 1, per_ms: 60_000 }), ..Limit::default() };
    for (scope, text) in [(Scope::Type, "t"), (Scope::Key, "k")] {
        h.set(scope, text, limit).await;
        h.add(vec![of_key(h, "a", "k")]).await;
        let task = h.take_one().await;
        let ended = h.complete(&task.record).await;
        h.remove(&ended).await;
        h.release_names().await;
        h.reopen().await;
        let again = h.add(vec![of_key(h, "b", "k")]).await;
        assert!(h.take(claim()).await.is_empty(), "the rate of the {} is used up", scope.as_str());
        h.clock.advance_ms(60_000);
        assert_eq!(ids(&h.take(claim()).await), ["b"]);
        h.remove_all(&[h.peek(again[0].id.as_str()).await]).await;
        h.set(scope, text, None).await;
        h.clock.advance_ms(60_000);
    }
    h.check().await;
}

pub async fn who_waits_for_a_released_name_is_served(h: &mut Harness) {
    let records = h.add_named(&["a"]).await;
    h.remove_all(&records).await;
    let any = begin(h, wait()).await;
    let typed = begin(h, Claim { types: Some(vec![name("u")]), ..wait() }).await;
    assert!(h.release_names().await > 0);
    h.add(vec![h.of("b", "q", "t"), h.of("c", "q", "u")]).await;
    assert_eq!(ids(&served(any).await), ["b"]);
    assert_eq!(ids(&served(typed).await), ["c"]);
    h.check().await;
}

pub async fn names_come_and_go_beside_others_that_stay(h: &mut Harness) {
    // Every third task stays; what is released leaves gaps that others fill.
    let pair = |i: usize| (format!("q:{}", i % 4), format!("type-{i}"));
    let mut stay: Vec<(String, String, String)> = Vec::new();
    for round in 0..4 {
        let new: Vec<NewTask> = (0..12)
            .map(|i| {
                let (queue, kind) = pair(100 * (round % 2) + i);
                h.of(&format!("r{round}-{i}"), &queue, &kind)
            })
            .collect();
        let records = h.add(new).await;
        let (kept, gone): (Vec<Record>, Vec<Record>) = records.into_iter().partition(|it| it.seq % 3 == 0);
        stay.extend(kept.iter().map(|it| (it.id.to_string(), it.queue.to_string(), it.kind.to_string())));
        if round == 1 {
            h.reopen().await;
        }
        h.remove_all(&gone).await;
        h.release_names().await;
        h.check().await;
    }
    h.reopen().await;
    h.check().await;
    for (id, queue, kind) in &stay {
        let record = h.peek(id).await;
        assert_eq!((record.queue.as_str(), record.kind.as_str()), (queue.as_str(), kind.as_str()), "{id}");
    }
    for (id, on, kind) in &stay {
        let list = List { queue: Some(name(on)), limit: 100, ..List::default() };
        assert!(h.walk(list).await.iter().any(|task| task.record.id.as_str() == id), "{id} is listed");
        let types = Some(vec![name(kind)]);
        let tasks = h.take(Claim { types, queues: vec![queue(on, 1)], ..claim() }).await;
        assert_eq!(tasks.len(), 1, "{id} can be claimed by its type");
        assert_eq!(
            (tasks[0].record.queue.as_str(), tasks[0].record.kind.as_str()),
            (on.as_str(), kind.as_str())
        );
    }
    h.check().await;
}

pub async fn a_name_whose_last_task_moved_away_is_released(h: &mut Harness) {
    let records = h.add(vec![h.of("a", "q", "t"), h.of("b", "q:r", "u")]).await;
    h.done(&records[0], transition::move_to(&records[0], &name("q:r"), h.wall())).await;
    h.release_names().await;
    assert_eq!(h.queue_names().await, [name("q:r")]);
    h.reopen().await;
    let moved = h.peek("a").await;
    h.done(&moved, transition::move_to(&moved, &name("q"), h.wall())).await;
    h.check().await;
    assert_eq!(ids(&h.take(claim()).await), ["a"]);
}
