//! Dead letters grouped by what their errors are like.

use serde::{Deserialize, Serialize};
use windlass_core::{Fingerprint, Name, TaskId};

#[cfg(feature = "openapi")]
use super::schema;
use super::text;
use super::time::Time;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeadGroupsBody {
    /// The largest first.
    pub items: Vec<DeadGroupBody>,
    /// Dead letters that were looked at, the newest ones.
    pub scanned: u64,
    /// False if there are more dead letters than were looked at, or more groups than were asked for.
    pub complete: bool,
}

/// Dead letters whose errors differ only in numbers, ids, times and quoted text.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeadGroupBody {
    /// For the word `fingerprint:` of a filter.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, examples("d26b3c2f193bc591")))]
    pub fingerprint: Fingerprint,
    pub count: u64,
    /// The error of the newest of them; a long one is cut.
    pub sample_error: String,
    /// If all of them have the same.
    #[serde(rename = "type", default, with = "text::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Name>))]
    pub kind: Option<Name>,
    /// If all of them have the same.
    #[serde(default, with = "text::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Name>))]
    pub queue: Option<Name>,
    /// When the first of them became a dead letter.
    pub first_at: Time,
    pub last_at: Time,
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::TaskId))]
    pub sample_task_id: TaskId,
}
