//! Torn, flipped, missing and misplaced bytes.

use super::*;
use crate::log::frame::HEAD_BYTES;

/// Where a frame of the test log is.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) path: PathBuf,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) entries: Vec<Bytes>,
}

/// Appends one batch and notes where it went.
pub(super) fn write(log: &mut Log, entries: &[Bytes]) -> Written {
    log.append(entries).unwrap();
    let active = log.active.as_ref().unwrap();
    let bytes = log.frame.frame_bytes();
    let path = active.path.clone();
    Written { path, from: active.at - bytes, to: active.at, entries: entries.to_vec() }
}

pub(super) fn write_synced(log: &mut Log, frames: usize, bytes: usize) -> Vec<Written> {
    let mut all = Vec::new();
    for _ in 0..frames {
        let next = log.next_index();
        all.push(write(log, &[entry(next, bytes), entry(next + 1, bytes)]));
        log.sync().unwrap();
    }
    all
}

pub(super) fn entries(frames: &[Written]) -> Vec<Bytes> {
    frames.iter().flat_map(|frame| frame.entries.clone()).collect()
}

pub(super) fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

pub(super) fn blank(path: &Path, from: u64, to: u64) {
    change(path, |bytes| bytes[from as usize..to as usize].fill(0));
}

#[test]
fn a_torn_last_frame_is_dropped_and_written_over() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    let frames = write_synced(&mut log, 5, 50);
    drop(log);
    let (last, kept) = (&frames[4], entries(&frames[..4]));
    let whole = fs::read(&last.path).unwrap();
    for length in last.from..last.to {
        // The padding is zeros already.
        if whole[length as usize..last.to as usize].iter().all(|byte| *byte == 0) {
            continue;
        }
        fs::write(&last.path, &whole).unwrap();
        blank(&last.path, length, last.to);
        let (mut log, shown) = open(existing(dir.path()), 1).unwrap();
        assert_eq!(shown, kept, "torn at {length}");
        let more = fill(&mut log, 1, 7);
        drop(log);
        let (log, shown) = open(existing(dir.path()), 1).unwrap();
        assert_eq!(shown, [kept.clone(), more].concat(), "torn at {length}");
        drop(log);
    }
}

#[test]
fn a_flipped_bit_is_refused_or_costs_the_last_frame_only() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    let frames = write_synced(&mut log, 11, 300);
    drop(log);
    let (last, all) = (frames.last().unwrap(), entries(&frames));
    let prefix = entries(&frames[..frames.len() - 1]);
    assert_eq!(segments(dir.path()).len(), 2);
    let (mut refused, mut dropped) = (0, 0);
    for path in segments(dir.path()) {
        let whole = fs::read(&path).unwrap();
        let used = frames.iter().filter(|frame| frame.path == path).map(|frame| frame.to).max().unwrap();
        let fields =
            (0..64).chain(frames.iter().flat_map(|frame| frame.from..frame.from + HEAD_BYTES as u64));
        for at in fields.chain((64..SMALL).step_by(11)) {
            let mut flipped = whole.clone();
            flipped[at as usize] ^= 1 << (at % 8);
            fs::write(&path, &flipped).unwrap();
            let in_last = path == last.path && (last.from..last.to).contains(&at);
            match open(small(dir.path()), 1) {
                Ok((_, shown)) if in_last => {
                    dropped += 1;
                    assert_eq!(shown, prefix, "byte {at}");
                }
                Ok((_, shown)) => {
                    assert!(at >= used, "byte {at} of {} was not missed", path.display());
                    assert_eq!(shown, all);
                }
                Err(Error::Damaged { segment, .. }) => {
                    refused += 1;
                    assert!(at < used && !in_last, "byte {at}");
                    assert_eq!(segment, path);
                    assert!(fs::read(&path).unwrap() == flipped, "a damaged log is left as it is");
                }
                Err(other) => panic!("byte {at}: {other}"),
            }
        }
        fs::write(&path, &whole).unwrap();
    }
    assert!(refused > 500 && dropped > 50, "{refused} refused, {dropped} dropped");
}

