//! The life of a task, change by change, and what happens when two people change it at once.

use std::sync::Arc;

use bytes::Bytes;
use windlass_core::transition::{self, Failure};
use windlass_core::{
    CancelReason, Change, NewTask, Outcome, Payload, Priority, Refusal, State, StateName, Token,
};

use super::Harness;
use super::steps::{claim, expire, failure, id, ids, name, on, token};
use crate::store::{Claim, Committed};

pub async fn a_task_completes_once(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let record = h.take_one().await.record;
    let result = Some(Payload::Json(Bytes::from_static(b"42")));
    h.clock.advance_ms(5);
    let done = h.done(&record, transition::complete(&record, token(&record), result.clone(), h.wall())).await;
    assert_eq!((&done.state, &done.result), (&State::Completed { at: h.wall() }, &result));
    assert_eq!((done.revision, done.history.len()), (record.revision + 1, 1));
    assert_eq!(h.peek("a").await, done);
    let repeated = transition::complete(&done, token(&record), result.clone(), h.wall());
    assert_eq!(repeated, Ok(None), "the stored record recognises its last holder");
    assert!(h.take(claim()).await.is_empty());
}

pub async fn failures_are_retried_until_the_dead_letters(h: &mut Harness) {
    h.add_named(&["a"]).await;
    for attempt in 1..=2 {
        let task = h.take_one().await;
        assert_eq!(task.record.attempts, attempt);
        let failed = h.fail(&task, failure()).await;
        let State::Retrying { at } = failed.state else { panic!("{failed:?}") };
        assert_eq!(at, h.wall() + 1000 * u64::from(attempt));
        h.clock.advance_ms(at - h.wall());
        assert_eq!(h.promote().await.len(), 1);
    }
    let failed = h.fail(&h.take_one().await, failure()).await;
    assert_eq!(failed.state, State::DeadLetter { at: h.wall() });
    assert_eq!(failed.error.as_deref(), Some("it broke"));
    let stored = h.peek("a").await;
    assert_eq!(stored, failed);
    assert!(
        stored.history.iter().all(|attempt| attempt.outcome == Outcome::Failed) && stored.history.len() == 3
    );
    let ledger = h.store.ledger().await.expect("ledger");
    assert_eq!((ledger.failed, ledger.dead_lettered), (3, 1));
}

pub async fn a_released_task_keeps_its_place_and_attempts(h: &mut Harness) {
    h.add_named(&["a", "b"]).await;
    let first = h.take_one().await.record;
    let released = h.release(&first).await;
    assert_eq!(
        (released.state_name(), released.attempts, released.order),
        (StateName::Pending, 0, first.order)
    );
    assert_eq!(ids(&h.take(Claim { max: 2, ..claim() }).await), ["a", "b"]);
}

pub async fn a_delayed_release_waits_for_its_time(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let record = h.take_one().await.record;
    h.done(&record, transition::release(&record, token(&record), Some(700), h.wall())).await;
    assert!(h.take(claim()).await.is_empty());
    assert!(h.promote().await.is_empty());
    h.clock.advance_ms(700);
    assert_eq!(h.promote().await.len(), 1);
    assert_eq!(h.take_one().await.record.attempts, 1);
}

pub async fn a_task_is_cancelled_in_every_live_state(h: &mut Harness) {
    h.add(vec![
        NewTask { scheduled_at: Some(h.wall() + 1000), ..h.task("scheduled") },
        NewTask { priority: Priority(200), ..h.task("retrying") },
        NewTask { priority: Priority(150), ..h.task("running") },
        h.task("pending"),
    ])
    .await;
    let tasks = h.take(Claim { max: 2, ..claim() }).await;
    h.fail(&tasks[0], failure()).await;
    for text in ["scheduled", "retrying", "running", "pending"] {
        let record = h.peek(text).await;
        assert_eq!(record.state_name().as_str(), text);
        let cancelled = h.cancel(&record).await;
        assert_eq!(cancelled.state_name(), StateName::Cancelled);
        assert_eq!(h.peek(text).await, cancelled);
    }
    h.clock.advance_ms(10_000);
    assert!(h.promote().await.is_empty(), "no timer is left");
    assert!(h.take(claim()).await.is_empty());
    assert!(h.store.expired(expire()).await.expect("expired").tasks.is_empty(), "no lease is left");
    assert_eq!(h.store.ledger().await.expect("ledger").cancelled, 4);
}

