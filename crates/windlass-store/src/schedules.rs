//! All schedules of a store, in memory: they are few and small, and every store that keeps its tasks in this process
//! keeps its schedules like this. A store writes down what changes; this says what a change means.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use windlass_core::limits::{PAGE_ROWS_MAX, SCHEDULES_MAX};
use windlass_core::schedule::Schedule;
use windlass_core::{Name, Stamp};

use crate::store::{DueSchedules, ListSchedules, ScheduleChange, ScheduleWritten, WriteSchedule};

#[derive(Debug, Default)]
pub(crate) struct Schedules {
    by_id: BTreeMap<Name, Schedule>,
    /// Schedules by the time of their next slot on the wall clock.
    wakes: BTreeSet<(u64, Name)>,
    /// Schedules by the time of their next slot on elapsed time.
    counted: BTreeSet<(u64, Name)>,
}

impl Schedules {
    pub(crate) fn get(&self, id: &Name) -> Option<&Schedule> {
        self.by_id.get(id)
    }

    pub(crate) fn list(&self, list: &ListSchedules) -> Vec<Schedule> {
        let from = list.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let behind =
            self.by_id.range::<Name, _>((from, Bound::Unbounded)).map(|(_, schedule)| schedule.clone());
        behind.take(list.limit.min(PAGE_ROWS_MAX)).collect()
    }

    /// Those whose next slot has come, earliest first.
    pub(crate) fn due(&self, limit: usize, now: Stamp) -> DueSchedules {
        let on_wall = self.wakes.iter().map(|(at, id)| (*at, id));
        let counted = self.counted.iter().map(|(at, id)| (now.shown(*at), id));
        // Both are in order, so it is enough to look at the front of each.
        let mut first: Vec<(u64, &Name)> = on_wall.take(limit + 1).chain(counted.take(limit + 1)).collect();
        first.sort();
        let come_up = first.iter().take_while(|(at, _)| *at <= now.wall).take(limit);
        let schedules: Vec<Schedule> = come_up.map(|(_, id)| self.by_id[*id].clone()).collect();
        let next = first.get(schedules.len()).map(|(at, _)| *at);
        DueSchedules { schedules, next }
    }

    /// Why a write cannot be carried out, if it cannot.
    pub(crate) fn refusal(&self, write: &WriteSchedule) -> Option<ScheduleWritten> {
        let seen = match &write.change {
            ScheduleChange::Put { seen, .. } => *seen,
            ScheduleChange::Fire { advance, .. } => Some(advance.revision),
            ScheduleChange::Remove { seen } => Some(*seen),
        };
        match (self.by_id.get(&write.id).map(|schedule| schedule.revision), seen) {
            (None, None) if self.by_id.len() >= SCHEDULES_MAX => Some(ScheduleWritten::TooMany),
            (None, Some(_)) => Some(ScheduleWritten::Missing),
            (stored, seen) => (stored != seen).then_some(ScheduleWritten::Conflict),
        }
    }

    /// Carries out a write that was checked. Returns whether the earliest slot on its time line is earlier now.
    pub(crate) fn carry_out(&mut self, write: &WriteSchedule) -> bool {
        let mut current = self.take(&write.id);
        match &write.change {
            ScheduleChange::Put { schedule, .. } => current = Some((**schedule).clone()),
            ScheduleChange::Fire { advance, .. } => {
                if let Some(schedule) = &mut current {
                    schedule.advance(advance);
                }
            }
            ScheduleChange::Remove { .. } => current = None,
        }
        current.is_some_and(|schedule| self.add(schedule))
    }

    pub(crate) fn add(&mut self, schedule: Schedule) -> bool {
        let mut nearer = false;
        if let Some(at) = schedule.progress.wake_at {
            let wakes = self.line(&schedule);
            nearer = wakes.first().is_none_or(|(first, _)| at < *first);
            wakes.insert((at, schedule.id.clone()));
        }
        self.by_id.insert(schedule.id.clone(), schedule);
        nearer
    }

    fn take(&mut self, id: &Name) -> Option<Schedule> {
        let schedule = self.by_id.remove(id)?;
        if let Some(at) = schedule.progress.wake_at {
            self.line(&schedule).remove(&(at, schedule.id.clone()));
        }
        Some(schedule)
    }

    /// The order of the time line that the slots of the schedule are on.
    fn line(&mut self, schedule: &Schedule) -> &mut BTreeSet<(u64, Name)> {
        if schedule.wakes().elapsed.is_some() { &mut self.counted } else { &mut self.wakes }
    }
}
