//! The `windlass` binary: broker, worker and command line in one.

mod api;
mod bench;
mod cli;
mod config;
mod dev;
mod grpc;
mod logging;
mod serve;
mod server;
mod tcp;
mod traces;

use std::process::ExitCode;

/// Tasks are allocated by one thread and freed by another: with the system's allocator that is a third of the cost of a
/// submit.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
