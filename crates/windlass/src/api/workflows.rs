//! Workflows, and what a task depends on.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use bytes::Bytes;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_broker::{Node, SubmitWorkflow, SubmittedWorkflow, WorkflowView};
use windlass_core::workflow::task_id;
use windlass_core::{Name, Workflow};
use windlass_proto::rest::{
    DependenciesBody, DependencyBody, NodeBody, Problem, WorkflowBody, WorkflowInput, WorkflowPage,
    WorkflowSubmission, decode, schema,
};
use windlass_store::ListWorkflows;

use super::answer::{self, Answer};
use super::body::JsonBytes;
use super::identity::{self, Key};
use super::params::{PageParams, Params, PathId, PathWorkflow};
use super::problem::Refused;
use super::{Shared, cursor, now_ms};

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new()
        .routes(routes!(submit, list))
        .routes(routes!(get))
        .routes(routes!(cancel))
        .routes(routes!(retry))
        .routes(routes!(dependencies))
}

/// Submit a graph of tasks, all or none
#[utoipa::path(post, path = "/api/v1/workflows", operation_id = "submit_workflow", tag = "workflows", request_body = WorkflowInput,
    params(("Idempotency-Key" = Option<schema::IdempotencyKey>, Header,
        description = "Makes a repeated request harmless; not needed when the body has an id")),
    responses((status = 201, description = "The new workflow with the ids of its tasks by name", body = WorkflowBody),
        (status = 200, description = "The same submit came before; the workflow as it is now", body = WorkflowBody),
        (status = 409, description = "`workflow_exists`, or `task_exists` for one of its tasks", body = Problem,
            content_type = "application/problem+json"),
        (status = 413, description = "More than 12,000 tasks", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "A cycle, which is named, or a name that is not there", body = Problem,
            content_type = "application/problem+json")))]
async fn submit(State(state): Shared, key: Option<Key>, JsonBytes(bytes): JsonBytes) -> Answer {
    let submission = read(&state, &bytes)?;
    let (submitted, names) = submit_checked(&state, key.as_ref(), submission).await?;
    let status = if submitted.existed { StatusCode::OK } else { StatusCode::CREATED };
    answer::json(status, &submitted_body(submitted.workflow, &names), 256 + names.len() * 64)
}

fn read(state: &super::State, bytes: &Bytes) -> Result<WorkflowSubmission, Refused> {
    let input: WorkflowInput<'_> = decode(bytes)?;
    Ok(input.check(bytes, now_ms(), state.settings.payload_bytes_max)?)
}

/// The names are those of the nodes, in the order of the tasks.
pub(crate) async fn submit_checked(
    state: &super::State,
    key: Option<&Key>,
    submission: WorkflowSubmission,
) -> Result<(SubmittedWorkflow, Vec<Name>), Refused> {
    let id = submission.id.clone().or_else(|| key.map(Key::workflow_id));
    let fingerprint = id.is_some().then(|| identity::workflow_fingerprint(&submission));
    let retention_ms = state.broker.settings().retention_ms;
    let names = submission.nodes.iter().map(|node| node.name.clone()).collect();
    let node = |node: windlass_proto::rest::NodeSubmission| Node {
        name: node.name,
        submit: identity::submit(node.submission, None, None, retention_ms),
        after: node.after,
    };
    let nodes = submission.nodes.into_iter().map(node).collect();
    let submitted = state.broker.submit_workflow(SubmitWorkflow { id, nodes, fingerprint }).await?;
    Ok((submitted, names))
}

pub(crate) fn submitted_body(workflow: Workflow, names: &[Name]) -> WorkflowBody {
    let pair = |name: &Name| Some((name.to_string(), task_id(&workflow.id, name)?.to_string()));
    let tasks = names.iter().filter_map(pair).collect();
    WorkflowBody { tasks, ..WorkflowBody::from(workflow) }
}

/// List workflows, newest first
#[utoipa::path(get, path = "/api/v1/workflows", operation_id = "list_workflows", tag = "workflows", params(PageParams),
    responses((status = 200, description = "A page of workflows", body = WorkflowPage)))]
