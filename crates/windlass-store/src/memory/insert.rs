//! Adding tasks, and who has which unique key.

use std::collections::{HashMap, HashSet};

use windlass_core::unique::{self, Contest};
use windlass_core::{Body, Change, NewTask, Now, Record, Stamp, Task, TaskId, UniqueKey};

use super::tables::Tables;
use crate::depth::{self, Depths, Room};
use crate::store::{Inserted, depends_on};

impl Tables {
    pub(super) fn insert(
        &mut self,
        tasks: Vec<NewTask>,
        atomic: bool,
        room: Room,
        now: Now,
    ) -> Vec<Inserted> {
        if atomic && let Some(refused) = self.rehearse(&tasks, room) {
            return refused;
        }
        tasks.into_iter().map(|new| self.add(new, room, now)).collect()
    }

    fn add(&mut self, new: NewTask, room: Room, now: Now) -> Inserted {
        if let Some(answer) = self.known(&new) {
            return answer;
        }
        if let Some((id, cancelled)) = self.broken_dependency(&new, None) {
            return Inserted::Dependency { id, cancelled };
        }
        let contest = self.contest(&new, None);
        let (holder, evict) = match contest {
            None | Some((_, Contest::Free)) => (None, None),
            Some((holder, Contest::Return)) => {
                return Inserted::Live(Box::new(self.tasks[&holder.seq].clone()));
            }
            Some((holder, Contest::Reject)) => return Inserted::KeyHeld(holder.id),
            Some((holder, Contest::Evict(change))) => (Some(holder), Some(change)),
        };
        if let Some(refused) = holder.as_ref().and_then(|holder| depends_on(&new, holder)) {
            return refused;
        }
        let mut freed = Depths::default();
        holder.iter().for_each(|holder| freed.go(holder));
        if let Some(refused) = self.no_room(&new, room, Some(&freed)) {
            return refused;
        }
        let open = self.open_dependencies(&new.body);
        let old = holder.zip(evict).map(|(holder, change)| self.change(holder.seq, &change, now));
        let mut record = Record::submitted(&new, self.next_number());
        record.wait_for(open.len() as u32);
        self.wait_for(record.seq, &open);
        self.ledger.submitted += 1;
        self.ids.insert(record.id.clone(), record.seq);
        if let Some(hold) = &record.unique {
            self.keys.insert(hold.key.clone(), record.seq);
        }
        if record.member {
            self.workflows.moved(record.seq, None, Some(record.state_name()));
        }
        self.enter(Task { record: record.clone(), body: new.body }, None, now);
        self.signals.changed(None, &record);
        match old {
            Some(old) => Inserted::Replaced { new: Box::new(record), old: Box::new(old) },
            None => Inserted::New(record),
        }
    }

    /// The answer to a submit whose id is taken.
    fn known(&self, new: &NewTask) -> Option<Inserted> {
        let task = self.find(&new.id)?;
        Some(match task.body.repeats(&new.body) {
            true => Inserted::Same(Box::new(task.clone())),
            false => Inserted::Clash,
        })
    }

    /// The answer to a task for which there is no room, if what was looked at before it were done.
    fn no_room(&self, new: &NewTask, room: Room, depths: Option<&Depths>) -> Option<Inserted> {
        let waiting = || self.queues.get(&new.queue).map_or(0, |queue| queue.counts.waiting());
        depth::refusal(&self.ready.flow, room, new, depths, waiting)
    }

    /// Who took the key of a new task last, in this batch or before it, and what follows; `None` without a key.
    fn contest(&self, new: &NewTask, batch: Option<&Batch<'_>>) -> Option<(Record, Contest)> {
        let asked = new.unique.as_ref()?;
        let stored = || self.keys.get(&asked.key).map(|seq| self.tasks[seq].record.clone());
        let holder = batch.and_then(|batch| batch.keys.get(&asked.key).cloned()).or_else(stored)?;
        let contest = unique::contend(asked.on_conflict, Some(&holder), new.stamp());
        Some((holder, contest))
    }