#[test]
fn damage_says_where_it_is() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    let frames = write_synced(&mut log, 4, 50);
    drop(log);
    blank(&frames[1].path, frames[1].from + 60, frames[1].to);
    let Error::Damaged { segment, offset, index } = open(small(dir.path()), 1).unwrap_err() else {
        panic!("the damage was missed");
    };
    assert_eq!((segment, offset, index), (frames[1].path.clone(), frames[1].from, 3));
}

#[test]
fn a_torn_frame_still_vouches_for_the_ones_before_it() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    let frames = write_synced(&mut log, 3, 50);
    drop(log);
    blank(&frames[1].path, frames[1].from, frames[1].to);
    blank(&frames[2].path, frames[2].from + HEAD_BYTES as u64, frames[2].to);
    assert!(matches!(open(small(dir.path()), 1), Err(Error::Damaged { index: 3, .. })));
}

#[test]
fn the_first_frame_after_opening_vouches_for_what_was_replayed() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    let unsynced = write(&mut log, &[entry(1, 50)]);
    drop(log);
    let (mut log, shown) = open(small(dir.path()), 1).unwrap();
    assert_eq!(shown, unsynced.entries, "shown, therefore durable");
    write(&mut log, &[entry(2, 50)]);
    drop(log);
    blank(&unsynced.path, unsynced.from, unsynced.to);
    assert!(matches!(open(small(dir.path()), 1), Err(Error::Damaged { index: 1, .. })));
}

#[test]
fn a_frame_in_the_place_of_another_is_damage() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    let frames = write_synced(&mut log, 4, 50);
    drop(log);
    let [_, place, other, _] = &frames[..] else { panic!("four frames") };
    change(&place.path, |bytes| {
        bytes.copy_within(other.from as usize..other.to as usize, place.from as usize)
    });
    assert!(matches!(open(small(dir.path()), 1), Err(Error::Damaged { index: 3, .. })));
}

#[test]
fn a_missing_segment_is_damage() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    fill(&mut log, 20, 300);
    drop(log);
    let all = segments(dir.path());
    assert!(all.len() >= 3);
    fs::remove_file(&all[1]).unwrap();
    assert!(matches!(open(small(dir.path()), 1), Err(Error::Damaged { .. })));
}

#[test]
fn a_torn_long_frame_leaves_nothing_behind_shorter_ones() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    let mut all = entries(&write_synced(&mut log, 2, 50));
    let long = write_synced(&mut log, 1, 1200).remove(0);
    drop(log);
    blank(&long.path, long.to - 100, long.to);
    for _ in 0..8 {
        let (mut log, shown) = open(small(dir.path()), 1).unwrap();
        assert_eq!(shown, all);
        all.extend(fill(&mut log, 1, 20));
    }
    assert_eq!(segments(dir.path()).len(), 1, "the torn frame is written over in place");
    assert_eq!(open(small(dir.path()), 1).unwrap().1, all);
}

/// Two frames are written without a sync; the power cut keeps the second one only.
#[test]
fn an_unsynced_frame_behind_a_lost_one_never_comes_back() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    let mut all = entries(&write_synced(&mut log, 2, 50));
    let lost = write(&mut log, &[entry(5, 40)]);
    write(&mut log, &[entry(6, 40)]);
    drop(log);
    blank(&lost.path, lost.from, lost.to);

    let (mut log, shown) = open(small(dir.path()), 1).unwrap();
    assert_eq!(shown, all, "nobody was promised the lost frame: the log opens without it");
    // As long as the lost one, so that the old sixth entry would stand where the new sixth belongs.
    let other = Bytes::from(vec![7; lost.entries[0].len()]);
    log.append([&other]).unwrap();
    log.sync().unwrap();
    drop(log);
    all.push(other);
    let (mut log, shown) = open(small(dir.path()), 1).unwrap();
    assert_eq!(shown, all);
    all.extend(fill(&mut log, 2, 40));
    drop(log);
    assert_eq!(open(small(dir.path()), 1).unwrap().1, all);
}

#[test]
fn the_same_before_the_first_synced_frame_of_a_segment() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    let lost = write(&mut log, &[entry(1, 40)]);
    write(&mut log, &[entry(2, 40)]);
    drop(log);
    blank(&lost.path, lost.from, lost.to);
    let (mut log, shown) = open(small(dir.path()), 1).unwrap();
    assert!(shown.is_empty());
    log.append([vec![7; 40]]).unwrap();
    log.sync().unwrap();
    drop(log);
    assert_eq!(open(small(dir.path()), 1).unwrap().1, [vec![7; 40]]);
}

