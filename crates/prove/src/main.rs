//! Tries to break Windlass, and says how that went.
//!
//! Each proof is a file. It starts the real program (or, where volume counts, its parts in this process), hurts it, lets
//! everything drain, and only then judges. A request without an answer is *unknown*, never failed. Each proof also shows
//! that it can fail: it runs a variant that is broken on purpose, or hands its judge a history that is wrong, and fails if
//! nobody complains. A run whose faults did not fire fails too. The seed decides every choice of the harness.

mod arguments;
mod audit;
mod cgroup;
mod child;
mod cutter;
mod frames;
mod g01_kill;
mod g02_power;
mod g03_damage;
mod g04_fsync;
mod g05_full;
mod g06_final;
mod g07_stale;
mod g08_lease;
mod g09_crash;
mod g10_twice;
mod g12_ledger;
mod g13_slots;
mod g14_clock;
mod g17_term;
mod g18_memory;
mod g19_redis;
mod g20_bulk;
mod g21_graph;
mod g22_freeze;
mod g23_backup;
mod history;
mod http;
mod judge;
mod library;
mod load;
mod mount;
mod proof;
mod report;
mod server;
mod volume;

use std::process::ExitCode;

use arguments::Request;

fn main() -> ExitCode {
    let request = match arguments::read() {
        Ok(request) => request,
        Err(error) => return report::refuse(&error.to_string()),
    };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return report::refuse(&error.to_string()),
    };
    match request {
        Request::List => report::list(&proof::ALL),
        Request::Worker(worker) => runtime.block_on(child::work(worker)),
        Request::Library(library) => runtime.block_on(library::work(library)),
        Request::Prove { names, run } => runtime.block_on(proof::run_all(&names, run)),
    }
}
