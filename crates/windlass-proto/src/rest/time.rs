//! Moments as RFC 3339 in UTC with milliseconds, spans as numbers of seconds.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::Offset;
use serde::de::{Deserializer, Error, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use windlass_core::limits::HORIZON_MS;

use super::invalid::Invalid;

/// A moment on the wall clock, in milliseconds since 1970; negative before that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime, examples("2030-01-31T08:30:00.000Z")))]
pub struct Time(i64);

impl Time {
    pub fn from_ms(ms: u64) -> Self {
        Self(i64::try_from(ms).unwrap_or(i64::MAX))
    }

    #[cfg(feature = "grpc")]
    pub(crate) fn from_signed_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Since 1970; 0 for anything earlier.
    pub fn as_ms(self) -> u64 {
        u64::try_from(self.0).unwrap_or(0)
    }

    /// The moment, if it is one that a task can have.
    pub fn check(self, field: &'static str, now: u64) -> Result<u64, Invalid> {
        let ms =
            u64::try_from(self.0).map_err(|_| Invalid::out_of_range(field, "must not be before 1970"))?;
        if ms > now.saturating_add(HORIZON_MS) {
            return Err(Invalid::out_of_range(field, "must be at most ten years from now"));
        }
        Ok(ms)
    }
}

impl std::str::FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let moment: Timestamp = text
            .parse()
            .map_err(|_| "must be a time as in RFC 3339, like 2030-01-31T08:30:00Z".to_owned())?;
        Ok(Self(moment.as_millisecond()))
    }
}

/// `2030-01-31T08:30:00.000Z`
pub(crate) const TEXT_BYTES: usize = 24;

impl Time {
    /// RFC 3339. Times are written for every task that is shown, so the digits are put in place without formatting.
    pub(crate) fn text(self) -> [u8; TEXT_BYTES] {
        // What RFC 3339 has no year for is shown as the last or first moment that has one.
        let moment = Timestamp::from_millisecond(self.0).unwrap_or(Timestamp::MAX);
        let moment = if moment < Timestamp::UNIX_EPOCH { Timestamp::UNIX_EPOCH } else { moment };
        let civil = Offset::UTC.to_datetime(moment);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let mut put = |at: std::ops::Range<usize>, number: i32| {
            let mut left = number.unsigned_abs();
            for digit in text[at].iter_mut().rev() {
                *digit = b'0' + (left % 10) as u8;
                left /= 10;
            }
        };
        put(0..4, civil.year().into());
        put(5..7, civil.month().into());
        put(8..10, civil.day().into());
        put(11..13, civil.hour().into());
        put(14..16, civil.minute().into());
        put(17..19, civil.second().into());
        put(20..23, civil.millisecond().into());
        text
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.text()).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        super::text::deserialize(deserializer)
    }
}

/// A span in seconds; fractions are allowed and whole numbers are written without a point.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Seconds(pub f64);

impl Seconds {
    pub fn from_ms(ms: u64) -> Self {
        Self(ms as f64 / 1000.0)
    }

    /// In milliseconds; what is negative or no number becomes 0, what is too large saturates.
    pub fn as_ms(self) -> u64 {
        (self.0 * 1000.0).round() as u64
    }

    /// In milliseconds, if it lies in the range.
    pub fn check(self, field: &'static str, range_ms: std::ops::RangeInclusive<u64>) -> Result<u64, Invalid> {
        let (least, most) = (*range_ms.start() as f64 / 1000.0, *range_ms.end() as f64 / 1000.0);
        if (least..=most).contains(&self.0) {
            Ok(self.as_ms())
        } else {
            Err(Invalid::out_of_range(field, format!("must be between {least} and {most} seconds")))
        }
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // 2^53: up to there every whole f64 is exactly one integer.
        if self.0.fract() == 0.0 && self.0.abs() < 9_007_199_254_740_992.0 {
            serializer.serialize_i64(self.0 as i64)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Seconds;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of seconds")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Seconds, E> {
                Ok(Seconds(number as f64))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Seconds, E> {
                Ok(Seconds(number as f64))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Seconds, E> {
                Ok(Seconds(number))
            }
        }
        deserializer.deserialize_f64(Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written() {
        let time: Time = "2030-01-31T09:30:00+01:00".parse().unwrap();
        assert_eq!(time.to_string(), "2030-01-31T08:30:00.000Z");
        assert_eq!(Time::from_ms(1_700_000_000_123).to_string(), "2023-11-14T22:13:20.123Z");
        assert_eq!(Time::from_ms(u64::MAX).to_string(), "9999-12-30T22:00:00.999Z");
        for noise in ["", "tomorrow", "2030-01-31", "2030-01-31T08:30:00", "2030-02-30T08:30:00Z"] {
            assert!(noise.parse::<Time>().is_err(), "{noise}");
        }
        let early: Time = "1969-12-31T23:59:59Z".parse().unwrap();
        assert!(early.check("scheduled_at", 0).is_err());
        assert!(Time::from_ms(HORIZON_MS + 2).check("scheduled_at", 1).is_err());
    }

    #[test]
    fn seconds_are_read_and_written() {
        let read = |text: &str| serde_json::from_str::<Seconds>(text).map(Seconds::as_ms).ok();
        assert_eq!(read("2"), Some(2000));
        assert_eq!(read("0.25"), Some(250));
        assert_eq!(read("\"2\""), None);
        assert_eq!(serde_json::to_string(&Seconds::from_ms(300_000)).unwrap(), "300");
        assert_eq!(serde_json::to_string(&Seconds::from_ms(1500)).unwrap(), "1.5");
        assert!(Seconds(-1.0).check("delay_seconds", 0..=10).is_err());
        assert!(Seconds(f64::NAN).check("delay_seconds", 0..=10).is_err());
    }
}
