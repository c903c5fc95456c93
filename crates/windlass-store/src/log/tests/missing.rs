//! Segments that are missing, too short, from another store or of an earlier version, and vouches.

use super::damage::{blank, change, entries, write, write_synced};
use super::*;

/// A segment gets its whole size before its first entry, so no crash leaves a shorter one.
#[test]
fn a_segment_cut_short_anywhere_is_refused() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    write_synced(&mut log, 11, 300);
    drop(log);
    assert!(segments(dir.path()).len() > 1);
    for path in segments(dir.path()) {
        let whole = fs::read(&path).unwrap();
        for length in [0, 10, 4095, 4096, 5000, SMALL - 4096, SMALL - 1] {
            change(&path, |bytes| bytes.truncate(length as usize));
            let refused = open(existing(dir.path()), 1).unwrap_err();
            let (short, headless) = (length >= HEADER_BYTES, length < HEADER_BYTES);
            match refused {
                Error::CutShort { segment, bytes, whole: SMALL } if short => {
                    assert_eq!((segment, bytes), (path.clone(), length));
                }
                Error::Damaged { segment, offset: 0, .. } if headless => assert_eq!(segment, path),
                other => panic!("{length}: {other}"),
            }
            fs::write(&path, &whole).unwrap();
        }
    }
}

#[test]
fn a_missing_newest_segment_is_refused() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    let all = fill(&mut log, 20, 300);
    drop(log);
    let newest = segments(dir.path()).pop().unwrap();
    let whole = fs::read(&newest).unwrap();
    fs::remove_file(&newest).unwrap();
    let before = contents(dir.path());
    // This holds whatever the caller has seen already, because entries of the missing segment were durable.
    for from in [1, 5] {
        let Error::Missing { path } = open(existing(dir.path()), from).unwrap_err() else {
            panic!("the missing segment was missed");
        };
        assert_eq!(path, newest);
    }
    assert_eq!(contents(dir.path()), before);
    fs::write(&newest, whole).unwrap();
    assert_eq!(open(existing(dir.path()), 1).unwrap().1, all);
}

#[test]
fn a_log_that_was_there_and_is_gone_is_refused() {
    let dir = TempDir::new().unwrap();
    let refused = open(existing(dir.path()), 1).unwrap_err();
    assert!(matches!(refused, Error::Missing { .. }), "{refused}");
    let (log, _) = open(small(dir.path()), 1).unwrap();
    drop(log);
    assert!(open(existing(dir.path()), 1).unwrap().1.is_empty(), "a new log may be empty");
    let (mut log, _) = open(existing(dir.path()), 1).unwrap();
    fill(&mut log, 1, 10);
    drop(log);
    fs::remove_file(dir.path().join("NEWEST")).unwrap();
    // This holds also while the store is created, because a log with segments has its record.
    for options in [existing(dir.path()), small(dir.path())] {
        assert!(matches!(open(options, 1), Err(Error::Missing { .. })));
    }
}

#[test]
fn a_segment_of_another_store_is_refused() {
    let (dir, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    for (dir, store) in [(&dir, [1; 16]), (&other, [2; 16])] {
        let (mut log, _) = open(Options { store, ..small(dir.path()) }, 1).unwrap();
        fill(&mut log, 2, 50);
    }
    fs::copy(segment_path(other.path(), 1), segment_path(dir.path(), 1)).unwrap();
    let refused = open(Options { store: [1; 16], ..existing(dir.path()) }, 1).unwrap_err();
    assert!(matches!(refused, Error::Foreign { .. }), "{refused}");
}

#[test]
fn a_log_that_ends_before_the_checkpoint_is_refused() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    fill(&mut log, 2, 50);
    drop(log);
    let before = contents(dir.path());
    for options in [small(dir.path()), existing(dir.path())] {
        let refused = open(options, 100).unwrap_err();
        assert!(matches!(refused, Error::Short { next: 5, wanted: 100 }), "{refused}");
    }
    assert_eq!(contents(dir.path()), before);
}

