//! Tasks that get another priority or another queue.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::transition::{self, Failure};
use windlass_core::{NewTask, Priority, Record, StateName};

use super::Harness;
use super::steps::{claim, failure, ids, name, queue};
use crate::store::{Claim, List};

impl Harness {
    async fn reprioritise(&self, text: &str, priority: u8) -> Record {
        let record = self.peek(text).await;
        self.done(&record, transition::reprioritise(&record, Priority(priority), self.wall())).await
    }

    async fn move_to(&self, text: &str, to: &str) -> Record {
        let record = self.peek(text).await;
        self.done(&record, transition::move_to(&record, &name(to), self.wall())).await
    }

    async fn drain(&self, from: &str) -> String {
        let tasks = self.take(Claim { max: 100, queues: vec![queue(from, 1)], ..claim() }).await;
        ids(&tasks).join(" ")
    }
}

pub async fn another_priority_is_another_place_in_line(h: &mut Harness) {
    h.add_named(&["a", "b", "c", "d"]).await;
    h.reprioritise("c", 200).await;
    h.reprioritise("a", 200).await;
    h.reprioritise("b", 1).await;
    h.reprioritise("b", 100).await;
    h.check().await;
    h.reopen().await;
    h.check().await;
    assert_eq!(h.counts("q").await.pending_by_class, [0, 2, 2, 0]);
    assert_eq!(h.drain("q").await, "c a d b");
}

pub async fn a_moved_task_waits_in_its_new_queue(h: &mut Harness) {
    h.add_named(&["a", "b", "c"]).await;
    h.add(vec![NewTask { queue: name("q:r"), ..h.task("d") }]).await;
    h.reopen().await;
    h.move_to("a", "q:r").await;
    h.move_to("b", "q:new").await;
    h.move_to("c", "q:new").await;
    h.move_to("c", "q").await;
    h.check().await;
    h.reopen().await;
    h.check().await;
    let in_queue = |text: &str| List { queue: Some(name(text)), limit: 9, ..List::default() };
    assert_eq!(ids(&h.walk(in_queue("q:r")).await), ["d", "a"]);
    assert_eq!(ids(&h.walk(List { states: vec![StateName::Pending], ..in_queue("q:new") }).await), ["b"]);
    assert_eq!(h.store.position(&h.peek("a").await).await.expect("position"), Some(1));
    assert_eq!(
        (h.drain("q").await, h.drain("q:r").await, h.drain("q:new").await),
        ("c".into(), "d a".into(), "b".into())
    );
}

pub async fn timers_move_along(h: &mut Harness) {
    let start = h.wall();
    h.add(vec![
        NewTask { scheduled_at: Some(start + 500), ..h.task("scheduled") },
        h.task("retrying"),
        h.task("dead"),
    ])
    .await;
    let failed = h.take(Claim { max: 2, ..claim() }).await;
    h.fail(&failed[0], Failure { retry_after_ms: Some(700), ..failure() }).await;
    h.fail(&failed[1], Failure { retryable: false, ..failure() }).await;
    for text in ["scheduled", "retrying", "dead"] {
        let before = h.peek(text).await;
        let moved = h.move_to(text, "q:r").await;
        assert_eq!((moved.state, moved.queue), (before.state, name("q:r")));
        h.reprioritise(text, 255).await;
        h.reopen().await;
    }
    h.clock.advance_ms(700);
    assert_eq!(h.promote().await.len(), 2);
    h.retry(&h.peek("dead").await).await;
    h.check().await;
    assert_eq!(h.drain("q").await, "");
    assert_eq!(h.drain("q:r").await, "scheduled retrying dead");
}

pub async fn a_move_serves_who_waits(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let store = Arc::clone(&h.store);
    let waits = Claim { wait_ms: 30_000, queues: vec![queue("q:r", 1)], ..claim() };
    let waiting = tokio::spawn(async move { store.claim(waits).await });
    h.move_to("a", "q:r").await;
    let served = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    assert_eq!(ids(&served.expect("in time").expect("no panic").expect("claim")), ["a"]);
}
