//! What only this store has: files that can be locked, newer or damaged, and threads that can be left behind.

mod clock;
mod damage;
mod flow;
mod names;
mod salvage;

use std::fs;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use bytes::Bytes;
use redb::ReadableTable;
use windlass_core::choice::{Mode, Queue};
use windlass_core::limits::CLAIM_EXPIRED_MAX;
use windlass_core::{Body, Change, Name, NewTask, Payload, Priority, Record, TaskId, Transition, retry};

use super::here::Place;
use super::identity::Identity;
use super::tables::{META, TASKS, Tables, seal};
use super::{EmbeddedStore, Options};
use crate::clock::{Clock, ManualClock};
use crate::store::{Claim, Committed, Durability, Error, Insert, Inserted, List, Store};

fn options(dir: &Path) -> Options {
    Options { durability: Durability::Os, disk_reserve_bytes: 0, segment_bytes: 1 << 20, ..Options::new(dir) }
}

async fn open(dir: &Path) -> Result<Arc<EmbeddedStore>, Error> {
    EmbeddedStore::open(options(dir), ManualClock::shared()).await
}

fn task(id: &str) -> NewTask {
    let body = Body {
        payload: Payload::Json(Bytes::from(vec![b'7'; 100])),
        metadata: Vec::new(),
        timeout_ms: 1000,
        max_retries: 0,
        max_crashes: 5,
        retry: retry::Policy::default(),
        fingerprint: Some([7; 16]),
        links: None,
    };
    NewTask {
        id: TaskId::new(id).unwrap(),
        queue: Name::new("q").unwrap(),
        kind: Name::new("t").unwrap(),
        priority: Priority(100),
        created_at: 1_790_000_000_000,
        scheduled_at: None,
        expires_at: None,
        retention_ms: 1000,
        counted: windlass_core::Counted::default(),
        unique: None,
        key: None,
        body,
    }
}

async fn add(store: &EmbeddedStore, tasks: Vec<NewTask>) -> Result<Vec<Inserted>, Error> {
    store.insert(Insert { tasks: tasks.into(), atomic: false, max_depth: None }).await
}

fn claim(max: u32, wait_ms: u64) -> Claim {
    Claim {
        worker: Name::new("w").unwrap(),
        queues: vec![Queue { name: Name::new("q").unwrap(), weight: 1 }],
        mode: Mode::Weighted,
        types: None,
        max,
        lease_ms: 1000,
        wait_ms,
        seed: 1,
    }
}

#[tokio::test]
async fn a_directory_has_one_owner() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path()).await.unwrap();
    assert!(matches!(open(dir.path()).await, Err(Error::Locked(_))));
    first.close().await.unwrap();
    open(dir.path()).await.unwrap().close().await.unwrap();
}

/// Whether a call is answered at once, without another thread.
fn is_done_here<T>(call: impl Future<Output = T>) -> bool {
    pin!(call).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[tokio::test]
async fn who_may_be_held_up_writes_what_waits() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { durability: Durability::Sync, ..options(dir.path()) };
    let store = EmbeddedStore::open(options.clone(), ManualClock::shared()).await.unwrap();
    let insert = |id: &str| Insert { tasks: vec![task(id)].into(), atomic: false, max_depth: None };
    assert!(is_done_here(store.insert_here(vec![insert("a")])));
    let groups = || store.groups().unwrap().took_us.count();
    let before = groups();
    store.shared.inbox.forget_times();
    assert!(is_done_here(store.insert_here(vec![insert("x"), insert("y"), insert("z")])));
    assert_eq!(groups(), before + 1, "several are one group");
    assert_eq!(store.groups().unwrap().by_callers, 2);
    // What others handed in goes along, unless they were faster.
    let mut other = Box::pin(store.insert(insert("b")));
    let _ = other.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    store.shared.inbox.forget_times();
    assert!(store.insert_here(vec![insert("c")]).await[0].is_ok());
    other.await.unwrap();
    let again = store.insert_here(vec![insert("a")]).await.remove(0).unwrap();
    assert!(matches!(&again[..], [Inserted::Same(_)]));
    store.close().await.unwrap();
    assert!(matches!(&store.insert_here(vec![insert("d")]).await[..], [Err(Error::Closed)]));
    let store = EmbeddedStore::open(options, ManualClock::shared()).await.unwrap();
    assert_eq!(store.list(List { limit: 10, ..List::default() }).await.unwrap().tasks.len(), 6);
    store.close().await.unwrap();
}

#[tokio::test]
async fn nobody_writes_here_what_has_to_be_synced_later() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { durability: Durability::IntervalMs(5), ..options(dir.path()) };
    let store = EmbeddedStore::open(options, ManualClock::shared()).await.unwrap();
    assert!(Place::take(&store.shared, &store.desk).is_none());
    let insert = Insert { tasks: vec![task("a")].into(), atomic: false, max_depth: None };
    assert!(store.insert_here(vec![insert]).await[0].is_ok());
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_store_is_closed_when_the_last_who_writes_has_left() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    let place = Place::take(&store.shared, &store.desk).expect("nothing was written yet");
    let mut closing = Box::pin(store.close());
    let _ = closing.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(open(dir.path()).await, Err(Error::Locked(_))));
    drop(place);
    closing.await.unwrap();
    open(dir.path()).await.unwrap().close().await.unwrap();
}

