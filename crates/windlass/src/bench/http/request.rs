//! Requests as bytes, made once and sent often.

/// A POST of JSON.
pub(in crate::bench) fn post(path: &str, body: &[u8]) -> Vec<u8> {
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    request
}

pub(in crate::bench) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n").into_bytes()
}

/// The body of a submit.
pub(in crate::bench) fn task(queue: &str, payload: &str) -> String {
    format!(r#"{{"type":"bench","queue":"{queue}","payload":{payload}}}"#)
}

/// A JSON string of so many bytes.
pub(in crate::bench) fn payload(bytes: u64) -> String {
    format!("\"{}\"", "x".repeat(bytes.saturating_sub(2) as usize))
}

pub(in crate::bench) fn submit(queue: &str, payload_bytes: u64) -> Vec<u8> {
    post("/api/v1/tasks", task(queue, &payload(payload_bytes)).as_bytes())
}

pub(in crate::bench) fn submit_batch(queue: &str, payload_bytes: u64, count: u64) -> Vec<u8> {
    let tasks = vec![task(queue, &payload(payload_bytes)); count as usize].join(",");
    post("/api/v1/tasks/batch", format!(r#"{{"tasks":[{tasks}]}}"#).as_bytes())
}

pub(in crate::bench) fn claim(worker: &str, queue: &str, max: u64, wait_seconds: u64) -> Vec<u8> {
    let body = format!(
        r#"{{"worker_id":"{worker}","queues":["{queue}"],"max":{max},"wait_seconds":{wait_seconds},"lease_seconds":600}}"#
    );
    post("/api/v1/claim", body.as_bytes())
}

pub(in crate::bench) fn complete(id: &str, lease: &str) -> Vec<u8> {
    post(&format!("/api/v1/tasks/{id}/complete"), format!(r#"{{"lease":"{lease}"}}"#).as_bytes())
}
