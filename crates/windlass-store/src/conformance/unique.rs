//! Unique keys: one live task for each, over every end, every rule and a reopening.

use std::sync::Arc;

use windlass_core::transition::{self, Failure};
use windlass_core::{CancelReason, NewTask, OnConflict, Record, State, StateName, TaskId, Unique, UniqueKey};

use super::Harness;
use super::inserts::kinds;
use super::steps::{claim, extension, failure, id, name};
use crate::store::{Claim, Committed, Extended, Insert, Inserted};

const RULES: [OnConflict; 3] = OnConflict::ALL;

fn asking(h: &Harness, text: &str, key: &str, on_conflict: OnConflict) -> NewTask {
    let key = UniqueKey::new(key).expect("a valid key");
    NewTask { unique: Some(Box::new(Unique { key, for_ms: None, on_conflict })), ..h.task(text) }
}

async fn one(h: &Harness, new: NewTask) -> Inserted {
    h.insert(vec![new]).await.remove(0)
}

/// The id of the task that has a key, if it is held.
async fn holder(h: &Harness, key: &str) -> Option<TaskId> {
    match one(h, asking(h, "probe", key, OnConflict::Reject)).await {
        Inserted::KeyHeld(holder) => Some(holder),
        Inserted::New(probe) => {
            h.remove(&probe).await;
            None
        }
        answer => panic!("{answer:?}"),
    }
}

pub async fn a_held_key_answers_by_the_rule(h: &mut Harness) {
    let [by_return, by_reject, by_replace] = RULES;
    let first = h.add(vec![asking(h, "a", "k", by_reject)]).await.remove(0);
    assert_eq!(first.unique.as_ref().map(|hold| hold.key.as_str()), Some("k"));
    let live = one(h, asking(h, "b", "k", by_return)).await;
    let Inserted::Live(task) = live else { panic!("{live:?}") };
    assert_eq!((task.record, task.body), (first.clone(), h.task("a").body));
    assert_eq!(one(h, asking(h, "b", "k", by_reject)).await, Inserted::KeyHeld(id("a")));
    assert_eq!(h.store.ledger().await.expect("ledger").submitted, 1);
    let Inserted::Replaced { new, old } = one(h, asking(h, "b", "k", by_replace)).await else {
        panic!("not replaced")
    };
    assert_eq!((new.id, old.id.clone()), (id("b"), id("a")));
    assert!(matches!(old.state, State::Cancelled { reason: CancelReason::Replaced, .. }), "{old:?}");
    assert_eq!(h.peek("a").await, *old);
    assert_eq!(holder(h, "k").await, Some(id("b")));
    assert_eq!(one(h, asking(h, "c", "another", by_reject)).await, Inserted::New(h.peek("c").await));
    let ledger = h.store.ledger().await.expect("ledger");
    assert_eq!((ledger.submitted, ledger.cancelled), (3, 1));
}

pub async fn a_taken_id_is_told_before_a_held_key(h: &mut Harness) {
    h.add(vec![asking(h, "a", "k", OnConflict::Reject)]).await;
    h.add_named(&["b"]).await;
    // The same submit again is the same task, whatever its rule says about the key.
    for rule in RULES {
        assert_eq!(kinds(&[one(h, asking(h, "a", "k", rule)).await]), ["same"]);
    }
    let other = NewTask { body: h.task("other").body, ..asking(h, "b", "k", OnConflict::Replace) };
    assert_eq!(one(h, other).await, Inserted::Clash);
    assert_eq!(h.state("a").await, StateName::Pending);
}

pub async fn every_end_frees_the_key(h: &mut Harness) {
    let rule = OnConflict::Reject;
    let key = |text: &str| format!("key of {text}");
    for text in ["completed", "dead", "crashed", "cancelled", "removed", "expired"] {
        let expires_at = (text == "expired").then_some(h.wall() + 1);
        let new = NewTask { expires_at, queue: name(text), ..asking(h, text, &key(text), rule) };
        h.add(vec![new]).await;
    }
    h.clock.advance_ms(1);
    let take = async |queue: &str| {
        let queues = vec![super::steps::queue(queue, 1)];
        h.take(Claim { queues, ..claim() }).await.remove(0)
    };
    h.complete(&take("completed").await.record).await;
    h.fail(&take("dead").await, Failure { retryable: false, ..failure() }).await;
    for _ in 0..h.task("crashed").body.max_crashes {
        h.lose(&take("crashed").await).await;
    }
    h.cancel(&h.peek("cancelled").await).await;
    h.remove(&h.peek("removed").await).await;
    h.promote().await;
    assert_eq!(h.state("expired").await, StateName::Cancelled);
    for text in ["completed", "dead", "crashed", "cancelled", "removed", "expired"] {
        assert_eq!(holder(h, &key(text)).await, None, "{text}");
    }
}

