//! Watching the room on the disk, so that work under way can be finished when it runs out.
//!
//! New tasks are refused while less than the reserve is free. The reserve is for what must go on: reports of running
//! work, and the checkpoints that let the log be used again.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use windlass_core::{Change, Transition};

/// How long an answer of the system is believed.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Space {
    dir: PathBuf,
    reserve_bytes: u64,
    checked: Mutex<(Instant, u64)>,
}

impl Space {
    pub(super) fn new(dir: PathBuf, reserve_bytes: u64) -> Self {
        let free = free_bytes(&dir);
        Self { dir, reserve_bytes, checked: Mutex::new((Instant::now(), free)) }
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
        let mut checked = self.checked.lock();
        if checked.0.elapsed() > CHECK_INTERVAL {
            *checked = (Instant::now(), free_bytes(&self.dir));
        }
        checked.1
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
