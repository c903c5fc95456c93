//! A process that changes a store and dies without closing it.

use std::path::{Path, PathBuf};

use rustix::process::{Signal, getpid, kill_process};
use windlass_broker::{Broker, Settings};
use windlass_store::SystemClock;

use super::add;
use crate::bench::engine::load::task;
use crate::bench::place::Place;
use crate::bench::{Error, io};

/// Enough that the log holds more than the tables, and little enough to be quick.
const BATCHES: u64 = 20;
const BATCH: u64 = 1000;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The data directory
    #[arg(long)]
    data: PathBuf,
    #[arg(long, default_value_t = 200)]
    payload: u64,
    #[command(flatten)]
    place: Place,
}

pub(in crate::bench) async fn run(args: Args) -> Result<(), Error> {
    let store = args.place.open(&args.data).await?;
    let broker = Broker::start(store.clone(), SystemClock::shared(), Settings::default());
    let submit = task("bench", args.payload as usize);
    for _ in 0..BATCHES {
        add(&broker, &submit, BATCH).await?;
    }
    kill_process(getpid(), Signal::KILL).map_err(|error| io("end this process")(error.into()))
}

/// Runs the above in a process of its own, and says how many tasks it added.
pub(super) async fn spawn(data: &Path, place: &Place, payload: u64) -> Result<u64, Error> {
    let program = std::env::current_exe().map_err(io("find this program"))?;
    let output = tokio::process::Command::new(program)
        .args(["bench", "crash", "--payload", &payload.to_string(), "--durability", &place.durability_word()])
        .arg("--data")
        .arg(data)
        .kill_on_drop(true)
        .output()
        .await
        .map_err(io("start a process that will crash"))?;
    // It says something only if it could not do its work.
    if output.status.code().is_some() {
        let output = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::NotReady { name: "windlass bench crash", output });
    }
    Ok(BATCHES * BATCH)
}
