//! Telling a repeated submit from a new one.
//!
//! A client that fears a lost answer gives the task an id, or the request an `Idempotency-Key`, from which an id is derived.
//! Either way the id is what is recognised, by the store and for as long as it keeps the task; a digest of the content tells
//! a repeat from a clash.

use axum::extract::OptionalFromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};
use windlass_broker::{Start, Submit};
use windlass_core::limits::NAME_BYTES_MAX;
use windlass_core::{Name, Payload, TaskId};
use windlass_proto::rest::{self, Invalid, Submission, WorkflowSubmission};

use super::problem::Refused;

/// What a client sent as `Idempotency-Key`.
#[derive(Debug, Clone)]
pub(crate) struct Key(HeaderValue);

impl<S: Sync> OptionalFromRequestParts<S> for Key {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Refused> {
        Ok(Key::of(&parts.headers)?)
    }
}

impl Key {
    pub(super) fn of(headers: &HeaderMap) -> Result<Option<Self>, Invalid> {
        let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
        let bytes = value.as_bytes();
        if bytes.is_empty() || bytes.len() > 2 * NAME_BYTES_MAX || !bytes.iter().all(|b| b.is_ascii_graphic())
        {
            let message = format!("must be 1 to {} visible ASCII characters", 2 * NAME_BYTES_MAX);
            return Err(Invalid::malformed("Idempotency-Key", message));
        }
        Ok(Some(Self(value.clone())))
    }

    /// The id of the task submitted under this key, or of the `index`-th task of a batch.
    fn task_id(&self, index: Option<usize>) -> TaskId {
        let mut digest =
            Sha256::new().chain_update(b"windlass idempotency key 1").chain_update(self.0.as_bytes());
        if let Some(index) = index {
            // A zero byte cannot be part of a key, so no key is another one with an index.
            digest.update([0]);
            digest.update((index as u64).to_be_bytes());
        }
        let mut text = String::with_capacity(37);
        text.push_str("idem-");
        for byte in &digest.finalize()[..16] {
            text.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
            text.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
        }
        TaskId::new(&text).expect("hex digits are a valid id")
    }

    /// The id of the workflow submitted under this key.
    pub(super) fn workflow_id(&self) -> Name {
        Name::new(self.task_id(None).as_str()).expect("an id is a valid name")
    }
}

/// A digest of a whole graph, in whatever order it was written.
pub(super) fn workflow_fingerprint(workflow: &WorkflowSubmission) -> [u8; 16] {
    let mut digest = Sha256::new();
    let mut nodes: Vec<_> = workflow.nodes.iter().collect();
    nodes.sort_unstable_by_key(|node| &node.name);
    for node in nodes {
        digest.update((node.name.as_str().len() as u64).to_be_bytes());
        digest.update(node.name.as_str());
        digest.update(fingerprint(&node.submission));
        digest.update((node.after.len() as u64).to_be_bytes());
        let mut after: Vec<_> = node.after.iter().collect();
        after.sort_unstable();
        for name in after {
            digest.update((name.as_str().len() as u64).to_be_bytes());
            digest.update(name.as_str());
        }
    }
    let digest = digest.finalize();
    std::array::from_fn(|i| digest[i])
}

/// The broker's view of a submission. An id in the body wins over the key, whose work it does already.
pub(crate) fn submit(
    submission: Submission,
    key: Option<&Key>,
    index: Option<usize>,
    retention_ms: u64,
) -> Submit {
    let id = submission.id.clone().or_else(|| key.map(|key| key.task_id(index)));
    let fingerprint = id.is_some().then(|| fingerprint(&submission));
    Submit {
        id,
        queue: submission.queue,
        kind: submission.kind,
        key: submission.key,
        payload: submission.payload,
        priority: submission.priority,
        start: match submission.start {
            rest::Start::Now => Start::Now,
            rest::Start::At(at) => Start::At(at),
            rest::Start::AfterMs(ms) => Start::AfterMs(ms),
        },
        expires_at: submission.expires_at,
        retry: submission.retry,
        max_retries: submission.max_retries,
        max_crashes: submission.max_crashes,
        timeout_ms: submission.timeout_ms,
        retention_ms: submission.retention_ms.unwrap_or(retention_ms),
        metadata: submission.metadata,
        unique: submission.unique,
        fingerprint,
        links: submission.links,
    }
}

