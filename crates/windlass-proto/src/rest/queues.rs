//! Queues, and acts on many tasks at once.

use serde::{Deserialize, Serialize};
use windlass_core::{Name, StateName, TaskId};

use super::limit::AgeingBody;
#[cfg(feature = "openapi")]
use super::schema;
use super::stats::ClassCounts;
use super::text;
use super::time::Seconds;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueuesBody {
    pub items: Vec<QueueBody>,
    /// Give it back as `cursor` to continue; `null` at the end.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueueBody {
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name))]
    pub name: Name,
    pub paused: bool,
    /// Tasks by state.
    pub tasks: StateCounts,
    pub pending_by_priority: ClassCounts,
    /// Of the oldest pending task.
    pub oldest_pending_age_seconds: Option<Seconds>,
    pub rates: Rates,
    /// What waiting is worth, if its limit says so; told of one queue, not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ageing: Option<AgeingBody>,
}

/// Tasks by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StateCounts {
    pub scheduled: u64,
    pub blocked: u64,
    pub pending: u64,
    pub running: u64,
    pub retrying: u64,
    pub completed: u64,
    pub dead_letter: u64,
    pub cancelled: u64,
}

impl From<[u64; 8]> for StateCounts {
    fn from(by_state: [u64; 8]) -> Self {
        let of = |state: StateName| by_state[state.index()];
        Self {
            scheduled: of(StateName::Scheduled),
            blocked: of(StateName::Blocked),
            pending: of(StateName::Pending),
            running: of(StateName::Running),
            retrying: of(StateName::Retrying),
            completed: of(StateName::Completed),
            dead_letter: of(StateName::DeadLetter),
            cancelled: of(StateName::Cancelled),
        }
    }
}

/// Over the last minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Rates {
    pub submitted_per_second: f64,
    pub completed_per_second: f64,
    pub failed_per_second: f64,
}

/// Which dead letters: either `ids`, or `all` with optional filters.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeadSelection {
    #[serde(default, with = "text::option_list", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::BatchIds>))]
    pub ids: Option<Vec<TaskId>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Name>))]
    pub queue: Option<Name>,
    #[serde(rename = "type", default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Name>))]
    pub kind: Option<Name>,
    /// Part of the id, the type or the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
    /// As in lists: `type:email.* error:timeout since:2h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::FilterGiven>))]
    pub filter: Option<String>,
    /// Only count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// How many tasks an act touched, or would touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Affected {
    pub affected: u64,
}
