//! The log as its owner sees it. `damage` has what disks and crashes do to it, `model` random histories.

mod damage;
mod missing;
mod model;
mod spares;

use super::segment::{HEADER_BYTES, segment_path};
use super::*;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// The smallest segment there is: a header and one block of frames.
const SMALL: u64 = 2 * HEADER_BYTES;

fn small(dir: &Path) -> Options {
    Options { segment_bytes: SMALL, spare_segments: 0, ..Options::new(dir) }
}

/// The options of a log that exists already.
fn existing(dir: &Path) -> Options {
    Options { expected: Expected::Log, ..small(dir) }
}

/// Opens the log and returns the entries shown, after checking that their indexes are consecutive.
fn open(options: Options, from: u64) -> Result<(Log, Vec<Bytes>), Error> {
    let mut shown = Vec::new();
    let log = Log::open(options, from, &mut |index, entry| {
        assert_eq!(index, from + shown.len() as u64, "entries are shown in order, each once");
        shown.push(entry);
        Ok(())
    })?;
    assert!(log.next_index() >= from);
    Ok((log, shown))
}

/// An entry that no other index has.
fn entry(index: u64, bytes: usize) -> Bytes {
    let mut entry = format!("entry {index} ").into_bytes();
    let filler = index.to_le_bytes()[0] ^ 0x5a;
    entry.resize(entry.len().max(bytes), filler);
    Bytes::from(entry)
}

/// Appends and syncs `batches` of two entries of `bytes` bytes each, and returns the entries.
fn fill(log: &mut Log, batches: usize, bytes: usize) -> Vec<Bytes> {
    let mut all = Vec::new();
    for _ in 0..batches {
        let next = log.next_index();
        let batch = [entry(next, bytes), entry(next + 1, bytes)];
        assert_eq!(log.append(&batch).unwrap(), next);
        log.sync().unwrap();
        all.extend(batch);
    }
    all
}

/// Every file of the directory with its content.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let mut found: Vec<_> = files.filter(|path| path.extension().is_some_and(|kind| kind == "seg")).collect();
    found.sort();
    found
}

fn inodes(dir: &Path) -> Vec<u64> {
    segments(dir).iter().map(|path| fs::metadata(path).unwrap().ino()).collect()
}

#[test]
fn entries_come_back_over_many_segments() {
    let dir = TempDir::new().unwrap();
    let (mut log, shown) = open(small(dir.path()), 1).unwrap();
    assert!(shown.is_empty());
    let mut all = fill(&mut log, 40, 300);
    let written = log.written_bytes();
    drop(log);
    assert!(segments(dir.path()).len() > 5, "the test needs many segments");

    let (mut log, shown) = open(small(dir.path()), 1).unwrap();
    assert_eq!(shown, all);
    assert_eq!(log.next_index(), 81);
    assert_eq!(log.written_bytes(), written);
    assert_eq!(log.reclaimer().live_bytes(), written);
    all.extend(fill(&mut log, 10, 300));
    drop(log);
    assert_eq!(open(small(dir.path()), 1).unwrap().1, all);
    assert_eq!(open(small(dir.path()), 33).unwrap().1, all[32..]);
}

#[test]
fn an_entry_may_be_empty_and_a_batch_too() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 0).unwrap();
    assert_eq!(log.append([b""; 3]).unwrap(), 0);
    assert_eq!(log.append::<[&[u8]; 0]>([]).unwrap(), 3);
    log.sync().unwrap();
    drop(log);
    assert_eq!(open(small(dir.path()), 0).unwrap().1, vec![Bytes::new(); 3]);
}

#[test]
fn a_batch_larger_than_a_segment_gets_a_segment_of_its_own() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(Options { spare_segments: 1, ..small(dir.path()) }, 1).unwrap();
    log.reclaimer().settle();
    let mut all = fill(&mut log, 1, 10);
    all.extend(fill(&mut log, 1, 3 << 20));
    all.extend(fill(&mut log, 2, 1000));
    assert_eq!(segments(dir.path()).len(), 3);
    drop(log);
    // So many that there is room for another when the segments are released.
    const SPARES: usize = 20;
    let (log, shown) = open(Options { spare_segments: SPARES, ..small(dir.path()) }, 1).unwrap();
    assert_eq!(shown, all);

    let reclaimer = log.reclaimer();
    reclaimer.release(log.next_index());
    reclaimer.settle();
    let files = contents(dir.path()).into_iter().filter(|(path, _)| !path.ends_with("NEWEST"));
    let sizes: Vec<_> = files.map(|(_, bytes)| bytes.len() as u64).collect();
    // Besides the current one. A released one is kept even if all others were ready before.
    assert!((SPARES + 1..=SPARES + 2).contains(&sizes.len()), "{sizes:?}");
    assert!(sizes.iter().all(|bytes| *bytes == SMALL), "a segment of odd size is kept as a spare: {sizes:?}");
}

