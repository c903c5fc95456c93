//! Producer and worker libraries for Windlass.

pub mod builtin;
pub mod client;
pub mod error;
mod grpc;
pub mod rest;
#[cfg(feature = "testing")]
pub mod testing;
pub mod worker;

pub use client::{Client, Submit, Submitted, Task, blocking};
pub use error::Error;
pub use tokio_util::sync::CancellationToken;
pub use windlass_core::OnConflict;
pub use worker::Worker;
