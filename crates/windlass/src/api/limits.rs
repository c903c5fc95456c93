//! Limits on queues, types and keys.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_core::Name;
use windlass_core::flow::Scope;
use windlass_proto::rest::{Invalid, LimitBody, LimitInput, LimitPage, Problem, decode, read_scope, schema};
use windlass_store::ListLimits;

use super::answer::{self, Answer};
use super::body::JsonBytes;
use super::params::{Params, PathLimit, limit};
use super::{Shared, cursor, now_ms};

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(get, put, delete))
}

/// Set or change a limit; it holds from the next claim on
#[utoipa::path(put, path = "/api/v1/limits/{scope}/{name}", operation_id = "set_limit", tag = "limits",
    params(("scope" = schema::LimitScope, Path, description = "`queue`, `type` or `key`"), ("name" = schema::Name, Path)),
    request_body = LimitInput,
    responses((status = 201, description = "The new limit", body = LimitBody),
        (status = 200, description = "The limit as it is from now on", body = LimitBody),
        (status = 400, description = "`malformed`: no such scope, or not a name", body = Problem,
            content_type = "application/problem+json"),
        (status = 422, description = "A number that is not possible; the field is named",
            body = Problem, content_type = "application/problem+json")))]
async fn put(State(state): Shared, PathLimit(scope, name): PathLimit, JsonBytes(bytes): JsonBytes) -> Answer {
    let limit = decode::<LimitInput>(&bytes)?.check(scope)?;
    let (status, new) = state.broker.set_limit(scope, name, limit).await?;
    let code = if new { StatusCode::CREATED } else { StatusCode::OK };
    answer::json(code, &LimitBody::new(status, now_ms()), 512)
}

/// One limit, with what waits and runs under it
#[utoipa::path(get, path = "/api/v1/limits/{scope}/{name}", operation_id = "get_limit", tag = "limits",
    params(("scope" = schema::LimitScope, Path, description = "`queue`, `type` or `key`"), ("name" = schema::Name, Path)),
    responses((status = 200, description = "The limit", body = LimitBody),
        (status = 400, description = "`malformed`: no such scope, or not a name", body = Problem,
            content_type = "application/problem+json"),
        (status = 404, description = "`not_found`", body = Problem, content_type = "application/problem+json")))]
async fn get(State(state): Shared, PathLimit(scope, name): PathLimit) -> Answer {
    answer::ok(&LimitBody::new(state.broker.limit(scope, &name).await?, now_ms()))
}

/// Remove a limit
#[utoipa::path(delete, path = "/api/v1/limits/{scope}/{name}", operation_id = "remove_limit", tag = "limits",
    params(("scope" = schema::LimitScope, Path, description = "`queue`, `type` or `key`"), ("name" = schema::Name, Path)),
    responses((status = 204, description = "Nothing is limited any more"),
        (status = 400, description = "`malformed`: no such scope, or not a name", body = Problem,
            content_type = "application/problem+json"),
        (status = 404, description = "`not_found`", body = Problem, content_type = "application/problem+json")))]
async fn delete(State(state): Shared, PathLimit(scope, name): PathLimit) -> Answer {
    state.broker.remove_limit(scope, name).await?;
    answer::nothing()
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListParams {
    /// Only of `queue`, `type` or `key`.
    #[param(value_type = Option<schema::ScopeQuery>)]
    scope: Option<String>,
    /// At most this many, up to 1,000.
    #[param(value_type = Option<schema::PageLimit>)]
    limit: Option<String>,
    /// From the page before.
    #[param(value_type = Option<schema::Cursor>)]
    cursor: Option<String>,
}

/// List limits, in order of scope and name
#[utoipa::path(get, path = "/api/v1/limits", operation_id = "list_limits", tag = "limits", params(ListParams),
    responses((status = 200, description = "A page of limits", body = LimitPage)))]
async fn list(State(state): Shared, Params(params): Params<ListParams>) -> Answer {
    let scope = params.scope.as_deref().filter(|word| !word.is_empty()).map(read_scope).transpose()?;
    let rows = limit(params.limit)?;
    let after = params.cursor.as_deref().filter(|text| !text.is_empty()).map(read_cursor).transpose()?;
    let page = page(&state, ListLimits { scope, after, limit: rows }).await?;
    let room = 256 + 256 * page.items.len();
    answer::json(StatusCode::OK, &page, room)
}

pub(crate) async fn page(
    state: &super::State,
    list: ListLimits,
) -> Result<LimitPage, windlass_broker::Error> {
    let rows = list.limit;
    let statuses = state.broker.limits(list).await?;
    let last = statuses.last().filter(|_| statuses.len() == rows);
    let next_cursor =
        last.map(|status| cursor::write_text(&format!("{}/{}", status.scope.as_str(), status.name)));
    let now = now_ms();
    let items = statuses.into_iter().map(|status| LimitBody::new(status, now)).collect();
    Ok(LimitPage { items, next_cursor })
}

pub(crate) fn read_cursor(text: &str) -> Result<(Scope, Name), Invalid> {
    let refused = || Invalid::malformed("cursor", "is not a cursor of this list");
    let text = cursor::read_text(text)?;
    let (scope, name) = text.split_once('/').ok_or_else(refused)?;
    Ok((Scope::parse(scope).ok_or_else(refused)?, Name::new(name).map_err(|_| refused())?))
}
