//! Workflows, and what a task depends on.

use windlass_broker::Dependency as Known;
use windlass_core::workflow::task_id;
use windlass_core::{Name, TaskId};
use windlass_proto::grpc::parsed;
use windlass_proto::grpc::v1::{
    CancelWorkflowRequest, Dependency, GetWorkflowRequest, ListDependenciesRequest, ListDependenciesResponse,
    ListWorkflowsRequest, ListWorkflowsResponse, RetryWorkflowRequest, SubmitWorkflowRequest, TaskState,
    Workflow, WorkflowNode,
};
use windlass_proto::rest::Invalid;
use windlass_store::ListWorkflows;

use super::lists::{self, PAGE_BYTES_MAX};
use crate::api::problem::Refused;
use crate::api::{self, cursor, now_ms};

pub(super) async fn dependencies(
    state: &api::State,
    request: ListDependenciesRequest,
) -> Result<ListDependenciesResponse, Refused> {
    let id: TaskId = parsed("id", &request.id)?;
    let from = place(request.cursor.as_deref())?.unwrap_or(0) as usize;
    let mut page = state.broker.dependencies(&id, from, lists::limit(request.limit)?).await?;
    let fitting = fitting(&page.items);
    if fitting < page.items.len() {
        page.items.truncate(fitting);
        page.next = Some(from.min(page.total) + fitting);
    }
    let item = |it: Known| Dependency {
        id: it.id.as_str().to_owned(),
        name: it.name,
        state: it.state.map_or(TaskState::Unspecified, TaskState::from).into(),
        result: it.result.map(Into::into),
    };
    Ok(ListDependenciesResponse {
        dependencies: page.items.into_iter().map(item).collect(),
        total: page.total as u32,
        next_cursor: page.next.map(|next| cursor::write(next as u64)),
    })
}

/// How many of them one message may hold; a single result may be larger.
fn fitting(items: &[Known]) -> usize {
    let mut bytes = 0;
    let fits = |it: &&Known| {
        bytes += it.result.as_ref().map_or(0, |result| result.bytes().len());
        bytes <= PAGE_BYTES_MAX
    };
    items.iter().take_while(fits).count().max(1).min(items.len())
}

pub(super) async fn submit(state: &api::State, request: SubmitWorkflowRequest) -> Result<Workflow, Refused> {
    let submission = request.check(now_ms(), state.settings.payload_bytes_max)?;
    let (submitted, names) = api::workflows::submit_checked(state, None, submission).await?;
    let id = |name: &Name| Some((name.to_string(), task_id(&submitted.workflow.id, name)?.to_string()));
    let task_ids = names.iter().filter_map(id).collect();
    Ok(Workflow { existed: submitted.existed, task_ids, ..submitted.workflow.into() })
}

pub(super) async fn get(state: &api::State, request: GetWorkflowRequest) -> Result<Workflow, Refused> {
    let id: Name = parsed("id", &request.id)?;
    let from = place(request.cursor.as_deref())?;
    let view = state.broker.workflow_view(&id, from, lists::limit(request.limit)?).await?;
    let nodes = view.nodes.into_iter().map(|node| WorkflowNode::new(node.name, node.after, node.task));
    Ok(Workflow { nodes: nodes.collect(), next_cursor: view.next.map(cursor::write), ..view.workflow.into() })
}

pub(super) async fn list(
    state: &api::State,
    request: ListWorkflowsRequest,
) -> Result<ListWorkflowsResponse, Refused> {
    let before = place(request.cursor.as_deref())?;
    let list = ListWorkflows { before, limit: lists::limit(request.limit)? };
    let (found, next) = state.broker.workflows(list).await?;
    let workflows = found.into_iter().map(Workflow::from).collect();
    Ok(ListWorkflowsResponse { workflows, next_cursor: next.map(cursor::write) })
}

pub(super) async fn cancel(state: &api::State, request: CancelWorkflowRequest) -> Result<Workflow, Refused> {
    let id: Name = parsed("id", &request.id)?;
    let (workflow, affected) = state.broker.cancel_workflow(&id).await?;
    Ok(Workflow { affected: Some(affected), ..workflow.into() })
}

pub(super) async fn retry(state: &api::State, request: RetryWorkflowRequest) -> Result<Workflow, Refused> {
    let id: Name = parsed("id", &request.id)?;
    let (workflow, affected) = state.broker.retry_workflow(&id).await?;
    Ok(Workflow { affected: Some(affected), ..workflow.into() })
}

fn place(text: Option<&str>) -> Result<Option<u64>, Invalid> {
    text.filter(|text| !text.is_empty()).map(cursor::read).transpose()
}

#[cfg(test)]
mod tests {
    use windlass_core::{Payload, StateName};

    use super::*;

    #[test]
    fn a_page_of_results_fits_into_a_message() {
        let found = |bytes: usize| Known {
            id: "x".parse().unwrap(),
            name: None,
            state: Some(StateName::Completed),
            result: Some(Payload::Binary(vec![0; bytes].into())),
        };
        assert_eq!(fitting(&[]), 0);
        assert_eq!(fitting(&[found(1), found(1)]), 2);
        let half = PAGE_BYTES_MAX / 2;
        assert_eq!(fitting(&[found(half), found(half), found(half)]), 2);
        assert_eq!(fitting(&[found(2 * PAGE_BYTES_MAX), found(1)]), 1, "a single one may be larger");
    }
}
