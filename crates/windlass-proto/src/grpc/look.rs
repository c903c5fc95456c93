//! What people ask about one task.

use super::time::timestamp;
use super::v1::{Attempt, Explanation, ListAttemptsResponse, TaskState};
use crate::rest::{AttemptBody, AttemptsBody, ExplanationBody};

impl From<AttemptsBody> for ListAttemptsResponse {
    fn from(attempts: AttemptsBody) -> Self {
        Self { attempts: attempts.items.into_iter().map(Attempt::from).collect() }
    }
}

impl From<AttemptBody> for Attempt {
    fn from(attempt: AttemptBody) -> Self {
        Self {
            attempt: attempt.attempt,
            worker_id: attempt.worker_id.as_str().to_owned(),
            started_at: Some(timestamp(attempt.started_at.as_ms())),
            ended_at: attempt.ended_at.map(|at| timestamp(at.as_ms())),
            duration_ms: attempt.duration_ms,
            outcome: attempt.outcome,
            error: attempt.error,
        }
    }
}

impl From<ExplanationBody> for Explanation {
    fn from(explanation: ExplanationBody) -> Self {
        Self {
            id: explanation.id.as_str().to_owned(),
            state: TaskState::from(explanation.state).into(),
            runnable: explanation.runnable,
            reasons: explanation.reasons.into_iter().map(Into::into).collect(),
        }
    }
}
