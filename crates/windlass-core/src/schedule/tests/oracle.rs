//! The slots against a clock that is watched minute by minute, over ten years, in zones with odd changes: half an hour
//! (Lord Howe), a quarter to the hour (Chatham), two hours (Troll), and the usual (New York).
//!
//! What the clock shows comes from jiff; which minutes of it should fire is decided here by plain comparison, with neither
//! croner nor the search under test. The usual form looks at the days on which the
//! clock changes, the one that is ignored by default at every minute of the ten years.

use std::collections::BTreeSet;

use jiff::civil::DateTime;
use jiff::tz::TimeZoneDatabase;
use jiff::{SignedDuration, Timestamp, ToSpan};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;

const ZONES: [&str; 4] = ["Australia/Lord_Howe", "Pacific/Chatham", "Antarctica/Troll", "America/New_York"];
const FROM: &str = "2021-01-01T00:00:00Z";
const YEARS: i64 = 10;

/// A stretch of minutes: the moment of each, and what the clock shows then.
struct Stretch {
    zone: &'static str,
    minutes: Vec<(Timestamp, DateTime)>,
}

fn stretches(whole: bool) -> Vec<Stretch> {
    let zones = TimeZoneDatabase::bundled();
    let from: Timestamp = FROM.parse().unwrap();
    let to = from + (YEARS * 365 * 24).hours();
    let mut all = Vec::new();
    for zone in ZONES {
        let time_zone = zones.get(zone).unwrap();
        let watch = |from: Timestamp, to: Timestamp| {
            let minutes = (from.as_second() / 60..to.as_second() / 60).map(|minute| {
                let at = Timestamp::from_second(minute * 60).unwrap();
                (at, time_zone.to_datetime(at))
            });
            Stretch { zone, minutes: minutes.collect() }
        };
        if whole {
            all.push(watch(from, to));
            continue;
        }
        let changes: Vec<_> =
            time_zone.following(from).map(|it| it.timestamp()).take_while(|at| *at < to).collect();
        assert_eq!(changes.len() as i64, 2 * YEARS, "{zone} changes its clock twice a year");
        all.extend(changes.iter().map(|change| watch(*change - 15.hours(), *change + 15.hours())));
    }
    all
}

/// A field: everything, every n-th, or these values.
#[derive(Debug, Clone)]
enum Field {
    Any,
    Every(u8),
    Of(BTreeSet<u8>),
}

impl Field {
    fn has(&self, value: i8) -> bool {
        match self {
            Field::Any => true,
            Field::Every(step) => value.cast_unsigned().is_multiple_of(*step),
            Field::Of(values) => values.contains(&value.cast_unsigned()),
        }
    }

    fn text(&self) -> String {
        match self {
            Field::Any => "*".to_owned(),
            Field::Every(step) => format!("*/{step}"),
            Field::Of(values) => values.iter().map(u8::to_string).collect::<Vec<_>>().join(","),
        }
    }
}

#[derive(Debug, Clone)]
struct Pattern {
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
}

impl Pattern {
    fn text(&self) -> String {
        [&self.minute, &self.hour, &self.day, &self.month, &self.weekday].map(Field::text).join(" ")
    }

    fn names(&self, time: DateTime) -> bool {
        let day = self.day.has(time.day());
        let weekday = self.weekday.has(time.weekday().to_sunday_zero_offset());
        // As in every cron: if both are given, either will do.
        let both = !matches!(self.day, Field::Any) && !matches!(self.weekday, Field::Any);
        let date = if both { day || weekday } else { day && weekday };
        date && self.month.has(time.month()) && self.hour.has(time.hour()) && self.minute.has(time.minute())
    }

    /// The moments of a stretch that fire.
    fn watched(&self, stretch: &Stretch) -> Vec<u64> {
        let names_hours = matches!(self.hour, Field::Of(_));
        let mut shown = stretch.minutes[0].1 - 1.minute();
        let mut fires = Vec::new();
        for (at, time) in &stretch.minutes {
            let fire = if names_hours {
                // Once for each minute that the clock has reached or passed for the first time.
                let mut fire = false;
                while shown < *time {
                    shown += SignedDuration::from_mins(1);
                    fire |= self.names(shown);
                }
                fire
            } else {
                self.names(*time)
            };
            if fire {
                fires.push(at.as_millisecond().cast_unsigned());
            }
        }
        fires
    }

