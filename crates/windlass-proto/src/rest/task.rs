//! A task as people and workers see it.

mod write;

pub use write::Shown;

use std::fmt;

use bytes::Bytes;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use windlass_core::limits::DEPENDENCIES_SHOWN_MAX;
use windlass_core::{Attempt, Links, Name, Payload, Priority, State, StateName, Task, TaskId, Token};

use super::json::{Base64, Json};
use super::outcome::ProgressBody;
use super::retry::RetryBody;
#[cfg(feature = "openapi")]
use super::schema;
use super::text;
use super::time::{Seconds, Time};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskBody {
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::TaskId))]
    pub id: TaskId,
    #[serde(rename = "type", with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name))]
    pub kind: Name,
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name))]
    pub queue: Name,
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Name>))]
    pub key: Option<Name>,
    #[serde(with = "text::state")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::State, examples("pending")))]
    pub state: StateName,
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Priority))]
    pub priority: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub payload: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<Base64>,
    pub attempts: u32,
    pub max_retries: u32,
    pub crashes: u32,
    pub max_crashes: u32,
    pub timeout_seconds: Seconds,
    pub retention_seconds: Seconds,
    pub retry: RetryBody,
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Metadata))]
    pub metadata: Metadata,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_key: Option<String>,
    /// When the key is free even if the task still lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_until: Option<Time>,
    /// `asked`, `expired`, `replaced`, `dependency` or `forgotten`, of a cancelled task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::CancelCause>))]
    pub cancel_reason: Option<String>,
    /// Tasks that must complete first: the first 100 of them.
    #[serde(default, with = "text::list", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<schema::TaskId>))]
    pub dependencies: Vec<TaskId>,
    /// All of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependency_count: Option<u32>,
    /// While it is blocked: those that have not completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependencies_open: Option<u32>,
    /// The workflow that it is a node of.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Name>))]
    pub workflow_id: Option<Name>,
    pub created_at: Time,
    pub updated_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_retry_at: Option<Time>,
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Name>))]
    pub worker_id: Option<Name>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_expires_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressBody>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub error: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub result: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<Base64>,
    /// When its worker saved its checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_at: Option<Time>,
    /// What an earlier attempt saved, or this one; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_base64: Option<Base64>,
    /// The proof of the claim, in the answer to the claim only.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Lease>))]
    pub lease: Option<Token>,
}

impl TaskBody {
    /// The task as its holder sees it, with the lease.
    pub fn leased(task: Task) -> Self {
        let lease = match &task.record.state {
            State::Running(lease) => Some(lease.token),
            _ => None,
        };
        Self { lease, ..Self::from(task) }
    }

    /// The payload, whichever way it came.
    pub fn payload(&self) -> Payload {
        joined(&self.payload, &self.payload_base64).unwrap_or(Payload::Json(Bytes::from_static(b"null")))
    }

    pub fn result(&self) -> Option<Payload> {
        joined(&self.result, &self.result_base64)
    }

    pub fn priority(&self) -> Priority {
        Priority(self.priority)
    }
}

impl From<Task> for TaskBody {
    fn from(task: Task) -> Self {
        let Task { record, body } = task;
        let state = record.state.name();
        let completed_at = record.ended_at().map(Time::from_ms);
        let next_retry_at = match record.state {
            State::Retrying { at } => Some(Time::from_ms(at)),
            _ => None,
        };
        let cancel_reason = match record.state {
            State::Cancelled { reason, .. } => Some(reason.as_str().to_owned()),
            _ => None,
        };
        let dependencies_open = match record.state {
            State::Blocked { open } => Some(open),
            _ => None,
        };
        let links = body.links;
        let shown = |links: &Links| links.dependencies.iter().take(DEPENDENCIES_SHOWN_MAX).cloned().collect();
        let dependencies = links.as_deref().map(shown).unwrap_or_default();
        let (worker_id, lease_expires_at) = match record.state {
            State::Running(lease) => (Some(lease.worker), Some(Time::from_ms(lease.expires_at))),
            _ => (None, None),
        };
        let (unique_key, unique_until) = match record.unique {
            Some(hold) => (Some(hold.key.to_string()), hold.until.map(Time::from_ms)),
            None => (None, None),
        };
        let (checkpoint_at, checkpoint_base64) = match record.checkpoint {
            Some(it) => (Some(Time::from_ms(it.saved_at)), Some(Base64(it.bytes))),
            None => (None, None),
        };
        let (payload, payload_base64) = split(Some(body.payload));
        let (result, result_base64) = split(record.result);
        Self {
            id: record.id,
            kind: record.kind,
            queue: record.queue,
            key: record.key,
            state,
            priority: record.priority.0,
            payload,
            payload_base64,
            attempts: record.attempts,
            max_retries: body.max_retries,
            crashes: record.crashes,
            max_crashes: body.max_crashes,
            timeout_seconds: Seconds::from_ms(body.timeout_ms),
            retention_seconds: Seconds::from_ms(record.retention_ms),
            retry: body.retry.into(),
            metadata: Metadata(body.metadata),
            unique_key,
            unique_until,
            cancel_reason,
            dependencies,
            dependency_count: links.as_ref().map(|links| links.dependencies.len() as u32).filter(|n| *n > 0),
            dependencies_open,
            workflow_id: links.and_then(|links| links.workflow),
            created_at: Time::from_ms(record.created_at),
            updated_at: Time::from_ms(record.updated_at),
            scheduled_at: record.scheduled_at.map(Time::from_ms),
            expires_at: record.expires_at.map(Time::from_ms),
            started_at: record.started_at.map(Time::from_ms),
            completed_at,
            next_retry_at,
            worker_id,
            lease_expires_at,
            progress: record.progress.map(ProgressBody::from),
            error: record.error,
            result,
            result_base64,
            checkpoint_at,
            checkpoint_base64,
            lease: None,
        }
    }
}

