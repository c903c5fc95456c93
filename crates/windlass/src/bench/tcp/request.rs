//! Requests as bytes, made once and sent often.

use windlass_proto::tcp::Kind;

use crate::bench::http::request::{payload, task};

/// A whole frame.
pub(super) fn frame(kind: Kind, body: &str) -> Vec<u8> {
    let mut frame = (body.len() as u32 + 1).to_be_bytes().to_vec();
    frame.push(kind as u8);
    frame.extend_from_slice(body.as_bytes());
    frame
}

pub(super) fn submit(queue: &str, payload_bytes: u64) -> Vec<u8> {
    frame(Kind::SubmitTask, &task(queue, &payload(payload_bytes)))
}

pub(super) fn submit_batch(queue: &str, payload_bytes: u64, count: u64) -> Vec<u8> {
    let tasks = vec![task(queue, &payload(payload_bytes)); count as usize].join(",");
    frame(Kind::SubmitTask, &format!(r#"{{"tasks":[{tasks}]}}"#))
}

pub(super) fn claim(worker: u64, queue: &str, max: u64) -> Vec<u8> {
    let body =
        format!(r#"{{"worker_id":"bench-{worker}","queues":["{queue}"],"max":{max},"lease_seconds":600}}"#);
    frame(Kind::ClaimTask, &body)
}

pub(super) fn complete(out: &mut Vec<u8>, id: &str, lease: &str) {
    out.extend(frame(
        Kind::TaskResult,
        &format!(r#"{{"id":"{id}","lease":"{lease}","status":"completed"}}"#),
    ));
}
