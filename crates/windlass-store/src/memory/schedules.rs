//! Schedules, and the tasks that they fire.

use windlass_core::Now;

use super::tables::Tables;
use crate::depth::Room;
use crate::store::{ScheduleChange, ScheduleWritten, WriteSchedule};

impl Tables {
    pub(super) fn write_schedule(&mut self, mut write: WriteSchedule, now: Now) -> ScheduleWritten {
        if let Some(refusal) = self.schedules.refusal(&write) {
            return refusal;
        }
        let tasks = match &mut write.change {
            ScheduleChange::Fire { tasks, .. } => std::mem::take(tasks),
            _ => Vec::new(),
        };
        // A slot is not lost to a busy hour, so they are added whatever the depth.
        let inserted = self.insert(tasks, false, Room::Unbounded, now);
        if self.schedules.carry_out(&write) {
            self.signals.schedules.notify_one();
        }
        ScheduleWritten::Done(inserted)
    }
}