#[test]
fn a_batch_beyond_the_limit_is_refused_and_the_log_goes_on() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    let too_large = vec![0_u8; MAX_BATCH_BYTES];
    assert!(matches!(log.append([&too_large]), Err(Error::TooLarge)));
    let all = fill(&mut log, 1, 10);
    drop(log);
    assert_eq!(open(small(dir.path()), 1).unwrap().1, all);
}

#[test]
fn released_segments_go_and_the_rest_replays() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    let all = fill(&mut log, 40, 300);
    let reclaimer = log.reclaimer();
    let before = reclaimer.live_bytes();
    reclaimer.release(41);
    reclaimer.settle();
    assert!(reclaimer.live_bytes() < before * 6 / 10);
    let lowest = segments(dir.path())[0].clone();
    let second = segments(dir.path())[1].clone();
    assert!(lowest <= segment_path(dir.path(), 41) && second > segment_path(dir.path(), 41));
    drop(log);

    assert_eq!(open(small(dir.path()), 41).unwrap().1, all[40..]);
    let untouched = contents(dir.path());
    let gap = open(small(dir.path()), 1).unwrap_err();
    assert!(matches!(gap, Error::Gap { wanted: 1, first } if segment_path(dir.path(), first) == lowest));
    assert_eq!(contents(dir.path()), untouched);
}

#[test]
fn releasing_everything_keeps_the_segment_being_written() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    fill(&mut log, 40, 300);
    log.reclaimer().release(u64::MAX);
    log.reclaimer().settle();
    assert_eq!(segments(dir.path()).len(), 1);
    let all = fill(&mut log, 1, 10);
    drop(log);
    assert_eq!(open(small(dir.path()), 81).unwrap().1, all);
}

#[test]
fn a_recycled_segment_does_not_show_what_it_held_before() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(Options { spare_segments: 1, ..small(dir.path()) }, 1).unwrap();
    let reclaimer = log.reclaimer();
    reclaimer.release(u64::MAX);
    let mut lives = BTreeMap::<u64, Vec<PathBuf>>::new();
    for _ in 0..40 {
        reclaimer.settle();
        // Frames of one size: an old frame begins exactly where each new one ends.
        fill(&mut log, 1, 500);
        reclaimer.settle();
        let path = segments(dir.path()).pop().unwrap();
        let names = lives.entry(fs::metadata(&path).unwrap().ino()).or_default();
        if names.last() != Some(&path) {
            names.push(path);
        }
        let from = log.next_index() - 2;
        let (copy, expected) = (copy_of(dir.path()), [entry(from, 500), entry(from + 1, 500)]);
        let (mut reopened, shown) = open(small(copy.path()), from).unwrap();
        assert_eq!(shown, expected);
        let more = fill(&mut reopened, 1, 10);
        drop(reopened);
        assert_eq!(open(small(copy.path()), from).unwrap().1, [&expected[..], &more].concat());
    }
    assert!(lives.values().any(|names| names.len() > 3), "files are used again: {lives:?}");
    assert_eq!(reclaimer.ready_spares(), 1);
}

fn copy_of(dir: &Path) -> TempDir {
    let copy = TempDir::new().unwrap();
    for path in contents(dir).into_keys() {
        fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    copy
}

#[test]
fn a_visitor_that_fails_stops_the_replay() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    fill(&mut log, 4, 10);
    drop(log);
    let mut calls = 0;
    let stopped = Log::open(small(dir.path()), 1, &mut |index, _| {
        calls += 1;
        if index == 3 { Err("enough".into()) } else { Ok(()) }
    });
    assert!(matches!(stopped, Err(Error::Visit(error)) if error.to_string() == "enough"));
    assert_eq!(calls, 3);
}

#[test]
fn a_failed_write_poisons_the_log() {
    for direct in [true, false] {
        let dir = TempDir::new().unwrap();
        let (mut log, _) = open(Options { direct, ..small(dir.path()) }, 1).unwrap();
        let all = fill(&mut log, 2, 10);
        let path = log.active.as_ref().unwrap().path.clone();
        let read_only = File::open(&path).unwrap();
        let good = std::mem::replace(log.active.as_mut().unwrap().written(), read_only);
        assert!(matches!(log.append([b"lost"]), Err(Error::Io { action: "write", .. })));
        *log.active.as_mut().unwrap().written() = good;
        assert!(matches!(log.append([b"late"]), Err(Error::Poisoned)));
        assert!(matches!(log.sync(), Err(Error::Poisoned)));
        drop(log);
        assert_eq!(open(small(dir.path()), 1).unwrap().1, all);
    }
}

