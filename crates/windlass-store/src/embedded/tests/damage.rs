//! Data directories with files that are missing, cut short, swapped or from two stores, as operators and broken disks leave them.

use std::path::PathBuf;
use std::process::Command;

use super::*;

pub(super) const SAVED: usize = 200;
pub(super) const LOGGED: usize = 100;

fn durable(dir: &Path) -> Options {
    Options { durability: Durability::Sync, segment_bytes: 16 << 10, ..options(dir) }
}

pub(super) async fn open_durable(dir: &Path) -> Result<Arc<EmbeddedStore>, Error> {
    EmbeddedStore::open(durable(dir), ManualClock::shared()).await
}

/// A store that was killed. The ids of its tasks begin with `prefix`; some are in the tables, others only in the log.
pub(super) async fn killed(prefix: &str) -> tempfile::TempDir {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open_durable(dir.path()).await.unwrap();
    let tasks = |from: usize, to: usize| (from..to).map(|n| task(&format!("{prefix}-{n:04}"))).collect();
    add(&store, tasks(0, SAVED)).await.unwrap();
    store.close().await.unwrap();
    let store = open_durable(dir.path()).await.unwrap();
    for from in (SAVED..SAVED + LOGGED).step_by(10) {
        add(&store, tasks(from, from + 10)).await.unwrap();
    }
    // Nothing is on its way to the disk: a copy is what a kill would leave.
    copy_dir(dir.path(), copy.path());
    store.close().await.unwrap();
    copy
}

pub(super) fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        // Files that the log prepares ahead of need come and go.
        if target.extension().is_some_and(|kind| kind == "new" || kind == "spare") {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

pub(super) fn segments(dir: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(dir.join("log")).unwrap().map(|file| file.unwrap().path());
    let mut found: Vec<_> = files.filter(|path| path.extension().is_some_and(|kind| kind == "seg")).collect();
    found.sort();
    found
}

pub(super) async fn count(store: &EmbeddedStore) -> usize {
    store.list(List { limit: 1000, ..List::default() }).await.unwrap().tasks.len()
}

/// Opens a damaged store, which must be refused with a message that names the cause and a remedy.
pub(super) async fn refused(dir: &Path, cause: &str) {
    match open_durable(dir).await {
        Err(Error::Damaged(words)) => {
            assert!(words.contains(cause), "{cause}: {words}");
            assert!(
                words.contains("windlass backup restore") && words.contains("windlass doctor salvage"),
                "{words}"
            );
        }
        Err(other) => panic!("{cause}: {other}"),
        Ok(store) => panic!("{cause}: opens with {} tasks", count(&store).await),
    }
}

#[tokio::test]
async fn a_killed_store_opens_with_everything() {
    let dir = killed("a").await;
    assert!(segments(dir.path()).len() > 1, "the tests below need two segments");
    let store = open_durable(dir.path()).await.unwrap();
    assert_eq!(count(&store).await, SAVED + LOGGED);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_log_that_is_gone_is_refused() {
    let dir = killed("a").await;
    for path in segments(dir.path()) {
        fs::remove_file(path).unwrap();
    }
    refused(dir.path(), "is missing").await;
    fs::remove_dir_all(dir.path().join("log")).unwrap();
    refused(dir.path(), "is missing").await;
    refused(dir.path(), "is missing").await;
}

#[tokio::test]
async fn a_log_without_its_last_segment_is_refused() {
    let dir = killed("a").await;
    fs::remove_file(segments(dir.path()).pop().unwrap()).unwrap();
    refused(dir.path(), "is missing").await;
}

#[tokio::test]
async fn a_segment_cut_at_any_length_is_refused() {
    let dir = killed("a").await;
    for path in segments(dir.path()) {
        let whole = fs::read(&path).unwrap();
        for length in [0, 100, 4096, 5000, whole.len() / 2, whole.len() - 1] {
            fs::write(&path, &whole[..length]).unwrap();
            refused(dir.path(), "seg").await;
        }
        fs::write(&path, whole).unwrap();
    }
    let store = open_durable(dir.path()).await.unwrap();
    assert_eq!(count(&store).await, SAVED + LOGGED);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_log_that_ends_before_the_tables_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_durable(dir.path()).await.unwrap();
    add(&store, vec![task("a")]).await.unwrap();
    store.close().await.unwrap();
    let old = tempfile::tempdir().unwrap();
    copy_dir(&dir.path().join("log"), old.path());
    let store = open_durable(dir.path()).await.unwrap();
    add(&store, vec![task("b")]).await.unwrap();
    store.close().await.unwrap();
    fs::remove_dir_all(dir.path().join("log")).unwrap();
    copy_dir(old.path(), &dir.path().join("log"));
    refused(dir.path(), "the log ends before entry").await;
}

#[tokio::test]
async fn an_index_that_is_gone_is_refused() {
    let dir = killed("a").await;
    fs::remove_file(dir.path().join("index.redb")).unwrap();
    refused(dir.path(), "index.redb").await;
    fs::remove_dir_all(dir.path().join("blocks")).unwrap();
    refused(dir.path(), "index.redb is missing").await;
    assert!(!dir.path().join("index.redb").exists());
}

#[tokio::test]
async fn files_of_two_stores_are_refused() {
    let (one, other) = (killed("a").await, killed("b").await);
    for parts in [&["index.redb", "blocks"] as &[&str], &["log"], &["FORMAT"], &["index.redb"], &["blocks"]] {
        let mixed = tempfile::tempdir().unwrap();
        copy_dir(one.path(), mixed.path());
        for part in parts {
            let (from, to) = (other.path().join(part), mixed.path().join(part));
            if from.is_dir() {
                fs::remove_dir_all(&to).unwrap();
                copy_dir(&from, &to);
            } else {
                fs::copy(from, to).unwrap();
            }
        }
        refused(mixed.path(), "another store").await;
    }
}

/// An idle store confirms its last group, so that damage to it is not mistaken for a torn write.
#[tokio::test]
async fn a_flipped_bit_in_the_last_acknowledged_group_is_refused() {
    let dir = killed("a").await;
    let store = open_durable(dir.path()).await.unwrap();
    add(&store, vec![task("last-of-all")]).await.unwrap();
    // The idle store writes the vouch on its own: 48 bytes after the last frame, whose padding is zeros.
    let vouched = || {
        let bytes = fs::read(segments(dir.path()).pop().unwrap()).unwrap();
        let at = find(&bytes, b"last-of-all").expect("the task is in the log");
        find(&bytes[at..], b"WLfr").map(|_| (bytes, at))
    };
    let (mut bytes, at) = loop {
        match vouched() {
            Some(found) => break found,
            None => tokio::task::yield_now().await,
        }
    };
    let copy = tempfile::tempdir().unwrap();
    copy_dir(dir.path(), copy.path());
    store.close().await.unwrap();
    let opened = tempfile::tempdir().unwrap();
    copy_dir(copy.path(), opened.path());
    let store = open_durable(opened.path()).await.unwrap();
    assert_eq!(count(&store).await, SAVED + LOGGED + 1);
    store.close().await.unwrap();
    bytes[at] ^= 1;
    fs::write(segments(copy.path()).pop().unwrap(), bytes).unwrap();
    refused(copy.path(), "is damaged at byte").await;
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).rposition(|window| window == wanted)
}

/// A directory of format 5, left by a release that was killed.
pub(super) fn format_5() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/format-5.tar.gz");
    assert!(Command::new("tar").args(["xzf", fixture, "-C"]).arg(dir.path()).status().unwrap().success());
    let data = dir.path().join("data");
    (dir, data)
}

