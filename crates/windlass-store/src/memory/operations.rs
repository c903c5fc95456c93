//! Operations, and the tasks that they change.

use windlass_core::Now;

use super::tables::Tables;
use crate::store::{Committed, OperationChange, OperationWritten, WriteOperation};

impl Tables {
    pub(super) fn write_operation(&mut self, write: &WriteOperation, now: Now) -> OperationWritten {
        if let Some(refusal) = self.operations.refusal(write) {
            return refusal;
        }
        let committed: Vec<Committed> = match &write.change {
            OperationChange::Step { transitions, .. } => {
                transitions.iter().map(|transition| self.commit(transition, now)).collect()
            }
            _ => Vec::new(),
        };
        let (operation, _) = self.operations.carry_out(write, &committed, self.next_seq());
        if matches!(write.change, OperationChange::Start { .. }) {
            self.signals.operations.notify_one();
        }
        let operation = Box::new(operation.expect("nothing spoke against it, so it is there"));
        OperationWritten::Done { operation, committed }
    }
}
