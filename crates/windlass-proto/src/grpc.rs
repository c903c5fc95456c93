//! The gRPC interface: what `proto/windlass/v1` describes as generated code, and its translation to the domain.
//!
//! A message passes the same gates as a REST body: `check` turns it into the values that the REST body would have become, by
//! the same functions, so that one request is judged in one way whichever door it comes through.

mod admin;
mod claim;
mod content;
mod limit;
mod look;
mod names;
mod operation;
mod outcome;
mod refusal;
mod schedule;
mod submit;
mod task;
mod time;
mod workflow;

pub use names::{given, parsed};
pub use outcome::{Report, Reported};
pub use refusal::Refusal;
pub use time::{time, timestamp};

pub mod v1 {
    #![expect(clippy::allow_attributes_without_reason, reason = "generated code")]
    tonic::include_proto!("windlass.v1");
}

/// All files of the interface and what they import, as reflection serves them.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/windlass.v1.bin"));