#[tokio::test]
async fn a_directory_of_format_5_is_upgraded() {
    let (_dir, data) = format_5();
    for round in 0..2 {
        let store = open_durable(&data).await.unwrap();
        let format = fs::read_to_string(data.join("FORMAT")).unwrap();
        assert!(format.starts_with("windlass-data 6\nstore "), "{format}");
        let ledger = store.ledger().await.unwrap();
        assert_eq!((ledger.submitted, ledger.completed, ledger.cancelled), (51 + round, 5, 1));
        assert_eq!(count(&store).await as u64, 51 + round);
        for (id, state) in [("l4", "pending"), ("p06", "completed"), ("p05", "running"), ("w:b", "blocked")] {
            let found = store.get(&TaskId::new(id).unwrap()).await.unwrap().expect(id);
            assert_eq!(found.record.state.name().as_str(), state, "{id}");
        }
        add(&store, vec![task(&format!("new-{round}"))]).await.unwrap();
        store.close().await.unwrap();
    }
    // From now on its log may not go missing.
    fs::remove_dir_all(data.join("log")).unwrap();
    refused(&data, "is missing").await;
}

#[tokio::test]
async fn an_upgrade_that_was_interrupted_goes_on() {
    let (_dir, data) = format_5();
    open_durable(&data).await.unwrap().close().await.unwrap();
    // Everything was saved and the earlier log removed, but the format was not written yet.
    fs::write(data.join("FORMAT"), "windlass-data 5\n").unwrap();
    let store = open_durable(&data).await.unwrap();
    assert_eq!(count(&store).await, 51);
    store.close().await.unwrap();
    open_durable(&data).await.unwrap().close().await.unwrap();
}

#[tokio::test]
async fn an_upgrade_without_room_for_the_tables_keeps_the_log() {
    let (_dir, data) = format_5();
    // No disk has room for two segments of this size.
    let huge = Options { segment_bytes: 1 << 58, ..durable(&data) };
    let refused = EmbeddedStore::open(huge, ManualClock::shared()).await.unwrap_err();
    assert!(matches!(refused, Error::NoSpace), "{refused}");
    let store = open_durable(&data).await.unwrap();
    assert_eq!(count(&store).await, 51);
    store.close().await.unwrap();
}
