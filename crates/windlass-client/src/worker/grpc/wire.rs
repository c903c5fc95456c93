//! Words of the stream and words of the runtime.

use std::collections::HashMap;
use std::time::Duration;

use windlass_core::{Name, Payload, Priority, TaskId};
use windlass_proto::grpc::v1::{
    self, Completed, Extension, Failed, LeaseRef, LeasedTask, Outcome, Queue, Released, outcome as verdict,
};

use crate::worker::context::{Cause, Job};
use crate::worker::port::{Error, Held, Profile, Report, Stop, Verdict};

pub(super) fn queues(profile: &Profile) -> Vec<Queue> {
    let queue = |queue: &windlass_core::choice::Queue| Queue {
        name: queue.name.to_string(),
        weight: Some(queue.weight),
    };
    profile.queues.iter().map(queue).collect()
}

pub(super) fn leases(held: &[Held]) -> Vec<LeaseRef> {
    held.iter().map(|held| LeaseRef { id: held.id.to_string(), lease: held.token.to_string() }).collect()
}

pub(super) fn extension(held: &Held) -> Extension {
    Extension { id: held.id.to_string(), lease: held.token.to_string(), progress: None }
}

pub(super) fn ids(texts: &[String]) -> Vec<TaskId> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

pub(super) fn cancelled(task: &LeaseRef) -> Option<Stop> {
    Some(Stop { token: task.lease.parse().ok()?, cause: Cause::Cancelled })
}

pub(super) fn outcome(report: &Report) -> Outcome {
    let said = match &report.verdict {
        Verdict::Completed(result) => {
            verdict::Verdict::Completed(Completed { result: result.clone().map(Into::into) })
        }
        Verdict::Failed(failed) => verdict::Verdict::Failed(Failed {
            error: failed.error.clone(),
            fatal: !failed.retryable,
            retry_after_seconds: failed.retry_after.map(|delay| delay.as_secs_f64()),
        }),
        Verdict::Released { delay } => {
            verdict::Verdict::Released(Released { delay_seconds: delay.map(|delay| delay.as_secs_f64()) })
        }
    };
    Outcome { id: report.held.id.to_string(), lease: report.held.token.to_string(), verdict: Some(said) }
}

/// Given back untouched.
pub(super) fn released(job: &Job) -> Outcome {
    let held = Held { id: job.id.clone(), token: job.token };
    outcome(&Report { held, verdict: Verdict::Released { delay: None } })
}

/// A task that is gone, finished or given to another is no longer ours, whichever way it is said.
pub(super) fn outcome_refusal(error: v1::Error) -> Error {
    match (error.code.as_str(), error.retry_after_seconds) {
        ("lease_lost" | "not_found" | "task_terminal" | "wrong_state", _) => Error::LeaseLost,
        ("disk_full" | "overloaded" | "stopping" | "store_failed", _) | (_, Some(_)) => Error::Unavailable {
            detail: error.detail,
            retry_after: error.retry_after_seconds.and_then(|s| Duration::try_from_secs_f64(s).ok()),
        },
        _ => Error::Refused { code: error.code, detail: error.detail },
    }
}

pub(super) fn job(task: LeasedTask, names: &HashMap<String, Name>) -> Result<Job, Error> {
    let odd = |field: &str| Error::unavailable(format!("a claimed task is not understood: {field}"));
    let name = |text: &str, field| match names.get(text) {
        Some(name) => Ok(name.clone()),
        None => text.parse().map_err(|_| odd(field)),
    };
    Ok(Job {
        token: task.lease.parse().map_err(|_| odd("lease"))?,
        kind: name(&task.r#type, "type")?,
        queue: name(&task.queue, "queue")?,
        id: task.id.parse().map_err(|_| odd("id"))?,
        priority: Priority(u8::try_from(task.priority).map_err(|_| odd("priority"))?),
        payload: task.payload.map_or(Payload::Json(bytes::Bytes::from_static(b"null")), Payload::from),
        metadata: task.metadata.into_iter().collect(),
        attempt: task.attempt,
        max_retries: task.max_retries,
        timeout: Duration::try_from_secs_f64(task.timeout_seconds).map_err(|_| odd("timeout_seconds"))?,
    })
}
