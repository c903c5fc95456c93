//! Workflows.

use bytes::Bytes;
use windlass_broker::{Node, SubmitWorkflow};
use windlass_core::limits::PAYLOAD_BYTES_MAX;
use windlass_core::workflow::task_id;
use windlass_core::{Name, Workflow};
use windlass_proto::rest::{NodeBody, NodeSubmission, WorkflowBody, WorkflowInput, WorkflowPage, decode};
use windlass_store::ListWorkflows;

use super::{Embedded, fingerprint, now, place, rows};
use crate::client::NewWorkflow;
use crate::error::Error;

impl Embedded {
    pub(crate) async fn submit_workflow(&self, graph: &NewWorkflow) -> Result<WorkflowBody, Error> {
        let source = Bytes::from(String::from(Box::<str>::from(graph.json()?)));
        let input: WorkflowInput<'_> = decode(&source)?;
        let submission = input.check(&source, now(), PAYLOAD_BYTES_MAX)?;
        let names: Vec<Name> = submission.nodes.iter().map(|node| node.name.clone()).collect();
        let node = |node: NodeSubmission| Node {
            name: node.name,
            submit: self.resolve(node.submission, None),
            after: node.after,
        };
        let submit = SubmitWorkflow {
            id: submission.id,
            nodes: submission.nodes.into_iter().map(node).collect(),
            fingerprint: Some(fingerprint(&source)),
        };
        let workflow = self.0.submit_workflow(submit).await?.workflow;
        let pair = |name: &Name| Some((name.to_string(), task_id(&workflow.id, name)?.to_string()));
        let tasks = names.iter().filter_map(pair).collect();
        Ok(WorkflowBody { tasks, ..WorkflowBody::from(workflow) })
    }

    pub(crate) async fn workflow(
        &self,
        id: &Name,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<WorkflowBody, Error> {
        let view = self.0.workflow_view(id, place(cursor)?, rows(limit)?).await?;
        let nodes = view.nodes.into_iter().map(|node| NodeBody::new(node.name, node.after, node.task));
        let nodes = Some(nodes.collect());
        let next_cursor = view.next.map(|next| next.to_string());
        Ok(WorkflowBody { nodes, next_cursor, ..WorkflowBody::from(view.workflow) })
    }

    pub(crate) async fn workflows(&self, limit: usize, cursor: Option<&str>) -> Result<WorkflowPage, Error> {
        let list = ListWorkflows { before: place(cursor)?, limit: rows(limit)? };
        let (found, next) = self.0.workflows(list).await?;
        let items = found.into_iter().map(WorkflowBody::from).collect();
        Ok(WorkflowPage { items, next_cursor: next.map(|next| next.to_string()) })
    }

    pub(crate) async fn cancel_workflow(&self, id: &Name) -> Result<WorkflowBody, Error> {
        Ok(acted(self.0.cancel_workflow(id).await?))
    }

    pub(crate) async fn retry_workflow(&self, id: &Name) -> Result<WorkflowBody, Error> {
        Ok(acted(self.0.retry_workflow(id).await?))
    }
}

fn acted((workflow, affected): (Workflow, u64)) -> WorkflowBody {
    WorkflowBody { affected: Some(affected), ..WorkflowBody::from(workflow) }
}
