//! Every change a task can go through.
//!
//! A decision function (in `decide`) takes the record that was seen, the input and `now`, and returns the [`Change`]
//! to commit, or `None` when the input repeats what already happened, or a [`Refusal`]. People, workers and timers all
//! come through these functions. The change is committed under the condition that the record is still at the revision
//! that was seen; [`crate::Record::evolve`] is the only place where a record becomes its successor.

mod decide;
mod depend;
mod evolve;
#[cfg(test)]
mod tests;

pub use decide::{
    Claim, Extension, Failure, cancel, claim, complete, extend, fail, lose_lease, move_to, release, remove,
    reprioritise, retry, save, tick,
};
pub use depend::{Ended, Parents, retry_behind, settle};

use bytes::Bytes;

use crate::ids::{Name, TaskId, Token};
use crate::priority::Priority;
use crate::state::{CancelReason, StateName};
use crate::task::Payload;
use crate::time::Stamp;

/// What happened to a task. It carries every number it needs, so that replaying it gives the same record.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Claimed {
        at: Stamp,
        token: Token,
        worker: Name,
        lease_ms: u64,
    },
    Completed {
        at: Stamp,
        result: Option<Payload>,
    },
    /// The attempt failed: `retry_at` says when to try again, on the wall clock of `at`; `None` makes it a dead letter.
    Failed {
        at: Stamp,
        error: Box<str>,
        retry_at: Option<u64>,
    },
    /// The lease was lost; `dead` when the limit of crashes is reached.
    LeaseLost {
        at: Stamp,
        error: Box<str>,
        dead: bool,
    },
    /// The worker gave it back, to start again at once or not before `until`, on the wall clock of `at`.
    Released {
        at: Stamp,
        until: Option<u64>,
    },
    Cancelled {
        at: Stamp,
        reason: CancelReason,
    },
    /// The worker saved what the next attempt shall begin with; an empty one takes the last one away.
    Checkpointed {
        at: Stamp,
        bytes: Bytes,
    },
    /// Its time came.
    Promoted {
        at: Stamp,
    },
    /// A manual retry: attempts are counted anew. It waits for these tasks again, mostly none.
    Requeued {
        at: Stamp,
        after: Box<[TaskId]>,
    },
    /// Tasks that it waited for completed: this many of them.
    Settled {
        at: Stamp,
        count: u32,
    },
    /// A person gave it another priority; it goes to the end of that one's line.
    Reprioritised {
        at: Stamp,
        priority: Priority,
    },
    /// A person put it into another queue, at the end of its line there.
    Moved {
        at: Stamp,
        queue: Name,
    },
    /// The task is forgotten: retention ended, or its queue or the dead letters were cleared.
    Removed {
        at: Stamp,
    },
}

impl Change {
    /// When the change happened, on the wall clock.
    pub fn at(&self) -> u64 {
        self.stamp().wall
    }

    pub fn stamp(&self) -> Stamp {
        match self {
            Change::Claimed { at, .. }
            | Change::Completed { at, .. }
            | Change::Failed { at, .. }
            | Change::LeaseLost { at, .. }
            | Change::Released { at, .. }
            | Change::Cancelled { at, .. }
            | Change::Checkpointed { at, .. }
            | Change::Promoted { at }
            | Change::Requeued { at, .. }
            | Change::Settled { at, .. }
            | Change::Reprioritised { at, .. }
            | Change::Moved { at, .. }
            | Change::Removed { at } => *at,
        }
    }

    /// Whether it gives the task a new place in line, or may do so, so that a store has to give it a number for that.
    pub fn takes_place(&self) -> bool {
        matches!(
            self,
            Change::Promoted { .. }
                | Change::Requeued { .. }
                | Change::Settled { .. }
                | Change::Reprioritised { .. }
                | Change::Moved { .. }
        )
    }
}

/// A change and what must still be true for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Transition {
    pub id: TaskId,
    pub seq: u64,
    pub revision: u64,
    pub change: Change,
}

/// Why an input changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The lease is not the current one: it expired, was given back, or the task was cancelled.
    #[error("the lease is no longer valid")]
    LeaseLost,
    /// The task is finished.
    #[error("the task is already {}", .0.as_str())]
    Terminal(StateName),
    /// The state does not allow this input.
    #[error("not possible while the task is {}", .0.as_str())]
    WrongState(StateName),
    /// A wake-up came before its time.
    #[error("the task is not due yet")]
    NotDue,
    #[error("the task expired before it could start")]
    Expired,
    /// A manual retry of a task that depends on a cancelled one.
    #[error("a task that it depends on was cancelled; retry that one first")]
    DependencyCancelled,
}
