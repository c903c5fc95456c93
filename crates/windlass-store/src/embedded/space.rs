//! Watching the room on the disk, so that work under way can be finished when it runs out.
//!
//! New tasks are refused while less than the reserve is free. The reserve is for what must go on: reports of running
//! work, and the checkpoints that let the log be used again.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use windlass_core::{Change, Transition};

use super::tables::heap::Room;

/// The system is asked again when its last answer is this old. One caller asks; the others go by that answer meanwhile,
const CHECK_INTERVAL_MS: u64 = 20;
/// unless it is older than this: then each asks for itself.
const BELIEVED_MS: u64 = 200;

#[derive(Debug)]
pub(super) struct Space {
    dir: PathBuf,
    reserve_bytes: u64,
    since: Instant,
    /// What the system answered last, and when it was asked. Every submit looks, so nobody has to wait for who asks.
    free: AtomicU64,
    answered_ms: AtomicU64,
    asking: AtomicBool,
}

impl Space {
    pub(super) fn new(dir: PathBuf, reserve_bytes: u64) -> Self {
        let free = AtomicU64::new(free_bytes(&dir));
        let (answered_ms, asking) = Default::default();
        Self { dir, reserve_bytes, since: Instant::now(), free, answered_ms, asking }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether new tasks must wait for room.
    pub(super) fn is_short(&self) -> bool {
        self.free() < self.reserve_bytes
    }

    /// Whether there is not even room for a checkpoint.
    pub(super) fn is_exhausted(&self) -> bool {
        self.free() < self.reserve_bytes / 4
    }

    /// For what may be moved. A part of what is free, because the rest has to be enough for the log and the next checkpoint.
    pub(super) fn room(&self) -> Room {
        Room { short: self.is_short(), bytes: self.free() / 4 }
    }

    fn free(&self) -> u64 {
        let now = self.since.elapsed().as_millis() as u64;
        let age = now.saturating_sub(self.answered_ms.load(Ordering::Acquire));
        if age > BELIEVED_MS {
            return self.ask(now);
        }
        if age > CHECK_INTERVAL_MS && !self.asking.swap(true, Ordering::Relaxed) {
            let free = self.ask(now);
            self.asking.store(false, Ordering::Relaxed);
            return free;
        }
        self.free.load(Ordering::Relaxed)
    }

    fn ask(&self, now: u64) -> u64 {
        let free = free_bytes(&self.dir);
        self.free.store(free, Ordering::Relaxed);
        self.answered_ms.store(now, Ordering::Release);
        free
    }
}

/// Whether a transition takes room and finishes nothing.
pub(super) fn saves(transition: &Transition) -> bool {
    matches!(&transition.change, Change::Checkpointed { bytes, .. } if !bytes.is_empty())
}

/// An unknown amount counts as enough: the write itself will tell.
fn free_bytes(dir: &std::path::Path) -> u64 {
    rustix::fs::statvfs(dir).map_or(u64::MAX, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}
