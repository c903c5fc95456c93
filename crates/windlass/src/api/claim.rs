//! Asking for work, as a long poll.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_broker::ClaimRequest;
use windlass_core::Task;
use windlass_proto::rest::{ClaimBody, Claimed, Claiming, Shown, decode};

use super::Shared;
use super::answer::{self, Answer};
use super::body::JsonBytes;
use super::problem::Refused;

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new().routes(routes!(claim))
}

/// Lease tasks to a worker, waiting for the first one
#[utoipa::path(post, path = "/api/v1/claim", tag = "workers", request_body = ClaimBody,
    responses((status = 200, description = "The tasks, each with its lease; none when the wait was over", body = Claimed)))]
async fn claim(State(state): Shared, JsonBytes(bytes): JsonBytes) -> Answer {
    let tasks = state.broker.claim(read(&bytes)?).await?;
    let mut text = Vec::with_capacity(room(&tasks));
    Claimed::write(&tasks, &mut text).map_err(Refused::unwritable)?;
    Ok(answer::written(StatusCode::OK, text))
}

pub(crate) fn read(bytes: &[u8]) -> Result<ClaimRequest, Refused> {
    Ok(request(decode::<ClaimBody>(bytes)?.check()?))
}

pub(crate) fn request(claiming: Claiming) -> ClaimRequest {
    ClaimRequest {
        worker: claiming.worker,
        queues: claiming.queues,
        mode: claiming.mode,
        types: claiming.types,
        max: claiming.max,
        wait_ms: claiming.wait_ms,
        lease_ms: claiming.lease_ms,
    }
}

/// About how long the answer is.
pub(crate) fn room(tasks: &[Task]) -> usize {
    16 + tasks.iter().map(|task| Shown::leased(task).room()).sum::<usize>()
}
