//! Queues and types that come and go.

use redb::{Database, ReadableDatabase, ReadableTableMetadata};

use super::*;
use crate::embedded::flow::FLOW;
use crate::embedded::tables::{LANES, QUEUES};

fn of(id: &str, queue: &str, kind: &str) -> NewTask {
    NewTask { queue: Name::new(queue).unwrap(), kind: Name::new(kind).unwrap(), ..task(id) }
}

/// Adds a task for each number, of a queue and type that nothing else has.
async fn add_many(store: &EmbeddedStore, numbers: std::ops::Range<usize>) {
    let tasks: Vec<NewTask> =
        numbers.map(|i| of(&format!("task-{i}"), &format!("q-{}", i % 10), &format!("type-{i}"))).collect();
    for some in tasks.chunks(1000) {
        let added = add(store, some.to_vec()).await.unwrap();
        assert!(added.iter().all(|it| matches!(it, Inserted::New(_))));
    }
}

async fn all(store: &EmbeddedStore) -> Vec<Record> {
    let (mut records, mut before) = (Vec::new(), None);
    loop {
        let scan = store.scan(List { before, limit: 1000, ..List::default() }).await.unwrap();
        records.extend(scan.records);
        before = scan.next;
        if before.is_none() {
            return records;
        }
    }
}

async fn remove(store: &EmbeddedStore, records: &[Record]) {
    for some in records.chunks(1000) {
        let removed = Change::Removed { at: 1.into() };
        let transitions = some.iter().map(|record| on(record, removed.clone())).collect();
        let done = store.commit(transitions).await.unwrap();
        assert!(done.iter().all(|it| matches!(it, Committed::Done(_))));
    }
}

fn on(record: &Record, change: Change) -> Transition {
    Transition { id: record.id.clone(), seq: record.seq, revision: record.revision, change }
}

/// Looks twice, so that everything without tasks is released.
async fn release(store: &EmbeddedStore) -> usize {
    let mut names = 0;
    for _ in 0..2 {
        loop {
            let released = store.release_names().await.unwrap();
            names += released.names;
            if !released.more {
                break;
            }
        }
    }
    names
}

/// Queues and lanes in memory.
fn known(store: &EmbeddedStore) -> (usize, usize) {
    store.shared.machine.lock().name_counts()
}

/// Rows of queues, lanes and flow in the tables of a store that is closed.
fn rows(dir: &Path) -> (u64, u64, u64) {
    let read = Database::open(dir.join("index.redb")).unwrap().begin_read().unwrap();
    let flow = read.open_table(FLOW).unwrap().len().unwrap();
    (read.open_table(QUEUES).unwrap().len().unwrap(), read.open_table(LANES).unwrap().len().unwrap(), flow)
}

#[tokio::test]
async fn thousands_of_types_leave_nothing_behind() {
    const MANY: usize = 12_000;
    let dir = tempfile::tempdir().unwrap();
    let options = Options { checkpoint_bytes: 256 << 10, ..options(dir.path()) };
    let store = EmbeddedStore::open(options.clone(), ManualClock::shared()).await.unwrap();
    store.shared.machine.lock().bound_lanes(MANY, MANY);
    add_many(&store, 0..MANY).await;
    assert!(matches!(add(&store, vec![of("new", "q-0", "new")]).await, Err(Error::TooManyLanes)));
    remove(&store, &all(&store).await).await;
    // There is room at once, before anything is released.
    let added = add(&store, vec![of("new", "q-0", "new"), of("other", "other", "type-0")]).await.unwrap();
    assert!(matches!(added[..], [Inserted::New(_), Inserted::New(_)]));
    assert!(known(&store).1 > MANY);
    assert!(release(&store).await > MANY);
    assert_eq!(known(&store), (2, 2));
    store.close().await.unwrap();
    let (queues, lanes, flow) = rows(dir.path());
    assert_eq!((queues, lanes), (2, 2));
    assert!(flow < 10, "{flow} rows of the flow");
    let store = EmbeddedStore::open(options, ManualClock::shared()).await.unwrap();
    assert_eq!(known(&store), (2, 2));
    assert_eq!(all(&store).await.len(), 2);
    store.close().await.unwrap();
}

#[tokio::test]
async fn many_idle_names_that_a_killed_store_left_are_not_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    add_many(&store, 0..3000).await;
    store.set_paused(&Name::new("paused").unwrap(), true).await.unwrap();
    remove(&store, &all(&store).await).await;
    add(&store, vec![of("stays", "q-1", "stays")]).await.unwrap();
    // Nobody released them.
    store.close().await.unwrap();
    assert_eq!(rows(dir.path()).1, 3001);
    let store = open(dir.path()).await.unwrap();
    assert_eq!(known(&store), (2, 1), "the queue with a task, and the one that is paused");
    store.close().await.unwrap();
    assert_eq!((rows(dir.path()).0, rows(dir.path()).1), (2, 1));
}

