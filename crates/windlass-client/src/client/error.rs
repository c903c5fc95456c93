use std::error::Error as _;
use std::time::Duration;

use reqwest::Response;
use reqwest::header::RETRY_AFTER;
use windlass_proto::rest::Problem;

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

    pub(super) fn from_transport(error: reqwest::Error) -> Self {
        let mut detail = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            detail = format!("{detail}: {cause}");
            source = cause.source();
        }
        Error::Unreachable { detail }
    }

    pub(super) async fn from_response(response: Response) -> Self {
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