#[test]
fn a_failed_sync_is_never_tried_again() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    fill(&mut log, 2, 10);
    log.append([b"in doubt"]).unwrap();
    // A device takes no sync.
    let device = File::options().write(true).open("/dev/null").unwrap();
    let good = std::mem::replace(&mut log.active.as_mut().unwrap().file, Arc::new(device));
    assert!(matches!(log.sync(), Err(Error::Io { action: "sync", .. })));
    assert_eq!(log.durable_index(), 5);
    log.active.as_mut().unwrap().file = good;
    assert!(matches!(log.sync(), Err(Error::Poisoned)));
    assert!(matches!(log.append([b"late"]), Err(Error::Poisoned)));
}

/// What a sync covers is what was appended before it was asked for, whatever comes while it is under way.
#[test]
fn a_sync_goes_beside_an_append() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    log.append([b"first"]).unwrap();
    let earlier = log.unsynced();
    log.append([b"second"]).unwrap();
    let later = log.unsynced();
    earlier.sync().unwrap();
    assert_eq!(log.durable_index(), 2);
    later.sync().unwrap();
    assert_eq!(log.durable_index(), 3);
    log.append([b"third"]).unwrap();
    let (earlier, later) = (log.unsynced(), log.unsynced());
    later.sync().unwrap();
    earlier.sync().unwrap();
    assert_eq!(log.durable_index(), 4);
    drop(log);
    assert_eq!(open(small(dir.path()), 1).unwrap().1, ["first", "second", "third"]);
}

#[test]
fn a_sync_that_fails_beside_an_append_poisons_the_log() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    log.append([b"in doubt"]).unwrap();
    let device = File::options().write(true).open("/dev/null").unwrap();
    let good = std::mem::replace(&mut log.active.as_mut().unwrap().file, Arc::new(device));
    let failing = log.unsynced();
    log.active.as_mut().unwrap().file = good;
    log.append([b"behind it"]).unwrap();
    let behind = log.unsynced();
    assert!(matches!(failing.sync(), Err(Error::Io { action: "sync", .. })));
    assert!(matches!(behind.sync(), Err(Error::Poisoned)));
    assert!(matches!(log.append([b"late"]), Err(Error::Poisoned)));
    assert_eq!(log.durable_index(), 1);
}

#[test]
fn leaving_a_segment_syncs_it() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    log.append([entry(1, 3000)]).unwrap();
    assert_eq!(log.durable_index(), 1);
    log.append([entry(2, 3000)]).unwrap();
    assert_eq!(log.durable_index(), 2, "a later sync would not reach the segment left behind");
}

/// A file system of its own, small enough to fill.
struct Disk {
    dir: TempDir,
}

impl Disk {
    fn mount(bytes: u64) -> Option<Disk> {
        let dir = TempDir::new().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"]).arg(dir.path());
        mount.output().is_ok_and(|output| output.status.success()).then_some(Disk { dir })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.dir.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn a_full_disk_refuses_a_batch_and_takes_later_ones() {
    let Some(disk) = Disk::mount(8 * SMALL) else {
        eprintln!("skipped: mounting a small file system needs root");
        return;
    };
    let dir = disk.dir.path().join("log");
    let (mut log, _) = open(small(&dir), 1).unwrap();
    let mut all = fill(&mut log, 1, 1000);
    let refused = log.append([entry(0, 200_000)]).unwrap_err();
    assert!(matches!(refused, Error::NoSpace { .. }), "{refused}");
    assert_eq!(log.next_index(), 3);
    all.extend(fill(&mut log, 1, 100));

    let full = loop {
        match log.append([entry(log.next_index(), 2500)]) {
            Ok(index) => all.push(entry(index, 2500)),
            Err(error) => break error,
        }
        log.sync().unwrap();
    };
    assert!(matches!(full, Error::NoSpace { .. }), "{full}");
    assert_eq!(open(small(copy_of(&dir).path()), 1).unwrap().1, all);
    let reclaimer = log.reclaimer();
    reclaimer.release(log.next_index());
    reclaimer.settle();
    let from = log.next_index();
    let later = fill(&mut log, 3, 1000);
    drop(log);
    assert_eq!(open(small(&dir), from).unwrap().1, later);
}
