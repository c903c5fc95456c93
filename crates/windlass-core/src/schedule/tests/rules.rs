//! Overlap, catch-up, pauses, bounds.

use super::*;
use crate::limits::{SCHEDULE_FIRES_KEPT_MAX, SCHEDULE_FIRES_STEP_MAX, SCHEDULE_LATE_MS_MAX};
use crate::time::Stamp;

const EVERY_MINUTE: &str = "* * * * *";

#[test]
fn a_slot_fires_once_and_names_its_task() {
    let mut nightly = schedule(EVERY_MINUTE, |_| {});
    assert_eq!(nightly.progress.wake_at, Some(NOON + MINUTE));
    assert_eq!(nightly.tick(NOON + MINUTE - 1, false), None);
    let tick = nightly.tick(NOON + MINUTE, false).unwrap();
    let task = &tick.tasks[0];
    assert_eq!(task.id.as_str(), "nightly:2026-11-02T12:01:00Z");
    assert_eq!(task.body.payload.bytes(), r#"{"at":"2026-11-02T12:01:00.000Z"}"#);
    assert_eq!(tick.advance.fires[0].task, task.id);
    nightly.advance(&tick.advance);
    assert_eq!((nightly.revision, nightly.progress.fired), (NOON + 1, 1));
    assert_eq!(nightly.progress.wake_at, Some(NOON + 2 * MINUTE));
    assert_eq!(nightly.tick(NOON + MINUTE, false), None, "decided");
    assert_eq!(nightly.tick(NOON - 90 * MINUTE, false), None, "the clock went back");
}

#[test]
fn late_slots_go_by_the_catch_up_rule() {
    let late = NOON + 10 * MINUTE + 30_000;
    let after = |catch_up: CatchUp, window: u64| {
        let mut it = schedule(EVERY_MINUTE, |it| {
            (it.catch_up, it.window_ms) = (catch_up, window * MINUTE);
        });
        let slots = fired(&mut it, late, false);
        assert_eq!(it.progress.wake_at, Some(NOON + 11 * MINUTE), "the rest is decided too");
        assert_eq!(fired(&mut it, late, false), []);
        slots
    };
    assert_eq!(after(CatchUp::Skip, 60), [10], "half a minute is not missed");
    assert_eq!(after(CatchUp::One, 60), [10]);
    assert_eq!(after(CatchUp::All, 60), (1..=10).collect::<Vec<_>>());
    assert_eq!(after(CatchUp::All, 3), [8, 9, 10]);
    assert_eq!(after(CatchUp::One, 0), []);
    let hours_late = |catch_up: CatchUp| {
        let mut it = schedule("0 13 * * *", |it| it.catch_up = catch_up);
        fired(&mut it, NOON + 60 * MINUTE + SCHEDULE_LATE_MS_MAX + 1, false)
    };
    assert_eq!(hours_late(CatchUp::Skip), []);
    assert_eq!(hours_late(CatchUp::One), [60]);
}

#[test]
fn one_finds_the_last_slot_however_the_slots_lie() {
    for cron in ["*/7 * * * *", "* * * * * *", "0 3 * * *", "59 59 23 * * *", "0 0 1 * *", "@every 61s"] {
        for step in [1, 977, 86_399_999, 86_400_000, 2_678_400_000] {
            let mut one = schedule(cron, |it| it.window_ms = u64::MAX);
            let now = NOON + step;
            let all = schedule(cron, |_| {});
            let slots =
                std::iter::successors(all.definition.next_slot(NOON), |slot| all.definition.next_slot(*slot));
            let last = slots.take_while(|slot| *slot <= now).take(3_000_000).last();
            let tick = one.tick(now, false);
            assert_eq!(tick.as_ref().map(|tick| tick.advance.fires[0].slot), last, "{cron} after {step}");
            if let Some(tick) = tick {
                one.advance(&tick.advance);
                assert_eq!(one.progress.cursor, now);
            }
            if cron == "* * * * * *" && step > 80_000_000 {
                break; // Walking through more seconds than a day shows nothing new.
            }
        }
    }
}

#[test]
fn a_long_catch_up_goes_in_steps() {
    let mut it = schedule(EVERY_MINUTE, |it| it.catch_up = CatchUp::All);
    let now = NOON + 250 * MINUTE;
    let mut all = Vec::new();
    for expected in [SCHEDULE_FIRES_STEP_MAX, SCHEDULE_FIRES_STEP_MAX, 50, 0] {
        let slots = fired(&mut it, now, false);
        assert_eq!(slots.len(), expected);
        all.extend(slots);
    }
    assert_eq!(all, (1..=250).collect::<Vec<_>>());
    assert_eq!(it.fires.len(), SCHEDULE_FIRES_KEPT_MAX);
    assert_eq!((it.progress.fired, it.fires[0].slot), (250, NOON + 151 * MINUTE));
}

#[test]
fn overlaps_go_by_the_rule() {
    let of = |overlap: Overlap| schedule(EVERY_MINUTE, |it| it.overlap = overlap);
    let at = |minute: u64| NOON + minute * MINUTE;

    let mut allow = of(Overlap::Allow);
    assert!(!allow.minds_overlap());
    assert_eq!(fired(&mut allow, at(1), true), [1]);

    let mut skip = of(Overlap::Skip);
    assert_eq!(fired(&mut skip, at(1), true), []);
    assert_eq!(fired(&mut skip, at(2), false), [2]);
    assert_eq!((skip.progress.skipped, skip.progress.fired), (1, 1));

    let mut cancel = of(Overlap::CancelRunning);
    assert!(cancel.tick(at(1), true).unwrap().cancel);
    assert!(!cancel.tick(at(1), false).unwrap().cancel);
    assert_eq!(fired(&mut cancel, at(1), true), [1]);

    let mut queue = of(Overlap::QueueOne);
    assert_eq!(fired(&mut queue, at(1), false), [1]);
    assert_eq!(fired(&mut queue, at(2), true), []);
    assert_eq!(queue.progress.queued, Some(at(2)));
    assert_eq!(fired(&mut queue, at(3), true), []);
    assert_eq!((queue.progress.queued, queue.progress.skipped), (Some(at(2)), 1));
    assert_eq!(queue.tick(at(3) + 1, true), None, "nothing changes while it waits");
    assert_eq!(fired(&mut queue, at(3) + 2, false), [2], "the end of the last fire lets it go");
    assert_eq!(fired(&mut queue, at(4), true), []);
    assert_eq!(fired(&mut queue, at(5), false), [4]);
    assert_eq!(queue.progress.queued, Some(at(5)), "the one that just fired is live");
}

#[test]
fn a_catch_up_keeps_to_the_overlap_rule() {
    let of = |overlap: Overlap| {
        let mut it = schedule(EVERY_MINUTE, |it| (it.overlap, it.catch_up) = (overlap, CatchUp::All));
        let slots = fired(&mut it, NOON + 4 * MINUTE, false);
        (slots, it.progress.queued.map(|slot| (slot - NOON) / MINUTE), it.progress.skipped)
    };
    assert_eq!(of(Overlap::Skip), (vec![1], None, 3));
    assert_eq!(of(Overlap::QueueOne), (vec![1], Some(2), 2));
    assert_eq!(of(Overlap::CancelRunning), (vec![4], None, 3));
}

#[test]
fn a_pause_is_not_caught_up_with_and_an_update_keeps_its_place() {
    let mut it = schedule(EVERY_MINUTE, |it| it.catch_up = CatchUp::All);
    let change = |it: &Schedule, now: u64, change: fn(&mut Definition)| {
        let mut definition = it.definition.clone();
        change(&mut definition);
        it.redefined(definition, now)
    };
    it = change(&it, NOON + MINUTE / 2, |definition| definition.paused = true);
    assert_eq!((it.revision, it.progress.wake_at), (NOON + 1, None));
    assert_eq!(it.tick(NOON + 5 * MINUTE, false), None);
    it = change(&it, NOON + 5 * MINUTE + 1, |definition| definition.paused = false);
    assert_eq!(fired(&mut it, NOON + 7 * MINUTE, false), [6, 7]);
    // Nothing about the slots changes: what is due stays due.
    it = change(&it, NOON + 9 * MINUTE, |definition| definition.jitter_ms = 10);
    assert_eq!(fired(&mut it, NOON + 9 * MINUTE, false), [8, 9]);
    it = change(&it, NOON + 20 * MINUTE, |it| it.timing = timing("*/2 * * * *", "UTC"));
    assert_eq!(fired(&mut it, NOON + 22 * MINUTE, false), [22]);
}

#[test]
fn slots_lie_between_start_and_end() {
    let mut it = schedule(EVERY_MINUTE, |it| {
        (it.starts_at, it.ends_at) = (Some(NOON + 3 * MINUTE), Some(NOON + 5 * MINUTE));
        it.catch_up = CatchUp::All;
    });
    assert_eq!(it.progress.wake_at, Some(NOON + 3 * MINUTE));
    assert_eq!(it.preview(NOON, 9).len(), 3);
    assert_eq!(fired(&mut it, NOON + 9 * MINUTE, false), [3, 4, 5]);
    assert_eq!(it.progress.wake_at, None, "it has ended");
    let steady = schedule("@every 90s", |it| it.starts_at = Some(NOON + 500));
    let slots: Vec<u64> = steady.preview(NOON, 3).iter().map(|planned| planned.slot - NOON).collect();
    assert_eq!(slots, [500, 90_500, 180_500], "counted from the start");
}

#[test]
fn jitter_is_bounded_spread_and_always_the_same() {
    let it = schedule(EVERY_MINUTE, |it| it.jitter_ms = 30_000);
    let planned = it.preview(NOON, 100);
    let delays: Vec<u64> = planned.iter().map(|planned| planned.starts_at - planned.slot).collect();
    assert!(delays.iter().all(|delay| *delay <= 30_000));
    assert!(delays.iter().any(|delay| *delay < 10_000) && delays.iter().any(|delay| *delay > 20_000));
    assert_eq!(planned, it.preview(NOON, 100));
    let tick = it.tick(NOON + MINUTE, false).unwrap();
    assert_eq!(tick.tasks[0].scheduled_at, Some(planned[0].starts_at));
    let other = Schedule { id: Name::new("other").unwrap(), ..it };
    assert_ne!(other.preview(NOON, 100), planned, "two schedules do not start in step");
}

#[test]
fn a_run_by_hand_leaves_the_slots_alone() {
    let mut it = schedule(EVERY_MINUTE, |it| it.paused = true);
    let tick = it.run(TaskId::new("nightly:run:1").unwrap(), NOON + 5);
    assert_eq!(tick.tasks[0].id.as_str(), "nightly:run:1");
    let before = it.progress;
    it.advance(&tick.advance);
    assert!(it.fires[0].manual);
    assert_eq!(it.progress, Progress { fired: 1, ..before });
}

#[test]
fn patterns_are_read_and_nonsense_is_refused() {
    for good in [
        "0 2 * * *",
        "30 0 2 * * *",
        "0 9 * * MON-FRI",
        "0 0 1 jan,jul *",
        "*/5 8-18 * * 1-5",
        "0 0 L * *",
        "@yearly",
        "@annually",
        "@monthly",
        "@weekly",
        "@daily",
        "@midnight",
        "@hourly",
        "@every 90s",
        "@every 1h30m",
        "@every 1d",
        " 0 2 * * * ",
    ] {
        assert!(timing(good, "Europe/Berlin").next_after(NOON, 0).is_some(), "{good}");
    }
    for bad in [
        "",
        "*",
        "* * * *",
        "* * * * * * *",
        "60 * * * *",
        "*/0 * * * *",
        "* 24 * * *",
        "0 0 0 * *",
        "0 0 32 * *",
        "0 0 * 13 *",
        "5-1 * * * *",
        "a * * * *",
        "1,,2 * * * *",
        "@reboot",
        "@every",
        "@every 0s",
        "@every 1ms",
        "@every 9",
        "@every -5s",
        "@every 99999999999999999999s",
        "@every 4000d",
        "@daily 5",
        "\u{0}",
    ] {
        let refused = Timing::parse(bad, "UTC");
        assert!(matches!(refused, Err(InvalidTiming::Cron(_))), "{bad:?}: {refused:?}");
    }
    for zone in ["", "Mars/Olympus", "Europe", "../etc/localtime", "CET-1"] {
        assert!(matches!(Timing::parse("@daily", zone), Err(InvalidTiming::Zone(_))), "{zone}");
    }
    assert_eq!(timing("@daily", "europe/berlin").zone(), "Europe/Berlin");
    let second_friday = timing("0 0 * * 5#2", "UTC").next_after(NOON, 0);
    assert_eq!(second_friday, Some(NOON + 10 * 1440 * MINUTE + 720 * MINUTE), "13 November");
    assert_eq!(timing("0 0 30 2 *", "UTC").next_after(NOON, 0), None, "30 February never comes");
}

#[test]
fn a_beat_counts_whatever_the_wall_clock_shows() {
    const HOUR: i64 = 3_600_000;
    let at = |ms: u64, set: i64| Stamp { wall: (NOON + ms).saturating_add_signed(set), ahead: -set };
    let mut steady = schedule("@every 10s", |_| {});
    let mut ids = Vec::new();
    for (beat, set) in [(1, 0), (2, -HOUR), (3, HOUR), (4, 0)] {
        assert_eq!(steady.tick(at(beat * 10_000 - 1, set), false), None, "{beat}");
        let tick = steady.tick(at(beat * 10_000, set), false).unwrap();
        assert_eq!(tick.advance.fires[0].slot, at(beat * 10_000, set).wall, "shown on the wall clock");
        assert_eq!(tick.tasks[0].counted, crate::task::Counted { ahead: -set, delayed: true });
        ids.extend(tick.tasks.iter().map(|task| task.id.to_string()));
        steady.advance(&tick.advance);
    }
    assert_eq!(steady.set_back(at(40_000, -HOUR)), None);
    let all = ids.len();
    ids.dedup();
    assert_eq!((all, ids.len()), (4, 4));
}

#[test]
fn cron_says_that_it_waits_after_a_clock_was_set_back() {
    let mut it = schedule("* * * * *", |_| {});
    assert_eq!(fired(&mut it, NOON + 3 * MINUTE, false), [3]);
    let back = Stamp { wall: NOON - 57 * MINUTE, ahead: 3_600_000 };
    assert_eq!(it.set_back(back), Some(NOON + 4 * MINUTE));
    assert_eq!(it.tick(back, false), None);
    assert_eq!(it.preview(back, 1)[0].slot, NOON + 4 * MINUTE);
    assert_eq!(it.set_back((NOON + 3 * MINUTE).into()), None);
    let rare = schedule("0 0 1 1 *", |_| {});
    assert_eq!(rare.set_back(back), None, "no slot of it lies between");
}
