//! The connection over gRPC, and the calls of a producer.

use std::time::Duration;

use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use windlass_core::{Name, Payload, TaskId};
use windlass_proto::grpc::v1::task_service_client::TaskServiceClient;
use windlass_proto::grpc::v1::{
    self, CancelTaskRequest, GetTaskRequest, NewTask, RetryTaskRequest, SubmitBatchRequest, SubmitTaskRequest,
};
use windlass_proto::grpc::{Refusal, timestamp};
use windlass_proto::rest::{Base64, FieldError, Json, Metadata, Problem, ProgressBody, Seconds, Time};

use crate::client::{Batch, Submit, Submitted, Task};
use crate::error::Error;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For an answer that waits for nothing.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// A peer that vanished without a word is noticed after these two.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes under way before the receiver must have read some. The usual 64 KB would be a round trip for every few hundred
/// tasks.
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;
/// The largest answer: a batch of tasks with their payloads.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A connection that is made when it is needed, and made again.
pub(crate) fn channel(address: &str) -> Result<Channel, Error> {
    let invalid = |detail: String| Error::Address { address: address.to_owned(), detail };
    let with_scheme = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
    if !with_scheme.starts_with("http://") {
        return Err(invalid("gRPC needs an address as http://host:port; use REST for https".into()));
    }
    let endpoint = Endpoint::from_shared(with_scheme).map_err(|error| invalid(error.to_string()))?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE_EVERY)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .connect_lazy())
}

#[derive(Debug, Clone)]
pub(crate) struct Grpc {
    tasks: TaskServiceClient<Channel>,
}

impl Grpc {
    pub(crate) fn new(address: &str) -> Result<Self, Error> {
        let tasks = TaskServiceClient::new(channel(address)?)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        Ok(Self { tasks })
    }

    /// One try.
    pub(crate) async fn submit(&self, batch: &[Submit], atomic: bool) -> Result<Batch, Error> {
        let mut tasks = self.tasks.clone();
        if let ([submit], false) = (batch, atomic) {
            let request = SubmitTaskRequest { task: Some(submit.into()), return_task: false };
            let answer =
                tasks.submit_task(within(request, ANSWER_TIMEOUT)).await.map_err(refusal)?.into_inner();
            return Ok(vec![submitted(&answer.id, answer.state)]);
        }
        let request = SubmitBatchRequest { tasks: batch.iter().map(Into::into).collect(), atomic };
        let answer = tasks.submit_batch(within(request, ANSWER_TIMEOUT)).await.map_err(refusal)?.into_inner();
        let item = |result: v1::SubmitResult| match result.error {
            Some(error) => Err(refused(error)),
            None => submitted(&result.id, result.state),
        };
        Ok(answer.results.into_iter().map(item).collect())
    }

    pub(crate) async fn task(&self, id: &TaskId, wait: Duration) -> Result<Task, Error> {
        let request = GetTaskRequest { id: id.to_string(), wait_seconds: wait.as_secs_f64() };
        let answer = self.tasks.clone().get_task(within(request, wait + ANSWER_TIMEOUT)).await;
        task(answer.map_err(refusal)?.into_inner())
    }

    pub(crate) async fn cancel(&self, id: &TaskId) -> Result<Task, Error> {
        let request = within(CancelTaskRequest { id: id.to_string() }, ANSWER_TIMEOUT);
        task(self.tasks.clone().cancel_task(request).await.map_err(refusal)?.into_inner())
    }

    pub(crate) async fn retry(&self, id: &TaskId) -> Result<Task, Error> {
        let request = within(RetryTaskRequest { id: id.to_string() }, ANSWER_TIMEOUT);
        task(self.tasks.clone().retry_task(request).await.map_err(refusal)?.into_inner())
    }
}

fn within<T>(message: T, limit: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(limit);
    request
}

/// A status in the words of the REST interface; one that no broker gave means that there was no answer.
pub(crate) fn refusal(status: Status) -> Error {
    let Some(refusal) = Refusal::of(&status) else {
        let detail = match status.code() {
            Code::Unavailable => status.message().to_owned(),
            code => format!("{code:?}: {}", status.message()),
        };
        return match status.code() {
            Code::Unimplemented | Code::Internal | Code::OutOfRange | Code::ResourceExhausted => {
                Error::Answer(detail)
            }
            _ => Error::Unreachable { detail },
        };
    };
    let told = problem(status.code(), refusal.code, refusal.detail, refusal.field, refusal.retry_after);
    held_by(told, refusal.task_id)
}

/// The refusal of one item of many.
pub(crate) fn refused(error: v1::Error) -> Error {
    let retry_after = error.retry_after_seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
    let told = problem(Code::Unknown, error.code, error.detail, error.field, retry_after);
    held_by(told, error.task_id)
}

fn held_by(mut error: Error, task: Option<String>) -> Error {
    if let Error::Refused { problem, .. } = &mut error {
        problem.task_id = task;
    }
    error
}

fn problem(
    status: Code,
    code: String,
    detail: String,
    field: Option<String>,
    retry_after: Option<Duration>,
) -> Error {
    let http = match (code.as_str(), status) {
        ("malformed", _) => 400,
        ("out_of_range" | "not_supported", _) => 422,
        ("not_found", _) | (_, Code::NotFound) => 404,
        (
            "task_exists" | "unique_conflict" | "task_terminal" | "wrong_state" | "lease_lost" | "aborted",
            _,
        ) => 409,
        ("too_large", _) => 413,
        ("disk_full", _) => 507,
        (_, Code::Unavailable) => 503,
        (_, Code::InvalidArgument) => 422,
        (_, Code::Unauthenticated) => 401,
        (_, Code::PermissionDenied) => 403,
        (_, Code::FailedPrecondition | Code::AlreadyExists | Code::Aborted) => 409,
        (_, Code::ResourceExhausted) => 429,
        _ if retry_after.is_some() => 503,
        _ => 500,
    };
    let mut problem = Problem::new(http, &code, "The request was refused").detail(detail.clone());
    problem.errors.extend(field.map(|field| FieldError { field, message: detail }));
    Error::Refused { problem: Box::new(problem), retry_after }
}

