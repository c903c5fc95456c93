//! Producing straight on a broker in the same process, by the same rules as over the wire.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use windlass_broker::{self as broker, Broker};
use windlass_core::TaskId;
use windlass_core::limits::PAYLOAD_BYTES_MAX;
use windlass_proto::rest::{self, Submission, SubmitBody, decode};

use super::submit::ms;
use super::{Batch, Submit, Submitted, Task};
use crate::error::Error;

pub(super) async fn submit(broker: &Broker, batch: &[Submit], atomic: bool) -> Result<Batch, Error> {
    let checked: Vec<Submission> = batch.iter().map(check).collect::<Result<_, _>>()?;
    let retention_ms = windlass_core::limits::RETENTION_MS_DEFAULT;
    let submits = checked.into_iter().map(|submission| resolve(submission, retention_ms)).collect();
    let answers = broker.submit_batch(submits, atomic).await?;
    let answer = |answer: Result<broker::Submitted, broker::Error>| {
        let record = answer?.task.record;
        Ok(Submitted { state: record.state_name(), id: record.id })
    };
    Ok(answers.into_iter().map(answer).collect())
}

pub(super) async fn task(broker: &Broker, id: &TaskId, wait: Duration) -> Result<Task, Error> {
    answer(broker.wait(id, wait.as_millis() as u64).await)
}

pub(super) fn answer(answer: Result<windlass_core::Task, broker::Error>) -> Result<Task, Error> {
    Ok(Task::from(answer?))
}

/// Through the body of the REST interface, so that nothing passes here that would not pass there.
fn check(submit: &Submit) -> Result<Submission, Error> {
    let text = serde_json::to_vec(&submit.body()?).map_err(|error| Error::Answer(error.to_string()))?;
    let source = Bytes::from(text);
    let body: SubmitBody<'_> = decode(&source)?;
    Ok(body.check(&source, ms(SystemTime::now()), PAYLOAD_BYTES_MAX)?)
}

fn resolve(submission: Submission, retention_ms: u64) -> broker::Submit {
    broker::Submit {
        fingerprint: Some(fingerprint(&submission)),
        id: submission.id,
        queue: submission.queue,
        kind: submission.kind,
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
        retention_ms: submission.retention_ms.unwrap_or(retention_ms),
        metadata: submission.metadata,
    }
}

/// Tells a repeated submit from another one with its id.
fn fingerprint(submission: &Submission) -> [u8; 16] {
    let text = format!("{submission:?}");
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, &text).hash(&mut hasher);
        hasher.finish().to_be_bytes()
    };
    let mut digest = [0; 16];
    digest[..8].copy_from_slice(&half(0));
    digest[8..].copy_from_slice(&half(1));
    digest
}
