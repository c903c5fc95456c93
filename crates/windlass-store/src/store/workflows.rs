//! What a store is asked about workflows.

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
