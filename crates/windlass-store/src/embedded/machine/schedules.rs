//! Schedules: each write is one command, with the tasks of a fire inside it.

use windlass_core::Name;
use windlass_core::schedule::Schedule;

use super::{Machine, Output};
use crate::depth::Room;
use crate::embedded::command::Submits;
use crate::store::{DueSchedules, Error, ListSchedules, ScheduleWritten, WriteSchedule};

impl Machine {
    /// The tasks of a fire are added whatever the depth of their queue: a slot is not lost to a busy hour.
    pub(super) fn write_schedule(&mut self, write: &WriteSchedule, tasks: &Submits) -> Result<Output, Error> {
        if let Some(refusal) = self.schedules.all.refusal(write) {
            return Ok(Output::Scheduled(refusal));
        }
        let inserted = match self.insert(tasks, false, Room::Unbounded)? {
            Output::Inserted(inserted) => inserted,
            refused => return Ok(refused),
        };
        if self.schedules.carry_out(write) {
            self.signals.schedules.notify_one();
        }
        Ok(Output::Scheduled(ScheduleWritten::Done(inserted)))
    }

    pub(in crate::embedded) fn schedule(&self, id: &Name) -> Option<Schedule> {
        self.schedules.all.get(id).cloned()
    }

    pub(in crate::embedded) fn schedules(&self, list: &ListSchedules) -> Vec<Schedule> {
        self.schedules.all.list(list)
    }

    pub(in crate::embedded) fn due_schedules(&self, limit: usize) -> DueSchedules {
        self.schedules.all.due(limit, self.clock.now().stamp())
    }
}
