//! The whole broker in numbers.

use serde::{Deserialize, Serialize};
use windlass_core::Class;

use super::queues::{Rates, StateCounts};
#[cfg(feature = "openapi")]
use super::schema;
use super::time::{Seconds, Time};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StatsBody {
    /// Tasks by state. Of the store, as are the ledger, the queues and the age: brokers that share one say the same.
    pub tasks: StateCounts,
    pub pending_by_priority: ClassCounts,
    pub ledger: LedgerBody,
    /// Of what went through this broker.
    pub rates: Rates,
    /// Of the attempts that completed on this broker in the last minute.
    pub mean_duration_ms: Option<f64>,
    pub queues: u64,
    pub oldest_pending_age_seconds: Option<Seconds>,
    /// Workers of this broker.
    pub active_workers: u64,
    /// Of this broker.
    pub uptime_seconds: Seconds,
}

/// Pending tasks by priority class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClassCounts {
    pub critical: u64,
    pub high: u64,
    pub normal: u64,
    pub low: u64,
}

impl From<[u64; 4]> for ClassCounts {
    fn from(by_class: [u64; 4]) -> Self {
        let of = |class: Class| {
            Class::ALL.iter().position(|known| *known == class).map_or(0, |index| by_class[index])
        };
        Self {
            critical: of(Class::Critical),
            high: of(Class::High),
            normal: of(Class::Normal),
            low: of(Class::Low),
        }
    }
}

/// What happened since the store was made. `submitted` is the number of tasks in it and of those removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LedgerBody {
    pub submitted: u64,
    pub completed: u64,
    pub failed: u64,
    pub crashed: u64,
    pub dead_lettered: u64,
    pub cancelled: u64,
    pub expired: u64,
    pub removed: u64,
}

/// Whether the broker gets its work done.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HealthBody {
    /// `ok`, `stopping` or `unavailable`.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::HealthStatus))]
    pub status: String,
    /// What is wrong, if anything is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    pub version: String,
    pub store: String,
    /// When a submit is answered: `sync`, `interval`, `os`, `snapshots` or `none`.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Durability))]
    pub durability: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_interval_ms: Option<u64>,
    /// Replicas that have what is answered, if answers wait for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    pub persistent: bool,
    /// This broker decides alone; a cluster names its leader here.
    pub leader: String,
    pub quorum: bool,
    pub active_workers: u64,
    pub oldest_pending_age_seconds: Option<Seconds>,
    pub last_commit_age_seconds: Option<Seconds>,
    pub uptime_seconds: Seconds,
    pub loops: Vec<LoopBody>,
}

/// A background loop.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LoopBody {
    pub name: String,
    pub last_ok_at: Option<Time>,
    pub failures_in_a_row: u64,
}
