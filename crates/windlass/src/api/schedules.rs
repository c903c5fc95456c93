//! Schedules.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_client::show;
use windlass_core::Name;
use windlass_core::limits::{SCHEDULE_FIRES_KEPT_MAX, SCHEDULE_PREVIEW_MAX};
use windlass_core::schedule::Definition;
use windlass_proto::rest::{
    FireBody, FiresBody, Invalid, Problem, ScheduleBody, ScheduleCheck, ScheduleInput, SchedulePage,
    SlotsBody, TaskBody, decode, schema,
};
use windlass_store::ListSchedules;

use super::answer::{self, Answer};
use super::body::JsonBytes;
use super::params::{Params, PathSchedule, count, limit};
use super::problem::Refused;
use super::{Shared, cursor, now_ms};

/// Slots of a preview that asks for no number.
const PREVIEW_DEFAULT: usize = 5;

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(get, put, delete))
        .routes(routes!(run))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(next))
        .routes(routes!(fires))
}

/// Make a schedule
#[utoipa::path(post, path = "/api/v1/schedules", operation_id = "create_schedule", tag = "schedules", request_body = ScheduleInput,
    responses((status = 201, description = "The new schedule", body = ScheduleBody),
        (status = 409, description = "`schedule_exists`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "A pattern, a time zone or a number that is not possible; the field is named",
            body = Problem, content_type = "application/problem+json")))]
async fn create(State(state): Shared, JsonBytes(bytes): JsonBytes) -> Answer {
    let (id, definition) = read(&state, &bytes, None)?;
    let view = state.broker.create_schedule(id, definition).await?;
    answer::json(StatusCode::CREATED, &show::schedule(view), 1024)
}

/// Make a schedule, or give it another definition
#[utoipa::path(put, path = "/api/v1/schedules/{id}", operation_id = "put_schedule", tag = "schedules", params(("id" = schema::ScheduleId, Path)),
    request_body = ScheduleInput,
    responses((status = 201, description = "The new schedule", body = ScheduleBody),
        (status = 200, description = "The schedule as it is from now on; its history stays", body = ScheduleBody),
        (status = 422, description = "A pattern, a time zone or a number that is not possible; the field is named",
            body = Problem, content_type = "application/problem+json")))]
async fn put(State(state): Shared, PathSchedule(id): PathSchedule, JsonBytes(bytes): JsonBytes) -> Answer {
    let (id, definition) = read(&state, &bytes, Some(id))?;
    let (view, new) = state.broker.put_schedule(id, definition).await?;
    let status = if new { StatusCode::CREATED } else { StatusCode::OK };
    answer::json(status, &show::schedule(view), 1024)
}

fn read(state: &super::State, bytes: &bytes::Bytes, id: Option<Name>) -> Result<(Name, Definition), Invalid> {
    let input: ScheduleInput<'_> = decode(bytes)?;
    input.check(bytes, given(state, id))
}

pub(crate) fn given(state: &super::State, id: Option<Name>) -> ScheduleCheck {
    ScheduleCheck { id, now: now_ms(), retention_ms: state.broker.settings().retention_ms }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListParams {
    /// At most this many, up to 1,000.
    #[param(value_type = Option<schema::PageLimit>)]
    limit: Option<String>,
    /// From the page before.
    #[param(value_type = Option<schema::Cursor>)]
    cursor: Option<String>,
}

/// List schedules, in order of id
#[utoipa::path(get, path = "/api/v1/schedules", operation_id = "list_schedules", tag = "schedules", params(ListParams),
    responses((status = 200, description = "A page of schedules", body = SchedulePage)))]
async fn list(State(state): Shared, Params(params): Params<ListParams>) -> Answer {
    let limit = limit(params.limit)?;
    let after = params.cursor.as_deref().filter(|text| !text.is_empty());
    let after = after.map(cursor::read_name).transpose()?;
    let views = state.broker.schedules(ListSchedules { after, limit }).await?;
    let last = views.last().filter(|_| views.len() == limit);
    let next_cursor = last.map(|view| cursor::write_name(&view.schedule.id));
    let items: Vec<ScheduleBody> = views.into_iter().map(show::schedule).collect();
    let room = 256 + 1024 * items.len();
    answer::json(StatusCode::OK, &SchedulePage { items, next_cursor }, room)
}

/// One schedule, with what it is about to do
#[utoipa::path(get, path = "/api/v1/schedules/{id}", operation_id = "get_schedule", tag = "schedules", params(("id" = schema::Name, Path)),
    responses((status = 200, description = "The schedule", body = ScheduleBody),
        (status = 404, description = "`not_found`", body = Problem, content_type = "application/problem+json")))]
