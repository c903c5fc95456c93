//! Releasing queues and types without tasks.

use windlass_core::limits::NAMES_RELEASED_MAX;

use super::Machine;
use crate::embedded::names::Dropped;
use crate::store::Released;

impl Machine {
    /// Releases names that have had no tasks since the call before.
    pub(in crate::embedded) fn release_names(&mut self) -> Released {
        let Dropped { lanes, queues } = self.names.release();
        for lane in &lanes {
            self.index.drop_lane(*lane);
        }
        let more = lanes.len().max(queues) >= NAMES_RELEASED_MAX;
        Released { names: lanes.len() + queues, more }
    }

    /// How many queues and lanes the next checkpoint writes or removes.
    pub(in crate::embedded) fn changed_names(&self) -> usize {
        self.names.changed()
    }

    /// Wakes the loop that releases names if many have no tasks any more.
    pub(super) fn tell_names(&mut self) {
        if self.names.take_crowded() {
            self.signals.names.notify_one();
        }
    }

    /// How many queues and lanes memory knows.
    #[cfg(test)]
    pub(in crate::embedded) fn name_counts(&self) -> (usize, usize) {
        (self.names.queues().count(), self.names.lane_numbers().count())
    }
}