    fn check(&self, stretch: &Stretch) {
        let timing = timing(&self.text(), stretch.zone);
        let first = stretch.minutes[0].0.as_millisecond().cast_unsigned();
        let end = first + stretch.minutes.len() as u64 * MINUTE;
        let slots =
            std::iter::successors(timing.next_after(first - 1, 0), |slot| timing.next_after(*slot, 0));
        let found: Vec<u64> = slots.take_while(|slot| *slot < end).collect();
        let expected = self.watched(stretch);
        if found != expected {
            let only = |a: &[u64], b: &[u64]| -> Vec<String> {
                let time = |ms: &u64| Timestamp::from_millisecond(ms.cast_signed()).unwrap().to_string();
                a.iter().filter(|slot| !b.contains(slot)).take(3).map(time).collect()
            };
            let (extra, missing) = (only(&found, &expected), only(&expected, &found));
            panic!("{} in {}: fires at {extra:?}, not at {missing:?}", self.text(), stretch.zone);
        }
    }
}

fn patterns() -> impl Strategy<Value = Pattern> {
    let of = |from: u8, to: u8, count: usize| {
        prop::collection::btree_set(from..=to, 1..=count).prop_map(Field::Of).boxed()
    };
    let step = |most: u8| (2..=most).prop_map(Field::Every).boxed();
    let any = || Just(Field::Any).boxed();
    // The hours are mostly those in which clocks are changed.
    let hour = prop_oneof![3 => of(0, 4, 3), 1 => of(0, 23, 4), 1 => any(), 1 => step(6)];
    let minute = prop_oneof![3 => of(0, 59, 3), 1 => any(), 1 => step(30)];
    let day = prop_oneof![5 => any(), 1 => of(1, 31, 5)];
    let month = prop_oneof![5 => any(), 1 => of(1, 12, 4)];
    let weekday = prop_oneof![5 => any(), 1 => of(0, 6, 3)];
    (minute, hour, day, month, weekday).prop_map(|(minute, hour, day, month, weekday)| Pattern {
        minute,
        hour,
        day,
        month,
        weekday,
    })
}

#[test]
fn slots_are_what_a_watched_clock_shows() {
    check_patterns(&stretches(false));
}

#[test]
#[ignore = "takes minutes: every minute of the ten years, for whoever changes the search"]
fn slots_are_what_a_clock_watched_for_ten_years_shows() {
    check_patterns(&stretches(true));
}

fn check_patterns(stretches: &[Stretch]) {
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() });
    let checked = runner.run(&patterns(), |pattern| {
        stretches.iter().for_each(|stretch| pattern.check(stretch));
        Ok(())
    });
    checked.unwrap_or_else(|error| panic!("{error}"));
}

/// The oracle would notice: by the other rule the same pattern differs on a day with a change.
#[test]
fn the_two_rules_differ_where_the_clock_changes() {
    let hours = (0..=23).collect::<BTreeSet<u8>>();
    let of = |hour| Pattern {
        minute: Field::Of([15].into()),
        hour,
        day: Field::Any,
        month: Field::Any,
        weekday: Field::Any,
    };
    let (named, running) = (of(Field::Of(hours)), of(Field::Any));
    let differing = stretches(false).iter().filter(|it| named.watched(it) != running.watched(it)).count();
    assert!(differing > 0);
}

#[test]
fn new_york_by_hand() {
    let slots = |cron: &str, from: &str, count: usize| {
        let timing = timing(cron, "America/New_York");
        let from: Timestamp = from.parse().unwrap();
        let first = timing.next_after(from.as_millisecond().cast_unsigned(), 0);
        let slots = std::iter::successors(first, |slot| timing.next_after(*slot, 0)).take(count);
        let text = |ms: u64| Timestamp::from_millisecond(ms.cast_signed()).unwrap().to_string();
        slots.map(text).collect::<Vec<_>>().join(" ")
    };
    // 8 March 2026: from 2:00 to 3:00, which is 07:00 UTC.
    let before = "2026-03-08T06:00:00Z";
    assert_eq!(slots("30 2 * * *", before, 2), "2026-03-08T07:00:00Z 2026-03-09T06:30:00Z");
    assert_eq!(
        slots("*/20 2,3 * * *", before, 3),
        "2026-03-08T07:00:00Z 2026-03-08T07:20:00Z 2026-03-08T07:40:00Z"
    );
    assert_eq!(
        slots("30 * * * *", before, 3),
        "2026-03-08T06:30:00Z 2026-03-08T07:30:00Z 2026-03-08T08:30:00Z"
    );
    // 1 November 2026: from 2:00 back to 1:00, which is 06:00 UTC.
    let before = "2026-11-01T05:00:00Z";
    assert_eq!(slots("30 1 * * *", before, 2), "2026-11-01T05:30:00Z 2026-11-02T06:30:00Z");
    assert_eq!(
        slots("30 * * * *", before, 3),
        "2026-11-01T05:30:00Z 2026-11-01T06:30:00Z 2026-11-01T07:30:00Z"
    );
    assert_eq!(
        slots("* * 1 * * *", "2026-11-01T06:10:00.5Z", 1),
        "2026-11-02T06:00:00Z",
        "from within the second time"
    );
}
