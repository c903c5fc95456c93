//! Watching the room on the disk, so that work under way can be finished when it runs out.
//!
//! New tasks are refused while less than the reserve is free. The reserve is for what must go on: reports of running
//! work, and the checkpoints that let the log be used again.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use windlass_core::{Change, Transition};

/// How long an answer of the system is believed.
const CHECK_INTERVAL_MS: u64 = 20;

#[derive(Debug)]
pub(super) struct Space {
    dir: PathBuf,
    reserve_bytes: u64,
    since: Instant,
    /// When the system was asked last, and what it answered. Every submit looks, so nobody has to wait for who asks.
    checked_ms: AtomicU64,
    free: AtomicU64,
}

impl Space {
    pub(super) fn new(dir: PathBuf, reserve_bytes: u64) -> Self {
        let free = AtomicU64::new(free_bytes(&dir));
        Self { dir, reserve_bytes, since: Instant::now(), checked_ms: AtomicU64::new(0), free }
    }

    /// Whether new tasks must wait for room.
    pub(super) fn is_short(&self) -> bool {
        self.free() < self.reserve_bytes
    }

    /// Whether there is not even room for a checkpoint.
    pub(super) fn is_exhausted(&self) -> bool {
        self.free() < self.reserve_bytes / 4
    }

    fn free(&self) -> u64 {
        let now = self.since.elapsed().as_millis() as u64;
        let checked = self.checked_ms.load(Ordering::Relaxed);
        let asks =
            || self.checked_ms.compare_exchange(checked, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if now.saturating_sub(checked) > CHECK_INTERVAL_MS && asks() {
            self.free.store(free_bytes(&self.dir), Ordering::Relaxed);
        }
        self.free.load(Ordering::Relaxed)
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
