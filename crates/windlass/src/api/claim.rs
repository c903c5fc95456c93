//! Asking for work, as a long poll.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_broker::{ClaimRequest, Error};
use windlass_core::Task;
use windlass_proto::rest::{ClaimBody, Claimed, Claiming, Shown, decode};

use super::Shared;
use super::answer::{self, Answer};
use super::body::JsonBytes;
use super::problem::Refused;
use crate::server::gone::Gone;
use crate::server::socket::Socket;

pub(super) const PATH: &str = "/api/v1/claim";

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new().routes(routes!(claim))
}

/// Lease tasks to a worker, waiting for the first one
#[utoipa::path(post, path = "/api/v1/claim", operation_id = "claim_tasks", tag = "workers", request_body = ClaimBody,
    responses((status = 200, description = "The tasks, each with its lease; none when the wait was over", body = Claimed)))]
async fn claim(
    State(state): Shared,
    socket: Option<Extension<Socket>>,
    JsonBytes(bytes): JsonBytes,
) -> Answer {
    let request = read(&bytes)?;
    let mut gone = match socket {
        Some(Extension(socket)) if request.wait_ms > 0 => Gone::watch(&socket).ok(),
        _ => None,
    };
    let gone = poll_fn(|cx| gone.as_mut().map_or(Poll::Pending, |gone| gone.poll(cx)));
    let tasks = unless(gone, state.broker.claim(request)).await?;
    let mut text = Vec::with_capacity(room(&tasks));
    Claimed::write(&tasks, &mut text).map_err(Refused::unwritable)?;
    Ok(answer::written(StatusCode::OK, text))
}

/// A claim that leases nothing once the client is gone.
pub(crate) async fn unless(
    gone: impl Future<Output = ()>,
    claim: impl Future<Output = Result<Vec<Task>, Error>>,
) -> Result<Vec<Task>, Error> {
    let mut gone = std::pin::pin!(gone);
    if futures_util::poll!(gone.as_mut()).is_ready() {
        return Ok(Vec::new());
    }
    tokio::select! {
        biased;
        // First, because tasks that are leased already must be handed over.
        tasks = claim => tasks,
        () = gone => Ok(Vec::new()),
    }
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
