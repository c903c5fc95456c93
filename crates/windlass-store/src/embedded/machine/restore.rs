//! Putting in what another store had.

use windlass_core::flow::load;
use windlass_core::{State, Workflow};

use super::{Machine, Output};
use crate::embedded::codec;
use crate::embedded::dirty::{Keys, READY_LANES, Slot};
use crate::embedded::names::share_of;
use crate::store::{Error, Moved, Restore, Restored};

impl Machine {
    pub(super) fn restore(&mut self, restore: &Restore) -> Result<Output, Error> {
        if self.lacks_lanes_of(&restore.tasks) {
            return Ok(Output::TooManyLanes);
        }
        self.next_number = self.next_number.max(restore.last_number() + 1);
        for workflow in &restore.workflows {
            if self.workflow(&workflow.id)?.is_none() {
                let grown = self.workflows.add(Workflow { by_state: [0; 8], ..workflow.clone() });
                self.dirty.grew(grown);
            }
        }
        for operation in &restore.operations {
            if self.operations.all.get(&operation.id).is_none() {
                self.operations.restore(operation.clone());
                self.signals.operations.notify_one();
            }
        }
        let mut answers = Vec::with_capacity(restore.tasks.len());
        for moved in &restore.tasks {
            answers.push(self.restore_task(moved, restore.at)?);
        }
        Ok(Output::Restored(answers))
    }

    /// Near the limit every key counts as a new one: who moves so many has time to try with fewer.
    fn lacks_lanes_of(&self, tasks: &[Moved]) -> bool {
        let (lanes, shares) = self.names.room();
        let known = |moved: &Moved| self.names.has_tasks(&moved.task.record.queue, &moved.task.record.kind);
        tasks.iter().filter(|moved| moved.task.record.key.is_some()).count() > shares
            || (lanes == 0 && !tasks.iter().all(known))
    }

    fn restore_task(&mut self, moved: &Moved, at: u64) -> Result<Restored, Error> {
        let record = &moved.task.record;
        for parent in &moved.waits_for {
            if self.record(*parent)?.is_none() {
                return Ok(Restored::Clash);
            }
        }
        let taken = self.seq_of(&record.id)?;
        let there = taken == Some(record.seq);
        if !there {
            if taken.is_some() || self.record(record.seq)?.is_some() || self.ledger.removed > 0 {
                return Ok(Restored::Clash);
            }
            self.put_back(moved, at)?;
        }
        self.wait_for(record.seq, &moved.waits_for)?;
        Ok(if there { Restored::There } else { Restored::Added })
    }

    fn put_back(&mut self, moved: &Moved, at: u64) -> Result<(), Error> {
        let body = Some(codec::encode_body(&moved.task.body));
        let mut record = moved.begun().record;
        let state = record.state_name();
        let lane = self.lane_of(&record.queue, &record.kind)?;
        let queue = self.names.queue_of_lane(lane);
        if let Some((queue, kind)) = self.names.of_lane(lane) {
            record.queue = queue.clone();
            record.kind = kind.clone();
        }
        let home = match record.key.as_ref().filter(|_| load(state).is_some()) {
            Some(key) => self.keyed_lane(lane, key)?,
            None => lane,
        };
        self.next_number = self.next_number.max(moved.last_number() + 1);
        self.next_claim = self.next_claim.max(moved.last_claim() + 1);
        self.ledger.submitted += 1;
        self.names.count(lane, record.priority, None, Some(state));
        let keys = Keys::of(&record, home);
        self.dirty.insert(Slot {
            record: record.clone(),
            lane,
            home,
            queue,
            body,
            base: None,
            moved_from: None,
            gone: false,
        });
        self.reindex(record.seq, None, Some(keys))?;
        if let Some(load) = load(state) {
            self.names.flow.count(lane - READY_LANES, share_of(home), None, Some(load));
        }
        if record.holds_key(at) {
            self.take_key(&record);
        }
        if record.member {
            self.node_moved(record.seq, None, Some(state))?;
        }
        if matches!(record.state, State::Running(_)) {
            let now = self.moment();
            self.leases.begin(&record, now);
            self.tell_nearer_lease(record.seq);
        }
        Ok(())
    }
}
