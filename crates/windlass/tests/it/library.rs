//! The Rust library against the real binary, over gRPC and REST, and in one process.

mod broker;
mod calls;
mod chaos;
mod connection;
mod examples;
mod process;
mod producer;
mod workflows;

use windlass_core::StateName;
use windlass_proto::rest::TaskBody;

/// What a task that ended says of its end.
fn end(task: &TaskBody) -> (StateName, u32) {
    (task.state, task.attempts)
}
