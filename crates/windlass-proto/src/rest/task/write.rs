//! A task as JSON text, written straight into a buffer.
//!
//! This is the answer to every submit and claim, and serde's way to it costs four times as much: it escapes names that cannot
//! need it, formats times through `fmt`, and reads payloads once more that were read when they came in. What is written is what
//! serde writes, to the letter, and a test holds the two against each other.

use std::sync::OnceLock;

use serde::Serialize;
use windlass_core::limits::DEPENDENCIES_SHOWN_MAX;
use windlass_core::retry::Policy;
use windlass_core::{Body, Name, Payload, Record, State, Task};

use super::Pairs;
use crate::rest::json::Base64;
use crate::rest::outcome::ProgressBody;
use crate::rest::retry::RetryBody;
use crate::rest::time::{Seconds, TEXT_BYTES, Time};

/// A task about to be shown.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    record: &'a Record,
    body: &'a Body,
    leased: bool,
}

impl<'a> Shown<'a> {
    /// As anybody may see it.
    pub fn new(task: &'a Task) -> Self {
        Self::of(&task.record, &task.body)
    }

    /// The same of one that is not in one piece.
    pub fn of(record: &'a Record, body: &'a Body) -> Self {
        Self { record, body, leased: false }
    }

    /// As its holder sees it, with the lease.
    pub fn leased(task: &'a Task) -> Self {
        Self { leased: true, ..Self::new(task) }
    }

    /// About how long the JSON is.
    pub fn room(&self) -> usize {
        // Everything but what users send is about this long.
        768 + self.record.bytes() + self.body.bytes()
    }

    /// Adds the JSON to `out`.
    pub fn write(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        let Self { record, body, .. } = *self;
        // Names have no character that JSON escapes.
        text(out, b"{\"id\":", record.id.as_str());
        text(out, b",\"type\":", record.kind.as_str());
        text(out, b",\"queue\":", record.queue.as_str());
        name(out, b",\"key\":", record.key.as_ref());
        text(out, b",\"state\":", record.state.name().as_str());
        number(out, b",\"priority\":", u64::from(record.priority.0));
        payload(out, b",\"payload\":", b",\"payload_base64\":", Some(&body.payload))?;
        number(out, b",\"attempts\":", u64::from(record.attempts));
        number(out, b",\"max_retries\":", u64::from(body.max_retries));
        number(out, b",\"crashes\":", u64::from(record.crashes));
        number(out, b",\"max_crashes\":", u64::from(body.max_crashes));
        span(out, b",\"timeout_seconds\":", body.timeout_ms)?;
        span(out, b",\"retention_seconds\":", record.retention_ms)?;
        write_retry(&body.retry, out)?;
        if !body.metadata.is_empty() {
            value(out, b",\"metadata\":", &Pairs(&body.metadata))?;
        }
        if let Some(hold) = &record.unique {
            value(out, b",\"unique_key\":", hold.key.as_str())?;
            moment(out, b",\"unique_until\":", hold.until);
        }
        if let State::Cancelled { reason, .. } = &record.state {
            text(out, b",\"cancel_reason\":", reason.as_str());
        }
        self.write_links(out)?;
        self.write_times(out);
        self.write_run(out)
    }

    fn write_links(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        let dependencies = self.body.dependencies();
        if !dependencies.is_empty() {
            let shown = dependencies.iter().take(DEPENDENCIES_SHOWN_MAX);
            let ids: Vec<&str> = shown.map(|id| id.as_str()).collect();
            value(out, b",\"dependencies\":", &ids)?;
            number(out, b",\"dependency_count\":", dependencies.len() as u64);
        }
        if let State::Blocked { open } = &self.record.state {
            number(out, b",\"dependencies_open\":", u64::from(*open));
        }
        let links = self.body.links.as_deref();
        name(out, b",\"workflow_id\":", links.and_then(|links| links.workflow.as_ref()));
        Ok(())
    }

