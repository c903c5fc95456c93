//! Times in a filter.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;

use super::Span;
use crate::limits::HORIZON_MS;

/// What a text stands for: `[start, end)`. A date is its whole day in UTC, everything else a millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) start: u64,
    pub(super) end: u64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ago,
    Day,
    Instant,
}

const DAY_MS: u64 = 86_400_000;
const EXPECTED: &str = "must be a span back from now like 2h, 90m or 7d, a date like 2030-01-31, or a time like \
                        2030-01-31T08:30:00Z";

pub(super) fn read(text: &str, now: u64) -> Result<Moment, String> {
    if let Some(ms) = ago_ms(text) {
        if ms > HORIZON_MS {
            return Err("must not be more than ten years back".to_owned());
        }
        let start = now.saturating_sub(ms);
        return Ok(Moment { start, end: start + 1, kind: Kind::Ago });
    }
    if let Ok(date) = text.parse::<Date>()
        && text.len() == "2030-01-31".len()
    {
        let midnight = Offset::UTC.to_timestamp(date.at(0, 0, 0, 0));
        let start = midnight.ok().and_then(ms_of).ok_or("must not be before 1970")?;
        return Ok(Moment { start, end: start + DAY_MS, kind: Kind::Day });
    }
    let moment: Timestamp = text.parse().map_err(|_| EXPECTED.to_owned())?;
    let start = ms_of(moment).ok_or("must not be before 1970")?;
    Ok(Moment { start, end: start + 1, kind: Kind::Instant })
}

/// `>=A`, `>A`, `<B`, `<=B`, `A..B` with the end included, a day, or a span back from now.
pub(super) fn span(text: &str, now: u64) -> Result<Span, String> {
    let read = |text: &str| read(text, now);
    if let Some(rest) = text.strip_prefix(">=") {
        return Ok(Span { from: Some(read(rest)?.start), to: None });
    }
    if let Some(rest) = text.strip_prefix('>') {
        return Ok(Span { from: Some(read(rest)?.end), to: None });
    }
    if let Some(rest) = text.strip_prefix("<=") {
        return Ok(Span { from: None, to: Some(read(rest)?.end) });
    }
    if let Some(rest) = text.strip_prefix('<') {
        return Ok(Span { from: None, to: Some(read(rest)?.start) });
    }
    if let Some((first, last)) = text.split_once("..") {
        let (first, last) = (read(first)?, read(last)?);
        if last.end <= first.start {
            return Err("the end of the range is before its beginning".to_owned());
        }
        return Ok(Span { from: Some(first.start), to: Some(last.end) });
    }
    let moment = read(text)?;
    match moment.kind {
        Kind::Day => Ok(Span { from: Some(moment.start), to: Some(moment.end) }),
        Kind::Ago => Ok(Span { from: Some(moment.start), to: None }),
        Kind::Instant => {
            Err("names one moment; put >= or < in front, or .. and another time behind".to_owned())
        }
    }
}

/// `90s`, `15m`, `2h`, `7d`, `2w`.
fn ago_ms(text: &str) -> Option<u64> {
    let unit = match text.chars().last()? {
        's' => 1000,
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => DAY_MS,
        'w' => 7 * DAY_MS,
        _ => return None,
    };
    let digits = &text[..text.len() - 1];
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    // What is too large to be a number is too far back in any case.
    plain.then(|| digits.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(unit))
}

fn ms_of(moment: Timestamp) -> Option<u64> {
    u64::try_from(moment.as_millisecond()).ok()
}

/// As [`read`] takes it.
pub(super) fn show(ms: u64) -> String {
    let moment = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    moment.unwrap_or(Timestamp::MAX).to_string()
}
