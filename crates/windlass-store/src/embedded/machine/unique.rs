//! Unique keys: who has one, who takes it and who frees it.

use windlass_core::unique::{self, Contest};
use windlass_core::{Change, NewTask, Record, Stamp, TaskId, UniqueKey};

use super::{Machine, missing};
use crate::depth::{Depths, Room};
use crate::store::{Error, Inserted, depends_on};

impl Machine {
    /// The task that took a key last and still lives.
    pub(super) fn key_holder(&self, key: &UniqueKey) -> Result<Option<Record>, Error> {
        let Some(seq) = self.holders.get(key, self.snapshot.keys())? else { return Ok(None) };
        let record = self.record(seq)?.ok_or_else(|| missing(seq))?;
        if record.unique.as_ref().is_none_or(|hold| hold.key != *key) {
            return Err(Error::Damaged(format!(
                "task {seq} does not have the unique key that it is found by"
            )));
        }
        Ok(Some(record))
    }

    /// Who took the key of a new task last, and what follows; `None` if it has no key or the key was not in use.
    pub(super) fn contest(&self, new: &NewTask) -> Result<Option<(Record, Contest)>, Error> {
        let Some(asked) = &new.unique else { return Ok(None) };
        let Some(holder) = self.key_holder(&asked.key)? else { return Ok(None) };
        let contest = unique::contend(asked.on_conflict, Some(&holder), new.stamp());
        Ok(Some((holder, contest)))
    }

    /// Sees to it that a new task can be added and take its key; the record of the task that gave way for it, if one did.
    /// The inner error is the answer to a submit that adds nothing.
    pub(super) fn make_way(
        &mut self,
        new: &NewTask,
        room: Room,
    ) -> Result<Result<Option<Box<Record>>, Inserted>, Error> {
        let (holder, change) = match self.contest(new)? {
            None | Some((_, Contest::Free)) => {
                return Ok(self.no_room(new, room, None).map_or(Ok(None), Err));
            }
            Some((holder, Contest::Return)) => {
                return Ok(Err(Inserted::Live(Box::new(self.task_of(holder)?))));
            }
            Some((holder, Contest::Reject)) => return Ok(Err(Inserted::KeyHeld(holder.id))),
            Some((holder, Contest::Evict(change))) => (holder, change),
        };
        if let Some(refused) = depends_on(new, &holder) {
            return Ok(Err(refused));
        }
        let mut freed = Depths::default();
        freed.go(&holder);
        if let Some(refused) = self.no_room(new, room, Some(&freed)) {
            return Ok(Err(refused));
        }
        Ok(Ok(Some(Box::new(self.change(holder.seq, &change)?))))
    }

    /// The other live task because of which a finished one cannot become live again.
    pub(super) fn in_the_way(&self, seq: u64, now: Stamp) -> Result<Option<TaskId>, Error> {
        let record = self.record(seq)?.ok_or_else(|| missing(seq))?;
        let Some(hold) = record.unique.filter(|hold| !hold.is_over(now)) else { return Ok(None) };
        let holder = self.key_holder(&hold.key)?;
        Ok(holder.filter(|holder| holder.seq != seq && holder.holds_key(now)).map(|holder| holder.id))
    }

    /// A new task takes its key.
    pub(super) fn take_key(&mut self, record: &Record) {
        if let Some(hold) = &record.unique {
            let grown = self.holders.set(&hold.key, Some(record.seq));
            self.dirty.grew(grown);
        }
    }

    /// Takes or frees the key of a task that just changed.
    pub(super) fn settle_key(&mut self, record: &Record, change: &Change) -> Result<(), Error> {
        let Some(hold) = &record.unique else { return Ok(()) };
        match change {
            Change::Requeued { at, .. } if !hold.is_over(*at) => self.take_key(record),
            _ if !record.state.is_terminal() && !matches!(change, Change::Removed { .. }) => {}
            _ if self.holders.get(&hold.key, self.snapshot.keys())? == Some(record.seq) => {
                let grown = self.holders.set(&hold.key, None);
                self.dirty.grew(grown);
            }
            _ => {}
        }
        Ok(())
    }
}