pub async fn a_live_task_keeps_its_key_through_every_state(h: &mut Harness) {
    let rule = OnConflict::Reject;
    let new = NewTask { scheduled_at: Some(h.wall() + 10), ..asking(h, "a", "k", rule) };
    h.add(vec![new]).await;
    let held = async |h: &Harness| assert_eq!(holder(h, "k").await, Some(id("a")));
    held(h).await;
    h.clock.advance_ms(10);
    h.promote().await;
    held(h).await;
    let task = h.take_one().await;
    held(h).await;
    h.fail(&task, failure()).await;
    held(h).await;
    h.clock.advance_ms(3_600_000);
    h.promote().await;
    h.release(&h.take_one().await.record).await;
    held(h).await;
    h.lose(&h.take_one().await).await;
    held(h).await;
    h.complete(&h.take_one().await.record).await;
    assert_eq!(holder(h, "k").await, None);
}

pub async fn a_running_holder_is_cancelled_and_told(h: &mut Harness) {
    h.add(vec![asking(h, "a", "k", OnConflict::Return)]).await;
    let running = h.take_one().await.record;
    let Inserted::Replaced { old, .. } = one(h, asking(h, "b", "k", OnConflict::Replace)).await else {
        panic!("not replaced")
    };
    assert_eq!(old.history.len(), 1, "its attempt ended");
    assert_eq!(h.extend(extension(&running)).await, Extended::CancelRequested);
    let late = transition::complete(&h.peek("a").await, super::steps::token(&running), None, h.wall());
    assert!(late.is_err(), "a replaced task cannot complete");
    assert_eq!(h.take_one().await.record.id, id("b"));
}

pub async fn replacing_again_and_again_moves_the_start(h: &mut Harness) {
    for i in 0..5u64 {
        let scheduled_at = Some(h.wall() + 100);
        let new = NewTask { scheduled_at, ..asking(h, &format!("n{i}"), "k", OnConflict::Replace) };
        one(h, new).await;
        h.clock.advance_ms(60);
        assert!(h.promote().await.is_empty(), "none of them is due");
    }
    h.clock.advance_ms(40);
    let promoted: Vec<String> = h.promote().await.iter().map(|record| record.id.to_string()).collect();
    assert_eq!(promoted, ["n4"]);
    let counts = h.counts("q").await;
    assert_eq!(counts.by_state[StateName::Cancelled.index()], 4);
}

pub async fn a_key_is_free_after_its_time(h: &mut Harness) {
    let timed = |h: &Harness, text: &str| {
        let mut new = asking(h, text, "k", OnConflict::Reject);
        new.unique.as_mut().expect("it has a key").for_ms = Some(100);
        new
    };
    h.add(vec![timed(h, "a")]).await;
    h.clock.advance_ms(99);
    assert_eq!(one(h, timed(h, "b")).await, Inserted::KeyHeld(id("a")));
    h.clock.advance_ms(1);
    h.add(vec![timed(h, "b")]).await;
    assert_eq!(h.state("a").await, StateName::Pending, "it lives on without its key");
    // The first one's end does not free what the second one has.
    h.complete(&h.take_one().await.record).await;
    assert_eq!(h.state("a").await, StateName::Completed);
    assert_eq!(holder(h, "k").await, Some(id("b")));
    h.complete(&h.take_one().await.record).await;
    assert_eq!(holder(h, "k").await, None);
}

