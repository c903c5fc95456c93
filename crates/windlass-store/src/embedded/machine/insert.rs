//! Adding tasks.

use bytes::Bytes;
use windlass_core::flow::load;
use windlass_core::{Body, Name, NewTask, Record, Task, TaskId};

use super::dependents::Wanted;
use super::{Machine, Output, decode_body, missing};
use crate::depth::{self, Depths, Room};
use crate::embedded::command::Submits;
use crate::embedded::dirty::{Keys, READY_LANES, Slot};
use crate::embedded::names::share_of;
use crate::store::{Error, Inserted};

impl Machine {
    pub(super) fn insert(&mut self, submits: &Submits, atomic: bool, room: Room) -> Result<Output, Error> {
        if self.lacks_lanes(&submits.tasks) {
            return Ok(Output::TooManyLanes);
        }
        if atomic && let Some(refused) = self.rehearse(&submits.tasks, room)? {
            return Ok(Output::Inserted(refused));
        }
        let mut latest = None;
        let mut added = Vec::with_capacity(submits.tasks.len());
        for (new, body) in submits.iter() {
            added.push(self.add(new, body, room, &mut latest)?);
        }
        Ok(Output::Inserted(added))
    }

    fn lacks_lanes(&self, tasks: &[NewTask]) -> bool {
        let (lanes, shares) = self.names.room();
        let keyed = || tasks.iter().filter(|new| new.key.is_some()).count();
        (lanes == 0 && !tasks.iter().all(|new| self.names.has_tasks(&new.queue, &new.kind)))
            || (tasks.len() > shares && keyed() > shares && self.lacks_shares(tasks, shares))
    }

    /// Near the limit it counts which keys are new: those that are known have their place.
    fn lacks_shares(&self, tasks: &[NewTask], room: usize) -> bool {
        let is_new = |new: &&NewTask| {
            new.key.as_ref().is_some_and(|key| {
                let queue = self.names.queue_number(&new.queue);
                let lane = queue.and_then(|queue| self.names.lane_number(queue, &new.kind));
                lane.is_none_or(|lane| self.names.flow.find_share(lane - READY_LANES, key).is_none())
            })
        };
        tasks.iter().filter(is_new).count() > room
    }

    /// Why tasks cannot be added all together; `None` if they can.
    pub(super) fn refused(&self, tasks: &[NewTask], room: Room) -> Result<Option<Output>, Error> {
        if self.lacks_lanes(tasks) {
            return Ok(Some(Output::TooManyLanes));
        }
        Ok(self.rehearse(tasks, room)?.map(Output::Inserted))
    }

    /// Adds tasks of which it is known that they can be.
    pub(super) fn add_all(&mut self, submits: &Submits) -> Result<Vec<Record>, Error> {
        let mut latest = None;
        let mut records = Vec::with_capacity(submits.tasks.len());
        for (new, body) in submits.iter() {
            match self.add(new, body, Room::Unbounded, &mut latest)? {
                Inserted::New(record) => records.push(record),
                answer => {
                    return Err(Error::Damaged(format!("a task was rehearsed and refused: {answer:?}")));
                }
            }
        }
        Ok(records)
    }

    /// `latest` is the lane of the task before, which is mostly the lane of this one.
    fn add(
        &mut self,
        new: &NewTask,
        body: &Bytes,
        room: Room,
        latest: &mut Option<u32>,
    ) -> Result<Inserted, Error> {
        if let Some(task) = self.taken(&new.id, &new.body)? {
            let same = task.body.repeats(&new.body);
            return Ok(if same { Inserted::Same(Box::new(task)) } else { Inserted::Clash });
        }
        let mut open = Vec::new();
        if !new.body.dependencies().is_empty() {
            match self.wanted(&new.body, |_| None)? {
                Wanted::Open(found) => open = found,
                Wanted::Broken { id, cancelled } => return Ok(Inserted::Dependency { id, cancelled }),
            }
        }
        let old = match &new.unique {
            None => match self.no_room(new, room, None) {
                Some(refused) => return Ok(refused),
                None => None,
            },
            Some(_) => match self.make_way(new, room)? {
                Ok(old) => old,
                Err(answer) => return Ok(answer),
            },
        };
        let same = |lane: &u32| self.names.of_lane(*lane) == Some((&new.queue, &new.kind));
        let lane = match latest.filter(same) {
            Some(lane) => lane,
            None => self.lane_of(&new.queue, &new.kind)?,
        };
        *latest = Some(lane);
        let queue = self.names.queue_of_lane(lane);
        // Long names are shared with the queue, so that a backlog does not hold each of them a thousand times.
        let (named, kind) = self.names.of_lane(lane).unwrap_or((&new.queue, &new.kind));
        let mut record = Record::submitted_to(new, self.next_number, named.clone(), kind.clone());
        let home = match &record.key {
            Some(key) => self.keyed_lane(lane, key)?,
            None => lane,
        };
        if let Some(share) = share_of(home).filter(|_| record.key.is_some()) {
            record.key = Some(self.names.flow.of_share(share).1.clone());
        }
        record.wait_for(open.len() as u32);
        self.next_number += 1;
        self.ledger.submitted += 1;
        self.names.count(lane, record.priority, None, Some(record.state_name()));
        let slot = Slot {
            record: record.clone(),
            lane,
            home,
            queue,
            body: Some(body.clone()),
            base: None,
            moved_from: None,
            gone: false,
        };
        self.dirty.insert(slot);
        self.reindex(record.seq, None, Some(Keys::of(&record, home)))?;
        let share = record.key.as_ref().and_then(|_| share_of(home));
        self.names.flow.count(lane - READY_LANES, share, None, load(record.state_name()));
        self.take_key(&record);
        self.wait_for(record.seq, &open)?;
        if record.member {
            self.node_moved(record.seq, None, Some(record.state_name()))?;
        }
        self.signals.changed(None, &record);
        Ok(match old {
            Some(old) => Inserted::Replaced { new: Box::new(record), old },
            None => Inserted::New(record),
        })
    }

    /// The task that has this id already. An id that the server made needs no look-up.
    pub(super) fn taken(&self, id: &TaskId, body: &Body) -> Result<Option<Task>, Error> {
        if body.fingerprint.is_none() {
            return Ok(None);
        }
        let Some(seq) = self.seq_of(id)? else { return Ok(None) };
        let record = self.record(seq)?.ok_or_else(|| missing(seq))?;
        self.task_of(record).map(Some)
    }

    /// A task as an answer shows it.
    pub(super) fn task_of(&self, mut record: Record) -> Result<Task, Error> {
        self.leases.complete(&mut record);
        let body = decode_body(record.seq, self.body(record.seq)?)?;
        Ok(Task { record, body })
    }

    /// The answer to a task for which there is no room, if what was looked at before it were done.
    pub(super) fn no_room(&self, new: &NewTask, room: Room, depths: Option<&Depths>) -> Option<Inserted> {
        depth::refusal(&self.names.flow, room, new, depths, || self.depth(&new.queue))
    }

    /// How many tasks wait in a queue.
    fn depth(&self, queue: &Name) -> u64 {
        self.names.queue_number(queue).map_or(0, |queue| self.names.queue(queue).waiting())
    }
}
