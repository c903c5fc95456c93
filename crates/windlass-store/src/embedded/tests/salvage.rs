//! Copying what is whole out of a refused store.

use std::collections::BTreeMap;
use std::path::PathBuf;

use windlass_core::Links;
use windlass_core::{CancelReason, State, StateName};

use super::damage::{LOGGED, SAVED, copy_dir, count, format_5, killed, open_durable, refused, segments};
use super::*;
use crate::embedded::salvage::{self, Loss, Progress, Report, Watch};

#[derive(Debug, Default)]
struct Losses(Vec<Loss>);

impl Watch for Losses {
    fn progress(&mut self, _: Progress) {}

    fn loss(&mut self, loss: Loss) {
        self.0.push(loss);
    }
}

impl Losses {
    fn ids(&self) -> Vec<&str> {
        let mut ids: Vec<&str> = self
            .0
            .iter()
            .filter_map(|loss| if let Loss::Task { id, .. } = loss { Some(id.as_str()) } else { None })
            .collect();
        ids.sort_unstable();
        ids
    }
}

fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(files(&entry));
        } else {
            found.insert(entry.clone(), fs::read(&entry).unwrap());
        }
    }
    found
}

async fn try_salvage(from: &Path, to: &Path) -> Result<(Report, Losses), Error> {
    let options = salvage::Options { from: from.to_owned(), to: to.to_owned(), segment_bytes: 64 << 10 };
    let mut losses = Losses::default();
    let report = salvage::salvage(&options, ManualClock::shared(), &mut losses).await?;
    Ok((report, losses))
}

/// Salvages a store, which must be left as it was, and opens the new one.
async fn salvaged(from: &Path) -> (Report, Losses, Arc<EmbeddedStore>, tempfile::TempDir) {
    let before = files(from);
    let home = tempfile::tempdir().unwrap();
    let (report, losses) = try_salvage(from, &home.path().join("new")).await.unwrap();
    assert!(before == files(from), "the source changed");
    let names: Vec<_> = fs::read_dir(home.path().join("new")).unwrap().collect();
    assert_eq!(names.len(), 5, "nothing is left to clear away: {names:?}");
    let store = open_durable(&home.path().join("new")).await.unwrap();
    assert_eq!(count(&store).await as u64, report.tasks(), "{report:?}");
    (report, losses, store, home)
}

/// Flips a bit wherever `text` occurs in the files of a folder.
fn flip(dir: &Path, text: &str) {
    let mut found = false;
    for (path, mut bytes) in files(dir) {
        for at in 0..bytes.len().saturating_sub(text.len()) {
            if &bytes[at..at + text.len()] == text.as_bytes() {
                bytes[at] ^= 1;
                found = true;
            }
        }
        fs::write(path, bytes).unwrap();
    }
    assert!(found, "{text} is not there");
}

#[tokio::test]
async fn tasks_before_a_missing_segment_are_copied() {
    let dir = killed("a").await;
    fs::remove_file(segments(dir.path()).pop().unwrap()).unwrap();
    refused(dir.path(), "is missing").await;
    let (report, losses, store, home) = salvaged(dir.path()).await;
    assert!((SAVED as u64..(SAVED + LOGGED) as u64).contains(&report.exact), "{report:?}");
    let entries = losses.0.iter().any(|loss| matches!(loss, Loss::Entries { .. }));
    assert!(entries && !report.is_whole(), "{losses:?}");
    store.close().await.unwrap();
    let again = try_salvage(dir.path(), &home.path().join("new")).await.unwrap_err();
    assert!(again.to_string().contains("is not empty"), "{again}");
}

