//! What a store is asked about workflows.

use std::collections::HashSet;

use windlass_core::{Name, NewTask, Record, Workflow};

use super::Inserted;

/// A whole graph; all of it is one commit.
#[derive(Debug, Clone)]
pub struct InsertWorkflow {
    pub id: Name,
    pub created_at: u64,
    pub fingerprint: [u8; 16],
    /// Each behind those that it depends on, and each a node of this workflow by its links.
    pub tasks: Vec<NewTask>,
    pub max_depth: Option<u64>,
}

impl InsertWorkflow {
    /// Why it cannot be added whatever the store holds. The tasks of a graph are new, each with an id of its own and none
    /// instead of another that has its key: a task that is already there cannot become a node.
    pub(crate) fn refusal(&self) -> Option<WorkflowInserted> {
        let mut ids = HashSet::with_capacity(self.tasks.len());
        let fits = self.tasks.iter().map(|task| task.unique.is_none() && ids.insert(&task.id));
        let answer = |fits| if fits { Inserted::Aborted } else { Inserted::Clash };
        let answers: Vec<Inserted> = fits.map(answer).collect();
        answers.contains(&Inserted::Clash).then_some(WorkflowInserted::Refused(answers))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum WorkflowInserted {
    /// With the records of its tasks, in order.
    New(Box<Workflow>, Vec<Record>),
    /// The id is taken by a workflow that was submitted with the same content.
    Same(Box<Workflow>),
    /// The id is taken by another workflow.
    Clash,
    /// Nothing was added; this is why, for each task.
    Refused(Vec<Inserted>),
}

/// A page of workflows, newest first.
#[derive(Debug, Clone, Default)]
pub struct ListWorkflows {
    /// Only those whose first task has a smaller number.
    pub before: Option<u64>,
    pub limit: usize,
}

/// Tasks by number, rising.
#[derive(Debug, Clone)]
pub struct Span {
    pub from: u64,
    /// One past the last.
    pub end: u64,
    pub limit: usize,
}
