//! What a store is asked about operations.

use windlass_core::operation::{Operation, Standing, Step};
use windlass_core::{Name, Record, Transition};

use super::Committed;

/// One write of one operation; all of it is one commit.
#[derive(Debug, Clone)]
pub struct WriteOperation {
    pub id: Name,
    pub change: OperationChange,
}

#[derive(Debug, Clone)]
pub enum OperationChange {
    /// A new one. It takes the tasks that are there at this moment. If there are as many as there can be, the oldest that ended
    /// makes room.
    Start { operation: Box<Operation> },
    /// It goes on from the revision that the step names, and the transitions are committed, each under its own condition.
    Step { step: Step, transitions: Vec<Transition> },
    /// It ends where it is, unless it has ended.
    End { standing: Standing },
    /// One that ended is forgotten.
    Remove,
}

#[derive(Debug, Clone, PartialEq)]
pub enum OperationWritten {
    /// The operation after the change (for a removal: before it), with an answer for every transition.
    Done {
        operation: Box<Operation>,
        committed: Vec<Committed>,
    },
    /// It is no longer at that revision, has ended (or has not), or the id of a new one is taken.
    Conflict,
    Missing,
    /// As many run as may run at once.
    TooMany,
}

/// A page of operations, the largest id first: ids carry their time, so that is the newest.
#[derive(Debug, Clone, Default)]
pub struct ListOperations {
    /// Only those with a smaller id.
    pub before: Option<Name>,
    /// Only those under way.
    pub running: bool,
    pub limit: usize,
}

/// A page of records.
#[derive(Debug, Default)]
pub struct Scan {
    pub records: Vec<Record>,
    /// As [`super::Page::next`].
    pub next: Option<u64>,
}