pub async fn an_expired_holder_gives_way(h: &mut Harness) {
    for (i, rule) in RULES.into_iter().enumerate() {
        let key = format!("k{i}");
        let (old, new) = (format!("old{i}"), format!("new{i}"));
        let expires_at = Some(h.wall() + 10);
        h.add(vec![NewTask { expires_at, ..asking(h, &old, &key, rule) }]).await;
        h.clock.advance_ms(10);
        let Inserted::Replaced { old, .. } = one(h, asking(h, &new, &key, rule)).await else {
            panic!("{rule:?}: it still stands in the way")
        };
        assert!(matches!(old.state, State::Cancelled { reason: CancelReason::Expired, .. }), "{old:?}");
    }
    assert_eq!(h.store.ledger().await.expect("ledger").expired, 3);
}

pub async fn a_retry_needs_its_key_back(h: &mut Harness) {
    let first = h.add(vec![asking(h, "a", "k", OnConflict::Return)]).await.remove(0);
    let first = h.cancel(&first).await;
    let second = h.add(vec![asking(h, "b", "k", OnConflict::Return)]).await.remove(0);
    let again = |record: &Record| transition::retry(record, h.wall()).expect("allowed").expect("a change");
    assert_eq!(h.commit(&first, again(&first)).await, Committed::KeyHeld(id("b")));
    assert_eq!(h.peek("a").await, first, "nothing changed");
    let second = h.cancel(&second).await;
    h.retry(&first).await;
    assert_eq!(holder(h, "k").await, Some(id("a")));
    assert_eq!(h.commit(&second, again(&second)).await, Committed::KeyHeld(id("a")));
    h.complete(&h.take_one().await.record).await;
    h.retry(&second).await;
    assert_eq!(holder(h, "k").await, Some(id("b")));
}

pub async fn a_retry_after_its_time_takes_no_key(h: &mut Harness) {
    let mut new = asking(h, "a", "k", OnConflict::Return);
    new.unique.as_mut().expect("it has a key").for_ms = Some(100);
    let first = h.add(vec![new]).await.remove(0);
    let first = h.cancel(&first).await;
    h.clock.advance_ms(100);
    h.add(vec![asking(h, "b", "k", OnConflict::Return)]).await;
    h.retry(&first).await;
    assert_eq!(holder(h, "k").await, Some(id("b")));
    h.cancel(&h.peek("a").await).await;
    assert_eq!(holder(h, "k").await, Some(id("b")));
}

pub async fn equal_keys_inside_a_batch(h: &mut Harness) {
    let [by_return, by_reject, by_replace] = RULES;
    let batch = vec![
        asking(h, "a", "k", by_return),
        asking(h, "b", "k", by_return),
        asking(h, "c", "k", by_reject),
        asking(h, "d", "k", by_replace),
        asking(h, "e", "k", by_return),
    ];
    let answers = h.insert(batch).await;
    assert_eq!(kinds(&answers), ["new", "live", "held", "replaced", "live"]);
    let Inserted::Live(live) = &answers[4] else { unreachable!() };
    assert_eq!(live.record.id, id("d"), "as if sent one after the other");
    assert_eq!(h.store.ledger().await.expect("ledger").submitted, 2);
}

pub async fn an_atomic_batch_minds_the_keys(h: &mut Harness) {
    let [by_return, by_reject, by_replace] = RULES;
    h.add(vec![asking(h, "a", "k", by_return)]).await;
    let insert = async |tasks: Vec<NewTask>, max_depth| {
        let answers =
            h.store.insert(Insert { tasks: tasks.into(), atomic: true, max_depth }).await.expect("insert");
        kinds(&answers)
    };
    let stored = vec![h.task("b"), asking(h, "c", "k", by_return), asking(h, "d", "k", by_reject)];
    assert_eq!(insert(stored, None).await, ["aborted", "live", "held"]);
    let inside = vec![
        asking(h, "b", "l", by_return),
        asking(h, "c", "l", by_return),
        asking(h, "d", "k", by_replace),
        asking(h, "e", "k", by_reject),
    ];
    assert_eq!(insert(inside, None).await, ["aborted", "aborted", "aborted", "held"]);
    assert_eq!(h.state("a").await, StateName::Pending, "nobody was replaced");
    assert_eq!(h.store.ledger().await.expect("ledger").submitted, 1);
    // One place is free and one is made by replacing.
    let full = vec![asking(h, "b", "k", by_replace), h.task("c"), h.task("d")];
    assert_eq!(insert(full, Some(2)).await, ["aborted", "aborted", "full"]);
    let fits = vec![asking(h, "b", "k", by_replace), h.task("c"), asking(h, "d", "k", by_replace)];
    assert_eq!(insert(fits, Some(2)).await, ["replaced", "new", "replaced"]);
    assert_eq!(h.counts("q").await.waiting(), 2);
}

