//! Answers as the bodies of the REST interface, which are what the library speaks of.

use std::str::FromStr;

use prost_types::Timestamp;
use windlass_core::{Payload, StateName};
use windlass_proto::grpc::v1;
use windlass_proto::rest::{Base64, Json, Metadata, ProgressBody, ReasonBody, Seconds, Time};

use crate::client::Task;
use crate::error::Error;

pub(super) fn task(task: v1::Task) -> Result<Task, Error> {
    let (payload, payload_base64) = split(task.payload.map(Payload::from));
    let (result, result_base64) = split(task.result.map(Payload::from));
    let mut metadata: Vec<(String, String)> = task.metadata.into_iter().collect();
    metadata.sort_unstable();
    Ok(Task {
        state: state(task.state)?,
        id: parsed("id", &task.id)?,
        kind: parsed("type", &task.r#type)?,
        queue: parsed("queue", &task.queue)?,
        key: optional("key", task.key)?,
        priority: small("priority", task.priority)?,
        payload,
        payload_base64,
        attempts: task.attempts,
        max_retries: task.max_retries,
        crashes: task.crashes,
        max_crashes: task.max_crashes,
        timeout_seconds: Seconds(task.timeout_seconds),
        retention_seconds: Seconds(task.retention_seconds),
        retry: task.retry.unwrap_or_default().into(),
        metadata: Metadata(metadata),
        unique_key: task.unique_key,
        unique_until: time(task.unique_until),
        cancel_reason: task.cancel_reason,
        dependency_count: Some(task.dependency_count).filter(|count| *count > 0),
        dependencies_open: task.dependencies_open,
        workflow_id: optional("workflow_id", task.workflow_id)?,
        dependencies: all("dependencies", &task.dependencies)?,
        created_at: since(task.created_at),
        updated_at: since(task.updated_at),
        scheduled_at: time(task.scheduled_at),
        expires_at: time(task.expires_at),
        started_at: time(task.started_at),
        completed_at: time(task.completed_at),
        next_retry_at: time(task.next_retry_at),
        worker_id: optional("worker_id", task.worker_id)?,
        lease_expires_at: time(task.lease_expires_at),
        progress: task.progress.map(|p| ProgressBody { fraction: p.fraction, note: p.note.map(Into::into) }),
        error: task.error.map(Into::into),
        result,
        result_base64,
        checkpoint_at: time(task.checkpoint_at),
        checkpoint_base64: task.checkpoint.map(Base64),
        lease: None,
    })
}

pub(super) fn time(at: Option<Timestamp>) -> Option<Time> {
    at.map(|at| Time::from_ms(at.seconds.max(0) as u64 * 1000 + at.nanos.max(0) as u64 / 1_000_000))
}

/// A moment that every broker tells.
pub(super) fn since(at: Option<Timestamp>) -> Time {
    time(at).unwrap_or(Time::from_ms(0))
}

pub(super) fn parsed<T: FromStr>(field: &str, text: &str) -> Result<T, Error> {
    text.parse().map_err(|_| odd(field))
}

pub(super) fn optional<T: FromStr>(field: &str, text: Option<String>) -> Result<Option<T>, Error> {
    text.map(|text| parsed(field, &text)).transpose()
}

pub(super) fn all<T: FromStr>(field: &str, texts: &[String]) -> Result<Vec<T>, Error> {
    texts.iter().map(|text| parsed(field, text)).collect()
}

/// A part that every broker sends.
pub(super) fn part<T>(field: &str, part: Option<T>) -> Result<T, Error> {
    part.ok_or_else(|| odd(field))
}

pub(super) fn small<T: TryFrom<u32>>(field: &str, number: u32) -> Result<T, Error> {
    T::try_from(number).map_err(|_| odd(field))
}

pub(super) fn state(number: i32) -> Result<StateName, Error> {
    state_or_none(number).ok_or_else(|| odd("state"))
}

/// `None` if it is not said.
pub(super) fn state_or_none(number: i32) -> Option<StateName> {
    v1::TaskState::try_from(number).ok().and_then(v1::TaskState::name)
}

pub(super) fn odd(field: &str) -> Error {
    Error::Answer(format!("the answer is not understood: {field}"))
}

pub(super) fn reason(reason: v1::Reason) -> ReasonBody {
    ReasonBody { code: reason.code, text: reason.text, until: time(reason.until) }
}

pub(super) fn split(payload: Option<Payload>) -> (Option<Json>, Option<Base64>) {
    match payload {
        Some(Payload::Json(text)) => (Some(Json(text)), None),
        Some(Payload::Binary(bytes)) => (None, Some(Base64(bytes))),
        None => (None, None),
    }
}