#[tokio::test]
async fn another_format_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).await.unwrap().close().await.unwrap();
    let before = fs::read(dir.path().join("index.redb")).unwrap();
    for other in [1, 999] {
        fs::write(dir.path().join("FORMAT"), format!("windlass-data {other}\n")).unwrap();
        assert!(matches!(open(dir.path()).await, Err(Error::Version { found, .. }) if found == other));
        assert_eq!(fs::read(dir.path().join("index.redb")).unwrap(), before);
    }
    for noise in ["", "windlass-data", "windlass-data x", "something else 1"] {
        fs::write(dir.path().join("FORMAT"), noise).unwrap();
        assert!(matches!(open(dir.path()).await, Err(Error::Damaged(_))), "{noise:?}");
    }
    fs::remove_file(dir.path().join("FORMAT")).unwrap();
    assert!(matches!(open(dir.path()).await, Err(Error::Damaged(_))));
}

#[tokio::test]
async fn the_format_before_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    add(&store, (0..40).map(|n| task(&format!("{n:02}"))).collect()).await.unwrap();
    store.close().await.unwrap();
    // As it was: blocks in the index, and no files for them.
    {
        let mut identity = Identity::read(dir.path()).unwrap();
        let tables = Tables::open(dir.path(), 1 << 20, 0, 1 << 20, &mut identity).unwrap();
        let write = tables.begin_write().unwrap();
        {
            let mut tree = write.open_table(TASKS).unwrap();
            for number in 0..3 {
                let value = tree.get(number).unwrap().unwrap().value().to_vec();
                let mut block = tables.heap.block(number, &value).unwrap().to_vec();
                tree.insert(number, seal::close(number, &mut block)).unwrap();
            }
        }
        write.delete_table(redb::TableDefinition::<u32, &[u8]>::new("block_files")).unwrap();
        write.open_table(META).unwrap().remove("store").unwrap();
        write.commit().unwrap();
    }
    fs::remove_dir_all(dir.path().join("blocks")).unwrap();
    fs::remove_dir_all(dir.path().join("log")).unwrap();
    fs::write(dir.path().join("FORMAT"), "windlass-data 4\n").unwrap();
    let small = || Options { checkpoint_bytes: 8 << 10, ..options(dir.path()) };
    let store = EmbeddedStore::open(small(), ManualClock::shared()).await.unwrap();
    assert!(fs::read_to_string(dir.path().join("FORMAT")).unwrap().starts_with("windlass-data 6\nstore "));
    change(&store, "05", |_| Change::Removed { at: 1.into() }).await;
    add(&store, vec![task("40")]).await.unwrap();
    store.close().await.unwrap();
    let store = open(dir.path()).await.unwrap();
    let ids = store.claim(claim(100, 0)).await.unwrap();
    let ids: Vec<String> = ids.iter().map(|task| task.record.id.to_string()).collect();
    assert_eq!(ids, (0..41).filter(|n| *n != 5).map(|n| format!("{n:02}")).collect::<Vec<_>>());
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_flipped_bit_in_a_stored_payload_is_found_and_ends_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    add(&store, vec![task("a")]).await.unwrap();
    store.close().await.unwrap();
    let path = dir.path().join("blocks/0000000001.blk");
    let mut bytes = fs::read(&path).unwrap();
    let payload = [b'7'; 100];
    let at = bytes
        .windows(payload.len())
        .rposition(|window| window == payload)
        .expect("the payload is in the file");
    bytes[at + 50] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(matches!(open(dir.path()).await, Err(Error::Damaged(_))), "a small index is verified at opening");
    // A large one is not, and its values are verified when they are read.
    let large = Options { verify_bytes: 0, ..options(dir.path()) };
    let store = EmbeddedStore::open(large, ManualClock::shared()).await.unwrap();
    let id = TaskId::new("a").unwrap();
    assert!(matches!(store.get(&id).await, Err(Error::Damaged(_))));
    assert!(store.failed().await.contains("checksum"));
    assert!(matches!(add(&store, vec![task("b")]).await, Err(Error::Failed(_))));
    assert!(store.close().await.is_err());
}

