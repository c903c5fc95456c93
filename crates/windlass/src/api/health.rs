//! Whether the broker lives, is ready, and does its work.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_client::show;
use windlass_proto::rest::HealthBody;

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
    (health.ok, show::health(health))
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
