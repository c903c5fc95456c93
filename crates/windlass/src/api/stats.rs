//! The whole broker in numbers.

use std::sync::Arc;

use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_client::show;
use windlass_proto::rest::StatsBody;

use super::answer::{self, Answer};
use super::problem::Refused;
use super::{Shared, now_ms};

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new().routes(routes!(stats))
}

/// Counts, rates and workers
#[utoipa::path(get, path = "/api/v1/stats", operation_id = "get_stats", tag = "system",
    responses((status = 200, description = "The numbers", body = StatsBody)))]
async fn stats(State(state): Shared) -> Answer {
    answer::ok(&look(&state).await?)
}

pub(crate) async fn look(state: &super::State) -> Result<StatsBody, Refused> {
    Ok(show::stats(state.broker.stats().await?, now_ms()))
}
