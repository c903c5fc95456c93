//! Whether the broker lives, is ready, and does its work.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_client::show;
use windlass_proto::rest::{HealthBody, Problem};

use super::Shared;
use super::answer::{self, Answer};
use super::problem::Refused;

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new()
        .routes(routes!(health))
        .routes(routes!(short_health))
        .routes(routes!(livez))
        .routes(routes!(readyz))
}

/// Health in detail; also at `/health`
#[utoipa::path(get, path = "/api/v1/health", operation_id = "get_health", tag = "system",
    responses((status = 200, description = "It can serve", body = HealthBody),
        (status = 503, description = "It cannot", body = HealthBody)))]
async fn health(State(state): Shared) -> Answer {
    let (ok, body) = look(&state).await;
    let code = if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut answer = answer::json(code, &body, 512)?;
    if !ok {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    Ok(answer)
}

/// Health in detail, at the address that probes expect
#[utoipa::path(get, path = "/health", operation_id = "get_health_short", tag = "system",
    responses((status = 200, description = "It can serve", body = HealthBody),
        (status = 503, description = "It cannot", body = HealthBody)))]
async fn short_health(state: Shared) -> Answer {
    health(state).await
}

/// Whether it can serve, and the details.
pub(crate) async fn look(state: &super::State) -> (bool, HealthBody) {
    let health = state.broker.health().await;
    (health.ok, show::health(health))
}

/// The process answers
#[utoipa::path(get, path = "/livez", operation_id = "get_liveness", tag = "system", responses((status = 200, description = "It lives", body = String, content_type = "text/plain")))]
async fn livez() -> &'static str {
    "ok\n"
}

/// It can take requests
#[utoipa::path(get, path = "/readyz", operation_id = "get_readiness", tag = "system",
    responses((status = 200, description = "Send requests", body = String, content_type = "text/plain"),
        (status = 503, description = "Do not", body = Problem, content_type = "application/problem+json")))]
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
