//! Limits: the parameters and answers of their verbs.

use std::fmt;

use windlass_core::flow::{Closed, Limit, Scope};
use windlass_core::{Name, TaskId};

/// Sets or changes a limit, or removes it with `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetLimit {
    pub scope: Scope,
    pub name: Name,
    pub limit: Option<Limit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitWritten {
    /// Whether there was one before.
    Done { existed: bool },
    /// There are [`windlass_core::limits::LIMITS_MAX`] already.
    TooMany,
}

#[derive(Debug, Clone, Default)]
pub struct ListLimits {
    /// Only these; `None` for all.
    pub scope: Option<Scope>,
    /// Only those behind this one.
    pub after: Option<(Scope, Name)>,
    pub limit: usize,
}

/// A limit that would have to count tasks which the store keeps apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apart {
    /// What was asked for: the field of the limit that counts, or of the task that would be counted.
    pub field: &'static str,
    pub scope: Scope,
    pub name: Name,
}

impl fmt::Display for Apart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Apart { field, scope, name } = self;
        write!(
            f,
            "{field}: a limit counts the tasks of {} {name}, and these would be in queues that a cluster keeps apart; \
             give the queues names that are alike up to a colon, or make the store with ?shards=1",
            scope.as_str()
        )
    }
}

/// A limit that keeps a task from starting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub scope: Scope,
    pub name: Name,
    pub closed: Closed,
    /// Some of those that run under it.
    pub held_by: Vec<TaskId>,
}
