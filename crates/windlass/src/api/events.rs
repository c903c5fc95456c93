//! Live events for whoever listens: over a WebSocket, or as server-sent events. Both carry the same messages.
//!
//! A listener is refused before it costs anything: by the origin of the page that asks, by a filter that is not understood, by
//! their number. Once it is in, what it can hold is bounded: its place in the broker's ring, and one write that it has not read.
//! A listener that does not read is cut and told (`server.listener_stall`); one that reads too slowly is
//! told what it missed. All of them are served by one thread that stands back for the others ([`room`]), so that however
//! many listen, tasks come first.

mod params;
mod room;
mod sse;
mod text;
mod websocket;

use std::sync::Arc;

use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::{HeaderMap, StatusCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_proto::rest::{
    ClosedBody, EventBody, GapBody, PositionBody, QueueDepthsBody, QueueEventBody, SystemMetricsBody,
    TaskEventBody, WorkerEventBody,
};

use super::Shared;
use super::answer::Answer;
use super::origin;
use super::params::Params;
use super::problem::Refused;
use params::EventParams;
pub(crate) use room::{Listens, Room};

#[derive(utoipa::OpenApi)]
#[openapi(components(schemas(
    ClosedBody,
    GapBody,
    PositionBody,
    QueueDepthsBody,
    QueueEventBody,
    SystemMetricsBody,
    TaskEventBody,
    WorkerEventBody
)))]
struct Bodies;

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    let bodies = <Bodies as utoipa::OpenApi>::openapi();
    OpenApiRouter::with_openapi(bodies).routes(routes!(sse)).routes(routes!(websocket))
}

/// Live events as server-sent events
///
/// Every event has its id and, as data, the same message as over the WebSocket. The header `Last-Event-ID`, which browsers send by
/// themselves when they come back, goes before `last_id`.
#[utoipa::path(get, path = "/api/v1/events", tag = "events", params(EventParams),
    responses((status = 200, description = "Events until either side ends it", content_type = "text/event-stream", body = EventBody),
        (status = 403, description = "The page that asks is of another origin"),
        (status = 503, description = "Too many listen")))]
async fn sse(State(state): Shared, headers: HeaderMap, params: Params<EventParams>) -> Answer {
    origin::check(&headers, &state.settings.origins)?;
    let (filter, last_id) = params.0.check(headers.get("last-event-id"))?;
    let listener = state.broker.listen(filter, last_id)?;
    Ok(sse::answer(&state, listener))
}

/// Live events over a WebSocket
///
/// Every message is one event as JSON text. Whatever the client sends is ignored but for pings and the close.
#[utoipa::path(get, path = "/ws", tag = "events", params(EventParams),
    responses((status = 101, description = "Events until either side closes", body = EventBody),
        (status = 403, description = "The page that asks is of another origin"),
        (status = 426, description = "No WebSocket was asked for"),
        (status = 503, description = "Too many listen")))]
async fn websocket(
    State(state): Shared,
    headers: HeaderMap,
    params: Params<EventParams>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Answer {
    origin::check(&headers, &state.settings.origins)?;
    let (filter, last_id) = params.0.check(None)?;
    let upgrade = upgrade.map_err(|rejection| no_websocket(&rejection))?;
    let listener = state.broker.listen(filter, last_id)?;
    Ok(websocket::answer(&state, upgrade, listener))
}

fn no_websocket(rejection: &WebSocketUpgradeRejection) -> Refused {
    Refused::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", "This route is for WebSockets")
        .detail(rejection.body_text())
}
