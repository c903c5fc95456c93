//! Adding tasks.

use std::sync::Arc;

use windlass_core::{NewTask, StateName};

use super::Harness;
use super::steps::{claim, id, name};
use crate::store::{Insert, Inserted};

pub(super) fn kinds(answers: &[Inserted]) -> Vec<&'static str> {
    let kind = |answer: &Inserted| match answer {
        Inserted::New(_) => "new",
        Inserted::Replaced { .. } => "replaced",
        Inserted::Same(_) => "same",
        Inserted::Live(_) => "live",
        Inserted::KeyHeld(_) => "held",
        Inserted::Clash => "clash",
        Inserted::QueueFull | Inserted::LimitFull(_) => "full",
        Inserted::Dependency { .. } => "dependency",
        Inserted::LimitApart(_) => "apart",
        Inserted::Aborted => "aborted",
    };
    answers.iter().map(kind).collect()
}

/// The task `text` with content that is not its own.
fn other(h: &Harness, text: &str) -> NewTask {
    NewTask { body: h.task("other-content").body, ..h.task(text) }
}

pub async fn new_tasks_are_numbered_in_order(h: &mut Harness) {
    let records = h.add_named(&["a", "b", "c"]).await;
    let later = h.add_named(&["d"]).await;
    let all: Vec<_> = records.iter().chain(&later).collect();
    assert!(all.is_sorted_by(|a, b| a.seq < b.seq), "{all:?}");
    for record in all {
        assert_eq!((record.revision, record.state_name()), (1, StateName::Pending));
        assert_eq!(record.order, record.seq);
    }
    assert_eq!(h.store.ledger().await.expect("ledger").submitted, 4);
}

pub async fn what_was_added_can_be_read(h: &mut Harness) {
    let at = h.wall() + 500;
    let new = NewTask { scheduled_at: Some(at), expires_at: Some(at + 500), ..h.task("a") };
    let record = h.add(vec![new.clone()]).await.remove(0);
    let task = h.store.get(&id("a")).await.expect("get").expect("it is there");
    assert_eq!(task.record, record);
    assert_eq!(task.body, new.body);
    assert_eq!(h.peek("a").await, record);
    assert_eq!(record.state_name(), StateName::Scheduled);
    assert_eq!((&record.queue, &record.kind, record.priority), (&new.queue, &new.kind, new.priority));
    assert_eq!((record.scheduled_at, record.expires_at), (new.scheduled_at, new.expires_at));
    assert!(h.store.get(&id("b")).await.expect("get").is_none());
    assert!(h.store.peek(&id("b")).await.expect("peek").is_none());
}

pub async fn same_content_is_the_same_task(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let running = h.take_one().await;
    let again = h.insert(vec![h.task("a")]).await.remove(0);
    assert_eq!(again, Inserted::Same(Box::new(running.clone())));
    h.complete(&running.record).await;
    assert_eq!(kinds(&h.insert(vec![h.task("a")]).await), ["same"]);
    assert_eq!(h.store.ledger().await.expect("ledger").submitted, 1);
}

pub async fn other_content_clashes(h: &mut Harness) {
    h.add_named(&["a"]).await;
    assert_eq!(h.insert(vec![other(h, "a")]).await, [Inserted::Clash]);
    // A task whose id the server made keeps no fingerprint, so nobody can repeat it.
    let mut fresh = h.task("b");
    fresh.body.fingerprint = None;
    h.add(vec![fresh]).await;
    assert_eq!(h.insert(vec![h.task("b")]).await, [Inserted::Clash]);
    assert_eq!(h.peek("a").await.revision, 1);
}

pub async fn equal_ids_inside_a_batch(h: &mut Harness) {
    let answers = h.insert(vec![h.task("a"), h.task("b"), h.task("a"), other(h, "b")]).await;
    assert_eq!(kinds(&answers), ["new", "new", "same", "clash"]);
    let (Inserted::New(record), Inserted::Same(same)) = (&answers[0], &answers[2]) else { unreachable!() };
    assert_eq!(same.record, *record);
}