pub(super) fn split(payload: Option<Payload>) -> (Option<Json>, Option<Base64>) {
    match payload {
        Some(Payload::Json(bytes)) => (Some(Json(bytes)), None),
        Some(Payload::Binary(bytes)) => (None, Some(Base64(bytes))),
        None => (None, None),
    }
}

fn joined(json: &Option<Json>, base64: &Option<Base64>) -> Option<Payload> {
    match (json, base64) {
        (Some(json), _) => Some(Payload::Json(json.0.clone())),
        (None, Some(bytes)) => Some(Payload::Binary(bytes.0.clone())),
        (None, None) => None,
    }
}

/// A map of strings that keeps its order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata(pub Vec<(String, String)>);

impl Metadata {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Pairs(&self.0).serialize(serializer)
    }
}

/// The same, of somebody else.
struct Pairs<'a>(&'a [(String, String)]);

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Metadata;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_unit<E>(self) -> Result<Metadata, E> {
                Ok(Metadata::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
                let mut entries: Vec<(String, String)> = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, String>()? {
                    // As in JSON objects elsewhere, the last of two equal keys counts.
                    entries.retain(|(name, _)| *name != key);
                    entries.push((key, value));
                }
                Ok(Metadata(entries))
            }
        }
        deserializer.deserialize_any(Entries)
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskPage {
    pub items: Vec<TaskBody>,
    /// Give it back as `cursor` to continue; `null` at the end.
    pub next_cursor: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttemptsBody {
    pub items: Vec<AttemptBody>,
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttemptBody {
    pub attempt: u32,
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name))]
    pub worker_id: Name,
    pub started_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// `running`, `completed`, `failed`, `crashed`, `released` or `cancelled`.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::AttemptOutcome))]
    pub outcome: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl AttemptsBody {
    /// The attempts that ended, oldest first, then the one under way.
    pub fn of(task: &Task) -> Self {
        let mut items: Vec<AttemptBody> = task.record.history.iter().map(AttemptBody::from).collect();
        if let State::Running(lease) = &task.record.state {
            items.push(AttemptBody {
                attempt: task.record.attempts,
                worker_id: lease.worker.clone(),
                started_at: Time::from_ms(lease.started_at),
                ended_at: None,
                duration_ms: None,
                outcome: StateName::Running.as_str().to_owned(),
                error: None,
            });
        }
        Self { items }
    }
}

impl From<&Attempt> for AttemptBody {
    fn from(attempt: &Attempt) -> Self {
        Self {
            attempt: attempt.number,
            worker_id: attempt.worker.clone(),
            started_at: Time::from_ms(attempt.started_at),
            ended_at: Some(Time::from_ms(attempt.ended_at)),
            duration_ms: Some(attempt.ended_at.saturating_sub(attempt.started_at)),
            outcome: attempt.outcome.as_str().to_owned(),
            error: attempt.error.as_deref().map(str::to_owned),
        }
    }
}

/// Why a task is not running now.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExplanationBody {
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::TaskId))]
    pub id: TaskId,
    #[serde(with = "text::state")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::State))]
    pub state: StateName,
    /// Whether a worker could take it now.
    pub runnable: bool,
    pub reasons: Vec<ReasonBody>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReasonBody {
    pub code: String,
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}
