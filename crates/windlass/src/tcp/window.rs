//! What one client has under way, and whether there is room for more.

use windlass_core::limits::{FRAME_BYTES_IN_FLIGHT_MAX, FRAMES_BULKY_MAX, FRAMES_IN_FLIGHT_MAX};
use windlass_proto::tcp::{Head, Kind};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) requests: usize,
    pub(super) bytes: usize,
    /// Requests with answers that may be much larger than they are.
    bulky: usize,
}

impl Load {
    /// A request whose frame is gone already.
    pub(super) fn one() -> Load {
        Load { requests: 1, ..Load::default() }
    }

    pub(super) fn of(head: Head) -> Load {
        // A submit is answered with its own payload, which is counted already.
        let bulky = matches!(
            head.kind.and_then(Kind::of),
            Some(Kind::ClaimTask | Kind::ListTasks | Kind::QueryStatus | Kind::CancelTask)
        );
        Load { requests: 1, bytes: head.frame_bytes(), bulky: usize::from(bulky) }
    }

    /// Whether another request may begin. The first always may.
    pub(super) fn has_room_for(&self, next: Load) -> bool {
        self.requests == 0
            || self.requests + next.requests <= FRAMES_IN_FLIGHT_MAX
                && self.bytes + next.bytes <= FRAME_BYTES_IN_FLIGHT_MAX
                && self.bulky + next.bulky <= FRAMES_BULKY_MAX
    }

    pub(super) fn add(&mut self, more: Load) {
        self.requests += more.requests;
        self.bytes += more.bytes;
        self.bulky += more.bulky;
    }

    pub(super) fn take(&mut self, less: Load) {
        self.requests -= less.requests;
        self.bytes -= less.bytes;
        self.bulky -= less.bulky;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_holds_and_one_frame_always_fits() {
        let frame = |kind: Kind, length| Load::of(Head { length, kind: Some(kind as u8) });
        let fits = |kind, length| {
            let mut load = Load::default();
            let mut count = 0;
            while load.has_room_for(frame(kind, length)) {
                load.add(frame(kind, length));
                count += 1;
            }
            (0..count).for_each(|_| load.take(frame(kind, length)));
            assert_eq!(load, Load::default());
            count
        };
        assert_eq!(fits(Kind::SubmitTask, 100), FRAMES_IN_FLIGHT_MAX);
        assert_eq!(fits(Kind::ClaimTask, 100), FRAMES_BULKY_MAX);
        assert_eq!(fits(Kind::SubmitTask, FRAME_BYTES_IN_FLIGHT_MAX / 4), 3);
        assert_eq!(fits(Kind::SubmitTask, 10 * FRAME_BYTES_IN_FLIGHT_MAX), 1);
    }
}
