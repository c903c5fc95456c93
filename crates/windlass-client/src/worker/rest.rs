//! The port over REST: claims are long polls, and outcomes go one by one, a few at once.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::value::RawValue;
use windlass_core::choice::Mode;
use windlass_core::limits::{CLAIM_TASKS_MAX, PAGE_ROWS_MAX};
use windlass_core::{Payload, Progress, TaskId};
use windlass_proto::rest::{
    Base64, BeatBody, ClaimBody, ClaimQueues, CompleteBody, ExtendBody, FailBody, LeaseRef, ReleaseBody,
    Seconds, TaskBody,
};

use super::context::Job;
use super::hand::Hand;
use super::port::{Claim, Dependency, Error, Held, Port, Profile, Report, Stop, Verdict, Word, stops};
use crate::error;
use crate::rest::Client;

/// Reports on their way at once; each needs a connection.
const REPORTS_AT_ONCE: usize = 16;

#[derive(Debug)]
pub struct RestPort {
    client: Client,
    profile: Option<Arc<Profile>>,
}

impl RestPort {
    pub fn new(client: Client) -> Self {
        Self { client, profile: None }
    }

    fn profile(&self) -> &Profile {
        self.profile.as_deref().expect("a worker begins before it asks")
    }

    async fn extend(
        &self,
        held: &Held,
        progress: Option<Progress>,
        checkpoint: Option<Bytes>,
    ) -> Result<Word, Error> {
        let body = ExtendBody {
            lease: held.token.to_string(),
            lease_seconds: None,
            progress: progress.map(Into::into),
            checkpoint_base64: checkpoint.map(Base64),
        };
        let extended = self.client.extend(&held.id, &body).await.map_err(outcome_refusal)?;
        Ok(if extended.cancel_requested { Word::Cancel } else { Word::Continue })
    }

    async fn send(&self, report: &Report) -> Result<(), Error> {
        let (id, lease) = (&report.held.id, report.held.token.to_string());
        let sent = match &report.verdict {
            Verdict::Completed(result) => self.client.complete(id, &complete(lease, result.as_ref())?).await,
            Verdict::Failed(failed) => {
                let body = FailBody {
                    lease,
                    error: failed.error.clone(),
                    retryable: failed.retryable,
                    retry_after_seconds: failed.retry_after.map(seconds),
                };
                self.client.fail(id, &body).await
            }
            Verdict::Released { delay } => {
                let body = ReleaseBody { lease, delay_seconds: delay.map(seconds) };
                self.client.release(id, &body).await
            }
        };
        sent.map_err(outcome_refusal).map(drop)
    }
}

#[async_trait]
impl Port for RestPort {
    fn begin(&mut self, profile: Arc<Profile>, _: Hand) {
        self.profile = Some(profile);
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Job>, Error> {
        let profile = self.profile();
        let queues = profile.queues.iter().map(|queue| (queue.name.clone(), queue.weight.into()));
        let body = ClaimBody {
            queues: ClaimQueues(queues.collect()),
            strict: profile.mode == Mode::Strict,
            types: Some(claim.types(profile)),
            max: Some(claim.max.min(CLAIM_TASKS_MAX).into()),
            wait_seconds: Some(seconds(claim.wait)),
            lease_seconds: Some(seconds(profile.lease)),
            ..ClaimBody::new(profile.worker.clone())
        };
        let claimed = self.client.claim(&body, claim.wait).await.map_err(refusal)?;
        claimed.tasks.into_iter().map(job).collect()
    }

    async fn report(&self, reports: &[Report]) -> Vec<Result<(), Error>> {
        let sends: Vec<_> = reports.iter().map(|report| self.send(report)).collect();
        stream::iter(sends).buffered(REPORTS_AT_ONCE).collect().await
    }

    async fn progress(&self, held: &Held, progress: Progress) -> Result<Word, Error> {
        self.extend(held, Some(progress), None).await
    }

    async fn save(&self, held: &Held, checkpoint: Bytes) -> Result<Word, Error> {
        self.extend(held, None, Some(checkpoint)).await
    }

    async fn dependencies(&self, id: &TaskId) -> Result<Vec<Dependency>, Error> {
        let mut all = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let page =
                self.client.dependencies(id, PAGE_ROWS_MAX, cursor.as_deref()).await.map_err(refusal)?;
            let items = page.items.into_iter().map(|it| Dependency {
                result: it.payload(),
                id: it.id,
                name: it.name,
            });
            Dependency::keep(&mut all, items.collect())?;
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    async fn heartbeat(&self, leases: &[Held], leaving: bool) -> Result<Vec<Stop>, Error> {
        let profile = self.profile();
        let lease = |held: &Held| LeaseRef {
            id: held.id.clone(),
            lease: held.token.to_string(),
            checkpoint_base64: None,
        };
        let body = BeatBody {
            worker_id: None,
            incarnation: profile.incarnation,
            host: profile.host.clone(),
            pid: Some(profile.pid),
            version: Some(profile.version.into()),
            queues: profile.queues.iter().map(|queue| queue.name.clone()).collect(),
            types: Some(profile.all_types()),
            slots: Some(profile.slots),
            cpu: None,
            memory_bytes: None,
            leases: leases.iter().map(lease).collect(),
            leaving,
        };
        let pulse = self.client.heartbeat(&profile.worker, &body).await.map_err(refusal)?;
        Ok(stops(leases, &pulse.lost, &pulse.cancel))
    }
}

fn complete(lease: String, result: Option<&Payload>) -> Result<CompleteBody<'_>, Error> {
    let mut body = CompleteBody { lease, result: None, result_base64: None };
    match result {
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
    Ok(body)
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
        checkpoint: task.checkpoint_base64.map(|base64| base64.0),
    })
}

fn seconds(length: Duration) -> Seconds {
    Seconds::from_ms(length.as_millis() as u64)
}

/// Statuses that ask for patience are no refusals.
pub(super) fn refusal(error: error::Error) -> Error {
    match error {
        error::Error::Refused { problem, retry_after } => match problem.status {
            408 | 425 | 429 | 500..=599 => {
                Error::Unavailable { detail: problem.detail.unwrap_or(problem.title), retry_after }
            }
            _ => Error::Refused { code: problem.code, detail: problem.detail.unwrap_or(problem.title) },
        },
        other => Error::unavailable(other),
    }
}

/// A task that is gone, finished or given to another is no longer ours, whichever way it is said.
fn outcome_refusal(error: error::Error) -> Error {
    match error.status() {
        Some(404 | 409) => Error::LeaseLost,
        _ => refusal(error),
    }
}