#[tokio::test]
async fn a_dropped_store_saves_itself_and_lets_go() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    add(&store, vec![task("a")]).await.unwrap();
    drop(store);
    // The threads end by themselves, soon: each try waits for the system, not for a time.
    let store = loop {
        match open(dir.path()).await {
            Ok(store) => break store,
            Err(Error::Locked(_)) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(store.list(List { limit: 10, ..List::default() }).await.unwrap().tasks.len(), 1);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_claim_served_elsewhere_does_not_strand_another() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    let both = Claim {
        queues: ["q", "r"].map(|name| Queue { name: Name::new(name).unwrap(), weight: 1 }).to_vec(),
        mode: Mode::Strict,
        ..claim(1, 60_000)
    };
    // The first waits for both queues and takes from "q"; the second waits for "r" alone and must get the other one.
    let first = tokio::spawn({
        let (store, claim) = (Arc::clone(&store), both);
        async move { store.claim(claim).await }
    });
    while store.shared.waiting.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    let only = Claim { queues: vec![Queue { name: Name::new("r").unwrap(), weight: 1 }], ..claim(1, 60_000) };
    let second = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.claim(only).await }
    });
    while store.shared.waiting.lock().len() < 2 {
        tokio::task::yield_now().await;
    }
    let other = NewTask { queue: Name::new("r").unwrap(), ..task("b") };
    add(&store, vec![other, task("a")]).await.unwrap();
    let ids =
        |tasks: Vec<windlass_core::Task>| tasks.iter().map(|t| t.record.id.to_string()).collect::<Vec<_>>();
    assert_eq!(ids(first.await.unwrap().unwrap()), ["a"]);
    assert_eq!(ids(second.await.unwrap().unwrap()), ["b"]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_backlog_larger_than_the_window_drains_in_order_over_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let small = || Options { window_entries: 8, checkpoint_bytes: 8 << 10, ..options(dir.path()) };
    let mut store = EmbeddedStore::open(small(), ManualClock::shared()).await.unwrap();
    for batch in 0..20 {
        let tasks = (0..50).map(|n| task(&format!("{:04}", batch * 50 + n))).collect();
        add(&store, tasks).await.unwrap();
    }
    let mut seen = Vec::new();
    for round in 0..100 {
        let tasks = store.claim(claim(10, 0)).await.unwrap();
        seen.extend(tasks.iter().map(|task| task.record.id.to_string()));
        if round % 30 == 29 {
            store.close().await.unwrap();
            store = EmbeddedStore::open(small(), ManualClock::shared()).await.unwrap();
        }
    }
    let expected: Vec<String> = (0..1000).map(|n| format!("{n:04}")).collect();
    assert_eq!(seen, expected);
    assert!(store.claim(claim(1, 0)).await.unwrap().is_empty());
    store.close().await.unwrap();
}

/// Carries out a change that is possible, on the record as it is now.
async fn change(store: &EmbeddedStore, id: &str, decide: fn(&Record) -> Change) {
    let record = store.peek(&TaskId::new(id).unwrap()).await.unwrap().unwrap();
    let change = decide(&record);
    let transition = Transition { id: record.id.clone(), seq: record.seq, revision: record.revision, change };
    let done = store.commit(vec![transition]).await.unwrap();
    assert!(matches!(done[..], [Committed::Done(_)]), "{done:?}");
}

#[tokio::test]
async fn an_id_can_be_used_again_and_again_between_checkpoints() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    add(&store, vec![task("a")]).await.unwrap();
    store.close().await.unwrap();
    let store = open(dir.path()).await.unwrap();
    let id = TaskId::new("a").unwrap();
    for _ in 0..3 {
        assert!(store.get(&id).await.unwrap().is_some());
        change(&store, "a", |_| Change::Removed { at: 1.into() }).await;
        assert!(store.get(&id).await.unwrap().is_none(), "the table's entry does not count any more");
        assert!(matches!(add(&store, vec![task("a")]).await.unwrap()[..], [Inserted::New(_)]));
    }
    change(&store, "a", |_| Change::Removed { at: 1.into() }).await;
    store.close().await.unwrap();
    let store = open(dir.path()).await.unwrap();
    assert!(store.get(&id).await.unwrap().is_none());
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_wall_of_expired_tasks_is_taken_down_in_steps_and_hides_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::shared();
    let store = EmbeddedStore::open(options(dir.path()), clock.clone()).await.unwrap();
    let walls = 2 * CLAIM_EXPIRED_MAX + 10;
    let expiring = |n: usize| NewTask { expires_at: Some(1_790_000_000_001), ..task(&format!("old-{n}")) };
    add(&store, (0..walls).map(expiring).collect()).await.unwrap();
    add(&store, vec![task("good")]).await.unwrap();
    clock.advance_ms(10);
    let tasks = store.claim(claim(1, 60_000)).await.unwrap();
    assert_eq!(tasks[0].record.id.as_str(), "good");
    assert_eq!(store.ledger().await.unwrap().expired, walls as u64);
    assert_eq!(store.signals().lapsed.take().len(), walls, "each is left to be told of");
    assert!(store.signals().lapsed.take().is_empty());
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_batch_beyond_one_frame_is_refused_and_the_store_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    let large = |n: usize| {
        let mut task = task(&format!("large-{n}"));
        task.body.payload = Payload::Binary(Bytes::from(vec![1; 9 << 20]));
        task
    };
    assert!(matches!(add(&store, (0..8).map(large).collect()).await, Err(Error::TooLarge)));
    assert!(matches!(add(&store, vec![large(9), task("small")]).await.unwrap()[..], [Inserted::New(_), _]));
    assert_eq!(store.ledger().await.unwrap().submitted, 2);
    store.close().await.unwrap();
}
