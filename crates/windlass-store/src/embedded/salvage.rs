//! Copies the provably intact data of a refused store into a new store.
//!
//! The source is locked and only read. Code that needs a writable file works on a copy below the destination. There are two ways
//! to begin, and then a common third step:
//!
//! 1. **The tables are whole** (`whole.rs`). They are copied, get a new store id, and the intact log behind them is written
//!    into a new log. Opening that replays it as always, so the copy is exact up to the first hole in the log.
//! 2. **The tables are damaged** (`rows.rs`, `refill.rs`). Each task whose record and body pass their checksums is put into a
//!    new store as the last checkpoint saw it, and so is everything else that has a checksum.
//! 3. **The rest of the log** (`rest.rs`): intact entries after a hole, or after a checkpoint that was damaged. Tasks are
//!    added as they were submitted. A change is applied if it was decided on the revision that the task has. A claim
//!    cannot be replayed, because the tasks that it chose depend on all other tasks. Tasks that changed after a claim are
//!    reported as being in an earlier state.
//!
//! The copy accepts no token of the source: running tasks are released, because the lost data may have given them to
//! another worker, and the next claim number is raised by 2³². A task whose dependency is lost is cancelled with the
//! reason `dependency`; a retry runs it without waiting for the lost task.
//!
//! Until everything is done, the copy is in a folder below the destination, and the destination is not a store.

mod evidence;
mod finish;
mod refill;
mod report;
mod rest;
mod rows;
mod whole;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::evidence::Evidence;
use self::rest::Rest;
use super::elapsed;
use super::identity::SALVAGE_FOLDER;
use super::open::{io_error, lock, log_error};
use super::{EmbeddedStore, Options as StoreOptions};
use crate::clock::Clock;
use crate::log::Intact;
use crate::store::{Durability, Error, Store};

pub use self::report::{Loss, Origin, Report};

#[derive(Debug, Clone)]
pub struct Options {
    /// The directory that is refused.
    pub from: PathBuf,
    /// An empty or missing directory.
    pub to: PathBuf,
    /// The size of a file of the new log.
    pub segment_bytes: u64,
}

/// The progress of a salvage.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub step: &'static str,
    pub done: u64,
}

/// Receives progress and losses while the salvage runs.
pub trait Watch: Send {
    fn progress(&mut self, progress: Progress);
    fn loss(&mut self, loss: Loss);
}

/// Copies the intact data. Losses are reported as they are found.
pub async fn salvage(
    options: &Options,
    clock: Arc<dyn Clock>,
    watch: &mut dyn Watch,
) -> Result<Report, Error> {
    let _lock = lock(&options.from)?;
    let work = begin(&options.to)?;
    let outcome = run(options, &work, clock, watch).await;
    let report = match outcome {
        Ok(report) => finish::put_in_place(&work, &options.to).map(|()| report),
        Err(error) => Err(error),
    };
    let removed = fs::remove_dir_all(&work).map_err(io_error("remove", &work));
    let report = report?;
    removed.map(|()| report)
}

async fn run(
    options: &Options,
    work: &Path,
    clock: Arc<dyn Clock>,
    watch: &mut dyn Watch,
) -> Result<Report, Error> {
    let evidence = Evidence::gather(&options.from, work)?;
    let mut report = Report::default();
    let new = work.join("new");
    let (store, intact) = match exact(options, &evidence, &new, &clock, watch, &mut report).await {
        Ok(begun) => begun,
        // A full disk is not damage.
        Err(error @ Error::NoSpace) => return Err(error),
        Err(error) => {
            report.tables = Some(error.to_string());
            renew(&new)?;
            let store = open(options, &new, &clock).await?;
            let found = refill::refill(&evidence, &store, &clock, watch, &mut report).await?;
            report.next_claim = found.next_claim;
            (store, evidence.log.entries(found.applied + 1))
        }
    };
    evidence.report(watch, &mut report);
    let mut rest = Rest::new(&*store, clock.now().stamp(), watch, &mut report);
    let done = rest.take(intact).await;
    let done = match done {
        Ok(()) => finish::release_running(&*store, &clock, &mut report).await,
        error => error,
    };
    let closed = store.close().await;
    done.and(closed)?;
    drop(store);
    report.store = finish::seal(&new, report.next_claim)?;
    Ok(report)
}

/// Makes an exact copy up to the first hole in the log: from the tables, or from a log that begins with the first entry.
async fn exact(
    options: &Options,
    evidence: &Evidence,
    new: &Path,
    clock: &Arc<dyn Clock>,
    watch: &mut dyn Watch,
    report: &mut Report,
) -> Result<(Arc<EmbeddedStore>, Intact), Error> {
    let mut first_error = None;
    for with_tables in [true, false] {
        renew(new)?;
        watch.progress(Progress { step: "copying the tables", done: 0 });
        let (evidence, new) = (evidence.clone(), new.to_owned());
        let bytes = options.segment_bytes;
        let copied = {
            let new = new.clone();
            let work = move || match with_tables {
                true => whole::with_tables(&evidence, &new, bytes),
                false => whole::from_log(&evidence, &new, bytes),
            };
            // A damaged page can make the tables panic.
            tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(rows::unreadable()))
        };
        let opened = match copied {
            Ok(copied) => open(options, &new, clock).await.map(|store| (store, copied)),
            Err(error) => Err(error),
        };
        match opened {
            Ok((store, copied)) => {
                report.tables = first_error.map(|error: Error| error.to_string());
                report.replayed = copied.replayed;
                report.next_claim = copied.next_claim;
                let queues = store.queues(None).await?;
                report.exact = queues.iter().flat_map(|queue| queue.by_state).sum();
                return Ok((store, copied.intact));
            }
            Err(error @ Error::NoSpace) => return Err(error),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or_else(rows::unreadable))
}

async fn open(options: &Options, dir: &Path, clock: &Arc<dyn Clock>) -> Result<Arc<EmbeddedStore>, Error> {
    // Without it durations may end later, and nothing is lost.
    let _ = fs::copy(options.from.join(elapsed::NAME), dir.join(elapsed::NAME));
    let options = StoreOptions {
        // Everything is synced once, at the end.
        durability: Durability::Os,
        segment_bytes: options.segment_bytes,
        disk_reserve_bytes: 0,
        verify_bytes: u64::MAX,
        ..StoreOptions::new(dir)
    };
    EmbeddedStore::open(options, Arc::clone(clock)).await
}

/// Creates the folder to work in. A folder that a killed run left is emptied.
fn begin(to: &Path) -> Result<PathBuf, Error> {
    fs::create_dir_all(to).map_err(io_error("make", to))?;
    for entry in fs::read_dir(to).map_err(io_error("list", to))? {
        let name = entry.map_err(io_error("list", to))?.file_name();
        if name != SALVAGE_FOLDER {
            let (context, error) =
                (format!("{} is not empty", to.display()), name.to_string_lossy().into_owned());
            return Err(Error::Io { context, error: format!("it has {error}") });
        }
    }
    let work = to.join(SALVAGE_FOLDER);
    renew(&work)?;
    Ok(work)
}

fn renew(dir: &Path) -> Result<(), Error> {
    if dir.exists() {
        fs::remove_dir_all(dir).map_err(io_error("remove", dir))?;
    }
    fs::create_dir_all(dir).map_err(io_error("make", dir))
}

fn damaged_log(error: crate::log::Error) -> Error {
    log_error(error)
}