#[test]
fn without_syncs_a_power_cut_may_take_whole_segments() {
    let dir = TempDir::new().unwrap();
    let options = Options { sync: SyncMode::Never, ..small(dir.path()) };
    let (mut log, _) = open(options.clone(), 1).unwrap();
    let kept = entries(&[write(&mut log, &[entry(1, 1000)])]);
    let lost = write(&mut log, &[entry(2, 1000)]);
    for index in 3..12 {
        write(&mut log, &[entry(index, 1000)]);
    }
    drop(log);
    assert!(segments(dir.path()).len() > 2);
    blank(&lost.path, lost.from, lost.to);
    let (mut log, shown) = open(options.clone(), 1).unwrap();
    assert_eq!(shown, kept);
    assert_eq!(segments(dir.path()).len(), 1);
    let more = fill(&mut log, 6, 300);
    drop(log);
    assert_eq!(open(options, 1).unwrap().1, [kept, more].concat());
}

#[test]
fn a_prepared_segment_without_frames_is_written_to() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    let all = fill(&mut log, 2, 50);
    log.roll(100).unwrap();
    drop(log);
    let (mut log, shown) = open(small(dir.path()), 1).unwrap();
    assert_eq!(shown, all);
    let more = fill(&mut log, 2, 50);
    assert_eq!(segments(dir.path()).len(), 2);
    drop(log);
    assert_eq!(open(small(dir.path()), 1).unwrap().1, [all, more].concat());
}

#[test]
fn a_lost_header_before_frames_is_damage() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    fill(&mut log, 2, 50);
    drop(log);
    blank(&segment_path(dir.path(), 1), 0, HEADER_BYTES);
    let before = contents(dir.path());
    assert!(matches!(open(small(dir.path()), 1), Err(Error::Damaged { offset: 0, index: 1, .. })));
    assert_eq!(contents(dir.path()), before);
}

#[test]
fn a_segment_under_another_name_is_refused() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    fill(&mut log, 2, 50);
    drop(log);
    fs::copy(segment_path(dir.path(), 1), segment_path(dir.path(), 5)).unwrap();
    assert!(matches!(open(small(dir.path()), 1), Err(Error::Damaged { index: 5, .. })));
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    fill(&mut log, 20, 300);
    drop(log);
    let path = segments(dir.path()).pop().unwrap();
    change(&path, |bytes| {
        bytes[8] = 3;
        let crc = crc32fast::hash(&bytes[..4092]);
        bytes[4092..4096].copy_from_slice(&crc.to_le_bytes());
    });
    fs::write(dir.path().join("00000000000000000009.new"), "unfinished").unwrap();
    let before = contents(dir.path());
    let refused = open(small(dir.path()), 1).unwrap_err();
    assert!(matches!(refused, Error::Version { found: 3, known: 2, .. }), "{refused}");
    assert_eq!(contents(dir.path()), before);
}

#[test]
fn an_entry_that_holds_a_log_is_just_an_entry() {
    let other = TempDir::new().unwrap();
    let (mut log, _) = open(small(other.path()), 1000).unwrap();
    fill(&mut log, 10, 100);
    drop(log);
    // Behind the length of the entry the image has to stand where a frame could.
    let image = [vec![0; 4], fs::read(segment_path(other.path(), 1000)).unwrap()].concat();

    let dir = TempDir::new().unwrap();
    let options = Options { segment_bytes: 1 << 16, ..small(dir.path()) };
    let (mut log, _) = open(options.clone(), 1).unwrap();
    let mut all = fill(&mut log, 3, 100);
    let torn = write(&mut log, &[Bytes::from(image)]);
    drop(log);
    blank(&torn.path, torn.from + 40, torn.from + 60);
    let (mut log, shown) = open(options.clone(), 1).unwrap();
    assert_eq!(shown, all, "frames inside an entry vouch for nothing");
    all.extend(fill(&mut log, 3, 100));
    drop(log);
    assert_eq!(open(options, 1).unwrap().1, all);
}
