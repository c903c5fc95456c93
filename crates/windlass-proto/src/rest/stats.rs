//! The whole broker in numbers.

use serde::{Deserialize, Serialize};
use windlass_core::Class;

use super::queues::{Rates, StateCounts};
use super::time::Seconds;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StatsBody {
    /// Tasks by state.
    pub tasks: StateCounts,
    pub pending_by_priority: ClassCounts,
    pub ledger: LedgerBody,
    pub rates: Rates,
    /// Of the attempts that completed in the last minute.
    pub mean_duration_ms: Option<f64>,
    pub active_workers: u64,
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

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HealthBody {
    /// `ok` or `unavailable`.
    pub status: String,
    pub version: String,
    pub store: String,
    /// When an answer is given: `sync`, `interval`, `os` or `none`.
    pub durability: String,
    pub persistent: bool,
    pub active_workers: u64,
    pub oldest_pending_age_seconds: Option<Seconds>,
    pub uptime_seconds: Seconds,
}
