//! Counts that only grow.

use windlass_core::{CancelReason, Change};

/// What happened since the store was made. `submitted` = tasks in it + `removed`, exactly, always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ledger {
    pub submitted: u64,
    pub completed: u64,
    pub failed: u64,
    pub crashed: u64,
    pub dead_lettered: u64,
    pub cancelled: u64,
    pub expired: u64,
    pub removed: u64,
}

impl Ledger {
    /// Counts one committed change.
    pub fn count(&mut self, change: &Change) {
        match change {
            Change::Completed { .. } => self.completed += 1,
            Change::Failed { retry_at, .. } => {
                self.failed += 1;
                self.dead_lettered += u64::from(retry_at.is_none());
            }
            Change::LeaseLost { dead, .. } => {
                self.crashed += 1;
                self.dead_lettered += u64::from(*dead);
            }
            Change::Cancelled { reason: CancelReason::Expired, .. } => self.expired += 1,
            Change::Cancelled { .. } => self.cancelled += 1,
            Change::Removed { .. } => self.removed += 1,
            Change::Claimed { .. }
            | Change::Checkpointed { .. }
            | Change::Released { .. }
            | Change::Promoted { .. }
            | Change::Settled { .. }
            | Change::Requeued { .. }
            | Change::Reprioritised { .. }
            | Change::Moved { .. } => {}
        }
    }
}
