//! A task as clients and workers see it.

use windlass_core::limits::DEPENDENCIES_SHOWN_MAX;
use windlass_core::{Lease, Progress as Made, Record, State, StateName, Task as Known};

use super::time::timestamp;
use super::v1::{LeasedTask, OutcomeResponse, Progress, Task, TaskState};
use crate::rest::Seconds;

impl From<StateName> for TaskState {
    fn from(state: StateName) -> Self {
        match state {
            StateName::Scheduled => TaskState::Scheduled,
            StateName::Blocked => TaskState::Blocked,
            StateName::Pending => TaskState::Pending,
            StateName::Running => TaskState::Running,
            StateName::Retrying => TaskState::Retrying,
            StateName::Completed => TaskState::Completed,
            StateName::DeadLetter => TaskState::DeadLetter,
            StateName::Cancelled => TaskState::Cancelled,
        }
    }
}

impl TaskState {
    /// `None` for a state that is not said.
    pub fn name(self) -> Option<StateName> {
        Some(match self {
            TaskState::Unspecified => return None,
            TaskState::Scheduled => StateName::Scheduled,
            TaskState::Blocked => StateName::Blocked,
            TaskState::Pending => StateName::Pending,
            TaskState::Running => StateName::Running,
            TaskState::Retrying => StateName::Retrying,
            TaskState::Completed => StateName::Completed,
            TaskState::DeadLetter => StateName::DeadLetter,
            TaskState::Cancelled => StateName::Cancelled,
        })
    }
}

impl From<Known> for Task {
    fn from(task: Known) -> Self {
        let Known { record, body } = task;
        let next_retry_at = match record.state {
            State::Retrying { at } => Some(timestamp(at)),
            _ => None,
        };
        let cancel_reason = match record.state {
            State::Cancelled { reason, .. } => Some(reason.as_str().to_owned()),
            _ => None,
        };
        let dependencies_open = match record.state {
            State::Blocked { open } => Some(open),
            _ => None,
        };
        let links = body.links;
        let ids = links.iter().flat_map(|links| &links.dependencies).take(DEPENDENCIES_SHOWN_MAX);
        let dependencies = ids.map(|id| id.as_str().to_owned()).collect();
        let lease = lease(&record);
        Self {
            id: record.id.as_str().to_owned(),
            r#type: record.kind.as_str().to_owned(),
            queue: record.queue.as_str().to_owned(),
            state: TaskState::from(record.state_name()).into(),
            priority: record.priority.0.into(),
            attempts: record.attempts,
            max_retries: body.max_retries,
            crashes: record.crashes,
            max_crashes: body.max_crashes,
            timeout_seconds: Seconds::from_ms(body.timeout_ms).0,
            retention_seconds: Seconds::from_ms(record.retention_ms).0,
            created_at: Some(timestamp(record.created_at)),
            updated_at: Some(timestamp(record.updated_at)),
            scheduled_at: record.scheduled_at.map(timestamp),
            expires_at: record.expires_at.map(timestamp),
            started_at: record.started_at.map(timestamp),
            completed_at: record.ended_at().map(timestamp),
            next_retry_at,
            worker_id: lease.map(|lease| lease.worker.as_str().to_owned()),
            lease_expires_at: lease.map(|lease| timestamp(lease.expires_at)),
            progress: record.progress.map(Into::into),
            error: record.error.map(String::from),
            result: record.result.map(Into::into),
            revision: record.revision,
            unique_until: record.unique.as_ref().and_then(|hold| hold.until).map(timestamp),
            unique_key: record.unique.map(|hold| hold.key.to_string()),
            cancel_reason,
            checkpoint_at: record.checkpoint.as_ref().map(|it| timestamp(it.saved_at)),
            checkpoint: record.checkpoint.map(|it| it.bytes),
            payload: Some(body.payload.into()),
            retry: Some(body.retry.into()),
            metadata: body.metadata.into_iter().collect(),
            key: record.key.map(|key| key.as_str().to_owned()),
            dependencies,
            dependency_count: links.as_ref().map_or(0, |links| links.dependencies.len() as u32),
            dependencies_open,
            workflow_id: links.and_then(|links| links.workflow).map(|id| id.as_str().to_owned()),
        }
    }
}

impl From<Known> for LeasedTask {
    fn from(task: Known) -> Self {
        let Known { record, body } = task;
        let lease = lease(&record);
        Self {
            id: record.id.as_str().to_owned(),
            lease: lease.map(|lease| lease.token.to_string()).unwrap_or_default(),
            r#type: record.kind.as_str().to_owned(),
            queue: record.queue.as_str().to_owned(),
            priority: record.priority.0.into(),
            attempt: record.attempts,
            max_retries: body.max_retries,
            crashes: record.crashes,
            timeout_seconds: Seconds::from_ms(body.timeout_ms).0,
            created_at: Some(timestamp(record.created_at)),
            lease_expires_at: lease.map(|lease| timestamp(lease.expires_at)),
            scheduled_at: record.scheduled_at.map(timestamp),
            checkpoint: record.checkpoint.map(|it| it.bytes),
            key: record.key.map(|key| key.as_str().to_owned()),
            unique_key: record.unique.map(|hold| hold.key.to_string()),
            payload: Some(body.payload.into()),
            metadata: body.metadata.into_iter().collect(),
            dependency_count: body.links.as_ref().map_or(0, |links| links.dependencies.len() as u32),
            workflow_id: body.links.and_then(|links| links.workflow).map(|id| id.as_str().to_owned()),
        }
    }
}

impl From<&Record> for OutcomeResponse {
    fn from(record: &Record) -> Self {
        Self {
            id: record.id.as_str().to_owned(),
            state: TaskState::from(record.state_name()).into(),
            attempts: record.attempts,
            crashes: record.crashes,
            next_retry_at: match record.state {
                State::Retrying { at } => Some(timestamp(at)),
                _ => None,
            },
            completed_at: record.ended_at().map(timestamp),
        }
    }
}

impl From<Made> for Progress {
    fn from(progress: Made) -> Self {
        Self { fraction: progress.fraction, note: progress.note.map(String::from) }
    }
}

fn lease(record: &Record) -> Option<&Lease> {
    match &record.state {
        State::Running(lease) => Some(lease),
        _ => None,
    }
}
