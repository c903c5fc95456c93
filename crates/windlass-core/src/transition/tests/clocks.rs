//! Durations count elapsed time, whatever the wall clock is set to. Times that a user names follow the wall clock.

use super::*;
use crate::state::State;
use crate::task::{Counted, Wakes};
use crate::time::Stamp;

const HOUR: i64 = 3_600_000;
const START: u64 = 10_000_000;

/// The moment `ms` after the start by elapsed time, on a wall clock that was changed by `set`.
fn later(ms: u64, set: i64) -> Stamp {
    Stamp { wall: (START + ms).saturating_add_signed(set), ahead: -set }
}

fn submitted(delayed: bool, expires_at: Option<u64>) -> Record {
    let counted = Counted { ahead: 0, delayed };
    let scheduled_at = Some(START + 3000);
    let new = NewTask { created_at: START, scheduled_at, expires_at, counted, ..new_task() };
    Record::submitted(&new, 1)
}

fn after(record: &Record, change: Change) -> Record {
    let mut next = record.clone();
    next.evolve(&change, 9);
    next
}

fn held(now: Stamp) -> Record {
    let record = Record::submitted(&NewTask { created_at: START, ..new_task() }, 1);
    let input = Claim { token: token(1), worker: name("w"), lease_ms: 1000 };
    after(&record, claim(&record, input, now).unwrap())
}

#[test]
fn a_delay_counts_and_a_time_is_named() {
    for set in [-HOUR, HOUR] {
        let counted = submitted(true, None);
        assert_eq!(tick(&counted, later(2999, set)), Err(Refusal::NotDue));
        assert_eq!(tick(&counted, later(3000, set)), Ok(Some(Change::Promoted { at: later(3000, set) })));
        let named = submitted(false, None);
        assert_eq!(tick(&named, later(3000, set)).is_ok(), set > 0);
        assert!(tick(&named, later(3000, set)).is_ok() || tick(&named, START + 3000).is_ok());
    }
}

#[test]
fn a_backoff_and_a_snooze_count_from_either_side_of_a_jump() {
    let failure = || Failure { error: "e".into(), retryable: true, retry_after_ms: Some(3000), random: 0.0 };
    for (set_then, set_now) in [(0, -HOUR), (0, HOUR), (-HOUR, -HOUR), (-HOUR, 0), (HOUR, -HOUR)] {
        let then = later(100, set_then);
        let record = held(then);
        let fails = fail(&record, &new_task().body, token(1), failure(), then).unwrap().unwrap();
        let snoozes = release(&record, token(1), Some(3000), then).unwrap().unwrap();
        for change in [fails, snoozes] {
            let waits = after(&record, change);
            assert_eq!(waits.wakes(), Wakes { wall: None, elapsed: Some(START + 3100) });
            assert_eq!(tick(&waits, later(3099, set_now)), Err(Refusal::NotDue));
            let change = tick(&waits, later(3100, set_now)).unwrap().unwrap();
            let ready = after(&waits, change);
            assert_eq!((ready.state.clone(), ready.ahead), (State::Pending, None));
        }
    }
}

#[test]
fn retention_counts_from_the_end() {
    let record = held(later(0, -HOUR));
    let done = after(&record, complete(&record, token(1), None, later(500, -HOUR)).unwrap().unwrap());
    assert_eq!(done.ended_at(), Some(later(500, -HOUR).wall), "shown as the clock was");
    assert_eq!(done.prune_at(), Some(START + 500 + done.retention_ms));
}

#[test]
fn what_counts_expires_by_the_wall_clock() {
    let record = submitted(true, Some(START + 5000));
    assert_eq!(record.wakes(), Wakes { wall: Some(START + 5000), elapsed: Some(START + 3000) });
    let expired = tick(&record, later(1000, HOUR)).unwrap().unwrap();
    assert!(matches!(expired, Change::Cancelled { .. }));
    assert!(matches!(tick(&record, later(9000, -HOUR)), Ok(Some(Change::Promoted { .. }))));
}

#[test]
fn a_delay_goes_on_behind_dependencies() {
    for set in [-HOUR, HOUR] {
        let mut record = submitted(true, None);
        record.wait_for(1);
        let soon = settle(&record, &[Ended::Completed], later(1000, set)).unwrap();
        let soon = after(&record, soon);
        assert_eq!(soon.wakes().elapsed, Some(START + 3000));
        let late = settle(&record, &[Ended::Completed], later(3000, set)).unwrap();
        assert_eq!(after(&record, late).state, State::Pending);
    }
}

#[test]
fn times_are_shown_on_the_clock_as_it_is_set() {
    let mut record = submitted(true, None);
    record.show(later(1000, -HOUR));
    let shown = (START + 3000).saturating_add_signed(-HOUR);
    assert_eq!((record.state.clone(), record.scheduled_at), (State::Scheduled { at: shown }, Some(shown)));
    assert_eq!(record.wakes().elapsed, Some(START + 3000), "and mean the same");
}

#[test]
fn records_of_earlier_versions_stay_on_the_wall_clock() {
    let mut old = held(later(0, 0));
    (old.state, old.ahead) = (State::Retrying { at: START + 3000 }, None);
    assert_eq!(old.wakes(), Wakes { wall: Some(START + 3000), elapsed: None });
    assert!(tick(&old, START + 3000).is_ok());
}
