//! Queues: depth, pause, resume, purge.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_client::show;
use windlass_core::StateName;
use windlass_proto::rest::{Affected, QueueBody, QueuesBody, schema};
use windlass_store::ListQueues;

use super::answer::{self, Answer};
use super::params::{NamesParams, Params, PathName};
use super::{Shared, cursor, now_ms};

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(purge))
}

/// Queues, in order of name
#[utoipa::path(get, path = "/api/v1/queues", operation_id = "list_queues", tag = "queues", params(NamesParams),
    responses((status = 200, description = "A page of queues", body = QueuesBody)))]
async fn list(State(state): Shared, Params(params): Params<NamesParams>) -> Answer {
    let (after, limit) = params.check()?;
    let page = page(&state, ListQueues { after, limit }).await?;
    let room = 256 + 512 * page.items.len();
    answer::json(StatusCode::OK, &page, room)
}

pub(crate) async fn page(
    state: &super::State,
    list: ListQueues,
) -> Result<QueuesBody, windlass_broker::Error> {
    let rows = list.limit;
    let views = state.broker.queues(list).await?;
    let last = views.last().filter(|_| views.len() == rows);
    let next_cursor = last.map(|view| cursor::write_name(&view.counts.name));
    let now = now_ms();
    Ok(QueuesBody { items: views.into_iter().map(|view| show::queue(view, now)).collect(), next_cursor })
}

/// One queue
#[utoipa::path(get, path = "/api/v1/queues/{name}", operation_id = "get_queue", tag = "queues", params(("name" = schema::Name, Path)),
    responses((status = 200, description = "The queue", body = QueueBody)))]
async fn get(State(state): Shared, PathName(name): PathName) -> Answer {
    answer::ok(&show::queue(state.broker.queue(&name).await?, now_ms()))
}

/// Give out no tasks of a queue
#[utoipa::path(post, path = "/api/v1/queues/{name}/pause", operation_id = "pause_queue", tag = "queues", params(("name" = schema::Name, Path)),
    responses((status = 200, description = "The paused queue", body = QueueBody)))]
async fn pause(State(state): Shared, PathName(name): PathName) -> Answer {
    answer::ok(&show::queue(state.broker.pause_queue(&name).await?, now_ms()))
}

/// Give out tasks again
#[utoipa::path(post, path = "/api/v1/queues/{name}/resume", operation_id = "resume_queue", tag = "queues", params(("name" = schema::Name, Path)),
    responses((status = 200, description = "The resumed queue", body = QueueBody)))]
async fn resume(State(state): Shared, PathName(name): PathName) -> Answer {
    answer::ok(&show::queue(state.broker.resume_queue(&name).await?, now_ms()))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PurgeParams {
    /// Only count.
    #[serde(default)]
    dry_run: bool,
}

/// Forget the pending tasks of a queue
#[utoipa::path(delete, path = "/api/v1/queues/{name}/tasks", operation_id = "purge_queue", tag = "queues",
    params(("name" = schema::Name, Path), PurgeParams),
    responses((status = 200, description = "How many", body = Affected)))]
async fn purge(
    State(state): Shared,
    PathName(name): PathName,
    Params(params): Params<PurgeParams>,
) -> Answer {
    let affected = if params.dry_run {
        state.broker.queue(&name).await?.counts.by_state[StateName::Pending.index()]
    } else {
        state.broker.purge_queue(&name).await?
    };
    answer::ok(&Affected { affected })
}
