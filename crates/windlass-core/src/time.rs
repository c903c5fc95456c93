//! Time as the domain sees it.
//!
//! There are two time lines. The *wall clock* (milliseconds since 1970, UTC) is what people and disks see, and it can be set.
//! *Elapsed time* uses the same scale. It equals the wall clock until the wall clock is set, and is not affected by that.
//! Durations (a delay, a backoff, a retention) are measured on elapsed time. Times that a user names are on the wall clock.
//! The end of a duration is stored as a wall-clock time, together with how far elapsed time was *ahead* of the wall clock at
//! that moment. Their sum is the end on elapsed time, whatever happens to the wall clock later.

/// One reading of the clocks.
///
/// `mono` (milliseconds since some fixed start) is for leases and lives as long as the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    pub wall: u64,
    pub mono: u64,
    /// How far elapsed time is ahead of the wall clock: positive after the wall clock was set back.
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
    /// How far elapsed time is ahead of the wall clock, as in [`Now::ahead`].
    pub ahead: i64,
}

impl Stamp {
    pub fn elapsed(self) -> u64 {
        self.wall.saturating_add_signed(self.ahead)
    }

    /// Converts elapsed time to the wall clock of this moment.
    pub fn shown(self, elapsed: u64) -> u64 {
        elapsed.saturating_add_signed(self.ahead.saturating_neg())
    }
}

/// A moment on a clock that was never set.
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
