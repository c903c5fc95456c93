//! Where groups are written: the log, and what those who commit share among themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::engine::{Shared, fatal};
use super::inbox::Pace;
use super::open::Ownership;
use crate::log::{Log, Unsynced};
use crate::store::Error;

/// How many commit: one for the disk and one for the rest of the work, by turns.
pub(super) const COMMITTERS: usize = 2;

/// What those who commit share among themselves.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) writing: Mutex<Writing>,
    pub(super) pace: Pace,
    /// Threads that have not ended, and callers who commit.
    present: AtomicUsize,
    /// Whether something was written that no later frame vouches for.
    unvouched: AtomicBool,
    /// The directory belongs to whoever writes to it. The last field, so that the log is let go of first.
    _lock: Arc<Ownership>,
}

#[derive(Debug)]
pub(super) struct Writing {
    pub(super) log: Log,
    /// When a sync began last, and whether anything came since.
    synced: Instant,
    unsynced: bool,
    pub(super) saved_bytes: u64,
    /// When a group was written last.
    pub(super) latest: Instant,
}

/// A log that had nothing to write for this long vouches for its last group ([`Log::vouch`]).
const IDLE: Duration = Duration::from_millis(50);

impl Desk {
    pub(super) fn new(log: Log, pace: Pace, lock: Arc<Ownership>) -> Desk {
        let saved_bytes = log.written_bytes();
        let now = Instant::now();
        let writing = Writing { log, synced: now, unsynced: false, saved_bytes, latest: now };
        // What was replayed has no frame behind it either.
        let unvouched = AtomicBool::new(true);
        let present = AtomicUsize::new(COMMITTERS);
        Desk { writing: Mutex::new(writing), pace, present, unvouched, _lock: lock }
    }

    /// One more who commits, unless the last one has left, or the others have to know of what is written, to sync it later.
    pub(super) fn enter(&self) -> bool {
        if matches!(self.pace, Pace::Every(_)) {
            return false;
        }
        let more = |present: usize| (present > 0).then_some(present + 1);
        self.present.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// When what is written has to be synced or vouched for, even if nothing more comes.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if let Pace::Every(interval) = self.pace {
            let writing = self.writing.lock();
            if writing.unsynced {
                return Some(writing.synced + interval);
            }
        }
        self.unvouched.load(Ordering::Acquire).then(|| Instant::now() + IDLE)
    }

    /// Vouches for the last group if nothing came for a while.
    pub(super) fn vouch(&self) -> Result<(), Error> {
        let mut writing = self.writing.lock();
        if !self.unvouched.load(Ordering::Acquire) || writing.latest.elapsed() < IDLE {
            return Ok(());
        }
        // A log that never syncs has nothing to vouch for.
        if self.pace == Pace::Never || writing.log.vouch().map_err(fatal)? {
            self.unvouched.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// A group was written: sooner or later somebody has to vouch for it. Says whether that is news.
    pub(super) fn note_written(&self) -> bool {
        !self.unvouched.load(Ordering::Acquire) && !self.unvouched.swap(true, Ordering::AcqRel)
    }

    /// The last one to leave makes durable what is left, and tells the others that nothing comes any more.
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
    /// What has to be synced now.
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