pub async fn a_requeued_task_goes_to_the_end_of_the_line(h: &mut Harness) {
    let records = h.add_named(&["a", "b", "c"]).await;
    let dead = h.fail(&h.take_one().await, Failure { retryable: false, ..failure() }).await;
    let cancelled = h.cancel(&records[1]).await;
    for record in [&dead, &cancelled] {
        let again = h.retry(record).await;
        assert_eq!((again.state_name(), again.attempts), (StateName::Pending, 0));
        assert!(again.order > records[2].order);
    }
    let later = h.add_named(&["d"]).await.remove(0);
    let tasks = h.take(Claim { max: 9, ..claim() }).await;
    assert_eq!(ids(&tasks), ["c", "a", "b", "d"]);
    assert!(later.order > tasks[2].record.order);
}

pub async fn a_removed_task_is_forgotten_and_its_id_is_free(h: &mut Harness) {
    let old = h.add_named(&["a"]).await.remove(0);
    h.remove(&old).await;
    assert!(h.store.get(&id("a")).await.expect("get").is_none());
    assert!(h.take(claim()).await.is_empty());
    assert_eq!(h.commit(&old, Change::Removed { at: h.wall().into() }).await, Committed::Missing);
    let ledger = h.store.ledger().await.expect("ledger");
    assert_eq!((ledger.submitted, ledger.removed), (1, 1));
    let new = h.add_named(&["a"]).await.remove(0);
    assert!(new.seq > old.seq);
    // It has the id and the revision of the old one, and is another task all the same.
    assert_eq!(new.revision, old.revision);
    assert_eq!(h.commit(&old, Change::Removed { at: h.wall().into() }).await, Committed::Conflict);
    assert_eq!(h.peek("a").await, new);
}

pub async fn a_stale_revision_is_a_conflict(h: &mut Harness) {
    let pending = h.add_named(&["a"]).await.remove(0);
    let running = h.take_one().await.record;
    assert_eq!(h.commit(&pending, Change::Removed { at: h.wall().into() }).await, Committed::Conflict);
    let change =
        transition::complete(&running, token(&running), None, h.wall()).expect("held").expect("first");
    assert!(matches!(h.commit(&running, change.clone()).await, Committed::Done(_)));
    assert_eq!(h.commit(&running, change).await, Committed::Conflict);
    let mut unknown = running.clone();
    unknown.id = id("unknown");
    assert_eq!(h.commit(&unknown, Change::Removed { at: h.wall().into() }).await, Committed::Missing);
    assert_eq!(h.peek("a").await.revision, running.revision + 1);
}

pub async fn one_of_many_racing_changes_is_committed(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let task = h.take_one().await;
    let (record, at) = (&task.record, h.wall());
    let inputs = [
        transition::complete(record, token(record), None, at),
        transition::fail(record, &task.body, token(record), failure(), at),
        transition::cancel(record, at),
        transition::lose_lease(record, &task.body, "gone", at),
    ];
    let racers: Vec<_> = (0..64)
        .map(|i| {
            let change = inputs[i % inputs.len()].clone().expect("decided").expect("a change");
            let (store, transition) = (Arc::clone(&h.store), on(record, change));
            tokio::spawn(async move { store.commit(vec![transition]).await })
        })
        .collect();
    let mut done = Vec::new();
    for racer in racers {
        match racer.await.expect("no panic").expect("commit").remove(0) {
            Committed::Done(record) => done.push(*record),
            answer => assert_eq!(answer, Committed::Conflict),
        }
    }
    assert_eq!(done, [h.peek("a").await], "one won, and it is what is stored");
}

pub async fn a_batch_answers_in_order(h: &mut Harness) {
    let records = h.add_named(&["a", "b", "c"]).await;
    let cancel =
        |i: usize| on(&records[i], Change::Cancelled { at: h.wall().into(), reason: CancelReason::Asked });
    let mut unknown = cancel(0);
    unknown.id = id("unknown");
    // The second change of `b` in one batch comes too late.
    let batch = vec![cancel(2), unknown, cancel(1), cancel(1), cancel(0)];
    let answers = h.store.commit(batch).await.expect("commit");
    let told: Vec<String> = answers
        .iter()
        .map(|answer| match answer {
            Committed::Done(record) => record.id.to_string(),
            answer => format!("{answer:?}"),
        })
        .collect();
    assert_eq!(told, ["c", "Missing", "b", "Conflict", "a"]);
}

pub async fn a_lease_is_not_committed(h: &mut Harness) {
    let record = h.add_named(&["a"]).await.remove(0);
    let input =
        transition::Claim { token: Token { number: 77, secret: 77 }, worker: name("w"), lease_ms: 1000 };
    let change = transition::claim(&record, input, h.wall()).expect("it is pending");
    assert_eq!(h.commit(&record, change).await, Committed::Conflict);
    assert_eq!(h.state("a").await, StateName::Pending);
    let held = h.take_one().await.record;
    let forged = Token { number: token(&held).number, secret: !token(&held).secret };
    assert_eq!(transition::complete(&held, forged, None, h.wall()), Err(Refusal::LeaseLost));
}
