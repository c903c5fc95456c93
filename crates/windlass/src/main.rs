//! The `windlass` binary: broker, worker and command line in one.

mod api;
mod bench;
mod cli;
mod config;
mod dev;
mod logging;
mod serve;
mod server;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