    /// What an atomic batch would be refused with; `None` if all of it can be added.
    fn rehearse(&self, tasks: &[NewTask], room: Room) -> Option<Vec<Inserted>> {
        let mut batch = Batch::default();
        let answers: Vec<Inserted> =
            tasks.iter().map(|new| self.rehearse_one(new, room, &mut batch)).collect();
        let refused = |answer: &Inserted| {
            use Inserted::{Clash, Dependency, KeyHeld, LimitFull, QueueFull};
            matches!(answer, Clash | QueueFull | LimitFull(_) | KeyHeld(_) | Dependency { .. })
        };
        answers.iter().any(refused).then_some(answers)
    }

    fn rehearse_one<'a>(&self, new: &'a NewTask, room: Room, batch: &mut Batch<'a>) -> Inserted {
        if let Some(answer) = self.known(new) {
            return answer;
        }
        if let Some(earlier) = batch.ids.get(&new.id) {
            return if earlier.repeats(&new.body) { Inserted::Aborted } else { Inserted::Clash };
        }
        if let Some((id, cancelled)) = self.broken_dependency(new, Some(batch)) {
            return Inserted::Dependency { id, cancelled };
        }
        let evicted = match self.contest(new, Some(batch)) {
            None | Some((_, Contest::Free)) => None,
            Some((holder, Contest::Return)) => {
                let stored = self.tasks.get(&holder.seq);
                return stored.map_or(Inserted::Aborted, |task| Inserted::Live(Box::new(task.clone())));
            }
            Some((holder, Contest::Reject)) => return Inserted::KeyHeld(holder.id),
            Some((holder, Contest::Evict(_))) => Some(holder),
        };
        if let Some(refused) = evicted.as_ref().and_then(|holder| depends_on(new, holder)) {
            return refused;
        }
        if depth::matters(&self.ready.flow, room) {
            evicted.iter().for_each(|holder| batch.depths.go(holder));
            if let Some(refused) = self.no_room(new, room, Some(&batch.depths)) {
                evicted.iter().for_each(|holder| batch.depths.stay(holder));
                return refused;
            }
            batch.depths.come(new);
        }
        batch.evicted.extend(evicted.map(|holder| holder.id));
        batch.ids.insert(&new.id, &new.body);
        if let Some(asked) = &new.unique {
            // Numbers begin with 1, so this one names no task.
            batch.keys.insert(&asked.key, Record::submitted(new, 0));
        }
        Inserted::Aborted
    }

    /// The other live task that has the key of `record`, if it has one and wants it back at `now`.
    pub(super) fn key_holder(&self, record: &Record, now: Stamp) -> Option<TaskId> {
        let hold = record.unique.as_ref().filter(|hold| !hold.is_over(now))?;
        let holder = &self.tasks[self.keys.get(&hold.key)?].record;
        (holder.seq != record.seq && holder.holds_key(now)).then(|| holder.id.clone())
    }

    /// Takes or frees the key of a task that just changed.
    pub(super) fn settle_key(&mut self, record: &Record, change: &Change) {
        let Some(hold) = &record.unique else { return };
        match change {
            Change::Requeued { at, .. } if !hold.is_over(*at) => {
                self.keys.insert(hold.key.clone(), record.seq);
            }
            _ if !record.state.is_terminal() && !matches!(change, Change::Removed { .. }) => {}
            _ if self.keys.get(&hold.key) == Some(&record.seq) => {
                self.keys.remove(&hold.key);
            }
            _ => {}
        }
    }
}

/// The part of an atomic batch that was looked at, as if it had been added.
#[derive(Debug, Default)]
pub(super) struct Batch<'a> {
    pub(super) ids: HashMap<&'a TaskId, &'a Body>,
    keys: HashMap<&'a UniqueKey, Record>,
    /// Tasks that would give way, of the batch and of the store.
    pub(super) evicted: HashSet<TaskId>,
    depths: Depths,
}
