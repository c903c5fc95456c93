//! What would become of an atomic batch, found out before anything is changed.

use std::collections::HashMap;

use windlass_core::unique::{self, Contest};
use windlass_core::{Name, NewTask, Record, TaskId, UniqueKey};

use super::Machine;
use crate::embedded::command::Submitted;
use crate::store::{Error, Inserted};

/// The part of a batch that was looked at, as if it had been added.
#[derive(Debug, Default)]
struct Batch<'a> {
    ids: HashMap<&'a TaskId, &'a NewTask>,
    keys: HashMap<&'a UniqueKey, Record>,
    /// By how much queues would be longer.
    depths: HashMap<Name, i64>,
}

impl Machine {
    /// What the batch would be refused with; `None` if all of it can be added.
    pub(super) fn rehearse(
        &self,
        tasks: &[Submitted],
        max_depth: Option<u64>,
    ) -> Result<Option<Vec<Inserted>>, Error> {
        let mut batch = Batch::default();
        let mut answers = Vec::with_capacity(tasks.len());
        for new in tasks {
            answers.push(self.rehearse_one(&new.task, max_depth, &mut batch)?);
        }
        let refused = |answer: &Inserted| {
            matches!(answer, Inserted::Clash | Inserted::QueueFull | Inserted::KeyHeld(_))
        };
        Ok(answers.iter().any(refused).then_some(answers))
    }

    fn rehearse_one<'a>(
        &self,
        new: &'a NewTask,
        max_depth: Option<u64>,
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
        let evicted = match self.rehearse_key(new, batch)? {
            Ok(evicted) => evicted,
            Err(answer) => return Ok(answer),
        };
        if let Some(max) = max_depth {
            let freed = evicted.as_ref().is_some_and(|holder| holder.queue == new.queue);
            let depth = self.depth(&new.queue) as i64 + batch.depths.get(&new.queue).unwrap_or(&0);
            if depth - i64::from(freed) >= max as i64 {
                return Ok(Inserted::QueueFull);
            }
            if let Some(holder) = evicted {
                *batch.depths.entry(holder.queue).or_default() -= 1;
            }
            *batch.depths.entry(new.queue.clone()).or_default() += 1;
        }
        batch.ids.insert(&new.id, new);
        if let Some(asked) = &new.unique {
            // Numbers begin with 1, so this one names no task.
            batch.keys.insert(&asked.key, Record::submitted(new, 0));
        }
        Ok(Inserted::Aborted)
    }

    /// The waiting task that would give way, if any; the inner error is the answer that needs no further look.
    fn rehearse_key(
        &self,
        new: &NewTask,
        batch: &Batch<'_>,
    ) -> Result<Result<Option<Record>, Inserted>, Error> {
        let Some(asked) = &new.unique else { return Ok(Ok(None)) };
        let (holder, contest) = match batch.keys.get(&asked.key) {
            Some(earlier) => {
                (earlier.clone(), unique::contend(asked.on_conflict, Some(earlier), new.created_at))
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
            Contest::Evict(_) => Ok(Some(holder).filter(Record::waits)),
        })
    }
}