fn submitted(id: &str, state: i32) -> Result<Submitted, Error> {
    Ok(Submitted { id: id.parse().map_err(|_| odd("id"))?, state: state_name(state)? })
}

fn state_name(state: i32) -> Result<windlass_core::StateName, Error> {
    v1::TaskState::try_from(state).ok().and_then(v1::TaskState::name).ok_or_else(|| odd("state"))
}

fn odd(field: &str) -> Error {
    Error::Answer(format!("the answer is not understood: {field}"))
}

impl From<&Submit> for NewTask {
    fn from(submit: &Submit) -> Self {
        let moment = |at| timestamp(crate::client::moment_ms(at));
        let unique = submit.unique.as_deref();
        Self {
            id: submit.id.to_string(),
            r#type: submit.kind.clone(),
            queue: submit.queue.clone().unwrap_or_default(),
            payload: Some(submit.payload.clone().into()),
            priority: submit.priority.map(|priority| priority.0.into()),
            max_retries: submit.max_retries,
            max_crashes: submit.max_crashes,
            timeout_seconds: submit.timeout.map(|span| span.as_secs_f64()),
            scheduled_at: submit.at.map(moment),
            delay_seconds: submit.delay.map(|span| span.as_secs_f64()),
            expires_at: submit.expires_at.map(moment),
            retry: submit.retry.map(Into::into),
            retention_seconds: submit.retention.map(|span| span.as_secs_f64()),
            metadata: submit.metadata.iter().cloned().collect(),
            unique_key: unique.and_then(|unique| unique.key.clone()),
            unique_for_seconds: unique.and_then(|unique| unique.length).map(|span| span.as_secs_f64()),
            on_conflict: unique.and_then(|unique| unique.on_conflict).map(|rule| rule.as_str().to_owned()),
            key: submit.key.clone(),
            dependencies: submit.dependencies.iter().map(TaskId::to_string).collect(),
        }
    }
}

fn task(task: v1::Task) -> Result<Task, Error> {
    let time = |at: Option<prost_types::Timestamp>| at.map(time);
    let (payload, payload_base64) = split(task.payload.map(Payload::from));
    let (result, result_base64) = split(task.result.map(Payload::from));
    let mut metadata: Vec<(String, String)> = task.metadata.into_iter().collect();
    metadata.sort_unstable();
    let name = |text: &str, field| text.parse::<Name>().map_err(|_| odd(field));
    Ok(Task {
        state: state_name(task.state)?,
        id: task.id.parse().map_err(|_| odd("id"))?,
        kind: name(&task.r#type, "type")?,
        queue: name(&task.queue, "queue")?,
        key: task.key.map(|key| name(&key, "key")).transpose()?,
        priority: u8::try_from(task.priority).map_err(|_| odd("priority"))?,
        payload,
        payload_base64,
        attempts: task.attempts,
        max_retries: task.max_retries,
        crashes: task.crashes,
        max_crashes: task.max_crashes,
        timeout_seconds: Seconds(task.timeout_seconds),
        retention_seconds: Seconds(task.retention_seconds),
        retry: task.retry.unwrap_or_default().into(),
        metadata: Metadata(metadata),
        unique_key: task.unique_key,
        unique_until: time(task.unique_until),
        cancel_reason: task.cancel_reason,
        dependency_count: Some(task.dependency_count).filter(|count| *count > 0),
        dependencies_open: task.dependencies_open,
        workflow_id: task.workflow_id.map(|id| name(&id, "workflow_id")).transpose()?,
        dependencies: task
            .dependencies
            .iter()
            .map(|id| id.parse().map_err(|_| odd("dependencies")))
            .collect::<Result<_, _>>()?,
        created_at: time(task.created_at).unwrap_or(Time::from_ms(0)),
        updated_at: time(task.updated_at).unwrap_or(Time::from_ms(0)),
        scheduled_at: time(task.scheduled_at),
        expires_at: time(task.expires_at),
        started_at: time(task.started_at),
        completed_at: time(task.completed_at),
        next_retry_at: time(task.next_retry_at),
        worker_id: task.worker_id.map(|id| name(&id, "worker_id")).transpose()?,
        lease_expires_at: time(task.lease_expires_at),
        progress: task.progress.map(|p| ProgressBody { fraction: p.fraction, note: p.note.map(Into::into) }),
        error: task.error.map(Into::into),
        result,
        result_base64,
        checkpoint_at: time(task.checkpoint_at),
        checkpoint_base64: task.checkpoint.map(Base64),
        lease: None,
    })
}

fn time(at: prost_types::Timestamp) -> Time {
    Time::from_ms(at.seconds.max(0) as u64 * 1000 + at.nanos.max(0) as u64 / 1_000_000)
}

fn split(payload: Option<Payload>) -> (Option<Json>, Option<Base64>) {
    match payload {
        Some(Payload::Json(text)) => (Some(Json(text)), None),
        Some(Payload::Binary(bytes)) => (None, Some(Base64(bytes))),
        None => (None, None),
    }
}
