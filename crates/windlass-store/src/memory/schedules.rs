//! Schedules, and the tasks that they fire.

use windlass_core::Now;

use super::tables::Tables;
use crate::store::{Insert, ScheduleChange, ScheduleWritten, WriteSchedule};

impl Tables {
    pub(super) fn write_schedule(&mut self, mut write: WriteSchedule, now: Now) -> ScheduleWritten {
        if let Some(refusal) = self.schedules.refusal(&write) {
            return refusal;
        }
        let tasks = match &mut write.change {
            ScheduleChange::Fire { tasks, .. } => std::mem::take(tasks),
            _ => Vec::new(),
        };
        let inserted = self.insert(Insert { tasks, atomic: false, max_depth: None }, now);
        if self.schedules.carry_out(&write) {
            self.signals.schedules.notify_one();
        }
        ScheduleWritten::Done(inserted)
    }
}
