//! Whether the broker lives, is ready, and does its work.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_proto::rest::{HealthBody, LoopBody, Seconds, Time};
use windlass_store::Durability;

use super::Shared;
use super::answer::{self, Answer};
use super::problem::Refused;

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new()
        .routes(routes!(health))
        .routes(routes!(livez))
        .routes(routes!(readyz))
        .route("/health", axum::routing::get(health))
}

/// Health in detail; also at `/health`
#[utoipa::path(get, path = "/api/v1/health", tag = "system",
    responses((status = 200, description = "It can serve", body = HealthBody),
        (status = 503, description = "It cannot", body = HealthBody)))]
async fn health(State(state): Shared) -> Answer {
    let (ok, body) = look(&state).await;
    let code = if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer::json(code, &body, 512)
}

/// Whether it can serve, and the details.
pub(crate) async fn look(state: &super::State) -> (bool, HealthBody) {
    let health = state.broker.health().await;
    let (durability, sync_interval_ms) = match health.durability {
        Durability::Sync => ("sync", None),
        Durability::IntervalMs(ms) => ("interval", Some(ms)),
        Durability::Os => ("os", None),
        Durability::Snapshots => ("snapshots", None),
        Durability::None => ("none", None),
    };
    let status = match (health.ok, health.draining) {
        (false, _) => "unavailable",
        (true, true) => "stopping",
        (true, false) => "ok",
    };
    let loops = health.loops.into_iter().map(|this| LoopBody {
        name: this.name.to_owned(),
        last_ok_at: this.ok_at.map(Time::from_ms),
        failures_in_a_row: this.failures,
    });
    let body = HealthBody {
        status: status.to_owned(),
        problem: health.problem,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        store: health.store.to_owned(),
        durability: durability.to_owned(),
        sync_interval_ms,
        persistent: health.persistent,
        leader: "self".to_owned(),
        quorum: health.ok,
        active_workers: health.workers_active as u64,
        oldest_pending_age_seconds: health.oldest_pending_age_ms.map(Seconds::from_ms),
        last_commit_age_seconds: health.last_commit_age_ms.map(Seconds::from_ms),
        uptime_seconds: Seconds::from_ms(health.uptime_ms),
        loops: loops.collect(),
    };
    (health.ok, body)
}

/// The process answers
#[utoipa::path(get, path = "/livez", tag = "system", responses((status = 200, description = "It lives")))]
async fn livez() -> &'static str {
    "ok\n"
}

/// It can take requests
#[utoipa::path(get, path = "/readyz", tag = "system",
    responses((status = 200, description = "Send requests"), (status = 503, description = "Do not")))]
async fn readyz(State(state): Shared) -> Result<&'static str, Refused> {
    let health = state.broker.health().await;
    let refused = |code, title| Refused::new(StatusCode::SERVICE_UNAVAILABLE, code, title);
    if !health.ok {
        return Err(
            refused("store_failed", "The store is not available").detail(health.problem.unwrap_or_default())
        );
    }
    if health.draining {
        return Err(refused("stopping", "The broker is stopping"));
    }
    Ok("ok\n")
}
