//! What the holder of a lease reports about its task.

use std::sync::Arc;

use axum::extract::State;
use bytes::Bytes;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_broker::{Broker, Error, Extension, Failed};
use windlass_core::{TaskId, Token};
use windlass_proto::rest::{
    CompleteBody, ExtendBody, Extended, Extending, FailBody, OutcomeBody, Problem, ReleaseBody, Time, decode,
    schema,
};

use super::Shared;
use super::answer::{self, Answer};
use super::body::JsonBytes;
use super::params::PathId;

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new()
        .routes(routes!(extend))
        .routes(routes!(complete))
        .routes(routes!(fail))
        .routes(routes!(release))
}

/// A lease that cannot be read was never given out, so it is as good as lost.
pub(crate) fn token(lease: &str) -> Result<Token, Error> {
    lease.parse().map_err(|_| Error::LeaseLost)
}

/// Keep a task for longer, report progress and save a checkpoint
#[utoipa::path(post, path = "/api/v1/tasks/{id}/extend", operation_id = "extend_task", tag = "workers", params(("id" = schema::TaskId, Path)),
    request_body = ExtendBody,
    responses((status = 200, description = "How long the lease lasts now", body = Extended),
        (status = 409, description = "`lease_lost`", body = Problem, content_type = "application/problem+json")))]
async fn extend(State(state): Shared, PathId(id): PathId, JsonBytes(bytes): JsonBytes) -> Answer {
    let body: ExtendBody = decode(&bytes)?;
    let lease = body.lease.clone();
    let extension = keep(&state, &id, token(&lease)?, body.check()?).await?;
    answer::ok(&Extended {
        lease_expires_at: extension.lease_expires_at.map(Time::from_ms),
        cancel_requested: extension.cancel_requested,
    })
}

pub(crate) async fn keep(
    state: &super::State,
    id: &TaskId,
    token: Token,
    extending: Extending,
) -> Result<Extension, Error> {
    let Extending { lease_ms, progress, checkpoint } = extending;
    if let Some(bytes) = checkpoint {
        save(&state.broker, id, token, bytes).await?;
    }
    state.broker.extend(id, token, lease_ms, progress).await
}

/// Saves a checkpoint. That the lease is over, or the task gone, is no error here: the extension that follows knows
/// better how it ended.
pub(crate) async fn save(broker: &Broker, id: &TaskId, token: Token, bytes: Bytes) -> Result<(), Error> {
    match broker.save_checkpoint(id, token, bytes).await {
        Err(Error::LeaseLost | Error::NotFound(_)) => Ok(()),
        saved => saved,
    }
}

/// Report success
#[utoipa::path(post, path = "/api/v1/tasks/{id}/complete", operation_id = "complete_task", tag = "workers", params(("id" = schema::TaskId, Path)),
    request_body = CompleteBody,
    responses((status = 200, description = "Completed, now or by the same lease before", body = OutcomeBody),
        (status = 409, description = "`lease_lost`", body = Problem, content_type = "application/problem+json")))]
async fn complete(State(state): Shared, PathId(id): PathId, JsonBytes(bytes): JsonBytes) -> Answer {
    let body: CompleteBody<'_> = decode(&bytes)?;
    let lease = body.lease.clone();
    let result = body.check(&bytes, state.settings.payload_bytes_max)?;
    let record = state.broker.complete(&id, token(&lease)?, result).await?;
    answer::ok(&OutcomeBody::from(&record))
}

/// Report failure
#[utoipa::path(post, path = "/api/v1/tasks/{id}/fail", operation_id = "fail_task", tag = "workers", params(("id" = schema::TaskId, Path)),
    request_body = FailBody,
    responses((status = 200, description = "Retrying, or a dead letter", body = OutcomeBody),
        (status = 409, description = "`lease_lost`", body = Problem, content_type = "application/problem+json")))]
async fn fail(State(state): Shared, PathId(id): PathId, JsonBytes(bytes): JsonBytes) -> Answer {
    let body: FailBody = decode(&bytes)?;
    let lease = body.lease.clone();
    let failing = body.check()?;
    let report =
        Failed { error: failing.error, retryable: failing.retryable, retry_after_ms: failing.retry_after_ms };
    let record = state.broker.fail(&id, token(&lease)?, report).await?;
    answer::ok(&OutcomeBody::from(&record))
}

/// Give a task back without using up an attempt
#[utoipa::path(post, path = "/api/v1/tasks/{id}/release", operation_id = "release_task", tag = "workers", params(("id" = schema::TaskId, Path)),
    request_body = ReleaseBody,
    responses((status = 200, description = "Pending or scheduled again", body = OutcomeBody),
        (status = 409, description = "`lease_lost`", body = Problem, content_type = "application/problem+json")))]
async fn release(State(state): Shared, PathId(id): PathId, JsonBytes(bytes): JsonBytes) -> Answer {
    let body: ReleaseBody = decode(&bytes)?;
    let lease = body.lease.clone();
    let delay_ms = body.check()?;
    let record = state.broker.release(&id, token(&lease)?, delay_ms).await?;
    answer::ok(&OutcomeBody::from(&record))
}
