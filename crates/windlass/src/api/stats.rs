//! The whole broker in numbers.

use std::sync::Arc;

use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_proto::rest::{LedgerBody, Rates, Seconds, StatsBody};

use super::answer::{self, Answer};
use super::problem::Refused;
use super::{Shared, now_ms};

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new().routes(routes!(stats))
}

/// Counts, rates and workers
#[utoipa::path(get, path = "/api/v1/stats", tag = "system",
    responses((status = 200, description = "The numbers", body = StatsBody)))]
async fn stats(State(state): Shared) -> Answer {
    answer::ok(&look(&state).await?)
}

pub(crate) async fn look(state: &super::State) -> Result<StatsBody, Refused> {
    let stats = state.broker.stats().await?;
    let ledger = stats.ledger;
    Ok(StatsBody {
        tasks: stats.by_state.into(),
        pending_by_priority: stats.pending_by_class.into(),
        ledger: LedgerBody {
            submitted: ledger.submitted,
            completed: ledger.completed,
            failed: ledger.failed,
            crashed: ledger.crashed,
            dead_lettered: ledger.dead_lettered,
            cancelled: ledger.cancelled,
            expired: ledger.expired,
            removed: ledger.removed,
        },
        rates: Rates {
            submitted_per_second: stats.submitted_per_second,
            completed_per_second: stats.completed_per_second,
            failed_per_second: stats.failed_per_second,
        },
        mean_duration_ms: stats.mean_duration_ms,
        queues: stats.queues as u64,
        oldest_pending_age_seconds: stats
            .oldest_pending_at
            .map(|at| Seconds::from_ms(now_ms().saturating_sub(at))),
        active_workers: stats.workers_active as u64,
        uptime_seconds: Seconds::from_ms(stats.uptime_ms),
    })
}
