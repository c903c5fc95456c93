//! A task as JSON text, written straight into a buffer.
//!
//! This is the answer to every submit and claim, and serde's way to it costs four times as much: it escapes names that cannot
//! need it, formats times through `fmt`, and reads payloads once more that were read when they came in. What is written is what
//! serde writes, to the letter, and a test holds the two against each other.

use std::sync::OnceLock;

use serde::Serialize;
use windlass_core::retry::Policy;

use super::TaskBody;
use crate::rest::retry::RetryBody;
use crate::rest::time::Time;

impl TaskBody {
    /// Adds the JSON of this task to `out`.
    pub fn write(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        // Names have no character that JSON escapes.
        text(out, b"{\"id\":", self.id.as_str());
        text(out, b",\"type\":", self.kind.as_str());
        text(out, b",\"queue\":", self.queue.as_str());
        if let Some(key) = &self.key {
            text(out, b",\"key\":", key.as_str());
        }
        text(out, b",\"state\":", self.state.as_str());
        number(out, b",\"priority\":", u64::from(self.priority));
        if let Some(payload) = &self.payload {
            out.extend_from_slice(b",\"payload\":");
            out.extend_from_slice(&payload.0);
        }
        value(out, b",\"payload_base64\":", self.payload_base64.as_ref())?;
        number(out, b",\"attempts\":", u64::from(self.attempts));
        number(out, b",\"max_retries\":", u64::from(self.max_retries));
        number(out, b",\"crashes\":", u64::from(self.crashes));
        number(out, b",\"max_crashes\":", u64::from(self.max_crashes));
        value(out, b",\"timeout_seconds\":", Some(&self.timeout_seconds))?;
        value(out, b",\"retention_seconds\":", Some(&self.retention_seconds))?;
        self.write_retry(out)?;
        value(out, b",\"metadata\":", (!self.metadata.is_empty()).then_some(&self.metadata))?;
        value(out, b",\"unique_key\":", self.unique_key.as_ref())?;
        moment(out, b",\"unique_until\":", self.unique_until);
        value(out, b",\"cancel_reason\":", self.cancel_reason.as_ref())?;
        if !self.dependencies.is_empty() {
            let ids: Vec<&str> = self.dependencies.iter().map(|id| id.as_str()).collect();
            value(out, b",\"dependencies\":", Some(&ids))?;
        }
        value(out, b",\"dependency_count\":", self.dependency_count.as_ref())?;
        value(out, b",\"dependencies_open\":", self.dependencies_open.as_ref())?;
        if let Some(workflow) = &self.workflow_id {
            text(out, b",\"workflow_id\":", workflow.as_str());
        }
        for (key, time) in [
            (&b",\"created_at\":"[..], Some(self.created_at)),
            (b",\"updated_at\":", Some(self.updated_at)),
            (b",\"scheduled_at\":", self.scheduled_at),
            (b",\"expires_at\":", self.expires_at),
            (b",\"started_at\":", self.started_at),
            (b",\"completed_at\":", self.completed_at),
            (b",\"next_retry_at\":", self.next_retry_at),
        ] {
            moment(out, key, time);
        }
        if let Some(worker) = &self.worker_id {
            text(out, b",\"worker_id\":", worker.as_str());
        }
        moment(out, b",\"lease_expires_at\":", self.lease_expires_at);
        value(out, b",\"progress\":", self.progress.as_ref())?;
        value(out, b",\"error\":", self.error.as_ref())?;
        value(out, b",\"result\":", self.result.as_ref())?;
        value(out, b",\"result_base64\":", self.result_base64.as_ref())?;
        moment(out, b",\"checkpoint_at\":", self.checkpoint_at);
        value(out, b",\"checkpoint_base64\":", self.checkpoint_base64.as_ref())?;
        value(out, b",\"lease\":", self.lease.map(|lease| lease.to_string()).as_ref())?;
        out.push(b'}');
        Ok(())
    }