    fn write_times(&self, out: &mut Vec<u8>) {
        let record = self.record;
        let created = Time::from_ms(record.created_at).text();
        put_moment(out, b",\"created_at\":", &created);
        if record.updated_at == record.created_at {
            put_moment(out, b",\"updated_at\":", &created);
        } else {
            moment(out, b",\"updated_at\":", Some(record.updated_at));
        }
        moment(out, b",\"scheduled_at\":", record.scheduled_at);
        moment(out, b",\"expires_at\":", record.expires_at);
        moment(out, b",\"started_at\":", record.started_at);
        moment(out, b",\"completed_at\":", record.ended_at());
        if let State::Retrying { at } = &record.state {
            moment(out, b",\"next_retry_at\":", Some(*at));
        }
    }

    fn write_run(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        let record = self.record;
        let lease = match &record.state {
            State::Running(lease) => Some(lease),
            _ => None,
        };
        if let Some(lease) = lease {
            text(out, b",\"worker_id\":", lease.worker.as_str());
            moment(out, b",\"lease_expires_at\":", Some(lease.expires_at));
        }
        if let Some(progress) = &record.progress {
            value(out, b",\"progress\":", &ProgressBody::from(progress.clone()))?;
        }
        if let Some(error) = &record.error {
            value(out, b",\"error\":", error)?;
        }
        payload(out, b",\"result\":", b",\"result_base64\":", record.result.as_ref())?;
        if let Some(checkpoint) = &record.checkpoint {
            moment(out, b",\"checkpoint_at\":", Some(checkpoint.saved_at));
            value(out, b",\"checkpoint_base64\":", &Base64(checkpoint.bytes.clone()))?;
        }
        if let Some(lease) = lease.filter(|_| self.leased) {
            value(out, b",\"lease\":", &lease.token.to_string())?;
        }
        out.push(b'}');
        Ok(())
    }
}

/// Nearly all tasks have the default policy.
fn write_retry(policy: &Policy, out: &mut Vec<u8>) -> serde_json::Result<()> {
    static DEFAULT: OnceLock<(Policy, Vec<u8>)> = OnceLock::new();
    let (default, written) = DEFAULT.get_or_init(|| {
        let policy = Policy::default();
        let mut written = b",\"retry\":".to_vec();
        let body = RetryBody::from(policy);
        serde_json::to_writer(&mut written, &body).expect("numbers and a word become JSON");
        (policy, written)
    });
    if policy == default {
        out.extend_from_slice(written);
        return Ok(());
    }
    value(out, b",\"retry\":", &RetryBody::from(*policy))
}

