//! How an attempt ends, in the handler's words.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use windlass_core::Payload;

#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Done(Option<Payload>),
    /// Failed; try again after the task's own backoff.
    Retry {
        error: String,
    },
    RetryIn {
        error: String,
        delay: Duration,
    },
    /// Failed, and no retry can help: a dead letter.
    Fatal {
        error: String,
    },
    /// Give it back; no attempt is used.
    Release,
    /// Give it back, to start again after a delay; no attempt is used.
    Snooze {
        delay: Duration,
    },
}

impl Outcome {
    /// Done, with a result.
    pub fn ok(result: impl Serialize) -> Self {
        Ok::<_, Failure>(result).into_outcome()
    }

    pub fn retry(error: impl ToString) -> Self {
        Failure::retry(error).into()
    }

    pub fn retry_in(delay: Duration, error: impl ToString) -> Self {
        Failure::retry_in(delay, error).into()
    }

    pub fn fatal(error: impl ToString) -> Self {
        Failure::fatal(error).into()
    }

    /// Not now: the task starts again after this delay, and no attempt is used.
    pub fn snooze(delay: Duration) -> Self {
        Failure::snooze(delay).into()
    }
}

/// The failing part of [`Outcome`], for handlers that return a `Result`. Every error type becomes a retry by `?`.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    Retry {
        error: String,
    },
    RetryIn {
        error: String,
        delay: Duration,
    },
    Fatal {
        error: String,
    },
    /// No failure at all: the task is given back, to start again after a delay.
    Snooze {
        delay: Duration,
    },
}

impl Failure {
    pub fn retry(error: impl ToString) -> Self {
        Self::Retry { error: error.to_string() }
    }

    pub fn retry_in(delay: Duration, error: impl ToString) -> Self {
        Self::RetryIn { error: error.to_string(), delay }
    }

    pub fn fatal(error: impl ToString) -> Self {
        Self::Fatal { error: error.to_string() }
    }

    pub fn snooze(delay: Duration) -> Self {
        Self::Snooze { delay }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self::Retry { error: text }
    }
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Retry { error } => Outcome::Retry { error },
            Failure::RetryIn { error, delay } => Outcome::RetryIn { error, delay },
            Failure::Fatal { error } => Outcome::Fatal { error },
            Failure::Snooze { delay } => Outcome::Snooze { delay },
        }
    }
}

/// What a handler may return.
pub trait IntoOutcome {
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}

impl<T: Serialize, E: Into<Failure>> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> Outcome {
        match self {
            Ok(value) => match serde_json::to_vec(&value) {
                Ok(json) if json == b"null" => Outcome::Done(None),
                Ok(json) => Outcome::Done(Some(Payload::Json(Bytes::from(json)))),
                Err(error) => {
                    Outcome::Fatal { error: format!("the result cannot be written as JSON: {error}") }
                }
            },
            Err(failure) => failure.into().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_become_outcomes() {
        let done: Result<u32, Failure> = Ok(7);
        assert_eq!(done.into_outcome(), Outcome::Done(Some(Payload::Json(Bytes::from_static(b"7")))));
        assert_eq!(Ok::<(), Failure>(()).into_outcome(), Outcome::Done(None));
        let failed: Result<(), std::num::ParseIntError> = "x".parse::<u32>().map(|_| ());
        assert!(matches!(failed.into_outcome(), Outcome::Retry { error } if error.contains("invalid digit")));
        let fatal: Result<(), Failure> = Err(Failure::fatal("no"));
        assert_eq!(fatal.into_outcome(), Outcome::Fatal { error: "no".into() });
    }
}
