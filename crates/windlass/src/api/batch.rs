//! Submitting many tasks in one request.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use bytes::Bytes;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_broker::{Error, Submit, Submitted};
use windlass_core::trace::{self, Context};
use windlass_proto::rest::{
    BatchBody, BatchItem, BatchItemError, BatchResults, Invalid, Problem, Submission, decode, schema,
};

use super::answer::{self, Answer};
use super::body::JsonBytes;
use super::identity::{self, Key};
use super::problem::Refused;
use super::tasks::refused;
use super::traceparent::Trace;
use super::{Shared, now_ms};

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new().routes(routes!(submit_batch))
}

/// Submit up to 1,000 tasks
#[utoipa::path(
    post, path = "/api/v1/tasks/batch", tag = "tasks", request_body = BatchBody,
    params(("Idempotency-Key" = Option<schema::IdempotencyKey>, Header, description = "Makes a repeated request harmless")),
    responses(
        (status = 200, description = "One result per task, in order", body = BatchResults),
        (status = 413, description = "Too many tasks or bytes", body = Problem, content_type = "application/problem+json"),
    )
)]
async fn submit_batch(
    State(state): Shared,
    key: Option<Key>,
    Trace(trace): Trace,
    JsonBytes(bytes): JsonBytes,
) -> Answer {
    let results = submit_all(&state, key.as_ref(), trace, &bytes).await?;
    answer::json(StatusCode::OK, &results, 4096)
}

pub(crate) async fn submit_all(
    state: &super::State,
    key: Option<&Key>,
    trace: Option<Context>,
    bytes: &Bytes,
) -> Result<BatchResults, Refused> {
    let body: BatchBody<'_> = decode(bytes)?;
    let checked = body.check(bytes, now_ms(), state.settings.payload_bytes_max)?;
    let item = |outcome: Result<Submitted, Refused>| match outcome {
        Ok(submitted) => {
            let Submitted { task, .. } = submitted;
            BatchItem::Submitted { state: task.record.state_name(), id: task.record.id }
        }
        Err(refused) => BatchItem::Refused(BatchItemError { error: refused.into_problem() }),
    };
    let outcomes = submit_checked(state, key, trace, checked, body.atomic).await?;
    Ok(BatchResults { results: outcomes.into_iter().map(item).collect() })
}

/// The i-th answer belongs to the i-th task.
pub(crate) async fn submit_checked(
    state: &super::State,
    key: Option<&Key>,
    trace: Option<Context>,
    checked: Vec<Result<Submission, Invalid>>,
    atomic: bool,
) -> Result<Vec<Result<Submitted, Refused>>, Refused> {
    let mut slots = Vec::with_capacity(checked.len());
    let mut batch = Vec::with_capacity(checked.len());
    let retention_ms = state.broker.settings().retention_ms;
    for (index, item) in checked.into_iter().enumerate() {
        slots.push(place(item, &mut batch, |submission| {
            let mut submit = identity::submit(submission, key, Some(index), retention_ms);
            if let Some(trace) = trace {
                trace::adopt(&mut submit.metadata, trace);
            }
            submit
        }));
    }
    // One bad task keeps out all others of an atomic batch, whether the edge finds it or the store.
    let aborted = atomic && batch.len() < slots.len();
    let mut outcomes: Box<dyn Iterator<Item = _> + Send> = match aborted {
        true => Box::new(batch.into_iter().map(|_| Err(Error::Aborted))),
        false => Box::new(state.broker.submit_batch(batch, atomic).await?),
    };
    Ok(slots.into_iter().map(|slot| settle(slot, &mut outcomes)).collect())
}

/// What the edge knows about one task of a batch: refused already, or passed on.
enum Slot {
    Refused(Refused),
    Sent { by_key: bool },
}

fn place(
    item: Result<Submission, Invalid>,
    batch: &mut Vec<Submit>,
    submit: impl FnOnce(Submission) -> Submit,
) -> Slot {
    match item {
        Ok(submission) => {
            let by_key = submission.id.is_none();
            batch.push(submit(submission));
            Slot::Sent { by_key }
        }
        Err(invalid) => Slot::Refused(invalid.into()),
    }
}

fn settle(
    slot: Slot,
    outcomes: &mut impl Iterator<Item = Result<Submitted, Error>>,
) -> Result<Submitted, Refused> {
    match slot {
        Slot::Refused(refused) => Err(refused),
        Slot::Sent { by_key } => match outcomes.next() {
            Some(outcome) => outcome.map_err(|error| refused(error, by_key)),
            None => Err(Refused::internal()),
        },
    }
}
