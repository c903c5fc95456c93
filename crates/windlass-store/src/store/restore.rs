//! Putting in what another store had, as it was.

use windlass_core::operation::Operation;
use windlass_core::{State, Task, Workflow};

/// A part of what another store had; all of it is one commit.
#[derive(Debug, Clone, Default)]
pub struct Restore {
    /// A task takes its unique key if it still holds it at this moment.
    pub at: u64,
    /// Those that the tasks are nodes of. Their counts follow from the tasks; one that is there stays as it is.
    pub workflows: Vec<Workflow>,
    /// One that is there stays as it is.
    pub operations: Vec<Operation>,
    pub tasks: Vec<Moved>,
}

impl Restore {
    /// The highest number that something beside the tasks speaks of. The task that had it may be gone; a new one with its number would
    /// be taken for one that an operation acts on, or for a part of a workflow.
    pub(crate) fn last_number(&self) -> u64 {
        let operations = self.operations.iter().map(|operation| operation.first);
        let workflows = self.workflows.iter().map(|workflow| workflow.first + u64::from(workflow.size));
        operations.chain(workflows).max().unwrap_or(0).saturating_sub(1)
    }
}

#[derive(Debug, Clone)]
pub struct Moved {
    pub task: Task,
    /// The numbers of tasks whose end it has yet to be told. They are in the store.
    pub waits_for: Vec<u64>,
}

impl Moved {
    /// The task as it begins here: whether others wait for it is for them to say, and what only its old process knew is gone.
    pub(crate) fn begun(&self) -> Task {
        let mut task = self.task.clone();
        task.record.awaited = false;
        task.record.progress = None;
        task
    }

    /// The highest number of a place in line that the task has.
    pub(crate) fn last_number(&self) -> u64 {
        self.task.record.seq.max(self.task.record.order)
    }

    /// The highest number of a lease that the task has or had.
    pub(crate) fn last_claim(&self) -> u64 {
        let ended = self.task.record.ended.map_or(0, |token| token.number);
        match &self.task.record.state {
            State::Running(lease) => lease.token.number.max(ended),
            _ => ended,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    Added,
    /// It is there under its id and number, and stays as it is but for whom it waits for.
    There,
    /// Another task has the id or the number, one that it waits for is not there, or the store has removed tasks before: then it
    /// cannot tell a number that is free from one that was used.
    Clash,
}
