//! Taking tasks in: one, a batch, a stream of batches.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt, TryStreamExt};
use tonic::{Status, Streaming};
use windlass_broker::Submitted;
use windlass_core::limits::{STREAMED_BATCHES_MAX, STREAMED_TASKS_MAX};
use windlass_core::trace::{self, Context};
use windlass_proto::grpc::v1::{
    SubmitBatchRequest, SubmitResult, SubmitTaskRequest, SubmitTaskResponse, TaskState,
};
use windlass_proto::rest::{Fault, Invalid};

use super::refusal::{dressed, silent, status};
use crate::api::problem::Refused;
use crate::api::{self, batch::submit_checked, identity, now_ms};

pub(super) async fn one(
    state: &api::State,
    trace: Option<Context>,
    request: SubmitTaskRequest,
) -> Result<SubmitTaskResponse, Refused> {
    let task = request.task.ok_or_else(|| Invalid::malformed("task", "is missing"))?;
    let submission = task.check(now_ms(), state.settings.payload_bytes_max)?;
    let mut submit = identity::submit(submission, None, None, state.broker.settings().retention_ms);
    if let Some(trace) = trace {
        trace::adopt(&mut submit.metadata, trace);
    }
    let Submitted { task, existed } = state.broker.submit(submit).await?;
    Ok(SubmitTaskResponse {
        id: task.record.id.as_str().to_owned(),
        state: TaskState::from(task.record.state_name()).into(),
        existed,
        task: request.return_task.then(|| task.into()),
    })
}

pub(super) async fn batch(
    state: &api::State,
    trace: Option<Context>,
    request: SubmitBatchRequest,
) -> Result<Vec<SubmitResult>, Refused> {
    let atomic = request.atomic;
    let checked = request.check(now_ms(), state.settings.payload_bytes_max)?;
    let outcomes = submit_checked(state, None, trace, checked, atomic).await?;
    Ok(outcomes.into_iter().map(result).collect())
}

/// Several batches are committed at once, and no more are read meanwhile: the client waits as the disk does.
pub(super) async fn stream(
    state: Arc<api::State>,
    trace: Option<Context>,
    batches: Streaming<SubmitBatchRequest>,
    silence: Duration,
) -> Result<Vec<SubmitResult>, Status> {
    let mut tasks = 0;
    let committing = whole(batches, silence).map(|read| {
        let read = read.and_then(|request| {
            tasks += request.tasks.len();
            if tasks <= STREAMED_TASKS_MAX { Ok(request) } else { Err(too_many()) }
        });
        let state = state.clone();
        async move {
            // A task of its own: what was sent is carried through even if the client goes away.
            let committed = tokio::spawn(async move { batch(&state, trace, read?).await.map_err(status) });
            committed.await.unwrap_or_else(|_| Err(status(Refused::internal())))
        }
    });
    committing
        .buffered(STREAMED_BATCHES_MAX)
        .try_fold(Vec::new(), |mut all, results| async move {
            all.extend(results);
            Ok(all)
        })
        .await
}

/// Messages as they come; half a message must not be waited for in vain.
fn whole(
    batches: Streaming<SubmitBatchRequest>,
    silence: Duration,
) -> impl Stream<Item = Result<SubmitBatchRequest, Status>> {
    unfold(batches, move |mut batches| async move {
        let read = match tokio::time::timeout(silence, batches.message()).await {
            Ok(read) => read.map_err(dressed).transpose()?,
            Err(_) => Err(silent()),
        };
        Some((read, batches))
    })
}

fn result(outcome: Result<Submitted, Refused>) -> SubmitResult {
    match outcome {
        Ok(Submitted { task, existed }) => SubmitResult {
            id: task.record.id.as_str().to_owned(),
            state: TaskState::from(task.record.state_name()).into(),
            existed,
            error: None,
        },
        Err(refused) => {
            SubmitResult { error: Some(refused.into_problem().into()), ..SubmitResult::default() }
        }
    }
}

fn too_many() -> Status {
    let message = format!("at most {STREAMED_TASKS_MAX} in one call");
    Invalid::new(Fault::TooLarge, "tasks", message).into()
}
