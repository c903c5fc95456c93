//! Fires whose end lets a queued slot go.
//!
//! The cron loop enters the live fires of a schedule that has a slot waiting. The end of one wakes the loop at once; in
//! case the end was brought about by somebody who does not tell us, the loop also looks at them in each of its steps.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use windlass_core::{Name, TaskId};

#[derive(Debug, Default)]
pub(crate) struct Awaited {
    /// Mostly 0, and then the end of a task costs one read here.
    count: AtomicUsize,
    fires: Mutex<Fires>,
}

#[derive(Debug, Default)]
struct Fires {
    schedules: HashMap<TaskId, Name>,
    /// Schedules with a fire that ended.
    freed: BTreeSet<Name>,
}

impl Awaited {
    pub(crate) fn enter(&self, task: &TaskId, schedule: &Name) {
        let mut fires = self.fires.lock();
        fires.schedules.insert(task.clone(), schedule.clone());
        self.count.store(fires.schedules.len(), Ordering::Release);
    }

    /// A task ended; whether a schedule waits for that.
    pub(crate) fn ended(&self, task: &TaskId) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut fires = self.fires.lock();
        let Some(schedule) = fires.schedules.remove(task) else { return false };
        fires.freed.insert(schedule);
        self.count.store(fires.schedules.len(), Ordering::Release);
        true
    }

    pub(crate) fn take_freed(&self) -> BTreeSet<Name> {
        std::mem::take(&mut self.fires.lock().freed)
    }

    pub(crate) fn tasks(&self) -> Vec<TaskId> {
        self.fires.lock().schedules.keys().cloned().collect()
    }
}
