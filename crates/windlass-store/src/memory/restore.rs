//! Putting in what another store had.

use windlass_core::{Now, State};

use super::tables::Tables;
use crate::store::{Moved, Restore, Restored};

impl Tables {
    pub(super) fn restore(&mut self, restore: Restore, now: Now) -> Vec<Restored> {
        self.number = self.number.max(restore.last_number());
        restore.workflows.into_iter().for_each(|workflow| self.workflows.restore(workflow));
        for operation in restore.operations {
            if self.operations.get(&operation.id).is_none() {
                self.operations.add(operation);
                self.signals.operations.notify_one();
            }
        }
        restore.tasks.iter().map(|moved| self.restore_task(moved, restore.at, now)).collect()
    }

    fn restore_task(&mut self, moved: &Moved, at: u64, now: Now) -> Restored {
        let record = &moved.task.record;
        if moved.waits_for.iter().any(|parent| !self.tasks.contains_key(parent)) {
            return Restored::Clash;
        }
        let there = self.ids.get(&record.id) == Some(&record.seq);
        if !there {
            let taken = self.ids.contains_key(&record.id) || self.tasks.contains_key(&record.seq);
            if taken || self.ledger.removed > 0 {
                return Restored::Clash;
            }
            self.put_back(moved, at, now);
        }
        self.wait_for(record.seq, &moved.waits_for);
        if there { Restored::There } else { Restored::Added }
    }

    fn put_back(&mut self, moved: &Moved, at: u64, now: Now) {
        let mut task = moved.begun();
        let record = &mut task.record;
        if let State::Running(lease) = &mut record.state {
            lease.expires_at = now.wall.saturating_add(lease.lease_ms);
        }
        self.number = self.number.max(moved.last_number());
        self.claims = self.claims.max(moved.last_claim());
        self.ledger.submitted += 1;
        self.ids.insert(record.id.clone(), record.seq);
        if record.holds_key(at)
            && let Some(hold) = &record.unique
        {
            self.keys.insert(hold.key.clone(), record.seq);
        }
        if record.member {
            self.workflows.moved(record.seq, None, Some(record.state_name()));
        }
        self.enter(task, None, now);
    }
}
