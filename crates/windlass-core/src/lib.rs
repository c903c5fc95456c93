//! The domain of Windlass: what a task is, which states it can be in, and every decision about it.
//!
//! Nothing in this crate reads a clock, draws a random number or touches the outside: `now` and random numbers are
//! arguments. A decision looks at a [`Record`] and returns a [`Change`]; [`Record::evolve`] turns a change into the next
//! record. Stores commit changes and never decide, so each rule exists once for all of them.

pub mod choice;
pub mod filter;
pub mod fingerprint;
pub mod flow;
pub mod histogram;
pub mod ids;
pub mod limits;
pub mod operation;
pub mod priority;
pub mod retry;
pub mod schedule;
pub mod sparse;
pub mod state;
pub mod task;
pub mod time;
pub mod trace;
pub mod transition;
pub mod unique;
pub mod workflow;

pub use filter::Filter;
pub use fingerprint::Fingerprint;
pub use histogram::Histogram;
pub use ids::{InvalidName, Name, TaskId, Token};
pub use priority::{Class, Priority};
pub use sparse::Sparse;
pub use state::{CancelReason, Lease, State, StateName};
pub use task::{
    Attempt, Body, Checkpoint, Counted, Links, NewTask, Outcome, Payload, Progress, Record, Task, Wakes,
};
pub use time::{Now, Stamp};
pub use transition::{Change, Ended, Refusal, Transition};
pub use unique::{Hold, OnConflict, Unique, UniqueKey};
pub use workflow::Workflow;
