//! When: a cron pattern in a time zone, or a steady beat.
//!
//! The pattern is searched on the wall clock, where there is no daylight saving time, by croner. Here its times become
//! moments, by the rule that the parent module states. The time zone database is the one compiled into the program: two
//! brokers of one version agree, whatever their machines have installed.

use std::fmt;
use std::sync::{Arc, LazyLock};

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};

use crate::limits::{HORIZON_MS, SCHEDULE_CRON_BYTES_MAX, SCHEDULE_EVERY_MS_MIN};

static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// A parsed pattern with its zone. Cheap to clone; equal if its texts are.
#[derive(Clone)]
pub struct Timing {
    cron: Arc<str>,
    zone: Arc<str>,
    rhythm: Arc<Rhythm>,
}

enum Rhythm {
    /// Fires once for every time of day that it names.
    Named(Cron, TimeZone),
    /// Follows the clock as it runs.
    Running(Cron, TimeZone),
    EveryMs(u64),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTiming {
    #[error("{0}")]
    Cron(String),
    #[error("{0}")]
    Zone(String),
}

impl Timing {
    /// `cron` with five or six fields, a nickname like `@daily`, or `@every 90s`; `zone` is an IANA name.
    pub fn parse(cron: &str, zone: &str) -> Result<Timing, InvalidTiming> {
        let unknown = || InvalidTiming::Zone("must be an IANA time zone, like Europe/Berlin".to_owned());
        let time_zone = ZONES.get(zone).map_err(|_| unknown())?;
        let zone = time_zone.iana_name().unwrap_or(zone).to_owned();
        let cron = cron.trim();
        let rhythm = rhythm(cron, time_zone).map_err(InvalidTiming::Cron)?;
        Ok(Timing { cron: cron.into(), zone: zone.into(), rhythm: Arc::new(rhythm) })
    }

    pub fn cron(&self) -> &str {
        &self.cron
    }

    pub fn zone(&self) -> &str {
        &self.zone
    }

    /// Whether the pattern counts elapsed seconds (`@every`) instead of naming times of day.
    pub fn is_steady(&self) -> bool {
        matches!(*self.rhythm, Rhythm::EveryMs(_))
    }

    /// The first moment after `after` that the pattern names. A steady beat is counted from `anchor`.
    pub(super) fn next_after(&self, after: u64, anchor: u64) -> Option<u64> {
        match &*self.rhythm {
            Rhythm::EveryMs(ms) => {
                let beats = after.checked_sub(anchor).map_or(0, |passed| passed / ms + 1);
                anchor.checked_add(beats.checked_mul(*ms)?)
            }
            Rhythm::Named(cron, zone) => next_named(cron, zone, moment(after)?),
            Rhythm::Running(cron, zone) => next_running(cron, zone, moment(after)?),
        }
    }
}

fn rhythm(text: &str, zone: TimeZone) -> Result<Rhythm, String> {
    if text.len() > SCHEDULE_CRON_BYTES_MAX {
        return Err(format!("must be at most {SCHEDULE_CRON_BYTES_MAX} bytes long"));
    }
    if let Some(span) = text.strip_prefix("@every") {
        return every(span.trim()).map(Rhythm::EveryMs);
    }
    let pattern = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ if text.starts_with('@') => {
            return Err(
                "must be @yearly, @monthly, @weekly, @daily, @hourly, @every SPAN or a pattern".to_owned()
            );
        }
        _ => text,
    };
    let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
    let fields: Vec<&str> = pattern.split_whitespace().collect();
    if !matches!(fields.len(), 5 | 6) {
        return Err(format!(
            "has {} fields; five (minute hour day month weekday) or six (with seconds first) are needed",
            fields.len()
        ));
    }
    if let Some(field) = fields.iter().find(|field| field.split(',').any(str::is_empty)) {
        return Err(format!("has an empty place in the list {field}"));
    }
    let cron = parser.parse(pattern).map_err(|error| error.to_string())?;
    let hours = fields[fields.len() - 4];
    Ok(if hours.starts_with('*') { Rhythm::Running(cron, zone) } else { Rhythm::Named(cron, zone) })
}

/// A span like `90s`, `5m` or `1h30m`, in milliseconds.
fn every(text: &str) -> Result<u64, String> {
    let wrong = || "must be a span like @every 90s, @every 5m or @every 1h30m".to_owned();
    let mut total: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let letters = rest[digits..].bytes().take_while(u8::is_ascii_lowercase).count();
        let unit = match &rest[digits..digits + letters] {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(wrong()),
        };
        total = number.checked_mul(unit).and_then(|ms| total.checked_add(ms)).ok_or_else(wrong)?;
        rest = &rest[digits + letters..];
    }
    match total {
        0 => Err(wrong()),
        1..SCHEDULE_EVERY_MS_MIN => Err(format!("must be at least {} second", SCHEDULE_EVERY_MS_MIN / 1000)),
        SCHEDULE_EVERY_MS_MIN..=HORIZON_MS => Ok(total),
        _ => Err("must be at most ten years".to_owned()),
    }
}

/// Later times of day never come earlier as moments, so the first that lies after `after` is the answer.
fn next_named(cron: &Cron, zone: &TimeZone, after: Timestamp) -> Option<u64> {
    let mut time = zone.to_datetime(after);
    loop {
        time = cron.find_next_occurrence(&time, false).ok()?;
        let at = first_moment(zone, time)?;
        if at > after {
            return ms(at);
        }
    }
}

/// When the clock first shows `time` or something later.
fn first_moment(zone: &TimeZone, time: DateTime) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(time);
    match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => ambiguous.earlier().ok(),
        AmbiguousOffset::Gap { after, .. } => {
            // Read by the offset that comes, a time in the gap lies before the jump.
            let before = after.to_timestamp(time).ok()?;
            zone.following(before).next().map(|jump| jump.timestamp())
        }
    }
}

/// Within one offset the wall clock runs like any other; at a change of offset the search begins anew.
fn next_running(cron: &Cron, zone: &TimeZone, after: Timestamp) -> Option<u64> {
    let (mut from, mut inclusive) = (after, false);
    loop {
        let offset = zone.to_offset(from);
        let time = cron.find_next_occurrence(&offset.to_datetime(from), inclusive).ok()?;
        let at = offset.to_timestamp(time).ok()?;
        match zone.following(from).map(|change| change.timestamp()).find(|change| *change > from) {
            Some(change) if change <= at => (from, inclusive) = (change, true),
            _ => return ms(at),
        }
    }
}

fn moment(ms: u64) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()
}

fn ms(moment: Timestamp) -> Option<u64> {
    u64::try_from(moment.as_millisecond()).ok()
}

impl PartialEq for Timing {
    fn eq(&self, other: &Self) -> bool {
        self.cron == other.cron && self.zone == other.zone
    }
}

impl fmt::Debug for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.cron, self.zone)
    }
}
