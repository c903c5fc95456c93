//! A task to be submitted.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use windlass_core::{Name, OnConflict, Payload, Priority, TaskId, retry};
use windlass_proto::rest::{Base64, BatchItem, Invalid, Metadata, PriorityInput, Seconds, SubmitBody, Time};

use super::{Batch, Submitted};
use crate::error::Error;
use crate::rest;

/// What to run, and how. What is left out takes the broker's default. Names and ranges are judged by the broker, which
/// names the field at fault.
#[derive(Debug, Clone)]
pub struct Submit {
    pub(crate) id: TaskId,
    /// Not the random one.
    pub(crate) id_chosen: bool,
    pub(crate) kind: String,
    pub(crate) payload: Payload,
    pub(crate) queue: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) priority: Option<Priority>,
    pub(crate) delay: Option<Duration>,
    pub(crate) at: Option<SystemTime>,
    pub(crate) expires_at: Option<SystemTime>,
    pub(crate) retry: Option<retry::Policy>,
    pub(crate) max_retries: Option<u32>,
    pub(crate) max_crashes: Option<u32>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retention: Option<Duration>,
    pub(crate) metadata: Vec<(String, String)>,
    pub(crate) unique: Option<Box<Unique>>,
    pub(crate) dependencies: Vec<TaskId>,
}

/// A wish for a unique key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unique {
    pub(crate) key: Option<String>,
    pub(crate) length: Option<Duration>,
    pub(crate) on_conflict: Option<OnConflict>,
}

impl Submit {
    /// A task of type `kind`; anything that serde can write as JSON is a payload.
    pub fn new(kind: &str, payload: &(impl Serialize + ?Sized)) -> Result<Self, Error> {
        let json = serde_json::to_vec(payload).map_err(|error| {
            Error::from(Invalid::malformed("payload", format!("cannot be written as JSON: {error}")))
        })?;
        Ok(Self::with(kind, Payload::Json(json.into())))
    }

    /// With bytes as payload.
    pub fn binary(kind: &str, payload: impl Into<Bytes>) -> Self {
        Self::with(kind, Payload::Binary(payload.into()))
    }

    /// With a payload that is JSON text or bytes already.
    pub fn with(kind: &str, payload: Payload) -> Self {
        Self {
            id: fresh_id(),
            id_chosen: false,
            kind: kind.to_owned(),
            payload,
            queue: None,
            key: None,
            priority: None,
            delay: None,
            at: None,
            expires_at: None,
            retry: None,
            max_retries: None,
            max_crashes: None,
            timeout: None,
            retention: None,
            metadata: Vec::new(),
            unique: None,
            dependencies: Vec::new(),
        }
    }

    /// The id that the task will have.
    pub fn task_id(&self) -> &TaskId {
        &self.id
    }

    /// An id of your own instead of the random one: the same submit from anywhere makes no second task.
    pub fn id(mut self, id: TaskId) -> Self {
        self.id = id;
        self.id_chosen = true;
        self
    }

    pub fn queue(mut self, queue: &str) -> Self {
        self.queue = Some(queue.to_owned());
        self
    }

    /// Whose share of the queue it takes, and whose limit it counts towards: a tenant, say.
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// 0–255, higher first.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Not before this long from now.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Not before this moment.
    pub fn at(mut self, at: SystemTime) -> Self {
        self.at = Some(at);
        self
    }

    /// Never start after this moment.
    pub fn expires_at(mut self, at: SystemTime) -> Self {
        self.expires_at = Some(at);
        self
    }

    pub fn retry(mut self, policy: retry::Policy) -> Self {
        self.retry = Some(policy);
        self
    }

    /// Attempts after the first one.
    pub fn max_retries(mut self, n: u32) -> Self {
        self.max_retries = Some(n);
        self
    }

    /// Lost workers before it is a dead letter.
    pub fn max_crashes(mut self, n: u32) -> Self {
        self.max_crashes = Some(n);
        self
    }

    /// The handler's time limit.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// How long the finished task is kept.
    pub fn retention(mut self, span: Duration) -> Self {
        self.retention = Some(span);
        self
    }

    pub fn metadata(mut self, key: &str, value: &str) -> Self {
        self.metadata.push((key.to_owned(), value.to_owned()));
        self
    }

    /// At most one live task of the broker has this key; it is free again when the task ends.
    pub fn unique_key(mut self, key: &str) -> Self {
        self.unique.get_or_insert_default().key = Some(key.to_owned());
        self
    }

