//! Workers and their signs of life.

use serde::{Deserialize, Serialize};
use windlass_core::{Name, TaskId};

use super::json::Base64;
use super::object;
#[cfg(feature = "openapi")]
use super::schema;
use super::text;
use super::time::Time;

/// A sign of life: keeps the worker in the registry and extends the leases it names.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BeatBody {
    /// As in the path, if given at all.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Name>))]
    pub worker_id: Option<Name>,
    /// Drawn at random when the worker starts, to tell it from an earlier one of the same name.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Unsigned64))]
    pub incarnation: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::WorkerText>))]
    pub host: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Unsigned32>))]
    pub pid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::WorkerText>))]
    pub version: Option<String>,
    #[serde(default, with = "text::list", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::ServedNames))]
    pub queues: Vec<Name>,
    #[serde(default, with = "text::option_list", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::ServedNames>))]
    pub types: Option<Vec<Name>>,
    /// Tasks it can run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Unsigned32>))]
    pub slots: Option<u32>,
    /// Share of one core, 1 is all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Unsigned64>))]
    pub memory_bytes: Option<u64>,
    #[serde(default, deserialize_with = "object::list", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::BeatLeases))]
    pub leases: Vec<LeaseRef>,
    /// The worker is going away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaving: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaseRef {
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::TaskId))]
    pub id: TaskId,
    pub lease: String,
    /// Up to 64 KiB for the attempts that follow, durable when this is answered; an empty one takes the last one away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Checkpoint>))]
    pub checkpoint_base64: Option<Base64>,
}

/// What the worker is told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PulseBody {
    #[serde(with = "text::list")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<schema::TaskId>))]
    pub extended: Vec<TaskId>,
    /// No longer its own: stop, a report would be refused.
    #[serde(with = "text::list")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<schema::TaskId>))]
    pub lost: Vec<TaskId>,
    /// Cancelled: stop working on them.
    #[serde(with = "text::list")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<schema::TaskId>))]
    pub cancel: Vec<TaskId>,
    /// Their checkpoint could not be kept now, though the lease is; send it again.
    #[serde(default, with = "text::list", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<schema::TaskId>))]
    pub unsaved: Vec<TaskId>,
    /// Claim nothing for now.
    pub paused: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkersBody {
    pub items: Vec<WorkerBody>,
    /// Give it back as `cursor` to continue; `null` at the end.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkerBody {
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name))]
    pub id: Name,
    /// Of the youngest process of this name; none if it never sent a heartbeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<u64>,
    pub paused: bool,
    /// Its heartbeats come, or it asked for work a short while ago.
    pub active: bool,
    /// Living processes of this name; more than one is a mistake.
    pub processes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(with = "text::list")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<schema::Name>))]
    pub queues: Vec<Name>,
    #[serde(default, with = "text::option_list", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<schema::Name>>))]
    pub types: Option<Vec<Name>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The tasks it holds.
    #[serde(with = "text::list")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<schema::TaskId>))]
    pub tasks: Vec<TaskId>,
    pub first_seen_at: Time,
    pub last_heartbeat_at: Time,
}
