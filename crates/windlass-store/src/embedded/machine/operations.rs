//! Operations: each step is one command, with the transitions of its tasks inside it.

use windlass_core::Name;
use windlass_core::operation::Operation;

use super::{Machine, Output};
use crate::store::{Error, ListOperations, OperationChange, OperationWritten, WriteOperation};

impl Machine {
    pub(super) fn write_operation(&mut self, write: &WriteOperation) -> Result<Output, Error> {
        if let Some(refusal) = self.operations.all.refusal(write) {
            return Ok(Output::Operated(refusal));
        }
        let mut committed = Vec::new();
        if let OperationChange::Step { transitions, .. } = &write.change {
            if !self.has_lanes_for(transitions)? {
                return Ok(Output::TooManyLanes);
            }
            for transition in transitions {
                committed.push(self.commit(transition)?);
            }
        }
        let operation = self.operations.carry_out(write, &committed, self.next_number);
        if matches!(write.change, OperationChange::Start { .. }) {
            self.signals.operations.notify_one();
        }
        let operation = Box::new(operation.expect("nothing spoke against it, so it is there"));
        Ok(Output::Operated(OperationWritten::Done { operation, committed }))
    }

    pub(in crate::embedded) fn operation(&self, id: &Name) -> Option<Operation> {
        self.operations.all.get(id).cloned()
    }

    pub(in crate::embedded) fn operations(&self, list: &ListOperations) -> Vec<Operation> {
        self.operations.all.list(list)
    }
}