#[tokio::test]
async fn a_killed_store_has_the_same_tasks_whatever_was_released() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    add_many(&store, 0..60).await;
    let records = all(&store).await;
    remove(&store, &records[..30]).await;
    store.close().await.unwrap();
    let store = open(dir.path()).await.unwrap();
    // The tables have rows of what is released from here on, and the log does not say that it was. Its numbers go to others.
    release(&store).await;
    remove(&store, &all(&store).await[10..]).await;
    release(&store).await;
    add_many(&store, 100..130).await;
    let wide = Claim {
        queues: (0..10)
            .map(|i| Queue { name: Name::new(&format!("q-{i}")).unwrap(), weight: 1 + i })
            .collect(),
        ..claim(7, 0)
    };
    let mut claimed = store.claim(wide).await.unwrap();
    claimed.sort_by_key(|task| task.record.seq);
    let copy = tempfile::tempdir().unwrap();
    copy_all(dir.path(), copy.path());
    let again = open(copy.path()).await.unwrap();
    assert_eq!(all(&again).await, all(&store).await);
    assert_eq!(again.ledger().await.unwrap(), store.ledger().await.unwrap());
    let with_tasks = async |store: &EmbeddedStore| {
        let mut queues = store.queues(None).await.unwrap();
        queues.retain(|queue| queue.by_state != [0; 8]);
        queues
    };
    assert_eq!(with_tasks(&again).await, with_tasks(&store).await);
    store.close().await.unwrap();
    again.close().await.unwrap();
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_all(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// Changes the rows of lanes of a store that is closed; `None` removes one.
fn rewrite_lanes(dir: &Path, change: impl Fn(u32, Vec<u8>) -> Option<Vec<u8>>) {
    let write = Database::open(dir.join("index.redb")).unwrap().begin_write().unwrap();
    {
        let mut table = write.open_table(LANES).unwrap();
        let lanes: Vec<(u32, Vec<u8>)> = table
            .iter()
            .unwrap()
            .map(Result::unwrap)
            .map(|(number, value)| {
                let value = seal::open(u64::from(number.value()), value.value()).unwrap().to_vec();
                (number.value(), value)
            })
            .collect();
        for (number, value) in lanes {
            match change(number, value) {
                Some(mut value) => {
                    drop(table.insert(number, seal::close(u64::from(number), &mut value)).unwrap());
                }
                None => drop(table.remove(number).unwrap()),
            }
        }
    }
    write.commit().unwrap();
}

#[tokio::test]
async fn tables_of_an_earlier_version_are_counted() {
    use prost::Message;

    use crate::embedded::tables::LaneMessage;

    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    add_many(&store, 0..50).await;
    let records = all(&store).await;
    remove(&store, &records[20..]).await;
    store.close().await.unwrap();
    rewrite_lanes(dir.path(), |_, value| {
        let lane = LaneMessage::decode(&value[..]).unwrap();
        assert!(lane.tasks.is_some());
        Some(LaneMessage { tasks: None, ..lane }.encode_to_vec())
    });
    let store = open(dir.path()).await.unwrap();
    assert_eq!(all(&store).await, records[..20]);
    release(&store).await;
    assert_eq!(known(&store), (10, 20));
    remove(&store, &records[..19]).await;
    release(&store).await;
    assert_eq!(known(&store), (1, 1));
    store.close().await.unwrap();
    assert_eq!((rows(dir.path()).0, rows(dir.path()).1), (1, 1));
}

#[tokio::test]
async fn a_lost_row_of_a_type_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    add_many(&store, 0..20).await;
    store.close().await.unwrap();
    rewrite_lanes(dir.path(), |number, value| (number != 7).then_some(value));
    assert!(matches!(open(dir.path()).await, Err(Error::Damaged(_))));
}

#[tokio::test]
async fn a_page_that_is_being_read_survives_the_release_of_its_names() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    add_many(&store, 0..20).await;
    store.close().await.unwrap();
    let store = open(dir.path()).await.unwrap();
    let listing = store.shared.machine.lock().begin_list(List { limit: 100, ..List::default() });
    remove(&store, &all(&store).await).await;
    release(&store).await;
    add_many(&store, 100..105).await;
    let stored = listing.read().unwrap();
    let page = store.shared.machine.lock().end_list(listing, stored).unwrap();
    assert!(page.tasks.is_empty(), "all of them are gone meanwhile");
    store.close().await.unwrap();
}
