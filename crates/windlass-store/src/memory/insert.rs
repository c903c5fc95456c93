//! Adding tasks, and who has which unique key.

use std::collections::HashMap;

use windlass_core::unique::{self, Contest};
use windlass_core::{Body, Change, Name, NewTask, Now, Record, Task, TaskId, UniqueKey};

use super::tables::Tables;
use crate::store::{Insert, Inserted};

impl Tables {
    pub(super) fn insert(&mut self, insert: Insert, now: Now) -> Vec<Inserted> {
        if insert.atomic
            && let Some(refused) = self.rehearse(&insert)
        {
            return refused;
        }
        insert.tasks.into_iter().map(|new| self.add(new, insert.max_depth, now)).collect()
    }

    fn add(&mut self, new: NewTask, max_depth: Option<u64>, now: Now) -> Inserted {
        if let Some(answer) = self.known(&new) {
            return answer;
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
        let freed = holder.as_ref().is_some_and(|holder| holder.waits() && holder.queue == new.queue);
        if max_depth.is_some_and(|max| self.depth(&new.queue) - u64::from(freed) >= max) {
            return Inserted::QueueFull;
        }
        let old = holder.zip(evict).map(|(holder, change)| self.change(holder.seq, &change, now));
        let record = Record::submitted(&new, self.next_number());
        self.ledger.submitted += 1;
        self.ids.insert(record.id.clone(), record.seq);
        if let Some(hold) = &record.unique {
            self.keys.insert(hold.key.clone(), record.seq);
        }
        self.enter(Task { record: record.clone(), body: new.body }, now);
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

    fn depth(&self, queue: &Name) -> u64 {
        self.queues.get(queue).map_or(0, |queue| queue.counts.waiting())
    }

    /// Who took the key of a new task last, in this batch or before it, and what follows; `None` without a key.
    fn contest(&self, new: &NewTask, batch: Option<&Batch<'_>>) -> Option<(Record, Contest)> {
        let asked = new.unique.as_ref()?;
        let stored = || self.keys.get(&asked.key).map(|seq| self.tasks[seq].record.clone());
        let holder = batch.and_then(|batch| batch.keys.get(&asked.key).cloned()).or_else(stored)?;
        let contest = unique::contend(asked.on_conflict, Some(&holder), new.created_at);
        Some((holder, contest))
    }

    /// What an atomic batch would be refused with; `None` if all of it can be added.
    fn rehearse(&self, insert: &Insert) -> Option<Vec<Inserted>> {
        let mut batch = Batch::default();
        let answers: Vec<Inserted> =
            insert.tasks.iter().map(|new| self.rehearse_one(new, insert.max_depth, &mut batch)).collect();
        let refused = |answer: &Inserted| {
            matches!(answer, Inserted::Clash | Inserted::QueueFull | Inserted::KeyHeld(_))
        };
        answers.iter().any(refused).then_some(answers)
    }

    fn rehearse_one<'a>(&self, new: &'a NewTask, max_depth: Option<u64>, batch: &mut Batch<'a>) -> Inserted {
        if let Some(answer) = self.known(new) {
            return answer;
        }
        if let Some(earlier) = batch.ids.get(&new.id) {
            return if earlier.repeats(&new.body) { Inserted::Aborted } else { Inserted::Clash };
        }
        let evicted = match self.contest(new, Some(batch)) {
            None | Some((_, Contest::Free)) => None,
            Some((holder, Contest::Return)) => {
                let stored = self.tasks.get(&holder.seq);
                return stored.map_or(Inserted::Aborted, |task| Inserted::Live(Box::new(task.clone())));
            }
            Some((holder, Contest::Reject)) => return Inserted::KeyHeld(holder.id),
            Some((holder, Contest::Evict(_))) => Some(holder).filter(Record::waits),
        };
        let freed = evicted.as_ref().is_some_and(|holder| holder.queue == new.queue);
        let depth = self.depth(&new.queue) as i64 + batch.depths.get(&new.queue).unwrap_or(&0);
        if max_depth.is_some_and(|max| depth - i64::from(freed) >= max as i64) {
            return Inserted::QueueFull;
        }
        if let Some(holder) = evicted {
            *batch.depths.entry(holder.queue).or_default() -= 1;
        }
        *batch.depths.entry(new.queue.clone()).or_default() += 1;
        batch.ids.insert(&new.id, &new.body);
        if let Some(asked) = &new.unique {
            // Numbers begin with 1, so this one names no task.
            batch.keys.insert(&asked.key, Record::submitted(new, 0));
        }
        Inserted::Aborted
    }

    /// The other live task that has the key of `record`, if it has one and wants it back at `now`.
    pub(super) fn key_holder(&self, record: &Record, now: u64) -> Option<TaskId> {
        let hold = record.unique.as_ref().filter(|hold| !hold.is_over(now))?;
        let holder = &self.tasks[self.keys.get(&hold.key)?].record;
        (holder.seq != record.seq && holder.holds_key(now)).then(|| holder.id.clone())
    }

    /// Takes or frees the key of a task that just changed.
    pub(super) fn settle_key(&mut self, record: &Record, change: &Change) {
        let Some(hold) = &record.unique else { return };
        match change {
            Change::Requeued { at } if !hold.is_over(*at) => {
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
struct Batch<'a> {
    ids: HashMap<&'a TaskId, &'a Body>,
    keys: HashMap<&'a UniqueKey, Record>,
    /// By how much queues would be longer.
    depths: HashMap<Name, i64>,
}
