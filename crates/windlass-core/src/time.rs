//! Time as the domain sees it.
//!
//! There are two time lines. The *wall clock* (milliseconds since 1970, UTC) is what people and disks see, and it can be set.
//! *Elapsed time* is on the same scale and only counts: it equals the wall clock until that is set, and goes on unmoved when it
//! is. A duration (a delay, a backoff, a retention) is measured on elapsed time, a moment that somebody named on the wall clock.
//! So a time that counts is kept as the wall clock showed it, together with how far elapsed time was *ahead* of the wall clock
//! then: the sum is its place on elapsed time, whatever is done to the wall clock later.

/// One reading of the clocks.
///
/// `mono` (milliseconds since some fixed start) is for leases and lives as long as the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    pub wall: u64,
    pub mono: u64,
    /// How far elapsed time is ahead of the wall clock: positive after it was set back.
    pub ahead: i64,
}

impl Now {
    pub fn elapsed(self) -> u64 {
        self.stamp().elapsed()
    }

    pub fn stamp(self) -> Stamp {
        Stamp { wall: self.wall, ahead: self.ahead }
    }
}

/// A moment on both time lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    pub wall: u64,
    /// As in [`Now`].
    pub ahead: i64,
}

impl Stamp {
    pub fn elapsed(self) -> u64 {
        self.wall.saturating_add_signed(self.ahead)
    }

    /// A moment of elapsed time as the wall clock shows it, set as it is now.
    pub fn shown(self, elapsed: u64) -> u64 {
        elapsed.saturating_add_signed(self.ahead.saturating_neg())
    }
}

/// A clock that was never set.
impl From<u64> for Stamp {
    fn from(wall: u64) -> Self {
        Stamp { wall, ahead: 0 }
    }
}

impl From<Now> for Stamp {
    fn from(now: Now) -> Self {
        now.stamp()
    }
}
