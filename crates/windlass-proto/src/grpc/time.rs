//! Moments.

use prost_types::Timestamp;

use crate::rest::{Invalid, Time};

/// Milliseconds since 1970 as a moment of the wire.
pub fn timestamp(ms: u64) -> Timestamp {
    Timestamp { seconds: (ms / 1000) as i64, nanos: (ms % 1000) as i32 * 1_000_000 }
}

/// What is finer than a millisecond is cut off.
pub fn time(field: &'static str, moment: Timestamp) -> Result<Time, Invalid> {
    let fraction = u32::try_from(moment.nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
    let Some(fraction) = fraction else {
        return Err(Invalid::malformed(field, "has a fraction that is no fraction of a second"));
    };
    let ms = moment.seconds.saturating_mul(1000).saturating_add(i64::from(fraction / 1_000_000));
    Ok(Time::from_signed_ms(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_keep_their_milliseconds() {
        for ms in [0, 1, 999, 1_700_000_000_123] {
            assert_eq!(time("at", timestamp(ms)), Ok(Time::from_ms(ms)));
        }
        let early = time("at", Timestamp { seconds: -1, nanos: 0 }).unwrap();
        assert!(early.check("at", 0).is_err());
        assert!(time("at", Timestamp { seconds: 0, nanos: -1 }).is_err());
        assert!(time("at", Timestamp { seconds: 0, nanos: 1_000_000_000 }).is_err());
        assert!(time("at", Timestamp { seconds: i64::MAX, nanos: 0 }).unwrap().check("at", 0).is_err());
    }
}
