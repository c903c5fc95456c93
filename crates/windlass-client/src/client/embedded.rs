//! Producing straight on a broker in the same process, by the same rules as over the wire.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use windlass_broker::{self as broker, Broker};
use windlass_core::TaskId;
use windlass_core::limits::{PAYLOAD_BYTES_MAX, RETENTION_MS_DEFAULT};
use windlass_proto::rest::{self, Submission, SubmitBody, decode};

use super::submit::ms;
use super::{Batch, Submit, Submitted, Task};
use crate::error::Error;

pub(super) async fn submit(broker: &Broker, batch: &[Submit], atomic: bool) -> Result<Batch, Error> {
    let submits: Vec<broker::Submit> = batch.iter().map(check).collect::<Result<_, _>>()?;
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
fn check(submit: &Submit) -> Result<broker::Submit, Error> {
    let text = serde_json::to_vec(&submit.body()?).map_err(|error| Error::Answer(error.to_string()))?;
    let source = Bytes::from(text);
    let body: SubmitBody<'_> = decode(&source)?;
    let submission = body.check(&source, ms(SystemTime::now()), PAYLOAD_BYTES_MAX)?;
    // Tells a repeated submit from another one with its id.
    let digest: [u8; 32] = Sha256::digest(&source).into();
    let fingerprint = digest.first_chunk().copied();
    Ok(resolve(submission, fingerprint))
}

fn resolve(submission: Submission, fingerprint: Option<[u8; 16]>) -> broker::Submit {
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
        retention_ms: submission.retention_ms.unwrap_or(RETENTION_MS_DEFAULT),
        metadata: submission.metadata,
        unique: submission.unique,
        links: submission.links,
    }
}
