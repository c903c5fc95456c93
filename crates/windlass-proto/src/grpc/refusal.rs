//! Refusals: the problem of the REST interface inside the status of a call.

use std::collections::HashMap;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::v1::Error;
use crate::rest::{Invalid, Problem};

const DOMAIN: &str = "windlass";
/// As the `Retry-After` of the REST interface.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What a client reads from the status of a call that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Stable, for programs: the code of the REST interface.
    pub code: String,
    /// Of the REST interface.
    pub http_status: Option<u16>,
    pub detail: String,
    pub field: Option<String>,
    pub retry_after: Option<Duration>,
    /// The task that stands in the way.
    pub task_id: Option<String>,
}

impl Refusal {
    /// `None` for a status that did not come from a broker's judgement: a broken connection, a proxy, a deadline.
    pub fn of(status: &Status) -> Option<Refusal> {
        let details = status.get_error_details();
        let info = details.error_info().filter(|info| info.domain == DOMAIN)?;
        Some(Refusal {
            code: info.reason.clone(),
            http_status: info.metadata.get("http_status").and_then(|status| status.parse().ok()),
            detail: status.message().to_owned(),
            field: info.metadata.get("field").cloned(),
            retry_after: details.retry_info().and_then(|retry| retry.retry_delay),
            task_id: info.metadata.get("task_id").cloned(),
        })
    }
}

impl From<Problem> for Status {
    fn from(problem: Problem) -> Self {
        let code = code(problem.status, &problem.code);
        let mut metadata = HashMap::from([("http_status".to_owned(), problem.status.to_string())]);
        let mut details = ErrorDetails::new();
        if let Some(task) = &problem.task_id {
            metadata.insert("task_id".to_owned(), task.clone());
        }
        if let Some(error) = problem.errors.first() {
            metadata.insert("field".to_owned(), error.field.clone());
            details.add_bad_request_violation(&error.field, &error.message);
        }
        if later(problem.status) {
            details.set_retry_info(Some(RETRY_AFTER));
        }
        details.set_error_info(problem.code, DOMAIN, metadata);
        Status::with_error_details(code, problem.detail.unwrap_or(problem.title), details)
    }
}

impl From<Invalid> for Status {
    fn from(invalid: Invalid) -> Self {
        Problem::from(invalid).into()
    }
}

impl From<Problem> for Error {
    fn from(mut problem: Problem) -> Self {
        let later = later(problem.status);
        Self {
            code: problem.code,
            detail: problem.detail.unwrap_or(problem.title),
            field: problem.errors.pop().map(|error| error.field),
            retry_after_seconds: later.then_some(RETRY_AFTER.as_secs_f64()),
            task_id: problem.task_id,
        }
    }
}

/// Whether the same request may succeed a little later.
fn later(http_status: u16) -> bool {
    matches!(http_status, 429 | 503)
}

/// The nearest of the few words that gRPC has.
fn code(http_status: u16, code: &str) -> Code {
    match (http_status, code) {
        (_, "no_such_route") => Code::Unimplemented,
        (_, "task_exists" | "unique_conflict" | "schedule_exists" | "workflow_exists") => Code::AlreadyExists,
        (_, "aborted") => Code::Aborted,
        (400 | 422, _) => Code::InvalidArgument,
        (401, _) => Code::Unauthenticated,
        (403, _) => Code::PermissionDenied,
        (404, _) => Code::NotFound,
        (408 | 504, _) => Code::DeadlineExceeded,
        (409, _) => Code::FailedPrecondition,
        (413 | 429 | 507, _) => Code::ResourceExhausted,
        (501, _) => Code::Unimplemented,
        (503, _) => Code::Unavailable,
        _ => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_survives_the_wire() {
        let problem: Problem = Invalid::out_of_range("priority", "must be between 0 and 255").into();
        let status = Status::from(problem);
        assert_eq!(status.code(), Code::InvalidArgument);
        let refusal = Refusal::of(&status).unwrap();
        assert_eq!((refusal.code.as_str(), refusal.field.as_deref()), ("out_of_range", Some("priority")));
        assert_eq!((refusal.http_status, refusal.retry_after), (Some(422), None));
        let full = Status::from(Problem::new(503, "queue_full", "The queue is full"));
        assert_eq!(full.code(), Code::Unavailable);
        assert_eq!(Refusal::of(&full).unwrap().retry_after, Some(RETRY_AFTER));
        assert_eq!(Refusal::of(&Status::unavailable("connection refused")), None);
    }
}