async fn get(State(state): Shared, PathSchedule(id): PathSchedule) -> Answer {
    answer::ok(&show::schedule(state.broker.schedule(&id).await?))
}

/// Forget a schedule; tasks that it made stay
#[utoipa::path(delete, path = "/api/v1/schedules/{id}", operation_id = "delete_schedule", tag = "schedules", params(("id" = schema::Name, Path)),
    responses((status = 204, description = "Forgotten"),
        (status = 404, description = "`not_found`", body = Problem, content_type = "application/problem+json")))]
async fn delete(State(state): Shared, PathSchedule(id): PathSchedule) -> Answer {
    state.broker.remove_schedule(&id).await?;
    answer::nothing()
}

/// Make a task of it now, whatever its slots and rules say
#[utoipa::path(post, path = "/api/v1/schedules/{id}/run", operation_id = "run_schedule", tag = "schedules", params(("id" = schema::Name, Path)),
    responses((status = 201, description = "The new task", body = TaskBody)))]
async fn run(State(state): Shared, PathSchedule(id): PathSchedule) -> Answer {
    answer::task(StatusCode::CREATED, &state.broker.run_schedule(&id).await?)
}

/// Let it fire no more until it is resumed
#[utoipa::path(post, path = "/api/v1/schedules/{id}/pause", operation_id = "pause_schedule", tag = "schedules", params(("id" = schema::Name, Path)),
    responses((status = 200, description = "The paused schedule", body = ScheduleBody)))]
async fn pause(State(state): Shared, PathSchedule(id): PathSchedule) -> Answer {
    answer::ok(&show::schedule(state.broker.pause_schedule(&id).await?))
}

/// Let it fire again, from now on
#[utoipa::path(post, path = "/api/v1/schedules/{id}/resume", operation_id = "resume_schedule", tag = "schedules", params(("id" = schema::Name, Path)),
    responses((status = 200, description = "The resumed schedule", body = ScheduleBody)))]
async fn resume(State(state): Shared, PathSchedule(id): PathSchedule) -> Answer {
    answer::ok(&show::schedule(state.broker.resume_schedule(&id).await?))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct NextParams {
    /// How many, 5 unless given, up to 100.
    #[param(value_type = Option<schema::SlotCount>)]
    count: Option<String>,
}

/// The next slots
#[utoipa::path(get, path = "/api/v1/schedules/{id}/next", operation_id = "list_schedule_slots", tag = "schedules", params(("id" = schema::Name, Path), NextParams),
    responses((status = 200, description = "Earliest first, as if it were not paused", body = SlotsBody)))]
async fn next(
    State(state): Shared,
    PathSchedule(id): PathSchedule,
    Params(params): Params<NextParams>,
) -> Answer {
    let count = params.count.map(|text| count("count", &text, SCHEDULE_PREVIEW_MAX)).transpose()?;
    answer::ok(&slots(&state, &id, count.map(|count| count as u64)).await?)
}

pub(crate) async fn slots(state: &super::State, id: &Name, count: Option<u64>) -> Result<SlotsBody, Refused> {
    let count = count.map_or(PREVIEW_DEFAULT, |count| count.min(SCHEDULE_PREVIEW_MAX as u64) as usize);
    if count == 0 {
        return Err(Invalid::out_of_range("count", "must be at least 1").into());
    }
    let items = state.broker.next_slots(id, count).await?.into_iter().map(Into::into).collect();
    Ok(SlotsBody { items })
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct FiresParams {
    /// At most this many; the last 100 are kept.
    #[param(value_type = Option<schema::PageLimit>)]
    limit: Option<String>,
}

/// The last fires and what became of them, newest first
#[utoipa::path(get, path = "/api/v1/schedules/{id}/fires", operation_id = "list_schedule_fires", tag = "schedules", params(("id" = schema::Name, Path), FiresParams),
    responses((status = 200, description = "The fires", body = FiresBody)))]
async fn fires(
    State(state): Shared,
    PathSchedule(id): PathSchedule,
    Params(params): Params<FiresParams>,
) -> Answer {
    answer::ok(&last_fires(&state, &id, limit(params.limit)?).await?)
}

pub(crate) async fn last_fires(state: &super::State, id: &Name, limit: usize) -> Result<FiresBody, Refused> {
    let views = state.broker.schedule_fires(id, limit.min(SCHEDULE_FIRES_KEPT_MAX)).await?;
    let items = views.into_iter().map(|view| FireBody::new(view.fire, view.task)).collect();
    Ok(FiresBody { items })
}
