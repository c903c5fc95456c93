//! How a command fails, and its exit code.

use windlass_client::Error;

pub(crate) const ERROR: u8 = 1;
pub(crate) const USAGE: u8 = 2;
pub(crate) const NOT_FOUND: u8 = 3;
pub(crate) const CONFLICT: u8 = 4;
pub(crate) const AUTH: u8 = 5;
pub(crate) const UNAVAILABLE: u8 = 6;
/// The task failed under `--wait`.
pub(crate) const TASK_FAILED: u8 = 10;
/// A salvage could not copy everything.
pub(crate) const LOST: u8 = 11;

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: u8,
    pub(crate) message: String,
    /// What to try next.
    pub(crate) hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: u8, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None }
    }

    pub(crate) fn error(message: impl Into<String>) -> Self {
        Self::new(ERROR, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = match &error {
            Error::Unreachable { .. } => UNAVAILABLE,
            Error::Address { .. } => USAGE,
            Error::Answer(_) => ERROR,
            Error::Unfinished { .. } => TASK_FAILED,
            Error::Refused { problem, .. } => match problem.status {
                400 | 413 | 415 | 422 => USAGE,
                401 | 403 => AUTH,
                404 => NOT_FOUND,
                409 => CONFLICT,
                429 | 502..=504 | 507 => UNAVAILABLE,
                _ => ERROR,
            },
        };
        let failure = Self::new(exit, error.to_string());
        match error {
            Error::Unreachable { .. } => {
                failure.hint("start one with `windlass dev`, or name one with --server")
            }
            _ => failure,
        }
    }
}