/// In earlier formats the tables could be ahead of a log that was not synced.
#[test]
fn an_earlier_log_that_ends_before_the_checkpoint_goes_on_from_it() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    fill(&mut log, 2, 50);
    drop(log);
    let earlier = Options { expected: Expected::Earlier, ..small(dir.path()) };
    let (mut log, shown) = open(earlier, 100).unwrap();
    assert!(shown.is_empty());
    let more = fill(&mut log, 2, 50);
    drop(log);
    assert_eq!(open(existing(dir.path()), 100).unwrap().1, more);
    assert!(matches!(open(existing(dir.path()), 1), Err(Error::Damaged { index: 5, .. })));
}

#[test]
fn a_log_of_the_version_before_is_read() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    let all = fill(&mut log, 20, 300);
    drop(log);
    for path in segments(dir.path()) {
        change(&path, |bytes| {
            bytes[8] = 1;
            bytes[40..64].fill(0);
            let crc = crc32fast::hash(&bytes[..4092]);
            bytes[4092..4096].copy_from_slice(&crc.to_le_bytes());
        });
    }
    fs::remove_file(dir.path().join("NEWEST")).unwrap();
    let mine = Options { store: [1; 16], ..small(dir.path()) };
    for expected in [Expected::Nothing, Expected::Log] {
        assert!(open(Options { expected, ..mine.clone() }, 1).is_err());
    }
    let earlier = Options { expected: Expected::Earlier, ..mine };
    assert_eq!(open(earlier, 1).unwrap().1, all);
}

/// Without the vouch this bit would look like a torn write, and the entries would be dropped.
#[test]
fn a_flipped_bit_in_the_last_frame_of_an_idle_log_is_refused() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    let frames = write_synced(&mut log, 3, 50);
    log.vouch().unwrap();
    let end = log.active.as_ref().unwrap().at;
    log.vouch().unwrap();
    assert_eq!(log.active.as_ref().unwrap().at, end, "one vouch is enough");
    drop(log);
    let last = &frames[2];
    let whole = fs::read(&last.path).unwrap();
    for at in last.from..last.to {
        change(&last.path, |bytes| bytes[at as usize] ^= 1);
        let refused = open(existing(dir.path()), 1).unwrap_err();
        assert!(matches!(refused, Error::Damaged { index: 5, .. }), "byte {at}: {refused}");
        fs::write(&last.path, &whole).unwrap();
    }
    for at in last.to..end {
        change(&last.path, |bytes| bytes[at as usize] ^= 1);
        assert_eq!(open(existing(dir.path()), 1).unwrap().1, entries(&frames), "a torn vouch costs nothing");
        fs::write(&last.path, &whole).unwrap();
    }
    // The log continues after its vouch.
    let (mut log, _) = open(existing(dir.path()), 1).unwrap();
    let more = fill(&mut log, 20, 100);
    log.vouch().unwrap();
    drop(log);
    assert_eq!(open(existing(dir.path()), 1).unwrap().1, [entries(&frames), more].concat());
}

#[test]
fn a_segment_that_is_full_still_has_room_for_its_vouch() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    // A frame that would fill the segment to its last byte.
    let bytes = SMALL as usize - HEADER_BYTES as usize - HEAD_BYTES - 4;
    let frame = write(&mut log, &[entry(1, bytes)]);
    log.sync().unwrap();
    log.vouch().unwrap();
    assert_eq!(log.active.as_ref().unwrap().at, frame.to + HEAD_BYTES as u64);
    drop(log);
    change(&frame.path, |bytes| bytes[frame.from as usize + 100] ^= 1);
    assert!(matches!(open(existing(dir.path()), 1), Err(Error::Damaged { index: 1, .. })));
}

#[test]
fn nothing_vouches_for_what_is_not_durable() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(small(dir.path()), 1).unwrap();
    let frames = write_synced(&mut log, 1, 50);
    let lost = write(&mut log, &[entry(3, 50)]);
    log.vouch().unwrap();
    assert_eq!(log.active.as_ref().unwrap().at, lost.to, "no frame was written");
    drop(log);
    blank(&lost.path, lost.from, lost.to);
    assert_eq!(open(existing(dir.path()), 1).unwrap().1, entries(&frames));
}
