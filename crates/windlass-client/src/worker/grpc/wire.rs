//! Words of the stream and words of the runtime.

use std::collections::HashMap;
use std::time::Duration;

use windlass_core::{Name, Payload, Priority, TaskId};
use windlass_proto::grpc::v1::{
    self, Completed, Extension, Failed, LeaseRef, LeasedTask, Outcome, Queue, Released, outcome as verdict,
};

use crate::worker::context::{Cause, Job};
use crate::worker::port::{Dependency, Error, Held, Profile, Report, Stop, Verdict};

pub(super) fn queues(profile: &Profile) -> Vec<Queue> {
    let queue = |queue: &windlass_core::choice::Queue| Queue {
        name: queue.name.to_string(),
        weight: Some(queue.weight),
    };
    profile.queues.iter().map(queue).collect()
}

pub(super) fn leases(held: &[Held]) -> Vec<LeaseRef> {
    let lease =
        |held: &Held| LeaseRef { id: held.id.to_string(), lease: held.token.to_string(), checkpoint: None };
    held.iter().map(lease).collect()
}

pub(super) fn extension(held: &Held) -> Extension {
    Extension { id: held.id.to_string(), lease: held.token.to_string(), ..Extension::default() }
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

pub(super) fn dependencies(items: Vec<v1::Dependency>) -> Result<Vec<Dependency>, Error> {
    let odd = |_| Error::unavailable("a dependency is not understood: id");
    let item = |it: v1::Dependency| -> Result<Dependency, Error> {
        Ok(Dependency {
            id: it.id.parse().map_err(odd)?,
            name: it.name,
            result: it.result.map(Payload::from),
        })
    };
    items.into_iter().map(item).collect()
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
        checkpoint: task.checkpoint,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_final_a_loss_or_a_matter_of_time() {
        let error = |code: &str, retry_after_seconds| {
            let error = v1::Error { code: code.into(), retry_after_seconds, ..v1::Error::default() };
            outcome_refusal(error)
        };
        for code in ["lease_lost", "not_found", "task_terminal", "wrong_state"] {
            assert!(matches!(error(code, None), Error::LeaseLost), "{code}");
        }
        assert!(matches!(error("disk_full", None), Error::Unavailable { retry_after: None, .. }));
        let later = error("anything", Some(2.5));
        assert!(
            matches!(later, Error::Unavailable { retry_after: Some(wait), .. } if wait.as_millis() == 2500)
        );
        assert!(matches!(error("too_large", None), Error::Refused { .. }));
    }

    #[test]
    fn a_pushed_task_becomes_a_job() {
        let known = Name::new("email").unwrap();
        let names = HashMap::from([("email".to_owned(), known)]);
        let task = LeasedTask {
            id: "t1".into(),
            lease: "a-000000000000000b".into(),
            r#type: "email".into(),
            queue: "elsewhere".into(),
            priority: 7,
            attempt: 2,
            timeout_seconds: 1.5,
            ..LeasedTask::default()
        };
        let made = job(task.clone(), &names).unwrap();
        assert_eq!((made.id.as_str(), made.kind.as_str(), made.queue.as_str()), ("t1", "email", "elsewhere"));
        assert_eq!((made.attempt, made.timeout, made.token.number), (2, Duration::from_millis(1500), 10));
        assert_eq!(made.payload.bytes().as_ref(), b"null");
        for broken in [
            LeasedTask { lease: "x".into(), ..task.clone() },
            LeasedTask { priority: 256, ..task.clone() },
            LeasedTask { timeout_seconds: -1.0, ..task },
        ] {
            assert!(job(broken, &names).is_err());
        }
    }
}
