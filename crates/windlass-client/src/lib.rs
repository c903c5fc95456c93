//! Producer and worker libraries for Windlass.

pub mod builtin;
pub mod client;
pub mod error;
mod grpc;
#[cfg(feature = "redis")]
pub mod redis;
pub mod rest;
#[cfg(any(test, feature = "embedded"))]
pub mod show;
#[cfg(feature = "testing")]
pub mod testing;
pub mod worker;

pub use client::{Client, NewSchedule, NewWorkflow, Submit, Submitted, Task, blocking};
pub use error::Error;
pub use rest::Filter;
pub use tokio_util::sync::CancellationToken;
pub use windlass_core::OnConflict;
pub use windlass_core::flow::Scope;
pub use windlass_core::schedule::{CatchUp, Overlap};
pub use windlass_proto::rest::{AgeingBody, DeadSelection, LimitInput, OperationInput, RateBody, Seconds};
pub use worker::Worker;
