//! Adding tasks.

use std::collections::HashMap;

use windlass_core::{Body, Record, StateName, Task, TaskId};

use super::{Machine, Output, decode_body, missing};
use crate::embedded::command::Submitted;
use crate::embedded::dirty::{Keys, Slot};
use crate::store::{Error, Inserted};

impl Machine {
    pub(super) fn insert(
        &mut self,
        tasks: &[Submitted],
        atomic: bool,
        max_depth: Option<u64>,
    ) -> Result<Output, Error> {
        if self.names.is_full() && !tasks.iter().all(|new| self.has_lane(new)) {
            return Ok(Output::TooManyLanes);
        }
        if atomic && let Some(refused) = self.rehearse(tasks, max_depth)? {
            return Ok(Output::Inserted(refused));
        }
        let mut latest = None;
        let mut added = Vec::with_capacity(tasks.len());
        for new in tasks {
            added.push(self.add(new, max_depth, &mut latest)?);
        }
        Ok(Output::Inserted(added))
    }

    /// `latest` is the lane of the task before, which is mostly the lane of this one.
    fn add(
        &mut self,
        new: &Submitted,
        max_depth: Option<u64>,
        latest: &mut Option<u32>,
    ) -> Result<Inserted, Error> {
        if let Some(task) = self.taken(&new.task.id, &new.task.body)? {
            let same = task.body.repeats(&new.task.body);
            return Ok(if same { Inserted::Same(Box::new(task)) } else { Inserted::Clash });
        }
        if let Some(max) = max_depth {
            let queue = self.names.queue_number(&new.task.queue);
            if queue.map_or(0, |queue| self.waiting(queue)) >= max {
                return Ok(Inserted::QueueFull);
            }
        }
        let same = |lane: &u32| self.names.of_lane(*lane) == Some((&new.task.queue, &new.task.kind));
        let lane = match latest.filter(same) {
            Some(lane) => lane,
            None => self.lane_of(new),
        };
        *latest = Some(lane);
        let queue = self.names.queue_of_lane(lane);
        // Names are shared with the queue, so that a backlog does not hold each of them a thousand times.
        let mut record = Record::submitted(&new.task, self.next_number);
        if let Some((queue, kind)) = self.names.of_lane(lane) {
            record.queue = queue.clone();
            record.kind = kind.clone();
        }
        self.next_number += 1;
        self.ledger.submitted += 1;
        self.names.count(queue, record.priority, None, Some(record.state_name()));
        let slot = Slot {
            record: record.clone(),
            lane,
            queue,
            body: Some(new.body.clone()),
            base: None,
            gone: false,
        };
        self.dirty.insert(slot);
        self.reindex(lane, record.seq, None, Some(Keys::of(&record)))?;
        Ok(Inserted::New(record))
    }

    /// What an atomic batch would be refused with; `None` if all of it can be added.
    fn rehearse(&self, tasks: &[Submitted], max_depth: Option<u64>) -> Result<Option<Vec<Inserted>>, Error> {
        let mut batch: HashMap<&TaskId, &Submitted> = HashMap::new();
        let mut added: HashMap<&str, u64> = HashMap::new();
        let mut answers = Vec::with_capacity(tasks.len());
        for new in tasks {
            let answer = if let Some(task) = self.taken(&new.task.id, &new.task.body)? {
                let same = task.body.repeats(&new.task.body);
                if same { Inserted::Same(Box::new(task)) } else { Inserted::Clash }
            } else if let Some(earlier) = batch.get(&new.task.id) {
                let same = earlier.task.body.repeats(&new.task.body);
                if same { Inserted::Aborted } else { Inserted::Clash }
            } else {
                let count = added.entry(new.task.queue.as_str()).or_default();
                let depth =
                    self.names.queue_number(&new.task.queue).map_or(0, |queue| self.waiting(queue)) + *count;
                if max_depth.is_some_and(|max| depth >= max) {
                    Inserted::QueueFull
                } else {
                    *count += 1;
                    batch.insert(&new.task.id, new);
                    Inserted::Aborted
                }
            };
            answers.push(answer);
        }
        let refused = answers.iter().any(|answer| matches!(answer, Inserted::Clash | Inserted::QueueFull));
        Ok(refused.then_some(answers))
    }

    /// The task that has this id already. An id that the server made needs no look-up.
    fn taken(&self, id: &TaskId, body: &Body) -> Result<Option<Task>, Error> {
        if body.fingerprint.is_none() {
            return Ok(None);
        }
        let Some(seq) = self.seq_of(id)? else { return Ok(None) };
        let mut record = self.record(seq)?.ok_or_else(|| missing(seq))?;
        self.leases.complete(&mut record);
        Ok(Some(Task { record, body: decode_body(seq, self.body(seq)?)? }))
    }

    /// The lane of a new task, made if it is the first of its queue and type.
    fn lane_of(&mut self, new: &Submitted) -> u32 {
        let queue = self.names.add_queue(&new.task.queue);
        self.names.lane_number(queue, &new.task.kind).unwrap_or_else(|| {
            self.index.add_lane(false);
            self.names.add_lane(queue, &new.task.kind)
        })
    }

    fn has_lane(&self, new: &Submitted) -> bool {
        let queue = self.names.queue_number(&new.task.queue);
        queue.is_some_and(|queue| self.names.lane_number(queue, &new.task.kind).is_some())
    }

    fn waiting(&self, queue: u32) -> u64 {
        let by_state = &self.names.queue(queue).by_state;
        [StateName::Scheduled, StateName::Blocked, StateName::Pending, StateName::Retrying]
            .into_iter()
            .map(|state| by_state[state.index()])
            .sum()
    }
}
