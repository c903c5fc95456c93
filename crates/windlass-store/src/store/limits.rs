//! Limits: the parameters and answers of their verbs.

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

/// A limit that keeps a task from starting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub scope: Scope,
    pub name: Name,
    pub closed: Closed,
    /// Some of those that run under it.
    pub held_by: Vec<TaskId>,
}
