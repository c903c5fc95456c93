//! What happened since the store was made.

use windlass_core::{CancelReason, Change, Record, StateName};

use super::Machine;

impl Machine {
    pub(super) fn write_down(&mut self, change: &Change, from: StateName, record: &Record) {
        let ledger = &mut self.ledger;
        match change {
            Change::Completed { .. } => ledger.completed += 1,
            Change::Failed { .. } => ledger.failed += 1,
            Change::LeaseLost { .. } => ledger.crashed += 1,
            Change::Cancelled { reason: CancelReason::Expired, .. } => ledger.expired += 1,
            Change::Cancelled { .. } => ledger.cancelled += 1,
            Change::Removed { .. } => ledger.removed += 1,
            Change::Claimed { .. }
            | Change::Checkpointed { .. }
            | Change::Released { .. }
            | Change::Promoted { .. }
            | Change::Settled { .. }
            | Change::Requeued { .. }
            | Change::Reprioritised { .. }
            | Change::Moved { .. } => {}
        }
        if from == StateName::Running && record.state_name() == StateName::DeadLetter {
            ledger.dead_lettered += 1;
        }
    }
}
