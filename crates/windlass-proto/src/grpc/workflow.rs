//! Graphs of tasks.

use std::collections::HashMap;

use windlass_core::{Name, StateName, Task, Workflow as Known};

use super::names::{given, parsed};
use super::time::timestamp;
use super::v1::{NewTask, SubmitWorkflowRequest, TaskState, Workflow, WorkflowNode};
use crate::rest::workflow::{behind_all, check_graph};
use crate::rest::{Invalid, NodeSubmission, WorkflowSubmission};

impl SubmitWorkflowRequest {
    /// `now` is the wall clock, `payload_max` in bytes.
    pub fn check(self, now: u64, payload_max: usize) -> Result<WorkflowSubmission, Invalid> {
        let missing = || Invalid::malformed("task", "is missing");
        let node = |name: Name, task: Option<NewTask>, after: &[String]| {
            let submission = task.ok_or_else(missing)?.check(now, payload_max)?;
            let after = after.iter().map(|text| parsed("after", text)).collect::<Result<_, _>>()?;
            Ok(NodeSubmission { name, submission, after })
        };
        let mut nodes = Vec::with_capacity(self.tasks.len());
        for task in self.tasks {
            let name: Name = parsed("tasks.name", &task.name)?;
            let within = |invalid: Invalid| invalid.within(&format!("tasks.{}", task.name));
            nodes.push(node(name, task.task, &task.after).map_err(within)?);
        }
        if self.then.is_some() {
            let name = Name::new("then").expect("a valid name");
            let then = node(name, self.then, &[]).map_err(|invalid: Invalid| invalid.within("then"))?;
            nodes.push(behind_all(then, &nodes)?);
        }
        check_graph(given("id", &self.id)?, nodes)
    }
}

impl From<Known> for Workflow {
    fn from(workflow: Known) -> Self {
        let states = StateName::ALL.into_iter().zip(workflow.by_state);
        let some = states.filter(|(_, count)| *count > 0);
        let tasks_by_state: HashMap<String, u64> =
            some.map(|(state, count)| (state.as_str().to_owned(), count)).collect();
        Self {
            id: workflow.id.as_str().to_owned(),
            state: workflow.phase().as_str().to_owned(),
            created_at: Some(timestamp(workflow.created_at)),
            size: workflow.size,
            tasks_by_state,
            ..Self::default()
        }
    }
}

impl WorkflowNode {
    pub fn new(name: String, after: Vec<String>, task: Task) -> Self {
        let record = task.record;
        Self {
            name,
            id: record.id.as_str().to_owned(),
            r#type: record.kind.as_str().to_owned(),
            queue: record.queue.as_str().to_owned(),
            state: TaskState::from(record.state_name()).into(),
            after,
            started_at: record.started_at.map(timestamp),
            completed_at: record.ended_at().map(timestamp),
            error: record.error.map(String::from),
        }
    }
}
