//! Live events, as they stand in a message of a WebSocket and in the data of a server-sent event.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use windlass_core::{Name, StateName, TaskId};

use super::outcome::ProgressBody;
use super::queues::StateCounts;
#[cfg(feature = "openapi")]
use super::schema;
use super::text;
use super::time::{Seconds, Time};

/// The envelope of every event. What `data` holds depends on `type`: `TaskEventBody` for `task.*`, `WorkerEventBody` for
/// `worker.*`, `QueueEventBody` for `queue.paused` and `queue.resumed`, `QueueDepthsBody` for `queue.depth`,
/// `SystemMetricsBody` for `system.metrics`, `GapBody` for `gap`, `PositionBody` for
/// `position` and `ClosedBody` for `closed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventBody<D = serde_json::Value> {
    /// Grows with every event. Whoever comes back names the last one it has seen.
    pub id: u64,
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    pub timestamp: Time,
    pub data: D,
}

impl EventBody {
    /// The data as one of the bodies here.
    pub fn read<D: for<'de> Deserialize<'de>>(&self) -> serde_json::Result<D> {
        D::deserialize(&self.data)
    }
}

/// A task as it was just after the event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskEventBody {
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::TaskId))]
    pub task_id: TaskId,
    #[serde(rename = "type", with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name))]
    pub kind: Name,
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name))]
    pub queue: Name,
    #[serde(with = "text::state")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::State))]
    pub state: StateName,
    /// Grows with every change of the task.
    pub revision: u64,
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Priority))]
    pub priority: u8,
    pub attempts: u32,
    /// Who runs it, or ran it last.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Name>))]
    pub worker_id: Option<Name>,
    /// The first kilobyte of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub error: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressBody>,
    /// Of the attempt that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// When it will run, if that is not now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Time>,
    /// Why it was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub reason: Option<Cow<'static, str>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkerEventBody {
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name))]
    pub worker_id: Name,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueueEventBody {
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name))]
    pub queue: Name,
}

/// The deepest queues, at most a hundred.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueueDepthsBody {
    pub queues: Vec<QueueDepthBody>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueueDepthBody {
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name))]
    pub queue: Name,
    pub depths: StateCounts,
    /// Where a store knows it without a search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_pending_seconds: Option<Seconds>,
    pub paused: bool,
}

/// The broker in numbers. Totals grow while it runs; what lies between two of them is a rate.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SystemMetricsBody {
    pub submitted_total: u64,
    /// Attempts since the broker started.
    pub started_total: u64,
    pub completed_total: u64,
    /// Attempts, lost leases included.
    pub failed_total: u64,
    /// By a failure, a lost lease or a person, since the broker started.
    pub retried_total: u64,
    pub dead_lettered_total: u64,
    pub cancelled_total: u64,
    pub workers: u64,
    pub running: u64,
    pub pending: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// 100 is one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
}

/// Events are missing here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GapBody {
    /// How many, whether or not they would have passed the filter; null if nobody knows.
    pub missed: Option<u64>,
    /// `restart`: the last id is of a broker that is no more, or of another one. `overrun`: more happened than is kept. `expired`:
    /// nobody listened for so long that nothing was kept. `unheard`: other processes on the same store were not heard.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::GapReason))]
    pub reason: Cow<'static, str>,
}

/// Nothing happened that passes the filter up to the id of this message: whoever comes back with it misses nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PositionBody {}

/// The last that a listener hears before its connection ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClosedBody {
    /// `too_slow` or `stopping`.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::ClosedReason))]
    pub reason: Cow<'static, str>,
}
