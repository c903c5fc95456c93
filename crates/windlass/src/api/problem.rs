//! Answers that refuse. This is the one table from errors to HTTP.
//!
//! A refusal travels to the front as a problem in the extensions of an empty response; only there the id of the request is
//! known, and there it becomes text.

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use windlass_broker::Error;
use windlass_proto::rest::{FieldError, Invalid, Problem};

/// Why a request is not carried out.
#[derive(Debug)]
pub(crate) struct Refused(Box<Problem>);

/// Marks a response whose body is still to be written.
#[derive(Debug, Clone)]
pub(super) struct Unwritten(pub(super) Box<Problem>);

impl Refused {
    pub(crate) fn new(status: StatusCode, code: &str, title: &str) -> Self {
        Self(Box::new(Problem::new(status.as_u16(), code, title)))
    }

    pub(crate) fn unwritable(error: serde_json::Error) -> Self {
        tracing::error!(%error, "an answer cannot be written");
        Self::internal()
    }

    pub(super) fn no_such_route() -> Self {
        Self::new(StatusCode::NOT_FOUND, "no_such_route", "There is no such route")
    }

    pub(crate) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "The server made a mistake")
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let title = "The body is too large";
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", title)
            .detail(format!("at most {limit} bytes are accepted"))
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    pub(crate) fn into_problem(self) -> Problem {
        *self.0
    }
}

impl From<Invalid> for Refused {
    fn from(invalid: Invalid) -> Self {
        Self(Box::new(invalid.into()))
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let (status, title) = match &error {
            Error::NotFound(_) => (StatusCode::NOT_FOUND, "Not found"),
            Error::TaskExists => (StatusCode::CONFLICT, "The id is taken"),
            Error::UniqueConflict(_) => (StatusCode::CONFLICT, "The unique key is held"),
            Error::Terminal(_) => (StatusCode::CONFLICT, "The task is finished"),
            Error::WrongState(_) => (StatusCode::CONFLICT, "The state of the task does not allow this"),
            Error::LeaseLost => (StatusCode::CONFLICT, "The lease is no longer valid"),
            Error::Aborted => (StatusCode::CONFLICT, "The batch was not carried out"),
            Error::DependencyMissing(_) => (StatusCode::UNPROCESSABLE_ENTITY, "A dependency does not exist"),
            Error::DependencyCancelled(_) => (StatusCode::CONFLICT, "A dependency was cancelled"),
            Error::QueueFull | Error::LimitFull(_) => (StatusCode::SERVICE_UNAVAILABLE, "The queue is full"),
            Error::TooManyListeners => (StatusCode::SERVICE_UNAVAILABLE, "Too many listen to events"),
            Error::Busy => (StatusCode::SERVICE_UNAVAILABLE, "Too much is under way"),
            Error::BackupRunning => (StatusCode::TOO_MANY_REQUESTS, "A backup is being taken already"),
            Error::Unsupported { .. } | Error::LimitApart(_) | Error::NoBackup { .. } => {
                (StatusCode::NOT_IMPLEMENTED, "The store of this broker cannot do this")
            }
            Error::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "The broker is stopping"),
            Error::Store(_) => (StatusCode::SERVICE_UNAVAILABLE, "The store is not available"),
            Error::NoSpace => (StatusCode::INSUFFICIENT_STORAGE, "The disk is full"),
            Error::WorkflowExists | Error::NodeExists(_) => (StatusCode::CONFLICT, "The id is taken"),
            Error::ScheduleExists => (StatusCode::CONFLICT, "The id is taken"),
            Error::TooManySchedules => (StatusCode::UNPROCESSABLE_ENTITY, "Too many schedules"),
            Error::OperationEnded => (StatusCode::CONFLICT, "The operation has ended"),
            Error::TooManyOperations => (StatusCode::TOO_MANY_REQUESTS, "Too many operations are under way"),
            Error::TooManyLimits => (StatusCode::UNPROCESSABLE_ENTITY, "Too many limits"),
            Error::TooManyLanes => (StatusCode::UNPROCESSABLE_ENTITY, "Too many queues and types"),
            Error::Invalid { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "The request cannot be carried out"),
        };
        let mut refused = Refused::new(status, error.code(), title).detail(error.to_string());
        let mut named = |field: &str, message: String| {
            refused.0.errors.push(FieldError { field: field.to_owned(), message });
        };
        match error {
            Error::Invalid { field, message } => named(field, message),
            Error::DependencyMissing(id) => named("dependencies", format!("there is no task {id}")),
            Error::DependencyCancelled(id) => named("dependencies", format!("task {id} was cancelled")),
            Error::LimitApart(apart) => {
                named(apart.field, "counts tasks in queues that a cluster keeps apart".into())
            }
            Error::LimitFull(full) => {
                let message =
                    format!("{} is full: {} tasks wait, as many as its limit allows", full.name, full.max);
                named(full.scope.as_str(), message);
            }
            Error::UniqueConflict(holder) => {
                named("unique_key", format!("is held by task {holder}"));
                refused.0.task_id = Some(holder.to_string());
            }
            _ => {}
        }
        refused
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() =
            StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if matches!(response.status(), StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response.extensions_mut().insert(Unwritten(self.0));
        response
    }
}

pub(super) async fn no_such_route() -> Refused {
    Refused::no_such_route()
}

pub(super) async fn wrong_method() -> Refused {
    Refused::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "The route has no such method")
}

/// Turns a refusal into text.
pub(super) fn write(response: &mut Response, problem: Problem) {
    let text = serde_json::to_vec(&problem).unwrap_or_default();
    *response.body_mut() = Body::from(text);
    // The router has measured the empty body that was there before.
    response.headers_mut().remove(CONTENT_LENGTH);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
}
