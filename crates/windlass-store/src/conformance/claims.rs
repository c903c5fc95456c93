//! Who gets what, and when.

use std::collections::HashSet;
use std::sync::Arc;

use windlass_core::choice::{Draws, Mode};
use windlass_core::{NewTask, Priority, State, StateName, Task};

use super::Harness;
use super::steps::{claim, failure, ids, name, queue, token};
use crate::store::Claim;

fn ranked(h: &Harness, text: &str, priority: u8) -> NewTask {
    NewTask { priority: Priority(priority), ..h.task(text) }
}

fn in_queue(h: &Harness, queue: &str, text: &str) -> NewTask {
    NewTask { queue: name(queue), ..h.task(text) }
}

pub async fn highest_priority_first_and_oldest_first_within(h: &mut Harness) {
    let levels = [("a", 100), ("b", 255), ("c", 0), ("d", 100), ("e", 255)];
    h.add(levels.iter().map(|(text, priority)| ranked(h, text, *priority)).collect()).await;
    assert_eq!(ids(&h.take(Claim { max: 3, ..claim() }).await), ["b", "e", "a"]);
    h.add(vec![ranked(h, "f", 101)]).await;
    assert_eq!(ids(&h.take(Claim { max: 10, ..claim() }).await), ["f", "d", "c"]);
    assert!(h.take(claim()).await.is_empty());
}

pub async fn a_thousand_mixed_priorities_drain_in_order(h: &mut Harness) {
    let mut draws = Draws::new(42);
    let tasks: Vec<NewTask> =
        (0..1000).map(|i| ranked(h, &format!("task-{i}"), (draws.next_u64() % 7) as u8 * 40)).collect();
    let mut records = h.add(tasks).await;
    records.sort_by_key(|record| (std::cmp::Reverse(record.priority), record.seq));
    let mut drained: Vec<Task> = Vec::new();
    // Claims of different sizes, from one to many at once.
    for max in (1..).map(|round| round % 50) {
        let tasks = h.take(Claim { max: max.max(1), ..claim() }).await;
        if tasks.is_empty() {
            break;
        }
        drained.extend(tasks);
    }
    let expected: Vec<&str> = records.iter().map(|record| record.id.as_str()).collect();
    assert_eq!(ids(&drained), expected);
}

pub async fn a_claim_is_a_running_lease(h: &mut Harness) {
    let added = h.add_named(&["a"]).await.remove(0);
    h.clock.advance_ms(5);
    let Task { record, body } = h.take(Claim { lease_ms: 1234, ..claim() }).await.remove(0);
    let State::Running(lease) = &record.state else { panic!("{record:?}") };
    assert_eq!((lease.worker.as_str(), lease.lease_ms), ("w", 1234));
    assert_eq!((lease.started_at, lease.expires_at), (h.wall(), h.wall() + 1234));
    assert_eq!((record.attempts, record.revision), (1, added.revision + 1));
    assert_eq!((record.started_at, record.updated_at), (Some(h.wall()), h.wall()));
    assert_eq!(body, h.task("a").body);
    assert_eq!(h.peek("a").await, record, "what was handed out is what is stored");
}

pub async fn tokens_grow_and_differ(h: &mut Harness) {
    h.add_named(&["a", "b", "c"]).await;
    let mut tokens = Vec::new();
    for (seed, max) in [(1, 2), (2, 1)] {
        let tasks = h.take(Claim { seed, max, ..claim() }).await;
        tokens.extend(tasks.iter().map(|task| token(&task.record)));
    }
    assert!(tokens.is_sorted_by(|a, b| a.number < b.number), "{tokens:?}");
    assert_eq!(tokens.iter().map(|token| token.secret).collect::<HashSet<_>>().len(), 3, "{tokens:?}");
}

pub async fn types_are_filtered(h: &mut Harness) {
    let typed = |text: &str, kind: &str, priority| NewTask { kind: name(kind), ..ranked(h, text, priority) };
    h.add(vec![typed("a", "x", 9), typed("b", "y", 5), typed("c", "z", 1), typed("d", "y", 9)]).await;
    let take = async |types: &[&str]| {
        let types = Some(types.iter().map(|kind| name(kind)).collect());
        let tasks = h.take(Claim { types, max: 10, ..claim() }).await;
        ids(&tasks).join(" ")
    };
    assert_eq!(take(&["unknown"]).await, "");
    assert_eq!(take(&["z", "y", "y"]).await, "d b c");
    assert_eq!(take(&[]).await, "", "no type is wanted");
    assert_eq!(ids(&h.take(claim()).await), ["a"]);
}

pub async fn strict_mode_serves_the_first_listed_queue(h: &mut Harness) {
    h.add(vec![
        in_queue(h, "low", "a"),
        in_queue(h, "high", "b"),
        in_queue(h, "low", "c"),
        in_queue(h, "high", "d"),
    ])
    .await;
    let queues = vec![queue("none", 9), queue("high", 1), queue("low", 9), queue("high", 1)];
    let tasks = h.take(Claim { queues, mode: Mode::Strict, max: 3, ..claim() }).await;
    assert_eq!(ids(&tasks), ["b", "d", "a"]);
}

