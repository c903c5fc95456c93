//! Opening a data directory and starting the threads.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use tokio::sync::{Notify, watch};
use windlass_core::{Change, Payload};

use super::EmbeddedStore;
use super::backup::{self, Backups};
use super::checkpoint::{self, Bell, Saved};
use super::command::Command;
use super::desk::{COMMITTERS, Desk};
use super::elapsed;
use super::engine::{self, MemoryLimits, Shared};
use super::gauges::Gauges;
use super::handover::Limited;
use super::identity::{Identity, Stage};
use super::inbox::{Inbox, Pace};
use super::machine::Machine;
use super::migration;
use super::space::Space;
use super::tables::Tables;
use crate::clock::Clock;
use crate::log::{self, Log, Reclaimer, SyncMode};
use crate::store::{Durability, Error, Signals};
use crate::waiting::Waiting;

/// Changed tasks of this size may stay in memory for the whole interval; more than that is saved soon.
const LASTING_BYTES: usize = 8 << 20;
/// A file of blocks, whatever a file of the log is.
const BLOCKS_BYTES_MIN: u64 = 64 << 10;
const BLOCKS_BYTES_MAX: u64 = 1 << 30;
/// The saver's niceness: below the hot path, above what is idle.
const SAVER_NICE: i32 = 5;

#[derive(Debug, Clone)]
pub struct Options {
    pub dir: PathBuf,
    pub durability: Durability,
    /// Of a file of the log. A file of blocks takes twice as much.
    pub segment_bytes: u64,
    /// New tasks are refused while less than this would be free on the disk with everything saved. With less than
    /// [`super::reserve_bytes_min`] there may be no room for a checkpoint before the log is full.
    pub disk_reserve_bytes: u64,
    /// Memory for changed tasks before a checkpoint begins. A task that ends before that is saved once instead of twice, so on
    /// a busy broker this is what it may take, about half a second of work; more than 8 MiB do not stay longer than a
    /// moment. Under heavier load a checkpoint takes what came in during the last one, up to twice as much; then the store
    /// waits for it.
    pub checkpoint_bytes: usize,
    pub checkpoint_interval: Duration,
    /// Memory for pages of the tables.
    pub cache_bytes: usize,
    /// An index up to this size is read and verified whole at opening, at more than a gigabyte a second, and so are the blocks if
    /// both together are not larger. Of larger ones only what is read is verified.
    pub verify_bytes: u64,
    /// How much of each order (the ready tasks of a queue and type, the timers) is kept in memory.
    pub window_entries: usize,
    /// Whether to open also the destination of a migration that did not finish ([`migration`]).
    pub unfinished: bool,
}

impl Options {
    pub fn new(dir: impl Into<PathBuf>) -> Options {
        Options {
            dir: dir.into(),
            durability: Durability::Sync,
            segment_bytes: 64 << 20,
            disk_reserve_bytes: 512 << 20,
            checkpoint_bytes: 24 << 20,
            checkpoint_interval: Duration::from_secs(60),
            cache_bytes: 32 << 20,
            verify_bytes: 512 << 20,
            window_entries: 4096,
            unfinished: false,
        }
    }
}

impl EmbeddedStore {
    /// Opens or makes the store in a directory. Everything acknowledged before is there.
    pub async fn open(options: Options, clock: Arc<dyn Clock>) -> Result<Arc<EmbeddedStore>, Error> {
        tokio::task::spawn_blocking(move || open(options, clock).map_err(advise))
            .await
            .map_err(|error| Error::Failed(error.to_string()))?
    }
}

/// Adds to the error what an operator can do about a damaged directory.
fn advise(error: Error) -> Error {
    let Error::Damaged(words) = error else { return error };
    Error::Damaged(format!(
        "{words}. Put back the files that are missing or were changed, restore a backup (windlass backup restore), or copy \
         what is whole into a new directory (windlass doctor salvage)"
    ))
}

/// The threads of an open store.
#[derive(Debug)]
pub(super) struct Threads {
    committers: Vec<JoinHandle<()>>,
    checkpointer: JoinHandle<()>,
    desk: Weak<Desk>,
}

impl Threads {
    /// Waits until everything is applied and saved. The inbox must be closed.
    pub(super) fn join(self) {
        // A thread that panicked has told so through the failure of the store.
        self.committers.into_iter().for_each(|thread| drop(thread.join()));
        drop(self.checkpointer.join());
        // A caller who committed may be about to let go of the directory.
        while self.desk.strong_count() > 0 {
            std::thread::yield_now();
        }
    }
}

impl Drop for EmbeddedStore {
    /// The threads end on their own, some time later. To use the directory at once, call `close` instead.
    fn drop(&mut self) {
        self.shared.inbox.close(Error::Closed);
        self.shared.backups.close();
        self.shared.dismiss(&Error::Closed);
    }
}

