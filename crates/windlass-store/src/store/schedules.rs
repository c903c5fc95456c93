//! What a store is asked about schedules.

use windlass_core::schedule::{Advance, Schedule};
use windlass_core::{Name, NewTask, Stamp};

use super::Inserted;

/// One write of one schedule; all of it is one commit.
#[derive(Debug, Clone)]
pub struct WriteSchedule {
    pub id: Name,
    pub change: ScheduleChange,
}

#[derive(Debug, Clone)]
pub enum ScheduleChange {
    /// A new schedule (`seen` is `None`), or another definition in place of the revision `seen`.
    Put { schedule: Box<Schedule>, seen: Option<u64> },
    /// It moves on from the revision that the advance names, and its tasks are added.
    Fire { advance: Advance, tasks: Vec<NewTask> },
    /// It is forgotten. Its tasks stay.
    Remove { seen: u64 },
}

#[derive(Debug, Clone, PartialEq)]
pub enum ScheduleWritten {
    /// With an answer for every task of a fire: one whose id is taken was fired before, and is not added again.
    Done(Vec<Inserted>),
    /// The schedule is no longer at that revision, or a new one is there already.
    Conflict,
    Missing,
    /// There are [`windlass_core::limits::SCHEDULES_MAX`] already.
    TooMany,
}

/// A page of schedules, in order of id.
#[derive(Debug, Clone, Default)]
pub struct ListSchedules {
    /// Only those behind this one.
    pub after: Option<Name>,
    pub limit: usize,
}

/// Schedules that must be looked at.
#[derive(Debug, Default, PartialEq)]
pub struct DueSchedules {
    pub schedules: Vec<Schedule>,
    /// When the next one comes up.
    pub next: Option<u64>,
}

impl DueSchedules {
    /// Keeps the earliest schedules, at most `limit`.
    pub(crate) fn first(mut self, limit: usize, now: Stamp) -> DueSchedules {
        let at = |schedule: &Schedule| schedule.wakes().first(now);
        self.schedules.sort_by(|a, b| (at(a), &a.id).cmp(&(at(b), &b.id)));
        let left_out = self.schedules.get(limit).and_then(at);
        self.schedules.truncate(limit);
        self.next = self.next.into_iter().chain(left_out).min();
        self
    }
}
