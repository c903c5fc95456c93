use std::error::Error as _;
use std::time::Duration;

use reqwest::Response;
use reqwest::header::RETRY_AFTER;
use windlass_core::{StateName, TaskId};
use windlass_proto::rest::{Invalid, Problem};

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The broker said no, and why.
    #[error("{}", describe(.problem))]
    Refused { problem: Box<Problem>, retry_after: Option<Duration> },
    /// No answer came. Whether the request had an effect is unknown.
    #[error("cannot reach the broker: {detail}")]
    Unreachable { detail: String },
    #[error("{address}: {detail}")]
    Address { address: String, detail: String },
    /// An answer that no broker of this version gives.
    #[error("{0}")]
    Answer(String),
    /// A result was asked for, and the task has none: it ended in another way, or not in time.
    #[error("{id} is {}{}", .state.as_str(), .error.as_deref().map(|error| format!(": {error}")).unwrap_or_default())]
    Unfinished { id: TaskId, state: StateName, error: Option<String> },
}

fn describe(problem: &Problem) -> String {
    format!("{} ({})", problem.detail.as_deref().unwrap_or(&problem.title), problem.code)
}

impl Error {
    /// The HTTP status of a refusal.
    pub fn status(&self) -> Option<u16> {
        match self {
            Error::Refused { problem, .. } => Some(problem.status),
            _ => None,
        }
    }

    /// The stable code of a refusal.
    pub fn code(&self) -> Option<&str> {
        match self {
            Error::Refused { problem, .. } => Some(&problem.code),
            _ => None,
        }
    }

    /// The task that has the unique key, if that is why the broker refused.
    pub fn holder(&self) -> Option<TaskId> {
        match self {
            Error::Refused { problem, .. } => problem.task_id.as_deref().and_then(|id| id.parse().ok()),
            _ => None,
        }
    }

    /// When the broker wants to be asked again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the same call may succeed a little later.
    pub fn may_pass(&self) -> bool {
        matches!(self, Error::Unreachable { .. })
            || matches!(self.status(), Some(408 | 425 | 429 | 502..=504))
    }

    pub(crate) fn from_transport(error: reqwest::Error) -> Self {
        let mut detail = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            detail = format!("{detail}: {cause}");
            source = cause.source();
        }
        Error::Unreachable { detail }
    }

    pub(crate) async fn from_response(response: Response) -> Self {
        let status = response.status();
        let wait = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let retry_after = wait.map(Duration::from_secs);
        let body = match response.bytes().await {
            Ok(body) => body,
            Err(error) => return Self::from_transport(error),
        };
        let problem = serde_json::from_slice(&body).unwrap_or_else(|_| {
            // Something between us and the broker answered: a proxy, or another server.
            Problem::new(
                status.as_u16(),
                "unexpected_answer",
                status.canonical_reason().unwrap_or("Unknown status"),
            )
            .detail(format!("answered {status}, which does not look like a Windlass broker"))
        });
        Error::Refused { problem: Box::new(problem), retry_after }
    }
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Error::Refused { problem: Box::new(invalid.into()), retry_after: None }
    }
}

#[cfg(any(test, feature = "embedded"))]
impl From<windlass_broker::Error> for Error {
    /// With the status that the REST interface gives.
    fn from(error: windlass_broker::Error) -> Self {
        use windlass_broker::Error as Broker;
        let status = match &error {
            Broker::NotFound(_) => 404,
            Broker::TaskExists | Broker::Terminal(_) | Broker::WrongState(_) => 409,
            Broker::LeaseLost | Broker::Aborted | Broker::UniqueConflict(_) => 409,
            Broker::DependencyCancelled(_) | Broker::WorkflowExists | Broker::NodeExists(_) => 409,
            Broker::ScheduleExists | Broker::OperationEnded => 409,
            Broker::Invalid { .. } | Broker::TooManyLanes | Broker::DependencyMissing(_) => 422,
            Broker::TooManySchedules | Broker::TooManyLimits => 422,
            Broker::TooManyOperations | Broker::BackupRunning => 429,
            Broker::Unsupported { .. } | Broker::LimitApart(_) | Broker::NoBackup { .. } => 501,
            Broker::QueueFull | Broker::LimitFull(_) => 503,
            Broker::Busy | Broker::Stopping | Broker::Store(_) | Broker::TooManyListeners => 503,
            Broker::NoSpace => 507,
        };
        let mut problem =
            Problem::new(status, error.code(), "The request was refused").detail(error.to_string());
        if let Broker::UniqueConflict(holder) = &error {
            problem.task_id = Some(holder.to_string());
        }
        Error::Refused { problem: Box::new(problem), retry_after: None }
    }
}

#[cfg(test)]
mod tests {
    use windlass_broker::Error as Broker;

    use super::Error;

    #[test]
    fn a_broker_in_the_process_refuses_with_the_statuses_of_rest() {
        for (error, status) in [
            (Broker::NotFound("task"), 404),
            (Broker::OperationEnded, 409),
            (Broker::TooManyOperations, 429),
            (Broker::TooManyLimits, 422),
            (Broker::QueueFull, 503),
            (Broker::NoSpace, 507),
        ] {
            let code = error.code();
            let error = Error::from(error);
            assert_eq!((error.status(), error.code()), (Some(status), Some(code)));
        }
    }
}
