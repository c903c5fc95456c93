//! Tasks that become due, by the wall clock or by elapsed time.

use std::time::Duration;

use tokio::sync::Notify;
use windlass_core::transition::Failure;
use windlass_core::{Counted, NewTask, StateName, Task, transition};

use super::Harness;
use super::steps::{claim, failure, ids, token};
use crate::store::{Claim, Due};

fn scheduled(h: &Harness, text: &str, in_ms: u64) -> NewTask {
    NewTask { scheduled_at: Some(h.wall() + in_ms), ..h.task(text) }
}

/// Compares an answer with all that has come up and what comes next. A store may tell less at a time, as long as `next`
/// says that it has not told everything.
fn check(h: &Harness, due: &Due, all: &[&str], next: u64) {
    let told = ids(&due.tasks);
    if told.len() < all.len() {
        assert!(
            !told.is_empty() && due.next.is_some_and(|at| at <= h.wall()),
            "{told:?} of {all:?}, {:?}",
            due.next
        );
        assert_eq!(told, all[..told.len()]);
    } else {
        assert_eq!((&told[..], due.next), (all, Some(next)));
    }
}

pub async fn due_tasks_come_earliest_first(h: &mut Harness) {
    let start = h.wall();
    h.add(vec![scheduled(h, "c", 300), scheduled(h, "a", 100), scheduled(h, "b", 200), h.task("now")]).await;
    let expiring = NewTask { expires_at: Some(start + 150), ..scheduled(h, "short", 900) };
    let waiting = NewTask { expires_at: Some(start + 250), ..h.task("waiting") };
    h.add(vec![expiring, waiting]).await;
    let due = async |limit| h.store.due(limit).await.expect("due");
    check(h, &due(10).await, &[], start + 100);
    h.clock.advance_ms(99);
    assert!(due(10).await.tasks.is_empty());
    h.clock.advance_ms(151);
    assert_eq!(ids(&due(1).await.tasks), ["a"], "at most as many as asked for");
    check(h, &due(10).await, &["a", "short", "b", "waiting"], start + 300);
    let states: Vec<_> = h.promote().await.iter().map(|record| record.state_name()).collect();
    use StateName::{Cancelled, Pending};
    assert_eq!(states, [Pending, Cancelled, Pending, Cancelled]);
    check(h, &due(10).await, &[], start + 300);
    // Those promoted go behind what was pending before them, in order of their promotion.
    assert_eq!(ids(&h.take(Claim { max: 9, ..claim() }).await), ["now", "a", "b"]);
}

pub async fn prunable_tasks_come_earliest_first(h: &mut Harness) {
    let kept = |text: &str, retention_ms| NewTask { retention_ms, ..h.task(text) };
    let start = h.wall();
    h.add(vec![kept("a", 300), kept("b", 100), kept("c", 200), kept("live", 0)]).await;
    let tasks = h.take(Claim { max: 3, ..claim() }).await;
    h.complete(&tasks[0].record).await;
    h.cancel(&tasks[1].record).await;
    h.fail(&tasks[2], Failure { retryable: false, ..failure() }).await;
    let prunable = async |limit| h.store.prunable(limit).await.expect("prunable");
    check(h, &prunable(9).await, &[], start + 100);
    h.clock.advance_ms(200);
    assert_eq!(ids(&prunable(1).await.tasks), ["b"]);
    check(h, &prunable(9).await, &["b", "c"], start + 300);
    for expected in ["b", "c"] {
        let Task { record, .. } = prunable(1).await.tasks.remove(0);
        assert_eq!(record.id.as_str(), expected);
        h.remove(&record).await;
    }
    check(h, &prunable(9).await, &[], start + 300);
    assert_eq!(h.store.ledger().await.expect("ledger").removed, 2);
}

pub async fn nearer_deadlines_are_signalled(h: &mut Harness) {
    let signals = h.store.signals();
    h.add(vec![scheduled(h, "far", 10_000)]).await;
    heard(&signals.due).await;
    h.add(vec![scheduled(h, "near", 1000)]).await;
    heard(&signals.due).await;
    h.add_named(&["a", "b"]).await;
    let first = h.take(Claim { lease_ms: 9000, ..claim() }).await.remove(0);
    heard(&signals.leases).await;
    h.take(Claim { lease_ms: 1000, ..claim() }).await;
    heard(&signals.leases).await;
    h.complete(&first.record).await;
    heard(&signals.prunable).await;
}

/// The signal comes, or has come already.
async fn heard(signal: &Notify) {
    let patience = Duration::from_secs(30);
    tokio::time::timeout(patience, signal.notified()).await.expect("a nearer deadline was not signalled");
}

pub async fn timers_outlive_a_reopen(h: &mut Harness) {
    let start = h.wall();
    h.add(vec![scheduled(h, "later", 1000), h.task("fails"), NewTask { retention_ms: 50, ..h.task("ends") }])
        .await;
    let tasks = h.take(Claim { max: 2, ..claim() }).await;
    h.fail(&tasks[0], Failure { retry_after_ms: Some(500), ..failure() }).await;
    h.complete(&tasks[1].record).await;
    h.reopen().await;
    check(h, &h.store.due(9).await.expect("due"), &[], start + 500);
    check(h, &h.store.prunable(9).await.expect("prunable"), &[], start + 50);
    h.clock.advance_ms(1000);
    let promoted: Vec<_> = h.promote().await.iter().map(|record| record.id.to_string()).collect();
    assert_eq!(promoted, ["fails", "later"]);
    assert_eq!(ids(&h.store.prunable(9).await.expect("prunable").tasks), ["ends"]);
}

