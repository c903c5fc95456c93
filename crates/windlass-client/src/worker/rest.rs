//! The port over REST: claims are long polls.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::value::RawValue;
use windlass_core::choice::Mode;
use windlass_core::{Payload, Progress};
use windlass_proto::rest::{
    Base64, BeatBody, ClaimBody, ClaimQueues, CompleteBody, ExtendBody, FailBody, LeaseRef, ReleaseBody,
    Seconds, TaskBody,
};

use super::job::Job;
use super::port::{Beat, Claim, Error, Failed, Held, Port, Pulse, Word};
use crate::client::{self, Client};

#[derive(Debug, Clone)]
pub struct RestPort {
    client: Client,
}

impl RestPort {
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

#[async_trait]
impl Port for RestPort {
    async fn claim(&self, claim: Claim) -> Result<Vec<Job>, Error> {
        let body = ClaimBody {
            queues: ClaimQueues(
                claim.queues.into_iter().map(|queue| (queue.name, queue.weight.into())).collect(),
            ),
            strict: claim.mode == Mode::Strict,
            types: Some(claim.types),
            max: Some(claim.max.into()),
            wait_seconds: Some(seconds(claim.wait)),
            lease_seconds: Some(seconds(claim.lease)),
            ..ClaimBody::new(claim.worker)
        };
        let claimed = self.client.claim(&body, claim.wait).await.map_err(refusal)?;
        claimed.tasks.into_iter().map(job).collect()
    }

    async fn complete(&self, held: &Held, result: Option<Payload>) -> Result<(), Error> {
        let mut body = CompleteBody { lease: held.token.to_string(), result: None, result_base64: None };
        match &result {
            Some(Payload::Json(text)) => {
                let raw: &RawValue = serde_json::from_slice(text).map_err(|error| Error::Refused {
                    code: "malformed".into(),
                    detail: format!("the result is not JSON: {error}"),
                })?;
                body.result = Some(raw);
            }
            Some(Payload::Binary(bytes)) => body.result_base64 = Some(Base64(bytes.clone())),
            None => {}
        }
        self.client.complete(&held.id, &body).await.map_err(outcome_refusal).map(drop)
    }

    async fn fail(&self, held: &Held, failed: Failed) -> Result<(), Error> {
        let body = FailBody {
            lease: held.token.to_string(),
            error: failed.error,
            retryable: failed.retryable,
            retry_after_seconds: failed.retry_after.map(seconds),
        };
        self.client.fail(&held.id, &body).await.map_err(outcome_refusal).map(drop)
    }

    async fn release(&self, held: &Held, delay: Option<Duration>) -> Result<(), Error> {
        let body = ReleaseBody { lease: held.token.to_string(), delay_seconds: delay.map(seconds) };
        self.client.release(&held.id, &body).await.map_err(outcome_refusal).map(drop)
    }

    async fn progress(&self, held: &Held, progress: Progress) -> Result<Word, Error> {
        let body = ExtendBody {
            lease: held.token.to_string(),
            lease_seconds: None,
            progress: Some(progress.into()),
        };
        let extended = self.client.extend(&held.id, &body).await.map_err(outcome_refusal)?;
        Ok(if extended.cancel_requested { Word::Cancel } else { Word::Continue })
    }

    async fn heartbeat(&self, beat: Beat) -> Result<Pulse, Error> {
        let lease = |held: Held| LeaseRef { id: held.id, lease: held.token.to_string() };
        let body = BeatBody {
            worker_id: None,
            incarnation: beat.incarnation,
            host: beat.host,
            pid: Some(beat.pid),
            version: Some(beat.version.into()),
            queues: beat.queues,
            types: Some(beat.types),
            slots: Some(beat.slots),
            cpu: None,
            memory_bytes: None,
            leases: beat.leases.into_iter().map(lease).collect(),
            leaving: beat.leaving,
        };
        let pulse = self.client.heartbeat(&beat.worker, &body).await.map_err(refusal)?;
        Ok(Pulse { lost: pulse.lost, cancel: pulse.cancel, paused: pulse.paused })
    }
}

fn job(task: TaskBody) -> Result<Job, Error> {
    let missing =
        || Error::Refused { code: "malformed".into(), detail: "a claimed task has no lease".into() };
    Ok(Job {
        payload: task.payload(),
        token: task.lease.ok_or_else(missing)?,
        priority: task.priority(),
        id: task.id,
        kind: task.kind,
        queue: task.queue,
        metadata: task.metadata.0,
        attempt: task.attempts,
        max_retries: task.max_retries,
        timeout: Duration::from_millis(task.timeout_seconds.as_ms()),
    })
}

fn seconds(length: Duration) -> Seconds {
    Seconds::from_ms(length.as_millis() as u64)
}

/// Statuses that ask for patience are no refusals.
fn refusal(error: client::Error) -> Error {
    match error {
        client::Error::Refused { problem, retry_after } => match problem.status {
            408 | 425 | 429 | 500..=599 => {
                Error::Unavailable { detail: problem.detail.unwrap_or(problem.title), retry_after }
            }
            _ => Error::Refused { code: problem.code, detail: problem.detail.unwrap_or(problem.title) },
        },
        other => Error::Unavailable { detail: other.to_string(), retry_after: None },
    }
}

/// A task that is gone, finished or given to another is no longer ours, whichever way it is said.
fn outcome_refusal(error: client::Error) -> Error {
    match error.status() {
        Some(404 | 409) => Error::LeaseLost,
        _ => refusal(error),
    }
}
