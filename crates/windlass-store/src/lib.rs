//! Where tasks live: the [`Store`] trait, its backends, and the suite that every backend must pass.

pub mod backup;
pub mod clock;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod depth;
pub mod embedded;
pub mod faults;
pub mod log;
pub mod memory;
pub mod migrate;
mod operations;
mod pause;
#[cfg(feature = "redis")]
pub mod redis;
mod schedules;
pub mod store;
mod usage;
pub mod waiting;

pub use clock::{Clock, SystemClock};
pub use store::{
    Apart, Capabilities, Claim, Committed, Due, DueSchedules, Durability, Ending, Error, Exchange, Expire,
    Extend, Extended, Feature, Groups, Hearer, Hold, Insert, InsertWorkflow, Inserted, Lapsed, Ledger,
    LimitWritten, List, ListLimits, ListOperations, ListQueues, ListSchedules, ListWorkflows, Moved,
    Observed, Observer, OperationChange, OperationWritten, Page, QueueCounts, Released, Restore, Restored,
    Scan, ScheduleChange, ScheduleWritten, SetLimit, Settle, Settled, Signals, Span, Store, WorkflowInserted,
    WriteOperation, WriteSchedule,
};
