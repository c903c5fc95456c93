//! The same workloads on Windlass and on the queues that people use now, in one run on one machine.
//!
//! `bench/peers/run` installs what is missing and starts this. For each system and setting: start the server on free ports with
//! files of its own, put the workloads on it, stop it. Rounds are interleaved, so that what the machine does meanwhile hits all
//! alike. Results are medians; a system that cannot be measured is named with the reason.

mod args;
mod driver;
mod drivers;
mod launch;
mod load;
mod measure;
mod payload;
mod process;
mod progress;
mod report;
mod results;
mod run;
mod scripts;
mod series;
mod system;
mod wire;

use std::process::ExitCode;

use anyhow::Result;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;

use crate::args::Request;

fn main() -> ExitCode {
    let ended = match args::parse(lexopt::Parser::from_env()) {
        Ok(request) => serve(request),
        Err(error) => Err(error.into()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            progress::say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn serve(request: Request) -> Result<()> {
    match request {
        Request::Help => {
            progress::say(args::USAGE);
            Ok(())
        }
        Request::Echo(addr) => one_thread()?.block_on(drivers::echo::serve(addr)),
        // As anybody would start it.
        Request::EchoGrpc(addr) => tokio::runtime::Runtime::new()?.block_on(drivers::grpc::serve_echo(addr)),
        Request::Bench(options) => one_thread()?.block_on(LocalSet::new().run_until(async {
            tokio::select! {
                ended = series::bench(&options) => ended,
                signal = stopped() => signal.and(Err(anyhow::anyhow!("stopped, nothing was written"))),
            }
        })),
    }
}

/// One thread for all of the load, whatever the system.
fn one_thread() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Servers end with the future that holds them, so a signal must end that future and not the process.
async fn stopped() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        asked = tokio::signal::ctrl_c() => asked?,
        _ = terminate.recv() => {}
    }
    Ok(())
}
