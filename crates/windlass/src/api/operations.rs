//! Acts on many tasks.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use bytes::Bytes;
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_broker::Preview;
use windlass_core::operation::Order;
use windlass_proto::rest::{
    Invalid, OperationBody, OperationInput, OperationPage, PreviewBody, Problem, decode, schema,
};
use windlass_store::ListOperations;

use super::answer::{self, Answer};
use super::body::JsonBytes;
use super::params::{Params, PathOperation, filter_given, limit};
use super::{Shared, cursor};

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new().routes(routes!(start, list)).routes(routes!(get)).routes(routes!(cancel))
}

/// Do something with all tasks that match a filter
#[utoipa::path(post, path = "/api/v1/operations", operation_id = "start_operation", tag = "operations", request_body = OperationInput,
    responses((status = 202, description = "It has begun, and goes on by itself", body = OperationBody),
        (status = 200, description = "With `dry_run`: what it would find", body = PreviewBody),
        (status = 400, description = "`malformed`: a filter that is empty or cannot be read; the word is named",
            body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "A value that is not possible; the field is named",
            body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "`too_many_operations` are under way", body = Problem,
            content_type = "application/problem+json")))]
async fn start(State(state): Shared, JsonBytes(bytes): JsonBytes) -> Answer {
    let (order, dry_run) = read(&bytes)?;
    if dry_run {
        let preview = state.broker.preview_operation(&order).await?;
        return answer::json(StatusCode::OK, &shown(preview), 4096);
    }
    let operation = state.broker.start_operation(order).await?;
    answer::json(StatusCode::ACCEPTED, &OperationBody::from(operation), 1024)
}

fn read(bytes: &Bytes) -> Result<(Order, bool), Invalid> {
    let input: OperationInput = decode(bytes)?;
    let dry_run = input.dry_run;
    Ok((order(input)?, dry_run))
}

/// A mistake in the filter is told as in lists; the broker reads it again, with its own clock.
pub(crate) fn order(input: OperationInput) -> Result<Order, Invalid> {
    let order = input.check()?;
    filter_given(&order.filter)?;
    Ok(order)
}

pub(crate) fn shown(preview: Preview) -> PreviewBody {
    PreviewBody {
        dry_run: true,
        matched: preview.matched.count,
        matched_at_least: preview.matched.at_least,
        would_change: preview.would_change.count,
        would_change_at_least: preview.would_change.at_least,
        sample: preview.sample.into_iter().map(Into::into).collect(),
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListParams {
    /// Only those under way.
    #[serde(default)]
    running: bool,
    /// At most this many, up to 1,000.
    #[param(value_type = Option<schema::PageLimit>)]
    limit: Option<String>,
    /// From the page before.
    #[param(value_type = Option<schema::Cursor>)]
    cursor: Option<String>,
}

/// List operations, newest first; they are kept for 90 days, the last 1,000
#[utoipa::path(get, path = "/api/v1/operations", operation_id = "list_operations", tag = "operations", params(ListParams),
    responses((status = 200, description = "A page of operations", body = OperationPage)))]
async fn list(State(state): Shared, Params(params): Params<ListParams>) -> Answer {
    let limit = limit(params.limit)?;
    let before = params.cursor.as_deref().filter(|text| !text.is_empty());
    let before = before.map(cursor::read_name).transpose()?;
    let page = page(&state, ListOperations { before, running: params.running, limit }).await?;
    let room = 256 + 640 * page.items.len();
    answer::json(StatusCode::OK, &page, room)
}

pub(crate) async fn page(
    state: &super::State,
    list: ListOperations,
) -> Result<OperationPage, windlass_broker::Error> {
    let limit = list.limit;
    let operations = state.broker.operations(list).await?;
    let last = operations.last().filter(|_| operations.len() == limit);
    let next_cursor = last.map(|operation| cursor::write_name(&operation.id));
    Ok(OperationPage { items: operations.into_iter().map(Into::into).collect(), next_cursor })
}

/// How far an operation is
#[utoipa::path(get, path = "/api/v1/operations/{id}", operation_id = "get_operation", tag = "operations", params(("id" = schema::Name, Path)),
    responses((status = 200, description = "The operation", body = OperationBody),
        (status = 404, description = "`not_found`", body = Problem, content_type = "application/problem+json")))]
async fn get(State(state): Shared, PathOperation(id): PathOperation) -> Answer {
    answer::ok(&OperationBody::from(state.broker.operation(&id).await?))
}

/// End an operation where it is; what it changed stays changed
#[utoipa::path(post, path = "/api/v1/operations/{id}/cancel", operation_id = "cancel_operation", tag = "operations", params(("id" = schema::Name, Path)),
    responses((status = 200, description = "The cancelled operation", body = OperationBody),
        (status = 404, description = "`not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`operation_ended`", body = Problem,
            content_type = "application/problem+json")))]
async fn cancel(State(state): Shared, PathOperation(id): PathOperation) -> Answer {
    answer::ok(&OperationBody::from(state.broker.cancel_operation(&id).await?))
}
