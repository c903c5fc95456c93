//! That `verify` can fail, and that a run can go on. What is moved is in the conformance suite.

use std::sync::Arc;

use bytes::Bytes;
use windlass_core::{
    Body, Name, NewTask, OnConflict, Payload, Priority, Record, TaskId, Transition, Unique, UniqueKey, retry,
    transition,
};

use super::*;
use crate::clock::ManualClock;
use crate::faults::{Fault, Faulty, Verb};
use crate::memory::MemoryStore;
use crate::store::{Claim, Insert};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn task(text: &str) -> NewTask {
    NewTask {
        id: TaskId::new(text).unwrap(),
        queue: name("q"),
        kind: name("t"),
        priority: Priority::default(),
        created_at: 1000,
        scheduled_at: None,
        expires_at: None,
        retention_ms: 60_000,
        counted: windlass_core::Counted::default(),
        unique: None,
        key: None,
        body: Body {
            payload: Payload::Json(Bytes::from_static(b"1")),
            metadata: Vec::new(),
            timeout_ms: 5000,
            max_retries: 2,
            max_crashes: 3,
            retry: retry::Policy::default(),
            fingerprint: Some([1; 16]),
            links: None,
        },
    }
}

async fn add(store: &dyn Store, texts: &[&str]) {
    let tasks: Vec<_> = texts.iter().map(|text| task(text)).collect();
    store.insert(Insert { tasks: tasks.into(), atomic: false, max_depth: None }).await.unwrap();
}

async fn peek(store: &dyn Store, text: &str) -> Record {
    store.peek(&TaskId::new(text).unwrap()).await.unwrap().unwrap()
}

async fn commit(store: &dyn Store, record: &Record, change: windlass_core::Change) {
    let transition = Transition { id: record.id.clone(), seq: record.seq, revision: record.revision, change };
    store.commit(vec![transition]).await.unwrap();
}

async fn pair() -> (Arc<MemoryStore>, Arc<MemoryStore>) {
    let clock = ManualClock::shared();
    let (from, to) = (MemoryStore::new(clock.clone()), MemoryStore::new(clock));
    add(&*from, &["a", "b", "c"]).await;
    (from, to)
}

fn job<'a>(from: &'a dyn Store, to: &'a dyn Store) -> Job<'a> {
    Job { from, to, running: Running::Keep, at: 2000 }
}

/// Copies, lets somebody meddle, and says what `verify` finds.
async fn found<M: Future<Output = ()>>(
    meddle: impl FnOnce(Arc<MemoryStore>, Arc<MemoryStore>) -> M,
) -> Result<(), String> {
    let (from, to) = pair().await;
    let job = job(&*from, &*to);
    let survey = survey(&job, &mut |_| {}).await.unwrap();
    copy(&job, &survey, &mut |_| {}).await.unwrap();
    meddle(Arc::clone(&from), Arc::clone(&to)).await;
    match verify(&job, &survey, &mut |_| {}).await {
        Ok(_) => Ok(()),
        Err(Error::Different { some, .. }) => {
            let lines = some.iter().map(|difference| format!("{} {}", difference.what, difference.how));
            Err(lines.collect::<Vec<_>>().join("; "))
        }
        Err(error) => Err(error.code().to_owned()),
    }
}

#[tokio::test]
async fn a_copy_that_was_tampered_with_is_found() {
    assert_eq!(found(async |_, _| {}).await, Ok(()));
    let cancelled = found(async |_, to| {
        let record = peek(&*to, "b").await;
        commit(&*to, &record, transition::cancel(&record, 3000).unwrap().unwrap()).await;
    });
    let said = cancelled.await.unwrap_err();
    assert!(said.contains("task b differs in revision, state, updated_at"), "{said}");
    assert!(said.contains("queue q counts other tasks: pending, cancelled"), "{said}");
    let removed = found(async |_, to| {
        let record = peek(&*to, "c").await;
        commit(&*to, &record, transition::remove(&record, 3000).unwrap().unwrap()).await;
    });
    let said = removed.await.unwrap_err();
    assert!(said.contains("task c is missing"), "{said}");
    let said = found(async |_, to| add(&*to, &["d"]).await).await.unwrap_err();
    assert!(said.contains("task d is not in the source"), "{said}");
    let said = found(async |_, to| to.set_paused(&name("q"), true).await.unwrap()).await.unwrap_err();
    assert_eq!(said, "queue q is paused");
}

#[tokio::test]
async fn a_unique_key_that_its_task_does_not_hold_is_found() {
    let clock = ManualClock::shared();
    let (from, to) = (MemoryStore::new(clock.clone()), MemoryStore::new(clock));
    let unique = |key: &str| {
        let key = UniqueKey::new(key).unwrap();
        Some(Box::new(Unique { key, for_ms: Some(5000), on_conflict: OnConflict::Return }))
    };
    let tasks = vec![
        NewTask { unique: unique("k"), ..task("a") },
        task("b"),
        NewTask { unique: unique("l"), ..task("c") },
    ];
    from.insert(Insert { tasks: tasks.into(), atomic: false, max_depth: None }).await.unwrap();
    // A copy that was made when the keys were over: nobody took them.
    let late = Job { at: 9000, ..job(&*from, &*to) };
    let seen = survey(&late, &mut |_| {}).await.unwrap();
    copy(&late, &seen, &mut |_| {}).await.unwrap();
    verify(&late, &seen, &mut |_| {}).await.unwrap();
    let before = to.ledger().await.unwrap();
    let Err(Error::Different { some, .. }) = verify(&job(&*from, &*to), &seen, &mut |_| {}).await else {
        panic!("the keys are not held")
    };
    let said: Vec<String> = some.iter().map(|it| format!("{} {}", it.what, it.how)).collect();
    assert_eq!(said, ["task c does not hold its unique key", "task a does not hold its unique key"]);
    assert_eq!(to.ledger().await.unwrap(), before, "nothing is added to find that out");
}

#[tokio::test]
async fn a_source_that_changes_is_found() {
    let said = found(async |from, _| add(&*from, &["d"]).await).await.unwrap_err();
    assert_eq!(said, "source_changed");
}

#[tokio::test]
async fn a_run_that_broke_off_goes_on() {
    let (from, inner) = pair().await;
    let to = Faulty::new(inner.clone());
    let job = job(&*from, &*to);
    let begun = survey(&job, &mut |_| {}).await.unwrap();
    to.once(Verb::Restore, Fault::LoseAnswer);
    let broken = copy(&job, &begun, &mut |_| {}).await.unwrap_err();
    assert_eq!(broken.code(), "destination_failed");
    let again = survey(&job, &mut |_| {}).await.unwrap();
    assert_eq!(again.there, 3, "they were put in, and only the answer was lost");
    let copied = copy(&job, &again, &mut |_| {}).await.unwrap();
    assert_eq!((copied.added, copied.there), (0, 3));
    verify(&job, &again, &mut |_| {}).await.unwrap();
}

#[tokio::test]
async fn running_tasks_can_be_refused() {
    let (from, to) = pair().await;
    let claim = Claim {
        worker: name("w"),
        queues: vec![windlass_core::choice::Queue { name: name("q"), weight: 1 }],
        mode: windlass_core::choice::Mode::Weighted,
        types: None,
        max: 1,
        lease_ms: 30_000,
        wait_ms: 0,
        seed: 1,
    };
    from.claim(claim).await.unwrap();
    let job = Job { running: Running::Refuse, ..job(&*from, &*to) };
    let refused = survey(&job, &mut |_| {}).await.unwrap_err();
    assert_eq!(refused.to_string(), "1 tasks are running");
}
