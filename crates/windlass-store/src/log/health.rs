//! What syncs find out while the log goes on: how much is durable, and whether anything failed.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Error, sync_file};

/// What a sync under way finds out, beside those who append meanwhile.
#[derive(Debug)]
pub(super) struct Health {
    /// Every entry below is on disk.
    pub(super) durable: AtomicU64,
    poisoned: AtomicBool,
}

impl Health {
    /// Of a log of which every entry below is on disk.
    pub(super) fn new(durable: u64) -> Health {
        Health { durable: AtomicU64::new(durable), poisoned: AtomicBool::new(false) }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        if self.poisoned.load(Ordering::Acquire) { Err(Error::Poisoned) } else { Ok(()) }
    }

    /// Poisons the log unless the outcome leaves it in a known state.
    pub(super) fn judge(&self, outcome: Result<(), Error>) -> Result<(), Error> {
        if !matches!(outcome, Ok(()) | Err(Error::NoSpace { .. } | Error::NoFiles { .. })) {
            self.poisoned.store(true, Ordering::Release);
        }
        outcome
    }
}

/// What was appended up to a moment, to be made durable while the log goes on.
#[derive(Debug)]
#[must_use = "nothing is durable before it is synced"]
pub struct Unsynced {
    /// `None` if nothing is left to do.
    pub(super) file: Option<(Arc<File>, PathBuf)>,
    pub(super) end: u64,
    pub(super) health: Arc<Health>,
}

impl Unsynced {
    /// Returns when everything that was appended before is durable.
    pub fn sync(self) -> Result<(), Error> {
        self.health.check()?;
        if let Some((file, path)) = &self.file {
            self.health.judge(sync_file(file, path))?;
            self.health.durable.fetch_max(self.end, Ordering::AcqRel);
        }
        Ok(())
    }
}
