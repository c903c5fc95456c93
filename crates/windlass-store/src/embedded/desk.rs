//! Where groups are written: the log, and the state that the committers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::engine::{Shared, fatal};
use super::inbox::Pace;
use super::open::Ownership;
use crate::log::{Log, Unsynced};
use crate::store::Error;

/// The number of committing threads: while one waits for the disk, the other does the rest of the work.
pub(super) const COMMITTERS: usize = 2;

/// The state that the committers share.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) writing: Mutex<Writing>,
    pub(super) pace: Pace,
    /// Committing threads that have not ended, and callers that commit themselves.
    present: AtomicUsize,
    /// Whether something was written that no later frame confirms ([`Log::vouch`]).
    unvouched: AtomicBool,
    /// The lock on the data directory. It is the last field, so that the log is dropped first.
    _lock: Arc<Ownership>,
}

#[derive(Debug)]
pub(super) struct Writing {
    pub(super) log: Log,
    /// When the last sync began, and whether anything was written since.
    synced: Instant,
    unsynced: bool,
    pub(super) saved_bytes: u64,
    /// When the last group was written.
    pub(super) latest: Instant,
}

/// A log that was idle for this long writes a frame that confirms its last group ([`Log::vouch`]).
const IDLE: Duration = Duration::from_millis(50);

impl Desk {
    pub(super) fn new(log: Log, pace: Pace, lock: Arc<Ownership>) -> Desk {
        let saved_bytes = log.written_bytes();
        let now = Instant::now();
        let writing = Writing { log, synced: now, unsynced: false, saved_bytes, latest: now };
        // No frame confirms the replayed entries either.
        let unvouched = AtomicBool::new(true);
        let present = AtomicUsize::new(COMMITTERS);
        Desk { writing: Mutex::new(writing), pace, present, unvouched, _lock: lock }
    }

    /// Registers a caller that commits itself. Refused if all committers have left, or if they must track what is written
    /// to sync it later.
    pub(super) fn enter(&self) -> bool {
        if matches!(self.pace, Pace::Every(_)) {
            return false;
        }
        let more = |present: usize| (present > 0).then_some(present + 1);
        self.present.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// When the last writes must be synced or confirmed, even if nothing more is written.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if let Pace::Every(interval) = self.pace {
            let writing = self.writing.lock();
            if writing.unsynced {
                return Some(writing.synced + interval);
            }
        }
        self.unvouched.load(Ordering::Acquire).then(|| Instant::now() + IDLE)
    }

    /// Confirms the last group if the log was idle for a while.
    pub(super) fn vouch(&self) -> Result<(), Error> {
        let mut writing = self.writing.lock();
        if !self.unvouched.load(Ordering::Acquire) || writing.latest.elapsed() < IDLE {
            return Ok(());
        }
        // A log that never syncs has no durable entries to confirm.
        if self.pace == Pace::Never || writing.log.vouch().map_err(fatal)? {
            self.unvouched.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// Notes that a group was written and has to be confirmed. Returns whether there was none before.
    pub(super) fn note_written(&self) -> bool {
        !self.unvouched.load(Ordering::Acquire) && !self.unvouched.swap(true, Ordering::AcqRel)
    }

    /// Unregisters a committer. The last one syncs the log, refuses waiting callers and stops the checkpointer.
    pub(super) fn leave(&self, shared: &Shared) {
        if self.present.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let mut writing = self.writing.lock();
        if let Err(error) = writing.log.sync().and_then(|()| writing.log.vouch()) {
            shared.fail(error.to_string());
        }
        drop(writing);
        shared.inbox.refuse_all();
        shared.bell.close();
    }
}

impl Writing {
    /// Returns what has to be synced now.
    pub(super) fn due(&mut self, pace: Pace, written: bool) -> Option<Unsynced> {
        self.unsynced |= written;
        let due = match pace {
            Pace::EveryGroup | Pace::Never => true,
            Pace::Every(interval) => self.synced.elapsed() >= interval,
        };
        if !self.unsynced || !due {
            return None;
        }
        (self.synced, self.unsynced) = (Instant::now(), false);
        Some(self.log.unsynced())
    }
}
