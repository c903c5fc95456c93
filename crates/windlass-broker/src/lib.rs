//! The verbs and loops of a broker as plain async Rust, with no network.
//!
//! Every change of a task takes one path: read the record, let `windlass_core::transition` decide, commit the decision
//! under the revision that was read ([`Broker::submit`] and [`Broker::claim`] are the two in which the store chooses).
//! What follows from a change — counters, events, people who wait for a result — hangs on that path, in one place.

mod admin;
mod broker;
mod change;
mod claim;
mod clock_watch;
mod dead_groups;
mod dependencies;
mod error;
mod events;
mod explain;
mod finish;
mod gather;
mod limits;
mod loops;
mod metrics;
mod operations;
mod process;
mod query;
mod rates;
mod recorder;
mod schedules;
mod session;
mod submit;
#[cfg(test)]
mod tests;
mod traces;
mod watchers;
mod workers;
mod workflows;

pub use admin::Selection;
pub use broker::{Broker, Recording, Settings};
pub use claim::ClaimRequest;
pub use dead_groups::{DeadGroup, DeadGroups};
pub use dependencies::{Dependencies, Dependency};
pub use error::Error;
pub use events::{
    Audience, Event, EventData, EventFilter, EventKind, Gap, GapReason, Heard, Kinds, Listener, QueueDepth,
    SystemFigures, TaskFacts,
};
pub use explain::{Explanation, Reason};
pub use finish::{Beat, Extension, Failed, Finish, Pulse, Verdict};
pub use gather::{Look, Told};
pub use metrics::{BOUNDS_MS, Durations, MetricsSnapshot, OTHER, Retries, TypeMetrics};
pub use operations::Preview;
pub use process::{Process, ProcessLimits};
pub use query::{Health, LoopHealth, QueueView, Stats};
pub use recorder::{Range, RangeRequest, Series};
pub use schedules::{FireView, ScheduleView};
pub use session::{Keep, Notice, Notices, Session};
pub use submit::{Answers, Start, Submit, Submitted};
pub use traces::{Ended, Fact, Tracer, What};
pub use workers::{ListWorkers, WorkerPage, WorkerView};
pub use workflows::{Node, NodeView, SubmitWorkflow, SubmittedWorkflow, WorkflowView};
