//! Tasks: submit, look, list, cancel, retry.

use std::fmt::Display;
use std::sync::Arc;

use axum::body::HttpBody;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_broker::Error;
use windlass_client::show;
use windlass_core::TaskId;
use windlass_core::trace::{self, Context};
use windlass_proto::rest::{
    AttemptsBody, ExplanationBody, Problem, Submission, SubmitBody, TaskBody, TaskPage, decode, schema,
};
use windlass_store::Page;

use super::answer::{self, Answer};
use super::body::JsonBytes;
use super::identity::{self, Key};
use super::params::{ListParams, Params, PathId, span_ms};
use super::problem::Refused;
use super::traceparent::Trace;
use super::{Shared, cursor, now_ms};

/// Payloads and results on one page of a list; a page that would hold more ends early.
const PAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new()
        .routes(routes!(submit, list))
        .routes(routes!(get, delete))
        .routes(routes!(cancel))
        .routes(routes!(retry))
        .routes(routes!(attempts))
        .routes(routes!(explain))
}

/// Submit a task
#[utoipa::path(
    post, path = "/api/v1/tasks", operation_id = "submit_task", tag = "tasks", request_body = SubmitBody,
    params(("Idempotency-Key" = Option<schema::IdempotencyKey>, Header,
        description = "Makes a repeated request harmless; not needed when the body has an id"),
        ("traceparent" = Option<String>, Header,
            description = "W3C Trace Context, for a task without one in its metadata; taken if the broker makes traces")),
    responses(
        (status = 201, description = "The new task", body = TaskBody),
        (status = 200, description = "The same submit came before, or another live task has the unique key: that task as it is now",
            body = TaskBody),
        (status = 409, description = "`task_exists` or `idempotency_key_reused`: the id or key is taken by other content; \
            `unique_conflict`: `task_id` has the unique key",
            body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Out of range", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`queue_full`, `overloaded` or `stopping`", body = Problem,
            content_type = "application/problem+json"),
    )
)]
async fn submit(State(state): Shared, key: Option<Key>, Trace(trace): Trace, body: JsonBytes) -> Answer {
    submit_body(&state, key, trace, body).await
}

async fn submit_body(
    state: &super::State,
    key: Option<Key>,
    trace: Option<Context>,
    JsonBytes(bytes): JsonBytes,
) -> Answer {
    let submission = read_submit(state, &bytes)?;
    let by_key = key.is_some() && submission.id.is_none();
    let mut submit = identity::submit(submission, key.as_ref(), None, state.broker.settings().retention_ms);
    // After the digest of the content: who repeats a submit may be in another span.
    if let Some(trace) = trace {
        trace::adopt(&mut submit.metadata, trace);
    }
    match state.broker.submit(submit).await {
        Ok(submitted) if submitted.existed => answer::task(StatusCode::OK, &submitted.task),
        Ok(submitted) => answer::task(StatusCode::CREATED, &submitted.task),
        Err(error) => Err(refused(error, by_key)),
    }
}

pub(super) const PATH: &str = "/api/v1/tasks";

/// A submit that did not come by way of a route.
pub(super) async fn submit_request<B>(state: &super::State, request: Request<B>) -> Response
where
    B: HttpBody<Data = Bytes, Error: Display>,
{
    let (parts, body) = request.into_parts();
    let answer = async {
        let key = Key::of(&parts.headers)?;
        let body = JsonBytes::read(&parts, body, &state.settings).await?;
        submit_body(state, key, Trace::of(state, &parts.headers), body).await
    };
    answer.await.into_response()
}

pub(crate) fn read_submit(state: &super::State, bytes: &Bytes) -> Result<Submission, Refused> {
    let body: SubmitBody<'_> = decode(bytes)?;
    Ok(body.check(bytes, now_ms(), state.settings.payload_bytes_max)?)
}

/// A taken id is the client's mistake in other words when the id came from a key.
pub(super) fn refused(error: Error, by_key: bool) -> Refused {
    match error {
        Error::TaskExists if by_key => {
            let title = "The Idempotency-Key was used before with other content";
            Refused::new(StatusCode::CONFLICT, "idempotency_key_reused", title)
        }
        error => error.into(),
    }
}

/// List tasks, newest first
#[utoipa::path(get, path = "/api/v1/tasks", operation_id = "list_tasks", tag = "tasks", params(ListParams),
    responses((status = 200, description = "A page of tasks", body = TaskPage)))]
async fn list(State(state): Shared, Params(params): Params<ListParams>) -> Answer {
    let list = params.check()?;
    let _leave = state.budget.page().await.ok_or(Error::Busy)?;
    write_page(state.broker.list(list).await?)
}

pub(super) fn write_page(page: Page) -> Answer {
    let (page, room) = read_page(page);
    answer::json(StatusCode::OK, &page, room)
}