/// A digest of what was asked for. Nothing in it depends on when it was asked or on the settings of the broker.
fn fingerprint(submission: &Submission) -> [u8; 16] {
    let mut digest = Sha256::new();
    // Every part is preceded by its length or has a fixed one, so that no two submissions run together.
    let mut part = |bytes: &[u8]| {
        digest.update((bytes.len() as u64).to_be_bytes());
        digest.update(bytes);
    };
    part(submission.queue.as_str().as_bytes());
    part(submission.kind.as_str().as_bytes());
    // Absent is nothing at all, so that submits from before there were keys keep their fingerprint.
    if let Some(key) = &submission.key {
        part(b"key");
        part(key.as_str().as_bytes());
    }
    part(match submission.payload {
        Payload::Json(_) => b"json",
        Payload::Binary(_) => b"binary",
    });
    part(submission.payload.bytes());
    part(&[submission.priority.0]);
    let (word, ms) = match submission.start {
        rest::Start::Now => ("now", 0),
        rest::Start::At(at) => ("at", at),
        rest::Start::AfterMs(ms) => ("after", ms),
    };
    part(word.as_bytes());
    let numbers = [
        ms,
        u64::from(submission.expires_at.is_some()),
        submission.expires_at.unwrap_or(0),
        submission.retry.initial_ms,
        submission.retry.factor.to_bits(),
        submission.retry.max_ms,
        submission.retry.jitter.to_bits(),
        u64::from(submission.max_retries),
        u64::from(submission.max_crashes),
        submission.timeout_ms,
        u64::from(submission.retention_ms.is_some()),
        submission.retention_ms.unwrap_or(0),
    ];
    for number in numbers {
        part(&number.to_be_bytes());
    }
    part(submission.retry.kind.as_str().as_bytes());
    let mut metadata: Vec<_> = submission.metadata.iter().collect();
    metadata.sort();
    for (key, value) in metadata {
        part(key.as_bytes());
        part(value.as_bytes());
    }
    if let Some(unique) = &submission.unique {
        part(unique.key.as_str().as_bytes());
        part(&unique.for_ms.map_or(u64::MAX, |ms| ms).to_be_bytes());
        part(unique.on_conflict.as_str().as_bytes());
    }
    if let Some(links) = &submission.links {
        part(b"dependencies");
        links.dependencies.iter().for_each(|id| part(id.as_str().as_bytes()));
    }
    let digest = digest.finalize();
    std::array::from_fn(|i| digest[i])
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use std::collections::HashSet;
    use windlass_proto::rest::{SubmitBody, decode};

    fn print(text: &str) -> [u8; 16] {
        let source = Bytes::copy_from_slice(text.as_bytes());
        let body: SubmitBody<'_> = decode(&source).unwrap();
        fingerprint(&body.check(&source, 1_800_000_000_000, 1000).unwrap())
    }

    #[test]
    fn the_same_content_has_one_fingerprint_and_every_field_counts() {
        let plain = print(r#"{"type":"a"}"#);
        for same in [
            r#"{"task_type":"a","topic":"default"}"#,
            r#"{"type":"a","priority":"normal","payload":null,"delay_seconds":0}"#,
            r#"{"type":"a","id":"x","max_retries":3}"#,
        ] {
            assert_eq!(print(same), plain, "{same}");
        }
        let others = [
            r#"{"type":"b"}"#,
            r#"{"type":"a","queue":"b"}"#,
            r#"{"type":"a","payload":1}"#,
            r#"{"type":"a","payload_base64":"MQ=="}"#,
            r#"{"type":"a","priority":1}"#,
            r#"{"type":"a","delay_seconds":1}"#,
            r#"{"type":"a","scheduled_at":"1970-01-01T00:00:01Z"}"#,
            r#"{"type":"a","expires_at":"1970-01-01T00:00:00Z"}"#,
            r#"{"type":"a","max_retries":4}"#,
            r#"{"type":"a","max_crashes":4}"#,
            r#"{"type":"a","timeout_seconds":4}"#,
            r#"{"type":"a","retention_seconds":4}"#,
            r#"{"type":"a","retry":{"policy":"fixed"}}"#,
            r#"{"type":"a","metadata":{"a":"b"}}"#,
            r#"{"type":"a","unique_key":"k"}"#,
            r#"{"type":"a","unique_key":"l"}"#,
            r#"{"type":"a","unique_key":"k","unique_for_seconds":1}"#,
            r#"{"type":"a","unique_key":"k","on_conflict":"reject"}"#,
            r#"{"type":"a","key":"k"}"#,
            r#"{"type":"a","key":"k2"}"#,
            r#"{"type":"a","dependencies":["b"]}"#,
            r#"{"type":"a","dependencies":["b","c"]}"#,
        ];
        let prints: HashSet<_> = others.iter().map(|text| print(text)).chain([plain]).collect();
        assert_eq!(prints.len(), others.len() + 1);
    }

    #[test]
    fn a_key_names_one_task_and_each_task_of_a_batch() {
        let (key, other) = (Key(HeaderValue::from_static("k")), Key(HeaderValue::from_static("k2")));
        let ids = [key.task_id(None), key.task_id(Some(0)), key.task_id(Some(1)), other.task_id(None)];
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 4);
        assert_eq!(Key(HeaderValue::from_static("k")).task_id(Some(1)), ids[2]);
    }
}