pub async fn a_full_queue_keeps_its_holder(h: &mut Harness) {
    let insert = async |new| {
        let insert = Insert { tasks: vec![new].into(), atomic: false, max_depth: Some(1) };
        kinds(&h.store.insert(insert).await.expect("insert")).remove(0)
    };
    let replacing = |text: &str| asking(h, text, "k", OnConflict::Replace);
    assert_eq!(insert(replacing("a")).await, "new");
    assert_eq!(insert(replacing("b")).await, "replaced", "its holder makes room");
    h.take_one().await;
    h.add_named(&["other"]).await;
    assert_eq!(insert(replacing("c")).await, "full", "a running holder makes none");
    assert_eq!(h.state("b").await, StateName::Running, "and is left alone");
}

pub async fn racing_submits_of_one_key_make_one_task(h: &mut Harness) {
    for round in 0..4 {
        let racers: Vec<_> = (0..64)
            .map(|i| {
                let rule = if i % 2 == 0 { OnConflict::Return } else { OnConflict::Reject };
                let new = asking(h, &format!("r{round}-{i}"), "k", rule);
                let (store, tasks) = (Arc::clone(&h.store), vec![new]);
                tokio::spawn(async move {
                    store.insert(Insert { tasks: tasks.into(), atomic: false, max_depth: None }).await
                })
            })
            .collect();
        let mut answers = Vec::new();
        for racer in racers {
            answers.extend(racer.await.expect("no panic").expect("insert"));
        }
        let new = answers.iter().filter(|answer| matches!(answer, Inserted::New(_))).count();
        assert_eq!(new, 1, "{:?}", kinds(&answers));
        assert_eq!(h.store.ledger().await.expect("ledger").submitted, round + 1);
        h.complete(&h.take_one().await.record).await;
    }
}

pub async fn keys_outlive_a_reopen(h: &mut Harness) {
    let rule = OnConflict::Reject;
    for text in ["held", "freed", "moved", "late"] {
        h.add(vec![asking(h, text, text, rule)]).await;
    }
    if !h.reopen().await {
        return;
    }
    h.cancel(&h.peek("freed").await).await;
    one(h, asking(h, "mover", "moved", OnConflict::Replace)).await;
    for again in 0..2 {
        assert_eq!(holder(h, "held").await, Some(id("held")), "opened {again}");
        assert_eq!(holder(h, "freed").await, None, "opened {again}");
        assert_eq!(holder(h, "moved").await, Some(id("mover")), "opened {again}");
        assert_eq!(holder(h, "late").await, Some(id("late")), "opened {again}");
        h.reopen().await;
    }
    h.cancel(&h.peek("late").await).await;
    h.reopen().await;
    assert_eq!(holder(h, "late").await, None);
    assert_eq!(h.peek("held").await.unique.expect("it has a key").key.as_str(), "held");
}

pub async fn the_time_of_a_key_counts_whatever_the_wall_clock_shows(h: &mut Harness) {
    let asking = |text: &str| {
        let key = UniqueKey::new("timed").expect("a key");
        let unique = Unique { key, for_ms: Some(1000), on_conflict: OnConflict::Reject };
        NewTask { unique: Some(Box::new(unique)), ..h.task(text) }
    };
    let add = async |text: &str| {
        let insert = Insert { tasks: vec![asking(text)].into(), atomic: false, max_depth: None };
        matches!(h.store.insert(insert).await.expect("insert").remove(0), Inserted::New(_))
    };
    assert!(add("a").await);
    h.clock.jump_wall_ms(3_600_000);
    assert!(!add("b").await, "the key is held for a second, not until a time of the wall clock");
    h.clock.jump_wall_ms(-7_200_000);
    h.clock.advance_ms(999);
    assert!(!add("c").await);
    h.clock.advance_ms(1);
    assert!(add("d").await);
    // Stores find the oldest pending task by its order, and a clock that was set back contradicts that order.
    h.take(Claim { max: 9, ..claim() }).await;
}
