//! All operations of a store, in memory: they are few and small. A store writes down what changes; this says what a change
//! means.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use windlass_core::limits::{OPERATIONS_MAX, OPERATIONS_RUNNING_MAX, PAGE_ROWS_MAX};
use windlass_core::operation::{Operation, Tally};
use windlass_core::{Name, Transition};

use crate::store::{Committed, ListOperations, OperationChange, OperationWritten, WriteOperation};

#[derive(Debug, Default)]
pub(crate) struct Operations {
    by_id: BTreeMap<Name, Operation>,
    running: BTreeSet<Name>,
}

impl Operations {
    pub(crate) fn get(&self, id: &Name) -> Option<&Operation> {
        self.by_id.get(id)
    }

    /// The largest id first.
    pub(crate) fn list(&self, list: &ListOperations) -> Vec<Operation> {
        let to = list.before.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let before = self.by_id.range::<Name, _>((Bound::Unbounded, to)).rev();
        let wanted = before.filter(|(id, _)| !list.running || self.running.contains(*id));
        wanted.map(|(_, operation)| operation.clone()).take(list.limit.min(PAGE_ROWS_MAX)).collect()
    }

    /// Why a write cannot be carried out, if it cannot.
    pub(crate) fn refusal(&self, write: &WriteOperation) -> Option<OperationWritten> {
        let stored = self.by_id.get(&write.id);
        let refused = match (&write.change, stored) {
            (OperationChange::Start { .. }, Some(_)) => OperationWritten::Conflict,
            (OperationChange::Start { .. }, None) if self.running.len() >= OPERATIONS_RUNNING_MAX => {
                OperationWritten::TooMany
            }
            (OperationChange::Start { .. }, None) => return None,
            (_, None) => OperationWritten::Missing,
            (OperationChange::Step { step, .. }, Some(stored)) => {
                if stored.is_running() && stored.revision == step.revision {
                    return None;
                }
                OperationWritten::Conflict
            }
            (OperationChange::End { .. }, Some(stored)) if stored.is_running() => return None,
            (OperationChange::Remove, Some(stored)) if !stored.is_running() => return None,
            (OperationChange::End { .. } | OperationChange::Remove, Some(_)) => OperationWritten::Conflict,
        };
        Some(refused)
    }

    /// Carries out a write that nothing speaks against. `committed` belongs to the transitions of a step, and tasks below
    /// `next_number` are there. Returns the operation, and the one that made room for it.
    pub(crate) fn carry_out(
        &mut self,
        write: &WriteOperation,
        committed: &[Committed],
        next_number: u64,
    ) -> (Option<Operation>, Option<Name>) {
        let mut current = self.by_id.remove(&write.id);
        self.running.remove(&write.id);
        let mut forgotten = None;
        match (&write.change, &mut current) {
            (OperationChange::Start { operation }, _) => {
                let mut operation = (**operation).clone();
                operation.begin(next_number);
                forgotten = self.make_room();
                current = Some(operation);
            }
            (OperationChange::Step { step, transitions }, Some(current)) => {
                current.advance(step, tally(transitions, committed));
            }
            (OperationChange::End { standing }, Some(current)) => current.end(standing),
            (OperationChange::Remove, _) | (_, None) => return (current, None),
        }
        if let Some(operation) = &current {
            self.add(operation.clone());
        }
        (current, forgotten)
    }

    pub(crate) fn add(&mut self, operation: Operation) {
        if operation.is_running() {
            self.running.insert(operation.id.clone());
        }
        self.by_id.insert(operation.id.clone(), operation);
    }

    fn make_room(&mut self) -> Option<Name> {
        if self.by_id.len() < OPERATIONS_MAX {
            return None;
        }
        let ended = self.by_id.keys().find(|id| !self.running.contains(*id)).cloned()?;
        self.by_id.remove(&ended);
        Some(ended)
    }
}

/// A task that is gone has nothing left to change.
pub(crate) fn tally(transitions: &[Transition], committed: &[Committed]) -> Tally {
    let mut tally = Tally::default();
    for (transition, outcome) in transitions.iter().zip(committed) {
        match outcome {
            Committed::Done(_) => tally.changed += 1,
            Committed::Conflict => tally.conflicts.push(transition.id.clone()),
            // Its unique key is held by another task.
            Committed::KeyHeld(_) => tally.refused += 1,
            Committed::Missing => {}
        }
    }
    tally
}