fn open(options: Options, clock: Arc<dyn Clock>) -> Result<Arc<EmbeddedStore>, Error> {
    fs::create_dir_all(&options.dir).map_err(io_error("make the data directory", &options.dir))?;
    let lock = lock(&options.dir)?;
    migration::check(&options)?;
    backup::check(&options.dir)?;
    let mut identity = Identity::read(&options.dir)?;
    elapsed::resume(&options.dir, &*clock);
    let block_bytes =
        options.segment_bytes.saturating_mul(2).clamp(BLOCKS_BYTES_MIN, BLOCKS_BYTES_MAX) as u32;
    let mut tables =
        Tables::open(&options.dir, options.cache_bytes, options.verify_bytes, block_bytes, &mut identity)?;
    let signals = Arc::new(Signals::observed());
    let machine =
        Machine::load(tables.snapshot()?, options.window_entries, Arc::clone(&clock), Arc::clone(&signals))?;
    let limits = MemoryLimits {
        checkpoint_bytes: options.checkpoint_bytes,
        lasting_bytes: options.checkpoint_bytes.min(LASTING_BYTES),
        interval: options.checkpoint_interval,
        stop_bytes: 2 * options.checkpoint_bytes,
        log_bytes: 4 * options.segment_bytes,
    };
    let shared = Arc::new(Shared {
        machine: Mutex::new(machine),
        room: Condvar::new(),
        inbox: Inbox::default(),
        waiting: Mutex::new(Waiting::default()),
        bell: Bell::default(),
        saved: Notify::new(),
        space: Space::new(options.dir.clone(), options.disk_reserve_bytes, options.segment_bytes),
        clock,
        signals,
        failure: watch::Sender::new(None),
        limits,
        gauges: Gauges::default(),
        turn: Condvar::new(),
        limited: Limited::default(),
        log_lags: options.durability != Durability::Sync,
        backups: Backups::default(),
        store: identity.store,
    });
    let log = replay(&options, &shared, &mut tables, &mut identity)?;
    shared.space.count_prepared(log.reclaimer());
    tables.remove_strays()?;
    if identity.stage != Stage::Complete {
        identity.stage = Stage::Complete;
        identity.write(&options.dir)?;
    }
    {
        let mut machine = shared.machine.lock();
        machine.renew_leases()?;
        shared.limited.load(&machine);
        shared.space.note_unsaved(machine.unsaved());
        // What was replayed.
        if machine.can_be_saved() {
            shared.bell.save_within(shared.limits.time_for(machine.dirty_bytes()));
        }
    }
    shared.space.report();
    start(&options, shared, tables, log, lock)
}

/// Opens the log and applies what the tables do not contain. A log of an earlier format is saved to the tables and removed.
fn replay(
    options: &Options,
    shared: &Arc<Shared>,
    tables: &mut Tables,
    identity: &mut Identity,
) -> Result<Log, Error> {
    let mut log = open_log(options, shared, tables, identity)?;
    if identity.stage == Stage::Earlier {
        // The log is removed next, so the tables must hold everything.
        if checkpoint::save(shared, tables, None)? == Saved::NoRoom {
            return Err(Error::NoSpace);
        }
        drop(log);
        log::remove_segments(&options.dir.join("log")).map_err(log_error)?;
        identity.stage = Stage::Creating;
        identity.write(&options.dir)?;
        log = open_log(options, shared, tables, identity)?;
    }
    Ok(log)
}

/// Applies the entries of the log, saving on the way if they are many.
fn open_log(
    options: &Options,
    shared: &Arc<Shared>,
    tables: &mut Tables,
    identity: &Identity,
) -> Result<Log, Error> {
    let sync = match options.durability {
        Durability::Sync | Durability::IntervalMs(_) => SyncMode::Always,
        Durability::Os | Durability::Snapshots | Durability::None => SyncMode::Never,
    };
    let log_options = log::Options {
        segment_bytes: options.segment_bytes,
        sync,
        direct: options.durability == Durability::Sync,
        store: identity.store,
        expected: identity.log(),
        ..log::Options::new(options.dir.join("log"))
    };
    let nothing_to_release = None;
    checkpoint::note_index(shared, tables)?;
    let from = shared.machine.lock().applied() + 1;
    let mut visit = |index: u64, entry: Bytes| -> Result<(), log::VisitError> {
        let command = detach(Command::decode(entry)?);
        shared.machine.lock().apply(index, &command)?;
        let mut machine = shared.machine.lock();
        machine.forget_gained();
        let grown = machine.dirty_bytes() > shared.limits.checkpoint_bytes;
        drop(machine);
        if grown {
            checkpoint::save(shared, tables, nothing_to_release)?;
        }
        Ok(())
    };
    Log::open(log_options, from, &mut visit).map_err(log_error)
}