    /// The unique key is free again after this long, even if the task still lives.
    pub fn unique_for(mut self, length: Duration) -> Self {
        self.unique.get_or_insert_default().length = Some(length);
        self
    }

    /// What becomes of this submit when another live task has the unique key; by default that task is the answer.
    pub fn on_conflict(mut self, rule: OnConflict) -> Self {
        self.unique.get_or_insert_default().on_conflict = Some(rule);
        self
    }

    /// Not before this task has completed; may be said of several. If one of them is cancelled, so is this one.
    pub fn after(mut self, id: &TaskId) -> Self {
        self.dependencies.push(id.clone());
        self
    }

    /// As the REST interface wants a task whose id is made by others: an id that was chosen is left in, to be refused.
    pub(crate) fn template(&self) -> Result<SubmitBody<'_>, Error> {
        let mut body = self.body()?;
        body.id = body.id.filter(|_| self.id_chosen);
        Ok(body)
    }

    /// As the REST interface wants it.
    pub(crate) fn body(&self) -> Result<SubmitBody<'_>, Error> {
        let mut body = SubmitBody::new(name("type", &self.kind)?);
        match &self.payload {
            Payload::Json(text) => {
                let raw: &RawValue = serde_json::from_slice(text).map_err(|error| {
                    Error::from(Invalid::malformed("payload", format!("is not JSON: {error}")))
                })?;
                body.payload = Some(raw);
            }
            Payload::Binary(bytes) => body.payload_base64 = Some(Base64(bytes.clone())),
        }
        body.id = Some(self.id.clone());
        body.queue = self.queue.as_deref().map(|queue| name("queue", queue)).transpose()?;
        body.key = self.key.as_deref().map(|key| name("key", key)).transpose()?;
        body.priority = self.priority.map(PriorityInput::from);
        body.delay_seconds = self.delay.map(seconds);
        body.scheduled_at = self.at.map(|at| Time::from_ms(ms(at)));
        body.expires_at = self.expires_at.map(|at| Time::from_ms(ms(at)));
        body.retry = self.retry.map(Into::into);
        body.max_retries = self.max_retries.map(u64::from);
        body.max_crashes = self.max_crashes.map(u64::from);
        body.timeout_seconds = self.timeout.map(seconds);
        body.retention_seconds = self.retention.map(seconds);
        body.metadata = Metadata(self.metadata.clone());
        if let Some(unique) = &self.unique {
            body.unique_key = unique.key.clone();
            body.unique_for_seconds = unique.length.map(seconds);
            body.on_conflict = unique.on_conflict.map(|rule| rule.as_str().to_owned());
        }
        body.dependencies = self.dependencies.clone();
        Ok(body)
    }
}

/// A UUID v7: sorts by time, so the id table of the broker grows at its end.
fn fresh_id() -> TaskId {
    let mut text = uuid::Uuid::encode_buffer();
    TaskId::new(uuid::Uuid::now_v7().hyphenated().encode_lower(&mut text)).expect("a UUID is a valid id")
}

pub(super) fn name(field: &'static str, text: &str) -> Result<Name, Error> {
    Name::new(text).map_err(|error| Invalid::malformed(field, error.to_string()).into())
}

pub(super) fn seconds(length: Duration) -> Seconds {
    Seconds::from_ms(length.as_millis() as u64)
}

/// Milliseconds since 1970.
pub(crate) fn ms(moment: SystemTime) -> u64 {
    moment.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// One try.
pub(super) async fn over_rest(rest: &rest::Client, batch: &[Submit], atomic: bool) -> Result<Batch, Error> {
    if let ([submit], false) = (batch, atomic) {
        let task = rest.try_submit(&submit.body()?).await?;
        return Ok(vec![Ok(Submitted { id: task.id, state: task.state })]);
    }
    let bodies: Vec<SubmitBody<'_>> = batch.iter().map(Submit::body).collect::<Result<_, _>>()?;
    let answered = rest.try_submit_batch(&bodies, atomic).await?;
    let item = |item| match item {
        BatchItem::Submitted { id, state } => Ok(Submitted { id, state }),
        BatchItem::Refused(refused) => {
            Err(Error::Refused { problem: Box::new(refused.error), retry_after: None })
        }
    };
    Ok(answered.results.into_iter().map(item).collect())
}
