//! What only grows, over all types: the recorder looks at it now and then, and what lies between two looks is a rate.

use windlass_core::Histogram;

use super::Retries;
use crate::rates::{Counted, Ring};

#[derive(Debug, Clone, Default)]
pub(crate) struct Meters {
    pub(crate) submitted: u64,
    pub(crate) started: u64,
    pub(crate) completed: u64,
    /// Attempts, lost leases included.
    pub(crate) failed: u64,
    pub(crate) dead_lettered: u64,
    pub(crate) cancelled: u64,
    pub(crate) leases_expired: u64,
    pub(crate) retries: Retries,
    pub(crate) wait_ms: Histogram,
    pub(crate) run_ms: Histogram,
    pub(crate) commit_us: Histogram,
}

/// One queue.
#[derive(Debug, Default)]
pub(crate) struct QueueMeter {
    /// The last minute.
    pub(crate) recent: Ring,
    pub(crate) submitted: u64,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
}

impl QueueMeter {
    pub(super) fn count(&mut self, what: Counted, mono: u64) {
        self.recent.count(what, mono);
        match what {
            Counted::Submitted => self.submitted += 1,
            Counted::Completed { .. } => self.completed += 1,
            Counted::Failed => self.failed += 1,
        }
    }
}
