//! The connection over gRPC, and the calls of a producer. Other calls are in the file of their area.

mod admin;
mod limits;
mod new_task;
mod operations;
mod read;
mod schedules;
mod tasks;
mod workflows;

use std::time::Duration;

use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};
use windlass_core::TaskId;
use windlass_proto::grpc::Refusal;
use windlass_proto::grpc::v1::admin_service_client::AdminServiceClient;
use windlass_proto::grpc::v1::task_service_client::TaskServiceClient;
use windlass_proto::grpc::v1::{self, GetTaskRequest, SubmitBatchRequest, SubmitTaskRequest};
use windlass_proto::rest::{FieldError, Problem};

use crate::client::{Batch, Submit, Submitted, Task};
use crate::error::Error;
use read::parsed;

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
    admin: AdminServiceClient<Channel>,
}

impl Grpc {
    pub(crate) fn new(address: &str) -> Result<Self, Error> {
        let channel = channel(address)?;
        let tasks = TaskServiceClient::new(channel.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let admin = AdminServiceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        Ok(Self { tasks, admin })
    }

    /// One try.
    pub(crate) async fn submit(&self, batch: &[Submit], atomic: bool) -> Result<Batch, Error> {
        let mut tasks = self.tasks.clone();
        if let ([submit], false) = (batch, atomic) {
            let request = SubmitTaskRequest { task: Some(submit.into()), return_task: false };
            let answer = said(tasks.submit_task(soon(request)).await)?;
            return Ok(vec![submitted(&answer.id, answer.state)]);
        }
        let request = SubmitBatchRequest { tasks: batch.iter().map(Into::into).collect(), atomic };
        let answer = said(tasks.submit_batch(soon(request)).await)?;
        let item = |result: v1::SubmitResult| match result.error {
            Some(error) => Err(refused(error)),
            None => submitted(&result.id, result.state),
        };
        Ok(answer.results.into_iter().map(item).collect())
    }

    pub(crate) async fn task(&self, id: &TaskId, wait: Duration) -> Result<Task, Error> {
        let request = GetTaskRequest { id: id.to_string(), wait_seconds: wait.as_secs_f64() };
        let answer = self.tasks.clone().get_task(within(request, wait + ANSWER_TIMEOUT)).await;
        read::task(said(answer)?)
    }
}

/// The answer, or the refusal in the words of REST.
fn said<T>(answer: Result<Response<T>, Status>) -> Result<T, Error> {
    answer.map(Response::into_inner).map_err(refusal)
}

/// A call that waits for nothing.
fn soon<T>(message: T) -> Request<T> {
    within(message, ANSWER_TIMEOUT)
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
    let mut told = problem(status.code(), refusal.code, refusal.detail, refusal.field, refusal.retry_after);
    if let (Error::Refused { problem, .. }, Some(http)) = (&mut told, refusal.http_status) {
        problem.status = http;
    }
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

/// The status is the best guess; a refused call tells it exactly.
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
        ("unsupported_by_store", _) => 501,
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
    Ok(Submitted { id: parsed("id", id)?, state: read::state(state)? })
}
