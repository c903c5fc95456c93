//! Schedules as they are shown.

use serde::{Deserialize, Serialize};
use windlass_core::schedule::{Fire, Planned, Schedule, Template};
use windlass_core::{Name, Record, StateName, TaskId};

use crate::rest::json::{Base64, Json};
use crate::rest::retry::RetryBody;
#[cfg(feature = "openapi")]
use crate::rest::schema;
use crate::rest::task::{Metadata, ReasonBody, split};
use crate::rest::text;
use crate::rest::time::{Seconds, Time};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduleBody {
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name))]
    pub id: Name,
    pub cron: String,
    pub timezone: String,
    pub task: TemplateBody,
    #[cfg_attr(feature = "openapi", schema(value_type = schema::OverlapRule))]
    pub overlap: String,
    #[cfg_attr(feature = "openapi", schema(value_type = schema::CatchUpRule))]
    pub catch_up: String,
    pub catch_up_window_seconds: Seconds,
    pub jitter_seconds: Seconds,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Time>,
    pub paused: bool,
    pub created_at: Time,
    /// When its definition changed last.
    pub updated_at: Time,
    /// The next slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Time>,
    /// A slot that waits for the last fire to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_at: Option<Time>,
    /// The last slot that fired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<Time>,
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::TaskId>))]
    pub last_task_id: Option<TaskId>,
    /// Tasks made so far.
    pub fired: u64,
    /// Slots left out because the last fire was not finished.
    pub skipped: u64,
    /// What it is about to do: code `scheduled`, `late`, `queued`, `paused`, `ended`, `clock_set_back` or `cannot_fire`.
    pub standing: ReasonBody,
}

/// What every task of a schedule looks like.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TemplateBody {
    #[serde(rename = "type", with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name))]
    pub kind: Name,
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name))]
    pub queue: Name,
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Name>))]
    pub key: Option<Name>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub payload: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<Base64>,
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Priority))]
    pub priority: u8,
    pub max_retries: u32,
    pub max_crashes: u32,
    pub timeout_seconds: Seconds,
    pub retention_seconds: Seconds,
    pub retry: RetryBody,
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Metadata))]
    pub metadata: Metadata,
}

impl ScheduleBody {
    pub fn new(schedule: Schedule, standing: ReasonBody) -> Self {
        let Schedule { id, created_at, updated_at, definition, progress, fires, .. } = schedule;
        let last = fires.last();
        Self {
            id,
            cron: definition.timing.cron().to_owned(),
            timezone: definition.timing.zone().to_owned(),
            overlap: definition.overlap.as_str().to_owned(),
            catch_up: definition.catch_up.as_str().to_owned(),
            catch_up_window_seconds: Seconds::from_ms(definition.window_ms),
            jitter_seconds: Seconds::from_ms(definition.jitter_ms),
            starts_at: definition.starts_at.map(Time::from_ms),
            ends_at: definition.ends_at.map(Time::from_ms),
            paused: definition.paused,
            task: definition.template.into(),
            created_at: Time::from_ms(created_at),
            updated_at: Time::from_ms(updated_at),
            next_at: progress.wake_at.map(Time::from_ms),
            queued_at: progress.queued.map(Time::from_ms),
            last_at: last.map(|fire| Time::from_ms(fire.slot)),
            last_task_id: last.map(|fire| fire.task.clone()),
            fired: progress.fired,
            skipped: progress.skipped,
            standing,
        }
    }
}

impl From<Template> for TemplateBody {
    fn from(template: Template) -> Self {
        let Template { queue, kind, priority, retention_ms, key, body } = template;
        let (payload, payload_base64) = split(Some(body.payload));
        Self {
            kind,
            queue,
            key,
            payload,
            payload_base64,
            priority: priority.0,
            max_retries: body.max_retries,
            max_crashes: body.max_crashes,
            timeout_seconds: Seconds::from_ms(body.timeout_ms),
            retention_seconds: Seconds::from_ms(retention_ms),
            retry: body.retry.into(),
            metadata: Metadata(body.metadata),
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SchedulePage {
    pub items: Vec<ScheduleBody>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SlotsBody {
    pub items: Vec<SlotBody>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SlotBody {
    /// The slot.
    pub scheduled_at: Time,
    /// The slot and its jitter.
    pub starts_at: Time,
}

impl From<Planned> for SlotBody {
    fn from(planned: Planned) -> Self {
        Self { scheduled_at: Time::from_ms(planned.slot), starts_at: Time::from_ms(planned.starts_at) }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FiresBody {
    pub items: Vec<FireBody>,
}

/// A task that a schedule made, and what became of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FireBody {
    /// The slot; for a run by hand, when it was asked for.
    pub scheduled_at: Time,
    pub fired_at: Time,
    /// It was asked for, outside the slots.
    pub manual: bool,
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::TaskId))]
    pub task_id: TaskId,
    /// Absent when the task is forgotten already.
    #[serde(default, with = "text::option_state", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::State>))]
    pub state: Option<StateName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub error: Option<Box<str>>,
}

impl FireBody {
    pub fn new(fire: Fire, task: Option<Record>) -> Self {
        let task = task.as_ref();
        Self {
            scheduled_at: Time::from_ms(fire.slot),
            fired_at: Time::from_ms(fire.fired_at),
            manual: fire.manual,
            task_id: fire.task,
            state: task.map(Record::state_name),
            started_at: task.and_then(|task| task.started_at).map(Time::from_ms),
            completed_at: task.and_then(Record::ended_at).map(Time::from_ms),
            error: task.and_then(|task| task.error.clone()),
        }
    }
}
