//! Workers: the registry and their signs of life.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::future::join_all;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_broker::{Beat, ListWorkers};
use windlass_client::show;
use windlass_core::limits::{CLAIM_NAMES_MAX, CLAIM_TASKS_MAX};
use windlass_core::{Name, TaskId, Token};
use windlass_proto::rest::{
    BeatBody, Invalid, LeaseRef, PulseBody, WorkerBody, WorkersBody, checkpoint, decode, schema,
};

use super::answer::{self, Answer};
use super::body::JsonBytes;
use super::outcomes::save;
use super::params::{NamesParams, Params, PathName};
use super::problem::Refused;
use super::{Shared, cursor};

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(heartbeat))
}

/// Workers, in order of name
#[utoipa::path(get, path = "/api/v1/workers", operation_id = "list_workers", tag = "workers", params(NamesParams),
    responses((status = 200, description = "A page of workers", body = WorkersBody)))]
async fn list(State(state): Shared, Params(params): Params<NamesParams>) -> Answer {
    let (after, limit) = params.check()?;
    let page = page(&state, ListWorkers { after, limit }).await;
    let room = 256 + 512 * page.items.len();
    answer::json(StatusCode::OK, &page, room)
}

pub(crate) async fn page(state: &super::State, list: ListWorkers) -> WorkersBody {
    let page = state.broker.workers(list).await;
    let next_cursor = page.next.as_ref().map(cursor::write_name);
    WorkersBody { items: page.workers.into_iter().map(show::worker).collect(), next_cursor }
}

/// One worker with the tasks it holds
#[utoipa::path(get, path = "/api/v1/workers/{id}", operation_id = "get_worker", tag = "workers", params(("id" = schema::Name, Path)),
    responses((status = 200, description = "The worker", body = WorkerBody)))]
async fn get(State(state): Shared, PathName(id): PathName) -> Answer {
    answer::ok(&show::worker(state.broker.worker(&id).await?))
}

/// Give a worker no more tasks
#[utoipa::path(post, path = "/api/v1/workers/{id}/pause", operation_id = "pause_worker", tag = "workers", params(("id" = schema::Name, Path)),
    responses((status = 200, description = "The paused worker", body = WorkerBody)))]
async fn pause(State(state): Shared, PathName(id): PathName) -> Answer {
    answer::ok(&show::worker(state.broker.pause_worker(&id).await?))
}

/// Give a worker tasks again
#[utoipa::path(post, path = "/api/v1/workers/{id}/resume", operation_id = "resume_worker", tag = "workers", params(("id" = schema::Name, Path)),
    responses((status = 200, description = "The resumed worker", body = WorkerBody)))]
async fn resume(State(state): Shared, PathName(id): PathName) -> Answer {
    answer::ok(&show::worker(state.broker.resume_worker(&id).await?))
}

/// A worker's sign of life, which also extends its leases
#[utoipa::path(post, path = "/api/v1/workers/{id}/heartbeat", operation_id = "send_heartbeat", tag = "workers", params(("id" = schema::Name, Path)),
    request_body = BeatBody,
    responses((status = 200, description = "What became of the leases", body = PulseBody)))]
async fn heartbeat(State(state): Shared, PathName(id): PathName, JsonBytes(bytes): JsonBytes) -> Answer {
    let body: BeatBody = decode(&bytes)?;
    answer::ok(&beat(&state, id, body).await?)
}

pub(crate) async fn beat(state: &super::State, id: Name, body: BeatBody) -> Result<PulseBody, Refused> {
    let checkpoints = checkpoints(&body)?;
    let (beat, mut forged) = check(id, body)?;
    let save = async |(id, token, bytes): (TaskId, Token, Bytes)| {
        save(&state.broker, &id, token, bytes).await.err().map(|_| id)
    };
    // Whether a checkpoint is kept has nothing to do with the leases: they are extended in any case.
    let unsaved = join_all(checkpoints.into_iter().map(save)).await.into_iter().flatten().collect();
    let pulse = state.broker.heartbeat(beat).await?;
    let mut lost = pulse.lost;
    lost.append(&mut forged);
    Ok(PulseBody { extended: pulse.extended, lost, cancel: pulse.cancel, unsaved, paused: pulse.paused })
}

/// The checkpoints of a beat. Those of leases that cannot be read are dropped with them.
fn checkpoints(body: &BeatBody) -> Result<Vec<(TaskId, Token, Bytes)>, Invalid> {
    let mut all = Vec::new();
    for LeaseRef { id, lease, checkpoint_base64 } in &body.leases {
        let bytes =
            checkpoint("leases.checkpoint_base64", checkpoint_base64.as_ref().map(|it| it.0.clone()))?;
        if let (Some(bytes), Ok(token)) = (bytes, lease.parse()) {
            all.push((id.clone(), token, bytes));
        }
    }
    Ok(all)
}

/// The beat, and the tasks whose lease cannot be read: no claim ever gave it out, so they are lost.
pub(crate) fn check(id: Name, body: BeatBody) -> Result<(Beat, Vec<TaskId>), Invalid> {
    if body.worker_id.is_some_and(|named| named != id) {
        return Err(Invalid::out_of_range("worker_id", "is another worker than the one in the path"));
    }
    let names = body.queues.len().max(body.types.as_ref().map_or(0, Vec::len));
    if names > CLAIM_NAMES_MAX {
        return Err(Invalid::out_of_range("queues", format!("at most {CLAIM_NAMES_MAX} queues and types")));
    }
    if body.leases.len() > CLAIM_TASKS_MAX as usize {
        return Err(Invalid::out_of_range("leases", format!("at most {CLAIM_TASKS_MAX} at once")));
    }
    let text = |field, text: &Option<String>| match text {
        Some(text) if text.len() > 256 => Err(Invalid::out_of_range(field, "must be at most 256 bytes")),
        _ => Ok(()),
    };
    text("host", &body.host)?;
    text("version", &body.version)?;
    let mut forged = Vec::new();
    let mut leases = Vec::with_capacity(body.leases.len());
    for lease in body.leases {
        match lease.lease.parse::<Token>() {
            Ok(token) => leases.push((lease.id, token)),
            Err(_) => forged.push(lease.id),
        }
    }
    let beat = Beat {
        worker: id,
        incarnation: body.incarnation,
        host: body.host,
        pid: body.pid,
        version: body.version,
        queues: body.queues,
        types: body.types,
        slots: body.slots,
        cpu: body.cpu,
        memory_bytes: body.memory_bytes,
        leases,
        leaving: body.leaving,
    };
    Ok((beat, forged))
}