async fn list(State(state): Shared, Params(params): Params<PageParams>) -> Answer {
    let (before, limit) = params.check()?;
    let (found, next) = state.broker.workflows(ListWorkflows { before, limit }).await?;
    let items = found.into_iter().map(WorkflowBody::from).collect();
    answer::ok(&WorkflowPage { items, next_cursor: next.map(cursor::write) })
}

/// Look at a workflow: its progress and its graph
#[utoipa::path(get, path = "/api/v1/workflows/{id}", operation_id = "get_workflow", tag = "workflows", params(("id" = schema::Name, Path), PageParams),
    responses((status = 200, description = "The workflow with some of its tasks", body = WorkflowBody),
        (status = 404, description = "`not_found`", body = Problem, content_type = "application/problem+json")))]
async fn get(
    State(state): Shared,
    PathWorkflow(id): PathWorkflow,
    Params(params): Params<PageParams>,
) -> Answer {
    let (from, limit) = params.check()?;
    answer::ok(&body(state.broker.workflow_view(&id, from, limit).await?))
}

pub(crate) fn body(view: WorkflowView) -> WorkflowBody {
    let nodes = view.nodes.into_iter().map(|node| NodeBody::new(node.name, node.after, node.task)).collect();
    let next_cursor = view.next.map(cursor::write);
    WorkflowBody { nodes: Some(nodes), next_cursor, ..WorkflowBody::from(view.workflow) }
}

/// Cancel every task of it that has not ended
#[utoipa::path(post, path = "/api/v1/workflows/{id}/cancel", operation_id = "cancel_workflow", tag = "workflows", params(("id" = schema::Name, Path)),
    responses((status = 200, description = "The workflow, and how many tasks were cancelled", body = WorkflowBody),
        (status = 404, description = "`not_found`", body = Problem, content_type = "application/problem+json")))]
async fn cancel(State(state): Shared, PathWorkflow(id): PathWorkflow) -> Answer {
    let (workflow, affected) = state.broker.cancel_workflow(&id).await?;
    answer::ok(&WorkflowBody { affected: Some(affected), ..WorkflowBody::from(workflow) })
}

/// Run it again from where it failed: dead letters and cancelled tasks, each behind what it depends on
#[utoipa::path(post, path = "/api/v1/workflows/{id}/retry", operation_id = "retry_workflow", tag = "workflows", params(("id" = schema::Name, Path)),
    responses((status = 200, description = "The workflow, and how many tasks run again", body = WorkflowBody),
        (status = 404, description = "`not_found`", body = Problem, content_type = "application/problem+json")))]
async fn retry(State(state): Shared, PathWorkflow(id): PathWorkflow) -> Answer {
    let (workflow, affected) = state.broker.retry_workflow(&id).await?;
    answer::ok(&WorkflowBody { affected: Some(affected), ..WorkflowBody::from(workflow) })
}

/// What a task depends on, with states and results
#[utoipa::path(get, path = "/api/v1/tasks/{id}/dependencies", operation_id = "list_task_dependencies", tag = "tasks", params(("id" = schema::TaskId, Path), PageParams),
    responses((status = 200, description = "A page of its dependencies", body = DependenciesBody),
        (status = 404, description = "`not_found`", body = Problem, content_type = "application/problem+json")))]
async fn dependencies(
    State(state): Shared,
    PathId(id): PathId,
    Params(params): Params<PageParams>,
) -> Answer {
    let (from, limit) = params.check()?;
    let page = state.broker.dependencies(&id, from.unwrap_or(0) as usize, limit).await?;
    let item = |it: windlass_broker::Dependency| DependencyBody::new(it.id, it.name, it.state, it.result);
    answer::ok(&DependenciesBody {
        items: page.items.into_iter().map(item).collect(),
        total: page.total,
        next_cursor: page.next.map(|next| cursor::write(next as u64)),
    })
}