    /// Nearly all tasks have the default policy.
    fn write_retry(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        static DEFAULT: OnceLock<(RetryBody, Vec<u8>)> = OnceLock::new();
        let (default, written) = DEFAULT.get_or_init(|| {
            let body = RetryBody::from(Policy::default());
            let mut written = b",\"retry\":".to_vec();
            serde_json::to_writer(&mut written, &body).expect("numbers and a word become JSON");
            (body, written)
        });
        if self.retry == *default {
            out.extend_from_slice(written);
            return Ok(());
        }
        value(out, b",\"retry\":", Some(&self.retry))
    }
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

fn moment(out: &mut Vec<u8>, key: &[u8], time: Option<Time>) {
    if let Some(time) = time {
        out.extend_from_slice(key);
        out.push(b'"');
        out.extend_from_slice(&time.text());
        out.push(b'"');
    }
}

fn value<T: Serialize>(out: &mut Vec<u8>, key: &[u8], value: Option<&T>) -> serde_json::Result<()> {
    let Some(value) = value else { return Ok(()) };
    out.extend_from_slice(key);
    serde_json::to_writer(out, value)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use windlass_core::{Name, TaskId, Token};

    use super::*;
    use crate::rest::json::{Base64, Json};
    use crate::rest::outcome::ProgressBody;
    use crate::rest::task::Metadata;
    use crate::rest::time::Seconds;

    /// Every optional field is there in one half of the tasks, in its own rhythm.
    fn task(bits: u32) -> TaskBody {
        fn some<T>(bits: u32, bit: u32, value: T) -> Option<T> {
            (bits.rotate_right(bit) & 1 == 1).then_some(value)
        }
        let time = |bit, ms| some(bits, bit, Time::from_ms(ms));
        TaskBody {
            id: TaskId::new("an-id:1.2_3").unwrap(),
            kind: Name::new("kind").unwrap(),
            queue: Name::new("queue").unwrap(),
            key: some(bits, 8, Name::new("key").unwrap()),
            state: windlass_core::StateName::ALL[bits as usize % 8],
            priority: bits as u8,
            payload: some(bits, 0, Json(Bytes::from_static(b"{\"a\":[1, 2]}"))),
            payload_base64: some(bits, 1, Base64(Bytes::from_static(b"bytes"))),
            attempts: bits,
            max_retries: 3,
            crashes: 0,
            max_crashes: 5,
            timeout_seconds: Seconds(300.0),
            retention_seconds: Seconds(0.5),
            retry: match bits % 3 {
                0 => RetryBody { factor: Some(1.5), ..RetryBody::default() },
                _ => RetryBody::from(Policy::default()),
            },
            metadata: Metadata(some(bits, 2, ("a \"key\"\n".into(), "välue".into())).into_iter().collect()),
            unique_key: some(bits, 7, "a \"key\"".into()),
            unique_until: time(8, 77),
            cancel_reason: some(bits, 6, "replaced".into()),
            dependencies: some(bits, 7, TaskId::new("first").unwrap()).into_iter().collect(),
            dependency_count: some(bits, 7, 1),
            dependencies_open: some(bits, 0, 1),
            workflow_id: some(bits, 3, Name::new("flow").unwrap()),
            created_at: Time::from_ms(1_790_000_000_000 + u64::from(bits) * 7919),
            updated_at: Time::from_ms(u64::from(bits)),
            scheduled_at: time(3, u64::MAX),
            expires_at: time(4, 951_782_400_000),
            started_at: time(5, 1),
            completed_at: time(6, 253_402_300_000_000),
            next_retry_at: time(7, 1_709_164_800_123),
            worker_id: some(bits, 0, Name::new("worker").unwrap()),
            lease_expires_at: time(1, 5),
            progress: some(bits, 2, ProgressBody { fraction: 0.25, note: Some("a \\ note".into()) }),
            error: some(bits, 3, "a \"bad\" thing\u{1}".into()),
            result: some(bits, 4, Json(Bytes::from_static(b"null"))),
            result_base64: some(bits, 5, Base64(Bytes::from_static(b"\0"))),
            checkpoint_at: time(2, 99),
            checkpoint_base64: some(bits, 0, Base64(Bytes::from_static(b"page 7"))),
            lease: some(bits, 6, Token { number: 7, secret: u64::MAX }),
        }
    }

    #[test]
    fn it_is_what_serde_writes() {
        for bits in 0..512 {
            let task = task(bits);
            let mut written = Vec::new();
            task.write(&mut written).unwrap();
            assert_eq!(String::from_utf8(written).unwrap(), serde_json::to_string(&task).unwrap());
        }
    }
}
