//! Workflows: a graph is one command.

use windlass_core::limits::{ANSWER_BYTES_MAX, PAGE_ROWS_MAX};
use windlass_core::{Name, NewTask, StateName, Task, Workflow};

use super::{Machine, Output, decode_body};
use crate::depth::Room;
use crate::embedded::command::Submits;
use crate::store::{Error, InsertWorkflow, Inserted, ListWorkflows, Page, Span, WorkflowInserted};

impl Machine {
    pub(super) fn insert_workflow(
        &mut self,
        insert: &InsertWorkflow,
        submits: &Submits,
    ) -> Result<Output, Error> {
        let tasks = &submits.tasks;
        if let Some(stored) = self.workflow(&insert.id)? {
            let same = stored.fingerprint == insert.fingerprint;
            let answer =
                if same { WorkflowInserted::Same(Box::new(stored)) } else { WorkflowInserted::Clash };
            return Ok(Output::Workflow(answer));
        }
        if let Some(refused) = self.taken_ids(tasks)? {
            return Ok(Output::Workflow(WorkflowInserted::Refused(refused)));
        }
        let workflow = Workflow {
            id: insert.id.clone(),
            first: self.next_number,
            size: tasks.len() as u32,
            created_at: insert.created_at,
            by_state: [0; 8],
            fingerprint: insert.fingerprint,
        };
        if let Some(refused) = self.refused(tasks, Room::Bounded { max_depth: insert.max_depth })? {
            return Ok(match refused {
                Output::Inserted(answers) => Output::Workflow(WorkflowInserted::Refused(answers)),
                other => other,
            });
        }
        let grown = self.workflows.add(workflow);
        self.dirty.grew(grown);
        let records = self.add_all(submits)?;
        let workflow = self.workflow(&insert.id)?;
        let strange = || Error::Damaged(format!("workflow {} is not there", insert.id));
        Ok(Output::Workflow(WorkflowInserted::New(Box::new(workflow.ok_or_else(strange)?), records)))
    }

    /// Ids that are taken are a clash whatever has them: a node must be new.
    fn taken_ids(&self, tasks: &[NewTask]) -> Result<Option<Vec<Inserted>>, Error> {
        let mut answers = Vec::with_capacity(tasks.len());
        for new in tasks {
            let taken = self.seq_of(&new.id)?.is_some();
            answers.push(if taken { Inserted::Clash } else { Inserted::Aborted });
        }
        Ok(answers.contains(&Inserted::Clash).then_some(answers))
    }

    pub(super) fn node_moved(
        &mut self,
        seq: u64,
        from: Option<StateName>,
        to: Option<StateName>,
    ) -> Result<(), Error> {
        let grown = self.workflows.moved(self.snapshot.workflows(), seq, from, to)?;
        self.dirty.grew(grown);
        Ok(())
    }

    pub(in crate::embedded) fn workflow(&self, id: &Name) -> Result<Option<Workflow>, Error> {
        self.workflows.find(self.snapshot.workflows(), id)
    }

    pub(in crate::embedded) fn list_workflows(&self, list: &ListWorkflows) -> Result<Vec<Workflow>, Error> {
        self.workflows.list(self.snapshot.workflows(), list)
    }

    pub(in crate::embedded) fn span(&self, span: &Span) -> Result<Page, Error> {
        let mut page = Page::default();
        let mut bytes = 0;
        for seq in span.from..span.end {
            if page.tasks.len() >= span.limit.clamp(1, PAGE_ROWS_MAX) || bytes >= ANSWER_BYTES_MAX {
                page.next = Some(seq);
                break;
            }
            let Some(mut record) = self.record(seq)? else { continue };
            self.leases.complete(&mut record);
            let task = Task { record, body: decode_body(seq, self.body(seq)?)? };
            bytes += task.bytes();
            page.tasks.push(task);
        }
        Ok(page)
    }
}
