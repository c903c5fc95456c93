//! Backups of a store that serves, and their restores.

mod fixture;
mod refused;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::choice::{Mode, Queue};
use windlass_core::schedule::{CatchUp, Definition, Overlap, Schedule, Template, Timing};
use windlass_core::{Body, Counted, Name, NewTask, Payload, Priority, State, TaskId, retry, transition};
use windlass_store::backup::{self, Manifest};
use windlass_store::clock::{Clock, ManualClock};
use windlass_store::conformance::Harness;
use windlass_store::embedded::{EmbeddedStore, Options, restore_backup};
use windlass_store::migrate::Contents;
use windlass_store::store::{
    Claim, Committed, Durability, Error, Insert, List, ScheduleChange, Store, WriteSchedule,
};

use crate::embedded::tiny_sizes;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn task(id: String, payload: Vec<u8>) -> NewTask {
    NewTask {
        id: TaskId::new(&id).unwrap(),
        queue: name("q"),
        kind: name("t"),
        priority: Priority::default(),
        created_at: 1_790_000_000_000,
        scheduled_at: None,
        expires_at: None,
        retention_ms: 60_000,
        unique: None,
        key: None,
        counted: Counted::default(),
        body: Body {
            payload: Payload::Binary(Bytes::from(payload)),
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

async fn add(store: &dyn Store, tasks: Vec<NewTask>) {
    store.insert(Insert { tasks: tasks.into(), atomic: false, max_depth: None }).await.unwrap();
}

fn claim(max: u32) -> Claim {
    Claim {
        worker: name("w"),
        queues: vec![Queue { name: name("q"), weight: 1 }],
        mode: Mode::Weighted,
        types: None,
        max,
        lease_ms: 30_000,
        wait_ms: 0,
        seed: 7,
    }
}

async fn open(dir: &Path, clock: &Arc<ManualClock>, adjust: fn(&mut Options)) -> Arc<EmbeddedStore> {
    let mut options = Options::new(dir);
    options.durability = Durability::Os;
    options.disk_reserve_bytes = 0;
    options.segment_bytes = 1 << 20;
    adjust(&mut options);
    EmbeddedStore::open(options, clock.clone()).await.unwrap()
}

/// A store with one of everything.
async fn populated(dir: &Path, adjust: fn(&mut Options)) -> (Arc<EmbeddedStore>, Arc<ManualClock>) {
    let clock = ManualClock::shared();
    let store = open(dir, &clock, adjust).await;
    let harness = Harness::volatile(store.clone(), clock.clone());
    harness.populate(&*store).await;
    add(&*store, vec![task("large".to_owned(), vec![b'x'; 20_000]), task("small".to_owned(), Vec::new())])
        .await;
    put_schedule(&*store, clock.now().wall).await;
    (store, clock)
}

async fn put_schedule(store: &dyn Store, now: u64) {
    let NewTask { queue, kind, priority, retention_ms, key, body, .. } =
        task("s".to_owned(), b"due".to_vec());
    let definition = Definition {
        timing: Timing::parse("@every 1m", "Europe/Berlin").unwrap(),
        template: Template { queue, kind, priority, retention_ms, key, body },
        overlap: Overlap::QueueOne,
        catch_up: CatchUp::All,
        window_ms: 600_000,
        jitter_ms: 0,
        starts_at: Some(now),
        ends_at: None,
        paused: false,
    };
    let schedule = Box::new(Schedule::new(name("every-minute"), definition, now));
    let change = ScheduleChange::Put { schedule, seen: None };
    store.write_schedule(WriteSchedule { id: name("every-minute"), change }).await.unwrap();
}

/// Takes a backup and returns the whole stream.
fn taken(store: &dyn Store) -> Vec<u8> {
    let mut source = store.backup().unwrap();
    let mut bytes = Vec::new();
    while let Some(piece) = source.next().unwrap() {
        bytes.extend_from_slice(&piece);
    }
    bytes
}

fn restored(bytes: &[u8], dir: &Path) -> Manifest {
    restore_backup(bytes, dir, &mut |_| {}).unwrap().manifest
}

#[track_caller]
fn assert_same(left: &Contents, right: &Contents) {
    assert_eq!(left.differences(right), Vec::<String>::new());
    assert_eq!(left, right);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_restored_is_what_was_there() {
    for adjust in [|_: &mut Options| {}, tiny_sizes] {
        let (home, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (store, clock) = populated(home.path(), adjust).await;
        let before = Contents::read(&*store).await.unwrap();
        let bytes = taken(&*store);
        let manifest = backup::verify(&bytes[..], &mut |_| {}).unwrap();
        assert_eq!(manifest.tasks, before.tasks.len() as u64);
        assert_eq!(taken(&*store), bytes, "the same state gives the same backup");
        clock.advance_ms(20_000);
        assert_eq!(restored(&bytes, &new.path().join("deep/data")), manifest);
        let copy = open(&new.path().join("deep/data"), &clock, adjust).await;
        assert_same(&before, &Contents::read(&*copy).await.unwrap());
        Harness::volatile(copy.clone(), clock.clone()).check().await;

        // Both stores continue and never give out the same fencing token. Leases have a fresh window.
        let number = |task: &windlass_core::Task| match &task.record.state {
            State::Running(lease) => lease.token.number,
            state => panic!("{state:?}"),
        };
        let ours = store.claim(claim(3)).await.unwrap();
        let theirs = copy.claim(claim(3)).await.unwrap();
        let ids = |tasks: &[windlass_core::Task]| tasks.iter().map(|task| task.record.id.clone()).collect();
        let (our_ids, their_ids): (Vec<TaskId>, Vec<TaskId>) = (ids(&ours), ids(&theirs));
        assert_eq!(our_ids, their_ids);
        assert_eq!(number(&ours[0]) + (1 << 32), number(&theirs[0]));
        let held = copy.get(&TaskId::new("saved").unwrap()).await.unwrap().unwrap();
        let State::Running(lease) = held.record.state else { panic!("{held:?}") };
        assert_eq!(lease.expires_at, clock.now().wall + 30_000);
        store.close().await.unwrap();
        copy.close().await.unwrap();
        // The restored store survives a restart.
        let again = open(&new.path().join("deep/data"), &clock, adjust).await;
        assert_eq!(again.ledger().await.unwrap().submitted, before.ledger.submitted);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_store_can_be_backed_up_too() {
    let (home, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let clock = ManualClock::shared();
    let store = open(home.path(), &clock, |_| {}).await;
    let manifest = restored(&taken(&*store), new.path());
    assert_eq!((manifest.tasks, manifest.opening.log_position), (0, 0));
    let copy = open(new.path(), &clock, |_| {}).await;
    add(&*copy, vec![task("a".to_owned(), Vec::new())]).await;
    let claimed = copy.claim(claim(1)).await.unwrap();
    let State::Running(lease) = &claimed[0].record.state else { panic!("{claimed:?}") };
    assert_eq!(lease.token.number, (1 << 32) + 1);
}

/// Pinned tables stay as they were, whatever checkpoints write and remove meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_of_one_moment_however_slowly_it_is_read() {
    let (home, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, clock) = populated(home.path(), tiny_sizes).await;
    let many =
        |from: usize, to: usize| (from..to).map(|n| task(format!("many-{n}"), vec![n as u8; 900])).collect();
    for n in 0..20 {
        add(&*store, many(n * 100, n * 100 + 100)).await;
    }
    let before = Contents::read(&*store).await.unwrap();
    let bytes = taken(&*store);
    let mut source = store.backup().unwrap();
    let mut slow = source.next().unwrap().unwrap().to_vec();
    let files = || std::fs::read_dir(home.path().join("blocks")).unwrap().count();
    let files_before = files();
    // All tasks are removed, and other tasks are added.
    let list = List { limit: 1000, ..List::default() };
    loop {
        let page = store.list(list.clone()).await.unwrap().tasks;
        let own = page.iter().filter(|task| task.record.id.as_str().starts_with("many-"));
        let gone: Vec<_> = own.filter(|task| task.record.state == State::Pending).collect();
        if gone.is_empty() {
            break;
        }
        for task in gone {
            for decide in [transition::cancel, transition::remove] {
                let record = store.peek(&task.record.id).await.unwrap().unwrap();
                let change = decide(&record, clock.now().wall).unwrap().unwrap();
                let transition = windlass_core::Transition {
                    id: record.id.clone(),
                    seq: record.seq,
                    revision: record.revision,
                    change,
                };
                let answer = store.commit(vec![transition]).await.unwrap().remove(0);
                assert!(matches!(answer, Committed::Done(_)), "{answer:?}");
            }
        }
    }
    for n in 30..50 {
        add(&*store, many(n * 100, n * 100 + 100)).await;
    }
    assert!(files_before > 3 && files() > 0);
    while let Some(piece) = source.next().unwrap() {
        slow.extend_from_slice(&piece);
    }
    assert!(slow == bytes, "it is the same backup");
    restored(&slow, new.path());
    let copy = open(new.path(), &clock, |_| {}).await;
    assert_same(&before, &Contents::read(&*copy).await.unwrap());
}

/// Rows that are larger than a chunk are cut, and put together again.
#[tokio::test(flavor = "multi_thread")]
async fn large_payloads_take_several_chunks() {
    let (home, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let clock = ManualClock::shared();
    let store = open(home.path(), &clock, |_| {}).await;
    for (n, size) in [9_900_000, 1, (4 << 20) - 100, 4 << 20, 0].into_iter().enumerate() {
        add(&*store, vec![task(format!("t{n}"), vec![n as u8; size])]).await;
    }
    let manifest = restored(&taken(&*store), new.path());
    assert!(manifest.chunks > 5, "{manifest:?}");
    let copy = open(new.path(), &clock, |_| {}).await;
    assert_same(&Contents::read(&*store).await.unwrap(), &Contents::read(&*copy).await.unwrap());
}

/// Everything acknowledged before the backup began is in it.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_in_it() {
    let home = tempfile::tempdir().unwrap();
    let clock = ManualClock::shared();
    let store = open(home.path(), &clock, |_| {}).await;
    let (sent, mut acknowledged) = tokio::sync::watch::channel(0);
    let writer = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            for n in 0.. {
                add(&*store, vec![task(format!("t{n}"), vec![0; 100])]).await;
                if sent.send(n).is_err() {
                    return;
                }
            }
        }
    });
    for round in 1..=5 {
        let enough = round * 50;
        let last = *acknowledged.wait_for(|last| *last >= enough).await.unwrap();
        let reader = Arc::clone(&store);
        let bytes = tokio::task::spawn_blocking(move || taken(&*reader)).await.unwrap();
        let new = tempfile::tempdir().unwrap();
        let manifest = restored(&bytes, new.path());
        let copy = open(new.path(), &clock, |_| {}).await;
        assert!(manifest.tasks > last, "{manifest:?} without {last}");
        // All tasks without a gap, up to some last one.
        let ids: Vec<String> = Contents::read(&*copy)
            .await
            .unwrap()
            .tasks
            .iter()
            .rev()
            .map(|task| task.record.id.to_string())
            .collect();
        assert_eq!(ids, (0..manifest.tasks).map(|n| format!("t{n}")).collect::<Vec<_>>());
    }
    drop(acknowledged);
    writer.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_backup_at_a_time_and_none_of_a_closed_store() {
    let home = tempfile::tempdir().unwrap();
    let (store, _) = populated(home.path(), |_| {}).await;
    let mut first = store.backup().unwrap();
    assert!(matches!(store.backup(), Err(Error::BackupRunning)));
    first.next().unwrap();
    assert!(matches!(store.backup(), Err(Error::BackupRunning)));
    drop(first);
    let mut open_one = store.backup().unwrap();
    open_one.next().unwrap();
    store.close().await.unwrap();
    assert!(matches!(open_one.next(), Err(Error::Closed)), "it does not keep the files of a closed store");
    assert!(matches!(open_one.next(), Ok(None)));
    assert!(matches!(store.backup(), Err(Error::Closed)));
}