/// Keys come with the punctuation before and after them.
fn text(out: &mut Vec<u8>, key: &[u8], text: &str) {
    out.extend_from_slice(key);
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

fn number(out: &mut Vec<u8>, key: &[u8], number: u64) {
    out.extend_from_slice(key);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn name(out: &mut Vec<u8>, key: &[u8], name: Option<&Name>) {
    if let Some(name) = name {
        text(out, key, name.as_str());
    }
}

fn moment(out: &mut Vec<u8>, key: &[u8], ms: Option<u64>) {
    if let Some(ms) = ms {
        put_moment(out, key, &Time::from_ms(ms).text());
    }
}

fn put_moment(out: &mut Vec<u8>, key: &[u8], text: &[u8; TEXT_BYTES]) {
    out.extend_from_slice(key);
    out.push(b'"');
    out.extend_from_slice(text);
    out.push(b'"');
}

fn span(out: &mut Vec<u8>, key: &[u8], ms: u64) -> serde_json::Result<()> {
    if ms.is_multiple_of(1000) {
        number(out, key, ms / 1000);
        return Ok(());
    }
    value(out, key, &Seconds::from_ms(ms))
}

/// JSON is written as it came, bytes as base64.
fn payload(
    out: &mut Vec<u8>,
    json: &[u8],
    base64: &[u8],
    payload: Option<&Payload>,
) -> serde_json::Result<()> {
    match payload {
        Some(Payload::Json(bytes)) => {
            out.extend_from_slice(json);
            out.extend_from_slice(bytes);
        }
        Some(Payload::Binary(bytes)) => value(out, base64, &Base64(bytes.clone()))?,
        None => {}
    }
    Ok(())
}

fn value<T: Serialize + ?Sized>(out: &mut Vec<u8>, key: &[u8], value: &T) -> serde_json::Result<()> {
    out.extend_from_slice(key);
    serde_json::to_writer(out, value)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use windlass_core::{
        Body, CancelReason, Checkpoint, Hold, Lease, Links, NewTask, Priority, Progress, Record, TaskId,
        Token, UniqueKey,
    };

    use super::*;
    use crate::rest::TaskBody;

    fn state(bits: u64) -> State {
        let at = bits * 977;
        match bits % 8 {
            0 => State::Scheduled { at },
            1 => State::Blocked { open: 3 },
            2 => State::Pending,
            3 => State::Retrying { at },
            4 => State::Completed { at },
            5 => State::DeadLetter { at: 253_402_300_000_000 },
            6 => State::Cancelled { at, reason: CancelReason::ALL[bits as usize / 8 % 5] },
            _ => State::Running(Lease {
                token: Token { number: bits, secret: u64::MAX },
                worker: Name::new("worker").unwrap(),
                lease_ms: 5,
                started_at: 6,
                expires_at: 7,
            }),
        }
    }

    /// Every optional field is there in one half of the tasks, in its own rhythm.
    fn task(bits: u64) -> Task {
        fn some<T>(bits: u64, bit: u32, value: T) -> Option<T> {
            (bits.rotate_right(bit) & 1 == 1).then_some(value)
        }
        let bytes = |text: &'static [u8]| Bytes::from_static(text);
        let links = Links {
            dependencies: (0..bits % 150).map(|n| TaskId::new(&format!("t{n}")).unwrap()).collect(),
            workflow: some(bits, 3, Name::new("flow").unwrap()),
        };
        let body = Body {
            payload: match bits % 3 {
                0 => Payload::Binary(bytes(b"bytes")),
                _ => Payload::Json(bytes(b"{\"a\":[1, 2]}")),
            },
            metadata: some(bits, 2, ("a \"key\"\n".into(), "välue".into())).into_iter().collect(),
            timeout_ms: 300_000 + bits % 2,
            max_retries: 3,
            max_crashes: 5,
            retry: match bits % 5 {
                0 => Policy { factor: 1.5, ..Policy::default() },
                _ => Policy::default(),
            },
            fingerprint: None,
            links: some(bits, 1, Box::new(links)),
        };
        let new = NewTask {
            id: TaskId::new("an-id:1.2_3").unwrap(),
            queue: Name::new("queue").unwrap(),
            kind: Name::new("kind").unwrap(),
            priority: Priority(bits as u8),
            created_at: 1_790_000_000_000 + bits * 7919,
            scheduled_at: some(bits, 4, u64::MAX),
            expires_at: some(bits, 5, 951_782_400_000),
            retention_ms: bits * 500,
            counted: windlass_core::Counted::default(),
            unique: None,
            key: some(bits, 6, Name::new("key").unwrap()),
            body,
        };
        let mut record = Record::submitted(&new, bits);
        record.state = state(bits);
        record.attempts = bits as u32;
        record.updated_at += bits % 4;
        record.started_at = some(bits, 7, 1);
        let hold = |key| Hold { key, until: some(bits, 8, 77) };
        record.unique = some(bits, 0, Box::new(hold(UniqueKey::new("a \"key\"").unwrap())));
        record.progress = some(bits, 2, Progress { fraction: 0.25, note: Some("a \\ note".into()) });
        record.error = some(bits, 3, "a \"bad\" thing\u{1}".into());
        record.result = some(
            bits,
            4,
            match bits % 2 {
                0 => Payload::Json(bytes(b"null")),
                _ => Payload::Binary(bytes(b"\0")),
            },
        );
        let checkpoint = Checkpoint { bytes: bytes(b"page 7"), saved_at: 99 };
        record.checkpoint = some(bits, 8, Box::new(checkpoint));
        Task { record, body: new.body }
    }

    #[test]
    fn it_is_what_serde_writes() {
        let text = |shown: Shown<'_>| {
            let mut written = Vec::new();
            shown.write(&mut written).unwrap();
            String::from_utf8(written).unwrap()
        };
        for bits in 0..2048 {
            let task = task(bits);
            let shown = serde_json::to_string(&TaskBody::from(task.clone())).unwrap();
            assert_eq!(text(Shown::new(&task)), shown);
            let leased = serde_json::to_string(&TaskBody::leased(task.clone())).unwrap();
            assert_eq!(text(Shown::leased(&task)), leased);
        }
    }
}