/// The page as clients see it, and about how long it is as text.
pub(crate) fn read_page(page: Page) -> (TaskPage, usize) {
    let mut next = page.next;
    let mut items = Vec::with_capacity(page.tasks.len());
    let mut bytes = 0;
    let mut last = None;
    for task in page.tasks {
        bytes +=
            task.body.payload.bytes().len() + task.record.result.as_ref().map_or(0, |it| it.bytes().len());
        if bytes > PAGE_BYTES_MAX && last.is_some() {
            next = last;
            break;
        }
        last = Some(task.record.seq);
        // A checkpoint is for those who look at one task.
        items.push(TaskBody { checkpoint_base64: None, ..TaskBody::from(task) });
    }
    let room = 256 + bytes + items.len() * 640;
    (TaskPage { items, next_cursor: next.map(cursor::write) }, room)
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct GetParams {
    /// Answer when the task is finished or this is over, like `30s`.
    #[param(value_type = Option<schema::SpanQuery>)]
    wait: Option<String>,
}

/// Look at a task, or wait for its end
#[utoipa::path(get, path = "/api/v1/tasks/{id}", operation_id = "get_task", tag = "tasks", params(("id" = schema::TaskId, Path), GetParams),
    responses((status = 200, description = "The task", body = TaskBody),
        (status = 404, description = "`not_found`", body = Problem, content_type = "application/problem+json")))]
async fn get(State(state): Shared, PathId(id): PathId, Params(params): Params<GetParams>) -> Answer {
    let task = match params.wait {
        Some(wait) => state.broker.wait(&id, span_ms("wait", &wait)?).await?,
        None => state.broker.get(&id).await?,
    };
    answer::task(StatusCode::OK, &task)
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct DeleteParams {
    /// Forget a finished task instead of cancelling a live one.
    #[serde(default)]
    purge: bool,
}

/// Cancel a task, or forget a finished one
#[utoipa::path(delete, path = "/api/v1/tasks/{id}", operation_id = "delete_task", tag = "tasks", params(("id" = schema::TaskId, Path), DeleteParams),
    responses((status = 200, description = "The cancelled task", body = TaskBody),
        (status = 204, description = "Forgotten"),
        (status = 409, description = "`task_terminal`; with `purge`, `wrong_state`", body = Problem, content_type = "application/problem+json")))]
async fn delete(State(state): Shared, PathId(id): PathId, Params(params): Params<DeleteParams>) -> Answer {
    if params.purge {
        state.broker.remove(&id).await?;
        return answer::nothing();
    }
    answer::task(StatusCode::OK, &state.broker.cancel(&id).await?)
}

/// Cancel a task
#[utoipa::path(post, path = "/api/v1/tasks/{id}/cancel", operation_id = "cancel_task", tag = "tasks", params(("id" = schema::TaskId, Path)),
    responses((status = 200, description = "The cancelled task", body = TaskBody),
        (status = 409, description = "`task_terminal`", body = Problem, content_type = "application/problem+json")))]
async fn cancel(State(state): Shared, PathId(id): PathId) -> Answer {
    answer::task(StatusCode::OK, &state.broker.cancel(&id).await?)
}

/// Run a dead or cancelled task again
#[utoipa::path(post, path = "/api/v1/tasks/{id}/retry", operation_id = "retry_task", tag = "tasks", params(("id" = schema::TaskId, Path)),
    responses((status = 200, description = "The task, pending again", body = TaskBody),
        (status = 409, description = "`wrong_state` or `task_terminal`", body = Problem,
            content_type = "application/problem+json")))]
async fn retry(State(state): Shared, PathId(id): PathId) -> Answer {
    answer::task(StatusCode::OK, &state.broker.retry(&id).await?)
}

/// The attempts of a task, oldest first
#[utoipa::path(get, path = "/api/v1/tasks/{id}/attempts", operation_id = "list_task_attempts", tag = "tasks", params(("id" = schema::TaskId, Path)),
    responses((status = 200, description = "One row per attempt", body = AttemptsBody)))]
async fn attempts(State(state): Shared, PathId(id): PathId) -> Answer {
    answer::ok(&AttemptsBody::of(&state.broker.get(&id).await?))
}

/// Why a task is not running now
#[utoipa::path(get, path = "/api/v1/tasks/{id}/explain", operation_id = "explain_task", tag = "tasks", params(("id" = schema::TaskId, Path)),
    responses((status = 200, description = "What holds it up", body = ExplanationBody)))]
async fn explain(State(state): Shared, PathId(id): PathId) -> Answer {
    answer::ok(&explanation(&state, id).await?)
}

pub(crate) async fn explanation(state: &super::State, id: TaskId) -> Result<ExplanationBody, Refused> {
    let explanation = state.broker.explain(&id).await?;
    Ok(ExplanationBody {
        id,
        state: explanation.state,
        runnable: explanation.runnable,
        reasons: explanation.reasons.into_iter().map(show::reason).collect(),
    })
}
