//! Tasks to be submitted, as messages.

use windlass_core::TaskId;
use windlass_proto::grpc::timestamp;
use windlass_proto::grpc::v1::NewTask;

use crate::client::Submit;

impl From<&Submit> for NewTask {
    fn from(submit: &Submit) -> Self {
        let moment = |at| timestamp(crate::client::moment_ms(at));
        let unique = submit.unique.as_deref();
        Self {
            id: submit.id.to_string(),
            r#type: submit.kind.clone(),
            queue: submit.queue.clone().unwrap_or_default(),
            payload: Some(submit.payload.clone().into()),
            priority: submit.priority.map(|priority| priority.0.into()),
            max_retries: submit.max_retries,
            max_crashes: submit.max_crashes,
            timeout_seconds: submit.timeout.map(|span| span.as_secs_f64()),
            scheduled_at: submit.at.map(moment),
            delay_seconds: submit.delay.map(|span| span.as_secs_f64()),
            expires_at: submit.expires_at.map(moment),
            retry: submit.retry.map(Into::into),
            retention_seconds: submit.retention.map(|span| span.as_secs_f64()),
            metadata: submit.metadata.iter().cloned().collect(),
            unique_key: unique.and_then(|unique| unique.key.clone()),
            unique_for_seconds: unique.and_then(|unique| unique.length).map(|span| span.as_secs_f64()),
            on_conflict: unique.and_then(|unique| unique.on_conflict).map(|rule| rule.as_str().to_owned()),
            key: submit.key.clone(),
            dependencies: submit.dependencies.iter().map(TaskId::to_string).collect(),
        }
    }
}

/// A task whose id is made by others: an id that was chosen is left in, to be refused.
pub(super) fn template(submit: &Submit) -> NewTask {
    let mut task = NewTask::from(submit);
    if !submit.id_chosen {
        task.id.clear();
    }
    task
}
