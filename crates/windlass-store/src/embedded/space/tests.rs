//! The arithmetic of a disk that is never asked.

use super::*;

const SEGMENT: u64 = 4 << 20;

/// A disk with this much free space, which is not asked again.
fn space(free: u64, reserve_bytes: u64) -> Space {
    let space = Space::new(PathBuf::from("/"), reserve_bytes, SEGMENT);
    space.free.store(free, Ordering::Relaxed);
    space.answered_ms.store(u64::MAX, Ordering::Relaxed);
    space
}

fn bytes(bytes: usize) -> Unsaved {
    Unsaved { bytes, ..Unsaved::default() }
}

#[test]
fn ids_count_with_the_pages_that_they_may_change() {
    let space = space(110 << 20, 100 << 20);
    let ids = |ids| Unsaved { ids, ..Unsaved::default() };
    assert!(space.admit(ids(1_000_000)).is_ok(), "an index without pages has none to copy");
    space.note_index(IndexPages { used: 20 << 20, free: 0 });
    assert!(space.admit(ids(2560)).is_ok());
    assert!(space.admit(ids(2561)).is_err(), "one page more than there is room for");
    space.note_unsaved(ids(1300));
    assert!(space.admit(ids(1261)).is_err());
    assert!(space.is_tight());
    space.note_index(IndexPages { used: 10 << 20, free: 0 });
    assert!(space.admit(ids(1_000_000)).is_ok(), "no page is copied twice");
    space.note_index(IndexPages { used: 20 << 20, free: 10 << 20 });
    assert!(space.admit(ids(1_000_000)).is_ok(), "free pages are used first");
}

#[test]
fn removals_wait_for_a_checkpoint_when_it_would_not_fit() {
    // As much as the whole disk that the tests run on.
    let space = space(0, 0);
    let many = Unsaved { blocks: usize::MAX / ROWS_OF_BLOCK / 2, ..Unsaved::default() };
    assert!(space.has_no_removals() && !space.has_room_to_remove(many));
    space.note_unsaved(Unsaved { blocks: 1, ..Unsaved::default() });
    assert!(!space.has_no_removals());
    assert!(space.has_room_to_remove(Unsaved { blocks: 1, ..Unsaved::default() }));
}

#[test]
fn the_least_reserve_is_enough_for_every_checkpoint() {
    let reserve = reserve_bytes_min(SEGMENT);
    for unsaved in [0_u64, 1 << 20, 48 << 20, 1 << 40] {
        let least = reserve + debt(unsaved);
        let need = Need { unsaved_bytes: unsaved, rewritten_bytes: SLACK_BYTES };
        for (free, accepted) in [(least - 1, false), (least, true)] {
            let space = space(free, reserve);
            space.note_unsaved(bytes(unsaved as usize));
            assert_eq!(space.admit(bytes(0)).is_ok(), accepted, "{unsaved} {free}");
        }
        // The log fills a file before the checkpoint begins, and may need one more during it.
        for prepared in 0..=LOG_FILES {
            let free = least - prepared * SEGMENT;
            let (free, left) = match prepared.checked_sub(1) {
                Some(left) => (free, left * SEGMENT),
                None => (free - SEGMENT, 0),
            };
            assert!(space(least, reserve).fits(need, free, left), "{unsaved} {prepared}");
        }
        assert!(!space(least, reserve).fits(need, least - SEGMENT - 1, 0), "no more is kept than is needed");
    }
}

#[test]
fn what_is_on_its_way_counts_until_it_is_answered() {
    let space = space((100 << 20) + 10 * 3, 100 << 20);
    let first = space.admit(bytes(6)).unwrap();
    assert!(matches!(space.admit(bytes(5)), Err(Error::NoSpace)));
    let second = space.admit(bytes(4)).unwrap();
    drop((first, second));
    assert!(space.admit(bytes(10)).is_ok());
    assert!(!space.is_short());
}

#[test]
fn what_is_not_saved_is_saved_before_new_tasks_are_refused() {
    let space = space(110 << 20, 100 << 20);
    space.note_unsaved(bytes(1 << 20));
    assert!(!space.is_tight() && !space.is_short());
    space.note_unsaved(bytes(3 << 20));
    assert!(space.is_tight() && !space.is_short());
    space.note_unsaved(bytes(6 << 20));
    assert!(space.is_tight() && space.is_short());
}
