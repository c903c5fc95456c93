use serde::Deserialize;
use serde_json::json;

use crate::worker::{Context, Failure, IntoOutcome, Job, Outcome};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Input {
    message: String,
    retryable: bool,
    /// Succeed after this many failures.
    fail_times: Option<u32>,
}

impl Default for Input {
    fn default() -> Self {
        Self { message: "failed as asked".into(), retryable: true, fail_times: None }
    }
}

/// Fails as `{"message": "…", "retryable": true, "fail_times": 2}` says.
pub async fn fail(context: Context, job: Job) -> Outcome {
    let input: Input = match job.payload.bytes().as_ref() {
        b"null" => Input::default(),
        _ => match job.json() {
            Ok(input) => input,
            Err(failure) => return failure.into(),
        },
    };
    let attempt = context.attempt();
    if input.fail_times.is_some_and(|times| attempt > times) {
        return Ok::<_, Failure>(json!({ "succeeded_on_attempt": attempt })).into_outcome();
    }
    let error = input.message;
    if input.retryable { Outcome::Retry { error } } else { Outcome::Fatal { error } }
}
