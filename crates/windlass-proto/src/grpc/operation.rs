//! Acts on many tasks.

use super::names::given;
use super::timestamp;
use super::v1::{Operation, OperationPreview, OperationSample, StartOperationRequest, TaskState};
use crate::rest::{Invalid, OperationBody, OperationInput, PreviewBody, PriorityInput, SampleBody};

impl StartOperationRequest {
    /// As the REST body of the same name.
    pub fn read(self) -> Result<OperationInput, Invalid> {
        Ok(OperationInput {
            action: self.action,
            filter: self.filter,
            dry_run: false,
            priority: self.priority.map(|number| PriorityInput::Number(number.into())),
            queue: given("queue", self.queue.as_deref().unwrap_or_default())?,
            by: self.by,
        })
    }
}

impl From<OperationBody> for Operation {
    fn from(body: OperationBody) -> Self {
        Self {
            id: body.id.as_str().to_owned(),
            state: body.state,
            action: body.action,
            filter: body.filter,
            priority: body.priority.map(Into::into),
            queue: body.queue.map(|queue| queue.as_str().to_owned()),
            by: body.by,
            created_at: Some(timestamp(body.created_at.as_ms())),
            updated_at: Some(timestamp(body.updated_at.as_ms())),
            ended_at: body.ended_at.map(|at| timestamp(at.as_ms())),
            reason: body.reason,
            expected: body.expected,
            expected_at_least: body.expected_at_least,
            seen: body.seen,
            changed: body.changed,
            skipped: body.skipped,
            failed: body.failed,
            progress: body.progress,
            rate_per_second: body.rate_per_second,
        }
    }
}

impl From<PreviewBody> for OperationPreview {
    fn from(body: PreviewBody) -> Self {
        Self {
            matched: body.matched,
            matched_at_least: body.matched_at_least,
            would_change: body.would_change,
            would_change_at_least: body.would_change_at_least,
            sample: body.sample.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<SampleBody> for OperationSample {
    fn from(body: SampleBody) -> Self {
        Self {
            id: body.id.as_str().to_owned(),
            r#type: body.kind.as_str().to_owned(),
            queue: body.queue.as_str().to_owned(),
            state: TaskState::from(body.state).into(),
            priority: body.priority.into(),
            created_at: Some(timestamp(body.created_at.as_ms())),
            updated_at: Some(timestamp(body.updated_at.as_ms())),
            error: body.error.map(Into::into),
        }
    }
}