#[tokio::test]
async fn tasks_behind_a_hole_in_the_log_are_copied() {
    let dir = killed("a").await;
    flip(&dir.path().join("log"), "a-0225");
    refused(dir.path(), "is damaged").await;
    let (report, losses, store, _home) = salvaged(dir.path()).await;
    assert_eq!((report.exact, report.submitted), (SAVED as u64 + 20, LOGGED as u64 - 30), "{losses:?}");
    assert!(matches!(losses.0[..], [Loss::Entries { from, to: Some(to) }] if from == to), "{losses:?}");
    assert_eq!(store.get(&TaskId::new("a-0225").unwrap()).await.unwrap(), None);
    assert!(store.get(&TaskId::new("a-0299").unwrap()).await.unwrap().is_some());
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_log_that_has_everything_makes_up_for_a_damaged_block() {
    let dir = killed("a").await;
    flip(&dir.path().join("blocks"), "a-0100");
    refused(dir.path(), "checksum").await;
    let (report, losses, store, _home) = salvaged(dir.path()).await;
    assert_eq!(report.exact, (SAVED + LOGGED) as u64);
    assert!(report.is_whole() && report.tables.is_some(), "{losses:?}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn tasks_of_a_damaged_block_are_named_and_the_others_copied() {
    let dir = killed("a").await;
    flip(&dir.path().join("blocks"), "a-0100");
    // The first entry of the log, without which it cannot make up for the block.
    flip(&dir.path().join("log"), "a-0000");
    refused(dir.path(), "checksum").await;
    let (report, losses, store, _home) = salvaged(dir.path()).await;
    let lost = losses.ids();
    assert!(lost.contains(&"a-0100") && lost.len() == 16, "{losses:?}");
    assert_eq!((report.saved, report.submitted), (SAVED as u64 - 16, LOGGED as u64));
    for n in 0..SAVED + LOGGED {
        let id = format!("a-{n:04}");
        let there = store.get(&TaskId::new(&id).unwrap()).await.unwrap();
        assert_eq!(there.is_none(), lost.contains(&id.as_str()), "{id}");
        if let Some(there) = there {
            assert_eq!(there.body, task(&id).body);
        }
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn without_an_index_the_log_is_copied() {
    let dir = killed("a").await;
    fs::remove_file(dir.path().join("index.redb")).unwrap();
    let (report, losses, store, _home) = salvaged(dir.path()).await;
    assert!(report.submitted + report.exact >= LOGGED as u64, "{report:?} {losses:?}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_store_without_its_format_is_copied_whole() {
    let dir = killed("a").await;
    fs::remove_file(dir.path().join("FORMAT")).unwrap();
    let (report, losses, store, _home) = salvaged(dir.path()).await;
    assert_eq!(report.exact, (SAVED + LOGGED) as u64);
    assert!(report.is_whole() && report.files == 1, "{losses:?}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn files_of_another_store_are_left_out() {
    let (dir, other) = (killed("a").await, killed("b").await);
    for path in segments(dir.path()) {
        fs::remove_file(path).unwrap();
    }
    copy_dir(&other.path().join("log"), &dir.path().join("log"));
    refused(dir.path(), "another store").await;
    let (report, _, store, _home) = salvaged(dir.path()).await;
    assert_eq!((report.exact, report.submitted), (SAVED as u64, 0));
    store.close().await.unwrap();
}

#[tokio::test]
async fn old_leases_are_void_and_dependents_of_lost_tasks_are_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_durable(dir.path()).await.unwrap();
    add(&store, (0..40).map(|n| task(&format!("first-{n:04}"))).collect()).await.unwrap();
    let mut child = task("child");
    let parent = TaskId::new("first-0020").unwrap();
    child.body.links = Some(Box::new(Links { dependencies: vec![parent.clone()], workflow: None }));
    let mut waiting = task("waiting");
    let other = TaskId::new("first-0000").unwrap();
    waiting.body.links = Some(Box::new(Links { dependencies: vec![other], workflow: None }));
    add(&store, vec![child, waiting]).await.unwrap();
    let claimed = store.claim(claim(2, 0)).await.unwrap();
    assert_eq!(claimed.len(), 2);
    store.close().await.unwrap();
    // This damages a neighbour in the same block, because the id of the dependency is in the body of its child as well.
    flip(&dir.path().join("blocks"), "first-0021");
    flip(&dir.path().join("log"), "first-0001");

    let (report, losses, store, _home) = salvaged(dir.path()).await;
    assert_eq!((report.released, report.cancelled), (2, 1), "{losses:?}");
    let state = async |id: &str| store.peek(&TaskId::new(id).unwrap()).await.unwrap().unwrap().state;
    let cancelled = state("child").await;
    assert!(matches!(cancelled, State::Cancelled { reason: CancelReason::Dependency, .. }), "{cancelled:?}");
    assert_eq!(state("waiting").await, State::Blocked { open: 1 });
    let again = store.claim(claim(1, 0)).await.unwrap().pop().unwrap();
    let State::Running(lease) = &again.record.state else { panic!("{again:?}") };
    assert!(lease.token.number > 1 << 32, "{lease:?}");
    for old in claimed {
        let record = store.peek(&old.record.id).await.unwrap().unwrap();
        assert!(record.id == again.record.id || record.state_name() == StateName::Pending, "{record:?}");
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_store_of_format_5_is_copied_with_its_workflows() {
    let (_dir, data) = format_5();
    let before = open_durable(&data).await.unwrap();
    let lists = async |store: &EmbeddedStore| {
        let schedules = store.schedules(crate::ListSchedules { after: None, limit: 100 }).await.unwrap();
        let schedules: Vec<_> = schedules.into_iter().map(|schedule| schedule.id).collect();
        let limits = store.limits(crate::ListLimits { scope: None, after: None, limit: 100 }).await.unwrap();
        let limits: Vec<_> = limits.into_iter().map(|status| (status.name, status.limit)).collect();
        (schedules, limits)
    };
    let (expected, tasks) = (lists(&before).await, count(&before).await);
    before.close().await.unwrap();

    let (_dir, data) = format_5();
    let (report, losses, store, _home) = salvaged(&data).await;
    assert!(report.is_whole(), "{report:?} {losses:?}");
    assert_eq!((count(&store).await, lists(&store).await), (tasks, expected));
    let blocked = store.peek(&TaskId::new("w:b").unwrap()).await.unwrap().unwrap();
    assert_eq!(blocked.state_name(), StateName::Blocked);
    store.close().await.unwrap();

    // Without its tables, what only they had is listed as lost.
    let (_dir, data) = format_5();
    fs::remove_file(data.join("index.redb")).unwrap();
    let (report, losses, store, _home) = salvaged(&data).await;
    assert!(count(&store).await <= tasks);
    assert_eq!(report.is_whole(), count(&store).await == tasks, "{losses:?}");
    store.close().await.unwrap();
}
