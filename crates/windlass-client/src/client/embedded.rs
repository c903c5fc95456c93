//! A broker in the same process, by the same rules as over the wire: what is asked passes the checks of the REST interface, and
//! what is answered are its bodies.

mod admin;
mod flow;
mod schedules;
mod tasks;
mod workflows;

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::Serialize;
use sha2::{Digest, Sha256};
use windlass_broker::{self as broker, Broker};
use windlass_core::TaskId;
use windlass_core::limits::{PAGE_ROWS_MAX, PAYLOAD_BYTES_MAX};
use windlass_proto::rest::{self, Invalid, Submission, SubmitBody, decode};

use super::submit::ms;
use super::{Batch, Submit, Submitted, Task};
use crate::error::Error;

#[derive(Debug, Clone)]
pub(super) struct Embedded(pub(super) Broker);

impl Embedded {
    pub(super) async fn submit(&self, batch: &[Submit], atomic: bool) -> Result<Batch, Error> {
        let submits = batch.iter().map(|submit| self.check(submit)).collect::<Result<Vec<_>, _>>()?;
        let answers = self.0.submit_batch(submits, atomic).await?;
        let answer = |answer: Result<broker::Submitted, broker::Error>| {
            let record = answer?.task.record;
            Ok(Submitted { state: record.state_name(), id: record.id })
        };
        Ok(answers.into_iter().map(answer).collect())
    }

    pub(super) async fn task(&self, id: &TaskId, wait: Duration) -> Result<Task, Error> {
        Ok(Task::from(self.0.wait(id, wait.as_millis() as u64).await?))
    }

    fn check(&self, submit: &Submit) -> Result<broker::Submit, Error> {
        let source = written(&submit.body()?)?;
        let body: SubmitBody<'_> = decode(&source)?;
        let submission = body.check(&source, now(), PAYLOAD_BYTES_MAX)?;
        Ok(self.resolve(submission, Some(fingerprint(&source))))
    }

    fn resolve(&self, submission: Submission, fingerprint: Option<[u8; 16]>) -> broker::Submit {
        broker::Submit {
            fingerprint,
            id: submission.id,
            queue: submission.queue,
            kind: submission.kind,
            key: submission.key,
            payload: submission.payload,
            priority: submission.priority,
            start: match submission.start {
                rest::Start::Now => broker::Start::Now,
                rest::Start::At(at) => broker::Start::At(at),
                rest::Start::AfterMs(ms) => broker::Start::AfterMs(ms),
            },
            expires_at: submission.expires_at,
            retry: submission.retry,
            max_retries: submission.max_retries,
            max_crashes: submission.max_crashes,
            timeout_ms: submission.timeout_ms,
            retention_ms: submission.retention_ms.unwrap_or(self.0.settings().retention_ms),
            metadata: submission.metadata,
            unique: submission.unique,
            links: submission.links,
        }
    }
}

/// The text of a body: it is read again as over the wire, so that nothing passes here that would not pass there.
fn written(body: &impl Serialize) -> Result<Bytes, Error> {
    let text = serde_json::to_vec(body).map_err(|error| Error::Answer(error.to_string()))?;
    Ok(Bytes::from(text))
}

/// Tells a repeated submit from another one with its id.
fn fingerprint(source: &Bytes) -> [u8; 16] {
    let digest: [u8; 32] = Sha256::digest(source).into();
    std::array::from_fn(|i| digest[i])
}

fn now() -> u64 {
    ms(SystemTime::now())
}

/// Too many are as many as possible.
fn rows(limit: usize) -> Result<usize, Invalid> {
    match limit {
        0 => Err(Invalid::out_of_range("limit", "must be at least 1")),
        _ => Ok(limit.min(PAGE_ROWS_MAX)),
    }
}

/// Where a list goes on. In one process nobody has to be kept from making it up.
fn place<T: std::str::FromStr>(cursor: Option<&str>) -> Result<Option<T>, Invalid> {
    let read =
        |text: &str| text.parse().map_err(|_| Invalid::malformed("cursor", "is not a cursor of this list"));
    cursor.filter(|text| !text.is_empty()).map(read).transpose()
}