pub async fn a_plain_batch_adds_what_it_can(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let batch = vec![h.task("b"), other(h, "a"), h.task("c"), h.task("a")];
    assert_eq!(kinds(&h.insert(batch).await), ["new", "clash", "new", "same"]);
    assert_eq!(h.counts("q").await.waiting(), 3);
}

pub async fn an_atomic_batch_adds_all_or_nothing(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let insert = async |tasks: Vec<NewTask>, max_depth| {
        let answers =
            h.store.insert(Insert { tasks: tasks.into(), atomic: true, max_depth }).await.expect("insert");
        kinds(&answers)
    };
    let clashing = vec![h.task("b"), other(h, "a"), h.task("a"), h.task("b")];
    assert_eq!(insert(clashing, None).await, ["aborted", "clash", "same", "aborted"]);
    let full = vec![h.task("b"), h.task("c"), h.task("a")];
    assert_eq!(insert(full, Some(2)).await, ["aborted", "full", "same"]);
    assert!(h.store.peek(&id("b")).await.expect("peek").is_none());
    assert_eq!(h.store.ledger().await.expect("ledger").submitted, 1);
    assert_eq!(insert(vec![h.task("b"), h.task("a"), h.task("b")], Some(2)).await, ["new", "same", "same"]);
    h.add_named(&["d", "e"]).await;
    let mut seqs = Vec::new();
    for text in ["a", "b", "d", "e"] {
        seqs.push(h.peek(text).await.seq);
    }
    assert_eq!(seqs[1] - seqs[0], seqs[3] - seqs[2], "a task that was refused uses no number");
}

pub async fn the_depth_limit_counts_what_waits(h: &mut Harness) {
    let insert = async |tasks: Vec<NewTask>| {
        let insert = Insert { tasks: tasks.into(), atomic: false, max_depth: Some(3) };
        kinds(&h.store.insert(insert).await.expect("insert"))
    };
    let later = NewTask { scheduled_at: Some(h.wall() + 1000), ..h.task("later") };
    let elsewhere = NewTask { queue: name("r"), ..h.task("elsewhere") };
    let batch = vec![h.task("a"), later, h.task("b"), h.task("c"), elsewhere];
    assert_eq!(insert(batch).await, ["new", "new", "new", "full", "new"]);
    let running = h.take_one().await;
    assert_eq!(insert(vec![h.task("c"), h.task("d")]).await, ["new", "full"], "what runs does not wait");
    h.release(&running.record).await;
    assert_eq!(insert(vec![h.task("d")]).await, ["full"]);
    assert!(h.take(claim()).await.len() == 1);
}

pub async fn a_taken_id_is_told_before_a_full_queue(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let tasks = vec![h.task("a"), other(h, "a"), h.task("b")];
    let answers = h
        .store
        .insert(Insert { tasks: tasks.into(), atomic: false, max_depth: Some(1) })
        .await
        .expect("insert");
    assert_eq!(kinds(&answers), ["same", "clash", "full"]);
}

pub async fn racing_submits_of_one_id_make_one_task(h: &mut Harness) {
    let racers: Vec<_> = (0..64)
        .map(|_| {
            let (store, tasks) = (Arc::clone(&h.store), vec![h.task("a")]);
            tokio::spawn(async move {
                store.insert(Insert { tasks: tasks.into(), atomic: false, max_depth: None }).await
            })
        })
        .collect();
    let mut answers = Vec::new();
    for racer in racers {
        answers.extend(racer.await.expect("no panic").expect("insert"));
    }
    let mut kinds = kinds(&answers);
    kinds.sort_unstable();
    assert_eq!(kinds[..2], ["new", "same"]);
    assert!(kinds[1..].iter().all(|kind| *kind == "same"));
    assert_eq!(h.store.ledger().await.expect("ledger").submitted, 1);
}
