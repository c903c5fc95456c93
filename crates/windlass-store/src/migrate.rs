//! Moving everything from one store into another, of whatever kind.
//!
//! Tasks keep their numbers, or at least the order of these (`numbers.rs`), so the copy is the same store in another place: lists, places in
//! line, workflows and operations under way mean what they meant before. That is possible only in a store that has no tasks of its own,
//! and is why a destination with others is refused.
//!
//! The steps are [`survey`], which refuses what cannot be done before anything is written; [`copy`]; and [`verify`], which reads both
//! stores again from the first task to the last. Memory holds a page of each. Every write can be repeated: a run that was killed is
//! started again and goes on, and what it finds there is compared by `survey` and `verify`.
//!
//! Tasks go over twice, in a way: first all of them by themselves, then those that wait for others again with whom they wait for,
//! because these may have any number. The pairs of one who waits are no part of its record and are worked out (`pairs.rs`).
//!
//! The source is only read. Whoever calls sees to it that nothing else uses either store; a source that changed all the same is noticed by
//! its ledger.

mod compare;
mod contents;
mod copy;
mod keys;
mod needs;
mod numbers;
mod pairs;
mod survey;
#[cfg(test)]
mod tests;
mod verify;
mod walk;

use windlass_core::{State, Task, TaskId};

pub use contents::Contents;
pub use copy::{Copied, copy};
pub use survey::{Survey, look, survey};
pub use verify::{Verified, verify};

use crate::store::{self, Feature, Store};

/// Differences that are told; there may be a million, and the first ones say what went wrong.
const DIFFERENCES_MAX: usize = 20;

/// What to move, and how.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    pub from: &'a dyn Store,
    pub to: &'a dyn Store,
    pub running: Running,
    /// The moment of the whole job.
    pub at: u64,
}

/// What becomes of tasks that a worker holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Running {
    /// They stay with their worker, whose lease gets a fresh window: as if the broker had been restarted.
    #[default]
    Keep,
    /// They are given back, as if their worker had done so when it took them.
    Release,
    /// There must be none.
    Refuse,
}

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub step: &'static str,
    pub done: u64,
    pub total: u64,
}

/// Is told of progress now and then.
pub type Watch<'a> = &'a mut (dyn FnMut(Progress) + Send);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Such as "task x".
    pub what: String,
    /// Such as "differs in attempts, error".
    pub how: String,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the source: {0}")]
    From(store::Error),
    #[error("the destination: {0}")]
    To(store::Error),
    /// Nothing was written.
    #[error("{what} needs {feature}, which the {store} store does not have")]
    Unsupported {
        /// Such as "task x", the first that was met.
        what: String,
        feature: Feature,
        store: &'static str,
    },
    #[error(
        "the numbers of its tasks would become too large: it was moved into and out of clusters too often"
    )]
    Numbers,
    #[error("{0} tasks are running")]
    Running(u64),
    /// Nothing was written.
    #[error("the destination is not empty: {0}")]
    NotEmpty(String),
    #[error("{0} cannot be put in: the destination has another one in its place")]
    Clash(String),
    #[error("the source is damaged: {0}")]
    Damaged(String),
    #[error("the source changed meanwhile: something else uses it")]
    Changed,
    #[error("the copy differs from the source in {count} things")]
    Different { count: u64, some: Vec<Difference> },
}

impl Error {
    pub fn code(&self) -> &'static str {
        match self {
            Error::From(_) => "source_failed",
            Error::To(_) => "destination_failed",
            Error::Unsupported { .. } => "unsupported_by_store",
            Error::Numbers => "numbers_used_up",
            Error::Running(_) => "tasks_running",
            Error::NotEmpty(_) => "destination_not_empty",
            Error::Clash(_) => "destination_clash",
            Error::Damaged(_) => "source_damaged",
            Error::Changed => "source_changed",
            Error::Different { .. } => "copy_differs",
        }
    }
}

/// What is kept of a task wherever it is: not when its lease ends, which is no part of what is durable, nor that others
/// wait for it, which follows from them.
fn kept(mut task: Task) -> Task {
    if let State::Running(lease) = &mut task.record.state {
        lease.expires_at = 0;
    }
    task.record.progress = None;
    task.record.awaited = false;
    task
}

fn task_name(id: &TaskId) -> String {
    format!("task {id}")
}