pub async fn weighted_mode_shares_by_weight(h: &mut Harness) {
    let tasks =
        |queue: &str| (0..400).map(|i| in_queue(h, queue, &format!("{queue}-{i}"))).collect::<Vec<_>>();
    h.add([tasks("a"), tasks("b")].concat()).await;
    let queues = vec![queue("a", 3), queue("b", 1)];
    let served = h.take(Claim { queues: queues.clone(), max: 400, seed: 99, ..claim() }).await;
    let of_a = served.iter().filter(|task| task.record.queue == name("a")).count();
    assert!((260..340).contains(&of_a), "{of_a} of 400 where 300 are fair");
    // What one queue lacks the other gives.
    assert_eq!(h.take(Claim { queues, max: 1000, ..claim() }).await.len(), 400);
}

pub async fn a_paused_queue_gives_out_nothing(h: &mut Harness) {
    h.add_named(&["a"]).await;
    h.pause("q", true).await;
    h.add_named(&["b"]).await;
    assert!(h.take(claim()).await.is_empty());
    assert!(h.counts("q").await.paused);
    h.add(vec![in_queue(h, "r", "c")]).await;
    let both = Claim { queues: vec![queue("q", 1000), queue("r", 1)], max: 10, ..claim() };
    assert_eq!(ids(&h.take(both).await), ["c"]);
    h.pause("q", false).await;
    assert_eq!(ids(&h.take(Claim { max: 10, ..claim() }).await), ["a", "b"]);
}

pub async fn only_pending_tasks_are_given_out(h: &mut Harness) {
    let later = NewTask { scheduled_at: Some(h.wall() + 1000), ..h.task("later") };
    h.add(vec![later, h.task("fails"), h.task("ends"), h.task("stops")]).await;
    let tasks = h.take(Claim { max: 3, ..claim() }).await;
    h.fail(&tasks[0], failure()).await;
    h.complete(&tasks[1].record).await;
    h.cancel(&tasks[2].record).await;
    assert!(h.take(Claim { max: 10, ..claim() }).await.is_empty());
    assert_eq!(h.state("later").await, StateName::Scheduled);
    assert_eq!(h.state("fails").await, StateName::Retrying);
}

pub async fn an_expired_task_is_cancelled_instead_of_given_out(h: &mut Harness) {
    let until = |text: &str, at| NewTask { expires_at: Some(at), ..h.task(text) };
    h.add(vec![until("a", h.wall() + 10), until("b", h.wall() + 11), h.task("c")]).await;
    h.clock.advance_ms(10);
    assert_eq!(ids(&h.take(Claim { max: 10, ..claim() }).await), ["b", "c"]);
    let expired = h.peek("a").await;
    assert_eq!(expired.state_name(), StateName::Cancelled);
    assert_eq!((expired.attempts, expired.updated_at), (0, h.wall()));
    let ledger = h.store.ledger().await.expect("ledger");
    assert_eq!((ledger.expired, ledger.cancelled), (1, 0));
}

pub async fn each_task_goes_to_one_of_many_claimers(h: &mut Harness) {
    let tasks: Vec<NewTask> = (0..300).map(|i| h.task(&format!("task-{i}"))).collect();
    h.add(tasks).await;
    let claimers: Vec<_> = (0..32)
        .map(|seed| {
            let store = Arc::clone(&h.store);
            tokio::spawn(async move {
                let mut taken = Vec::new();
                loop {
                    let tasks = store.claim(Claim { seed, max: 3, ..claim() }).await.expect("claim");
                    if tasks.is_empty() {
                        return taken;
                    }
                    taken.extend(
                        tasks.into_iter().map(|task| (task.record.id.clone(), token(&task.record).number)),
                    );
                }
            })
        })
        .collect();
    let mut taken = Vec::new();
    for claimer in claimers {
        taken.extend(claimer.await.expect("no panic"));
    }
    assert_eq!(taken.len(), 300);
    assert_eq!(
        taken.iter().map(|(id, _)| id).collect::<HashSet<_>>().len(),
        300,
        "a task was given out twice"
    );
    assert_eq!(
        taken.iter().map(|(_, number)| number).collect::<HashSet<_>>().len(),
        300,
        "a token was used twice"
    );
}

pub async fn places_in_line(h: &mut Harness) {
    let typed = NewTask { kind: name("x"), ..ranked(h, "other-type", 255) };
    let elsewhere = NewTask { priority: Priority(255), ..in_queue(h, "r", "elsewhere") };
    let later = NewTask { scheduled_at: Some(h.wall() + 1000), ..h.task("later") };
    h.add(vec![ranked(h, "a", 9), ranked(h, "b", 9), ranked(h, "c", 200), typed, elsewhere, later]).await;
    let position = async |text: &str| h.store.position(&h.peek(text).await).await.expect("position");
    assert_eq!([position("c").await, position("a").await, position("b").await], [Some(0), Some(1), Some(2)]);
    assert_eq!([position("other-type").await, position("elsewhere").await], [Some(0), Some(0)]);
    assert_eq!(position("later").await, None);
    let types = Some(vec![name("t")]);
    h.take(Claim { types, ..claim() }).await;
    assert_eq!([position("c").await, position("a").await], [None, Some(0)]);
}
