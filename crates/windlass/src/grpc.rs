//! The gRPC interface. A handler decodes, calls the broker and encodes; every rule is the broker's.
//!
//! Messages and their checks are in `windlass_proto::grpc`. What is refused carries the code of the REST interface: the one
//! table of errors is [`crate::api::problem`], and [`refusal`] puts its rows into a status.

mod admin;
mod connection;
mod deadline;
mod health;
mod intake;
mod lists;
mod operations;
mod refusal;
mod schedules;
mod services;
mod submits;
mod tasks;
#[cfg(test)]
mod tests;
mod unread;
mod watch;
mod work;
mod worker;
mod workflows;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::api;

pub(crate) use connection::{Limits, serve};

/// What every handler needs.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) api: Arc<api::State>,
    /// Cancelled when the server stops: streams that have no end of their own end then.
    pub(crate) closing: CancellationToken,
    /// How long a client that sends a stream of messages may send no whole one.
    pub(crate) silence: Duration,
}
