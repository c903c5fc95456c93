//! The time that rows are numbered by.
//!
//! It only moves forward, with the monotonic clock. When the wall clock is found ahead of it, time has passed that nobody counted
//! (the machine slept, the broker was down, or the clock was set), and the axis catches up: a hole. When the wall clock
//! is found behind, it was set back; the axis goes on as it was, and the same rows are shown under the times of the new clock.

use windlass_core::Now;

/// Clocks differ by a hair all the time, and time servers move them a little; that is no jump.
const JUMP_MS: i64 = 1500;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Axis {
    /// Where it is, in milliseconds; when it was made, that was the wall clock.
    pub(super) at_ms: u64,
    /// What must be added to show the time of the wall clock.
    pub(super) ahead_ms: i64,
    mono: u64,
}

impl Axis {
    pub(super) fn new(now: Now) -> Axis {
        Axis { at_ms: now.wall, ahead_ms: 0, mono: now.mono }
    }

    /// As it was when a broker before this one left it.
    pub(super) fn saved(at_ms: u64, ahead_ms: i64) -> Axis {
        Axis { at_ms, ahead_ms, mono: 0 }
    }

    /// Goes on in a new process, whose monotonic clock is another one.
    pub(super) fn resume(&mut self, now: Now) {
        self.mono = now.mono;
        self.meet(now.wall, 0);
    }

    pub(super) fn advance(&mut self, now: Now) -> u64 {
        self.at_ms += now.mono.saturating_sub(self.mono);
        self.mono = self.mono.max(now.mono);
        self.meet(now.wall, JUMP_MS);
        self.at_ms
    }

    fn meet(&mut self, wall: u64, tolerated_ms: i64) {
        let ahead = wall as i64 - self.wall(self.at_ms) as i64;
        if ahead > tolerated_ms {
            self.at_ms += ahead as u64;
        } else if ahead < -tolerated_ms {
            self.ahead_ms += ahead;
        }
    }

    /// A moment of the axis as the wall clock shows it now.
    pub(super) fn wall(&self, at_ms: u64) -> u64 {
        at_ms.saturating_add_signed(self.ahead_ms)
    }

    pub(super) fn of_wall(&self, wall: u64) -> u64 {
        wall.saturating_add_signed(-self.ahead_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(wall: u64, mono: u64) -> Now {
        Now { wall, mono, ahead: 0 }
    }

    #[test]
    fn it_moves_with_the_monotonic_clock() {
        let mut axis = Axis::new(at(1_000_000, 0));
        assert_eq!(axis.advance(at(1_005_100, 5000)), 1_005_000, "a hair is no jump");
        assert_eq!(axis.advance(at(1_005_100, 5000)), 1_005_000);
        assert_eq!(axis.wall(1_005_000), 1_005_000);
    }

    #[test]
    fn a_jump_ahead_leaves_a_hole_and_a_jump_back_shows_other_times() {
        let mut axis = Axis::new(at(1_000_000, 0));
        assert_eq!(axis.advance(at(4_601_000, 1000)), 4_601_000);
        assert_eq!(axis.advance(at(1_002_000, 2000)), 4_602_000, "it never goes back");
        assert_eq!((axis.wall(4_602_000), axis.of_wall(1_002_000)), (1_002_000, 4_602_000));
        assert_eq!(axis.advance(at(1_003_000, 3000)), 4_603_000);
    }

    #[test]
    fn a_restart_goes_on_behind_what_was_saved() {
        let mut axis = Axis::saved(1_000_000, 0);
        axis.resume(at(1_000_700, 9));
        assert_eq!((axis.at_ms, axis.wall(axis.at_ms)), (1_000_700, 1_000_700));
        let mut axis = Axis::saved(1_000_000, 0);
        axis.resume(at(400_000, 9));
        assert_eq!(
            (axis.at_ms, axis.wall(axis.at_ms)),
            (1_000_000, 400_000),
            "the clock was set back meanwhile"
        );
    }
}
