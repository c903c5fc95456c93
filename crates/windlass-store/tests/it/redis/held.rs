//! Reports rest on what their own process was given: what others did to it since must show all the same.

use std::sync::Arc;

use windlass_core::task::Links;
use windlass_core::{Body, Change, NewTask, Record, State, Task, TaskId, Transition, transition};
use windlass_store::clock::ManualClock;
use windlass_store::{Claim, Clock, Committed, Store};

use super::shared::{add, claim, name, task};
use super::{fresh_url, open};

async fn two() -> (u64, Arc<dyn Store>, Arc<dyn Store>) {
    let (clock, url) = (ManualClock::shared(), fresh_url());
    let first = open(&url, clock.clone()).await;
    (clock.now().wall, first, open(&url, clock).await)
}

fn on(record: &Record, change: Change) -> Transition {
    Transition { id: record.id.clone(), seq: record.seq, revision: record.revision, change }
}

fn completed(record: &Record, now: u64) -> Transition {
    let State::Running(lease) = &record.state else { panic!("{record:?}") };
    let change = transition::complete(record, lease.token, None, now).expect("held").expect("a change");
    on(record, change)
}

async fn claimed(store: &Arc<dyn Store>, now: u64, max: u32) -> Vec<Record> {
    let tasks = (0..max).map(|i| task(&format!("a{i}"), now)).collect();
    add(store, tasks).await;
    let claim = Claim { max, types: Some(vec![name("t")]), ..claim() };
    let tasks = store.claim(claim).await.expect("claim");
    tasks.into_iter().map(|Task { record, .. }| record).collect()
}

async fn held(store: &Arc<dyn Store>, record: &Record) -> Record {
    let State::Running(lease) = &record.state else { panic!("{record:?}") };
    let found = store.peek_held(std::slice::from_ref(&record.id), &[lease.token]).await.expect("peek");
    found.into_iter().next().flatten().expect("a record")
}

#[tokio::test]
async fn a_report_on_what_another_changed_is_a_conflict_and_read_anew() {
    let (now, here, there) = two().await;
    let record = claimed(&here, now, 1).await.remove(0);
    let cancelled = transition::cancel(&record, now).expect("cancel").expect("a change");
    let commit = there.commit(vec![on(&record, cancelled)]).await.expect("commit");
    assert!(matches!(commit[..], [Committed::Done(_)]));
    let seen = held(&here, &record).await;
    assert!(matches!(seen.state, State::Running(_)), "as it was given out: {seen:?}");
    let commit = here.commit(vec![completed(&seen, now)]).await.expect("commit");
    assert!(matches!(commit[..], [Committed::Conflict]), "{commit:?}");
    let seen = held(&here, &record).await;
    assert!(matches!(seen.state, State::Cancelled { .. }), "{seen:?}");
}

#[tokio::test]
async fn who_began_to_wait_for_a_task_after_its_claim_hears_of_its_end() {
    let (now, here, there) = two().await;
    let mut records = claimed(&here, now, 6).await;
    let links = Links { dependencies: vec![records[1].id.clone()], workflow: None };
    let waits = task("b", now);
    let body = Body { links: Some(Box::new(links)), ..waits.body.clone() };
    add(&there, vec![NewTask { body, ..waits }]).await;
    // Those beside it that nobody waits for end as ever.
    let beside = records.split_off(3).iter().map(|record| completed(record, now)).collect();
    let commit = here.commit(beside).await.expect("commit");
    let plain = |one: &Committed| matches!(one, Committed::Done(record) if !record.awaited);
    assert!(commit.iter().all(plain), "{commit:?}");
    let ends = records.iter().map(|record| completed(record, now)).collect();
    let commit = here.commit(ends).await.expect("commit");
    let awaited: Vec<bool> = commit
        .iter()
        .map(|committed| match committed {
            Committed::Done(record) => record.awaited,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(awaited, [false, true, false]);
    // Who leads tells.
    let endings = here.endings(9).await.expect("endings");
    assert_eq!(endings.len(), 1);
    assert_eq!(here.ledger().await.expect("ledger").completed, 6);
}

#[tokio::test]
async fn a_task_ends_and_is_forgotten_in_one_batch() {
    let (now, here, _) = two().await;
    let record = claimed(&here, now, 1).await.remove(0);
    let end = completed(&record, now);
    let mut after = record.clone();
    after.evolve(&end.change, record.order);
    let removed = transition::remove(&after, now).expect("remove").expect("a change");
    let commit = here.commit(vec![end, on(&after, removed)]).await.expect("commit");
    assert!(matches!(commit[..], [Committed::Done(_), Committed::Done(_)]), "{commit:?}");
    let gone = TaskId::new("a0").expect("a valid id");
    assert!(here.get(&gone).await.expect("get").is_none());
}
