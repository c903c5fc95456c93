//! Where tasks live: the [`Store`] trait, its backends, and the suite that every backend must pass.

pub mod clock;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod embedded;
pub mod faults;
pub mod log;
pub mod memory;
mod operations;
mod schedules;
pub mod store;
pub mod waiting;

pub use clock::{Clock, SystemClock};
pub use store::{
    Capabilities, Claim, Committed, Due, DueSchedules, Durability, Error, Expire, Extend, Extended, Insert,
    Inserted, Ledger, List, ListOperations, ListSchedules, OperationChange, OperationWritten, Page,
    QueueCounts, Scan, ScheduleChange, ScheduleWritten, Signals, Store, WriteOperation, WriteSchedule,
};
