//! What would become of an atomic batch, found out before anything is changed.

use std::collections::{HashMap, HashSet};

use windlass_core::unique::{self, Contest};
use windlass_core::{NewTask, Record, TaskId, UniqueKey};

use super::Machine;
use super::dependents::{Rehearsed, Wanted};
use crate::depth::{self, Depths, Room};
use crate::store::{Error, Inserted, depends_on};

/// The part of a batch that was looked at, as if it had been added.
#[derive(Debug, Default)]
struct Batch<'a> {
    ids: HashMap<&'a TaskId, &'a NewTask>,
    keys: HashMap<&'a UniqueKey, Record>,
    /// Tasks that would give way, of the batch and of the store.
    evicted: HashSet<TaskId>,
    depths: Depths,
}

impl Batch<'_> {
    fn rehearsed(&self, id: &TaskId) -> Option<Rehearsed> {
        if self.evicted.contains(id) {
            return Some(Rehearsed::Cancelled);
        }
        self.ids.contains_key(id).then_some(Rehearsed::Added)
    }
}

impl Machine {
    /// What the batch would be refused with; `None` if all of it can be added.
    pub(super) fn rehearse(&self, tasks: &[NewTask], room: Room) -> Result<Option<Vec<Inserted>>, Error> {
        let mut batch = Batch::default();
        let mut answers = Vec::with_capacity(tasks.len());
        for new in tasks {
            answers.push(self.rehearse_one(new, room, &mut batch)?);
        }
        let refused = |answer: &Inserted| {
            use Inserted::{Clash, Dependency, KeyHeld, LimitFull, QueueFull};
            matches!(answer, Clash | QueueFull | LimitFull(_) | KeyHeld(_) | Dependency { .. })
        };
        Ok(answers.iter().any(refused).then_some(answers))
    }

    fn rehearse_one<'a>(
        &self,
        new: &'a NewTask,
        room: Room,
        batch: &mut Batch<'a>,
    ) -> Result<Inserted, Error> {
        if let Some(task) = self.taken(&new.id, &new.body)? {
            let same = task.body.repeats(&new.body);
            return Ok(if same { Inserted::Same(Box::new(task)) } else { Inserted::Clash });
        }
        if let Some(earlier) = batch.ids.get(&new.id) {
            let same = earlier.body.repeats(&new.body);
            return Ok(if same { Inserted::Aborted } else { Inserted::Clash });
        }
        if let Wanted::Broken { id, cancelled } = self.wanted(&new.body, |id| batch.rehearsed(id))? {
            return Ok(Inserted::Dependency { id, cancelled });
        }
        let evicted = match self.rehearse_key(new, batch)? {
            Ok(evicted) => evicted,
            Err(answer) => return Ok(answer),
        };
        if depth::matters(&self.names.flow, room) {
            evicted.iter().for_each(|holder| batch.depths.go(holder));
            if let Some(refused) = self.no_room(new, room, Some(&batch.depths)) {
                evicted.iter().for_each(|holder| batch.depths.stay(holder));
                return Ok(refused);
            }
            batch.depths.come(new);
        }
        batch.evicted.extend(evicted.map(|holder| holder.id));
        batch.ids.insert(&new.id, new);
        if let Some(asked) = &new.unique {
            // Numbers begin with 1, so this one names no task.
            batch.keys.insert(&asked.key, Record::submitted(new, 0));
        }
        Ok(Inserted::Aborted)
    }

    /// The task that would give way, if any; the inner error is the answer that needs no further look.
    fn rehearse_key(
        &self,
        new: &NewTask,
        batch: &Batch<'_>,
    ) -> Result<Result<Option<Record>, Inserted>, Error> {
        let Some(asked) = &new.unique else { return Ok(Ok(None)) };
        let (holder, contest) = match batch.keys.get(&asked.key) {
            Some(earlier) => {
                (earlier.clone(), unique::contend(asked.on_conflict, Some(earlier), new.stamp()))
            }
            None => match self.contest(new)? {
                Some(met) => met,
                None => return Ok(Ok(None)),
            },
        };
        Ok(match contest {
            Contest::Free => Ok(None),
            Contest::Return if holder.seq == 0 => Err(Inserted::Aborted),
            Contest::Return => Err(Inserted::Live(Box::new(self.task_of(holder)?))),
            Contest::Reject => Err(Inserted::KeyHeld(holder.id)),
            Contest::Evict(_) => depends_on(new, &holder).map_or(Ok(Some(holder)), Err),
        })
    }
}
