//! Calls about workflows.

use windlass_core::{Name, StateName};
use windlass_proto::grpc::v1::{
    self, CancelWorkflowRequest, GetWorkflowRequest, ListWorkflowsRequest, RetryWorkflowRequest,
    SubmitWorkflowRequest, WorkflowTask,
};
use windlass_proto::rest::{NodeBody, StateCounts, WorkflowBody, WorkflowPage};

use super::new_task::template;
use super::read::{self, odd, parsed, since, time};
use super::tasks::rows;
use super::{Grpc, said, soon};
use crate::client::NewWorkflow;
use crate::error::Error;

impl Grpc {
    pub(crate) async fn submit_workflow(&self, graph: &NewWorkflow) -> Result<WorkflowBody, Error> {
        let tasks = graph.nodes.iter().map(|node| WorkflowTask {
            name: node.name.clone(),
            task: Some(template(&node.submit)),
            after: node.after.clone(),
        });
        let request = SubmitWorkflowRequest {
            id: graph.id.clone(),
            tasks: tasks.collect(),
            then: graph.then.as_ref().map(template),
        };
        workflow(said(self.tasks.clone().submit_workflow(soon(request)).await)?)
    }

    pub(crate) async fn workflow(
        &self,
        id: &Name,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<WorkflowBody, Error> {
        let cursor = cursor.map(str::to_owned);
        let request = soon(GetWorkflowRequest { id: id.to_string(), limit: Some(rows(limit)), cursor });
        let mut answer = said(self.tasks.clone().get_workflow(request).await)?;
        let nodes = std::mem::take(&mut answer.nodes).into_iter().map(node).collect::<Result<_, _>>()?;
        Ok(WorkflowBody { nodes: Some(nodes), ..workflow(answer)? })
    }

    pub(crate) async fn workflows(&self, limit: usize, cursor: Option<&str>) -> Result<WorkflowPage, Error> {
        let request = ListWorkflowsRequest { limit: Some(rows(limit)), cursor: cursor.map(str::to_owned) };
        let answer = said(self.tasks.clone().list_workflows(soon(request)).await)?;
        let items = answer.workflows.into_iter().map(workflow).collect::<Result<_, _>>()?;
        Ok(WorkflowPage { items, next_cursor: answer.next_cursor })
    }

    pub(crate) async fn cancel_workflow(&self, id: &Name) -> Result<WorkflowBody, Error> {
        let request = soon(CancelWorkflowRequest { id: id.to_string() });
        workflow(said(self.tasks.clone().cancel_workflow(request).await)?)
    }

    pub(crate) async fn retry_workflow(&self, id: &Name) -> Result<WorkflowBody, Error> {
        let request = soon(RetryWorkflowRequest { id: id.to_string() });
        workflow(said(self.tasks.clone().retry_workflow(request).await)?)
    }
}

fn workflow(workflow: v1::Workflow) -> Result<WorkflowBody, Error> {
    let mut by_state = [0; 8];
    for (word, count) in &workflow.tasks_by_state {
        let state = StateName::ALL.into_iter().find(|state| state.as_str() == word);
        by_state[state.ok_or_else(|| odd("tasks_by_state"))?.index()] = *count;
    }
    Ok(WorkflowBody {
        id: parsed("id", &workflow.id)?,
        state: workflow.state,
        created_at: since(workflow.created_at),
        size: workflow.size,
        tasks_by_state: StateCounts::from(by_state),
        tasks: workflow.task_ids.into_iter().collect(),
        affected: workflow.affected,
        nodes: None,
        next_cursor: workflow.next_cursor,
    })
}

fn node(node: v1::WorkflowNode) -> Result<NodeBody, Error> {
    Ok(NodeBody {
        name: node.name,
        id: parsed("id", &node.id)?,
        kind: parsed("type", &node.r#type)?,
        queue: parsed("queue", &node.queue)?,
        state: read::state(node.state)?,
        after: node.after,
        started_at: time(node.started_at),
        completed_at: time(node.completed_at),
        error: node.error,
    })
}