const HOUR_MS: i64 = 3_600_000;

fn delayed(h: &Harness, text: &str, in_ms: u64) -> NewTask {
    NewTask { counted: Counted { ahead: h.now().ahead, delayed: true }, ..scheduled(h, text, in_ms) }
}

/// Adds tasks that wait for a second in every possible way, and one with an absolute start time.
async fn wait_for_a_second(h: &Harness) {
    h.add_named(&["fails", "snoozes"]).await;
    h.add(vec![NewTask { retention_ms: 1000, ..h.task("kept") }]).await;
    let tasks = h.take(Claim { max: 3, ..claim() }).await;
    h.fail(&tasks[0], Failure { retry_after_ms: Some(1000), ..failure() }).await;
    let snoozed = &tasks[1].record;
    h.done(snoozed, transition::release(snoozed, token(snoozed), Some(1000), h.now())).await;
    h.complete(&tasks[2].record).await;
    h.add(vec![delayed(h, "delayed", 1000), scheduled(h, "named", 1000)]).await;
}

async fn promoted(h: &Harness) -> Vec<String> {
    let mut ids: Vec<String> = h.promote().await.iter().map(|record| record.id.to_string()).collect();
    ids.sort();
    ids
}

async fn prunable(h: &Harness) -> usize {
    h.store.prunable(9).await.expect("prunable").tasks.len()
}

pub async fn a_clock_set_back_delays_only_what_names_a_time(h: &mut Harness) {
    wait_for_a_second(h).await;
    h.clock.jump_wall_ms(-HOUR_MS);
    h.clock.advance_ms(999);
    assert_eq!((promoted(h).await.len(), prunable(h).await), (0, 0), "nothing comes early");
    let next = h.store.due(9).await.expect("due").next;
    assert_eq!(next, Some(h.wall() + 1), "given on the present wall clock");
    h.clock.advance_ms(1);
    assert_eq!(promoted(h).await, ["delayed", "fails", "snoozes"]);
    assert_eq!(prunable(h).await, 1);
    // Durations that begin after the jump count as well.
    h.add(vec![delayed(h, "late", 500), NewTask { retention_ms: 500, ..h.task("ends") }]).await;
    let ends =
        h.take(Claim { max: 9, ..claim() }).await.into_iter().find(|it| it.record.id.as_str() == "ends");
    h.complete(&ends.expect("it was ready").record).await;
    assert_eq!((promoted(h).await.len(), prunable(h).await), (0, 1));
    h.clock.advance_ms(500);
    assert_eq!((promoted(h).await, prunable(h).await), (vec!["late".to_owned()], 2));
    h.clock.jump_wall_ms(HOUR_MS);
    assert_eq!(promoted(h).await, ["named"]);
    // Stores find the oldest pending task by its order, and a clock that was set back contradicts that order.
    h.take(Claim { max: 9, ..claim() }).await;
}

pub async fn a_clock_set_forward_hurries_only_what_names_a_time(h: &mut Harness) {
    wait_for_a_second(h).await;
    h.clock.jump_wall_ms(HOUR_MS);
    assert_eq!(promoted(h).await, ["named"]);
    assert_eq!(prunable(h).await, 0);
    h.clock.advance_ms(999);
    assert_eq!((promoted(h).await.len(), prunable(h).await), (0, 0));
    h.clock.advance_ms(1);
    assert_eq!(promoted(h).await, ["delayed", "fails", "snoozes"]);
    assert_eq!(prunable(h).await, 1);
}

pub async fn what_counts_expires_by_the_wall_clock(h: &mut Harness) {
    let expiring = |text: &str| NewTask { expires_at: Some(h.wall() + 5000), ..delayed(h, text, 1000) };
    h.add(vec![expiring("a"), expiring("b")]).await;
    h.clock.jump_wall_ms(-HOUR_MS);
    h.clock.advance_ms(1000);
    let a = h.promote().await;
    assert_eq!(a.iter().map(|record| record.state_name()).collect::<Vec<_>>(), [StateName::Pending; 2]);
    h.add(vec![expiring("c")]).await;
    h.clock.jump_wall_ms(2 * HOUR_MS);
    let gone = h.promote().await;
    assert_eq!(gone.iter().map(|record| record.state_name()).collect::<Vec<_>>(), [StateName::Cancelled; 3]);
    assert_eq!(h.store.due(9).await.expect("due").next, None, "nothing stays behind on either line");
}

pub async fn what_counts_outlives_a_reopen(h: &mut Harness) {
    wait_for_a_second(h).await;
    h.clock.jump_wall_ms(-HOUR_MS);
    h.add(vec![delayed(h, "late", 500)]).await;
    h.reopen().await;
    h.clock.advance_ms(1000);
    assert_eq!(promoted(h).await, ["delayed", "fails", "late", "snoozes"]);
    assert_eq!(prunable(h).await, 1);
    let held = h.take(Claim { max: 9, ..claim() }).await;
    assert_eq!(held.len(), 4);
    h.reopen().await;
    assert!(promoted(h).await.is_empty(), "a promotion leaves no trace on the line that it left");
}
