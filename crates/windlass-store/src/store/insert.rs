//! Adding tasks, and what became of each.

use std::sync::Arc;

use windlass_core::flow::Full;
use windlass_core::{NewTask, Record, Task, TaskId};

use super::Apart;

#[derive(Debug)]
pub struct Insert {
    /// Shared, because whoever hands them in needs them for the answer.
    pub tasks: Arc<Vec<NewTask>>,
    /// All or nothing.
    pub atomic: bool,
    /// Refuse a task when this many of its queue already wait (scheduled, blocked, pending, retrying).
    pub max_depth: Option<u64>,
}

#[expect(clippy::large_enum_variant, reason = "the usual answer is the large one")]
#[derive(Debug, Clone, PartialEq)]
pub enum Inserted {
    New(Record),
    /// The id is taken by a task that was submitted with the same content.
    Same(Box<Task>),
    /// The id is taken by another task.
    Clash,
    /// Added, and the holder of its unique key gave way: the record of that one after it was cancelled.
    Replaced {
        new: Box<Record>,
        old: Box<Record>,
    },
    /// This live task has the unique key and is the answer.
    Live(Box<Task>),
    /// This live task has the unique key, and nothing was added.
    KeyHeld(TaskId),
    QueueFull,
    /// As many wait as a limit allows.
    LimitFull(Box<Full>),
    /// A limit would have to count it that counts tasks elsewhere ([`super::Feature::FlowTogether`]).
    LimitApart(Box<Apart>),
    /// It depends on a task that is not there or was cancelled.
    Dependency {
        id: TaskId,
        cancelled: bool,
    },
    /// Not done because another task of an atomic batch could not be added.
    Aborted,
}
