//! Queues: depth, pause, resume, purge.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_client::show;
use windlass_core::StateName;
use windlass_proto::rest::{Affected, QueueBody, QueuesBody};

use super::answer::{self, Answer};
use super::params::{Params, PathName};
use super::{Shared, now_ms};

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(purge))
}

/// All queues
#[utoipa::path(get, path = "/api/v1/queues", tag = "queues",
    responses((status = 200, description = "In order of name", body = QueuesBody)))]
async fn list(State(state): Shared) -> Answer {
    let now = now_ms();
    let items = state.broker.queues().await?.into_iter().map(|view| show::queue(view, now)).collect();
    answer::ok(&QueuesBody { items })
}

/// One queue
#[utoipa::path(get, path = "/api/v1/queues/{name}", tag = "queues", params(("name" = String, Path)),
    responses((status = 200, description = "The queue", body = QueueBody)))]
async fn get(State(state): Shared, PathName(name): PathName) -> Answer {
    answer::ok(&show::queue(state.broker.queue(&name).await?, now_ms()))
}

/// Give out no tasks of a queue
#[utoipa::path(post, path = "/api/v1/queues/{name}/pause", tag = "queues", params(("name" = String, Path)),
    responses((status = 200, description = "The paused queue", body = QueueBody)))]
async fn pause(State(state): Shared, PathName(name): PathName) -> Answer {
    answer::ok(&show::queue(state.broker.pause_queue(&name).await?, now_ms()))
}

/// Give out tasks again
#[utoipa::path(post, path = "/api/v1/queues/{name}/resume", tag = "queues", params(("name" = String, Path)),
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
#[utoipa::path(delete, path = "/api/v1/queues/{name}/tasks", tag = "queues",
    params(("name" = String, Path), PurgeParams),
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