pub(super) fn log_error(error: log::Error) -> Error {
    match error {
        log::Error::Damaged { .. }
        | log::Error::Gap { .. }
        | log::Error::Missing { .. }
        | log::Error::CutShort { .. }
        | log::Error::Short { .. }
        | log::Error::Foreign { .. } => Error::Damaged(error.to_string()),
        log::Error::Version { found, known, .. } => Error::Version { found, known },
        log::Error::Visit(error) => Error::Damaged(error.to_string()),
        error => Error::Io { context: "open the log".to_owned(), error: error.to_string() },
    }
}

/// A replayed entry is a slice of a large block; what is kept of it must not keep the block.
fn detach(command: Command) -> Command {
    match command {
        Command::Insert { tasks, atomic, max_depth } => {
            Command::Insert { tasks: tasks.detached(), atomic, max_depth }
        }
        Command::Commit { mut transitions } => {
            transitions.iter_mut().for_each(|transition| own(&mut transition.change));
            Command::Commit { transitions }
        }
        other => other,
    }
}

fn own(change: &mut Change) {
    let copy = |bytes: &mut Bytes| *bytes = Bytes::copy_from_slice(bytes);
    match change {
        Change::Completed { result: Some(Payload::Json(bytes) | Payload::Binary(bytes)), .. }
        | Change::Checkpointed { bytes, .. } => copy(bytes),
        _ => {}
    }
}

type ThreadBody = Box<dyn FnOnce(&Arc<Shared>) -> Result<(), Error> + Send>;

fn start(
    options: &Options,
    shared: Arc<Shared>,
    mut tables: Tables,
    log: Log,
    lock: Ownership,
) -> Result<Arc<EmbeddedStore>, Error> {
    let pace = match options.durability {
        Durability::Sync => Pace::EveryGroup,
        Durability::IntervalMs(ms) => Pace::Every(Duration::from_millis(ms)),
        Durability::Os | Durability::Snapshots | Durability::None => Pace::Never,
    };
    let reclaimer: Reclaimer = log.reclaimer();
    // The directory stays locked until the last thread is done with it.
    let lock = Arc::new(lock);
    let on = |name: &str, body: ThreadBody| {
        let (shared, lock) = (Arc::clone(&shared), Arc::clone(&lock));
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                shared.guard(|| body(&shared));
                drop(lock);
            })
            .map_err(io_error("start a thread in", &options.dir))
    };
    let desk = Arc::new(Desk::new(log, pace, Arc::clone(&lock)));
    let commit = || {
        let desk = Arc::clone(&desk);
        on("store-writer", Box::new(move |shared| engine::commit(shared, &desk)))
    };
    let committers = (0..COMMITTERS).map(|_| commit()).collect::<Result<_, _>>()?;
    let checkpointer = on(
        "store-saver",
        Box::new(move |shared| {
            // Its work can wait, that of the other threads cannot. On Linux this is the priority of the thread.
            if let Err(error) = rustix::process::setpriority_process(None, SAVER_NICE) {
                tracing::debug!(%error, "the saver runs at normal priority");
            }
            checkpoint::run(shared, &mut tables, &reclaimer)
        }),
    )?;
    drop(lock);
    let desk = Arc::downgrade(&desk);
    let threads = Mutex::new(Some(Threads { committers, checkpointer, desk: Weak::clone(&desk) }));
    Ok(Arc::new(EmbeddedStore { shared, durability: options.durability, desk, threads }))
}

/// The right to use a directory. It ends with the process, however that ends.
#[derive(Debug)]
pub(super) struct Ownership(File);

impl Drop for Ownership {
    /// Closing the file is not enough: a program that is being started elsewhere in this process holds a copy of it for a
    /// moment, and the lock with it.
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::debug!(%error, "the lock of the data directory ends with its file");
        }
    }
}

/// One process at a time.
pub(super) fn lock(dir: &Path) -> Result<Ownership, Error> {
    let path = dir.join("LOCK");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(io_error("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(Ownership(file)),
        Err(TryLockError::WouldBlock) => Err(Error::Locked(dir.display().to_string())),
        Err(TryLockError::Error(error)) => Err(io_error("lock", &path)(error)),
    }
}

pub(super) fn io_error(context: &'static str, path: &Path) -> impl Fn(io::Error) -> Error + use<> {
    let path = path.display().to_string();
    move |error| Error::Io { context: format!("cannot {context} {path}"), error: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_file_does_not_keep_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let first = lock(dir.path()).unwrap();
        let copy = first.0.try_clone().unwrap();
        assert!(matches!(lock(dir.path()), Err(Error::Locked(_))));
        drop(first);
        lock(dir.path()).unwrap();
        drop(copy);
    }
}
