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

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::{HeaderMap, StatusCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_proto::rest::{Problem, schema};

use super::Shared;
use super::answer::Answer;
use super::origin;
use super::params::Params;
use super::problem::Refused;
use crate::server::budget::Account;
use params::EventParams;
pub(crate) use room::{Listens, Room};

pub(super) const SOCKET_PATH: &str = "/ws";

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new().routes(routes!(sse)).routes(routes!(websocket))
}

/// Live events as server-sent events
///
/// Every event has its id and, as data, the same message as over the WebSocket. The header `Last-Event-ID`, which browsers send by
/// themselves when they come back, goes before `last_id`.
#[utoipa::path(get, path = "/api/v1/events", operation_id = "stream_events", tag = "events",
    params(EventParams, ("Last-Event-ID" = Option<schema::Unsigned64>, Header, description = "Goes before `last_id`")),
    responses((status = 200, description = "Events until either side ends it", content_type = "text/event-stream", body = schema::Event),
        (status = 403, description = "The page that asks is of another origin", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "Too many listen", body = Problem, content_type = "application/problem+json")))]
async fn sse(State(state): Shared, headers: HeaderMap, params: Params<EventParams>) -> Answer {
    origin::check(&headers, &state.settings.origins)?;
    let (filter, last_id) = params.0.check(headers.get("last-event-id"))?;
    let listener = state.broker.listen(filter, last_id)?;
    Ok(sse::answer(&state, listener))
}

/// Live events over a WebSocket
///
/// Every message is one event as JSON text. Whatever the client sends is ignored but for pings and the close.
#[utoipa::path(get, path = "/ws", operation_id = "open_websocket", tag = "events", params(EventParams),
    responses((status = 101, description = "Events until either side closes, each an `EventBody` as text"),
        (status = 403, description = "The page that asks is of another origin", body = Problem, content_type = "application/problem+json"),
        (status = 426, description = "No WebSocket was asked for", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "Too many listen", body = Problem, content_type = "application/problem+json")))]
async fn websocket(
    State(state): Shared,
    headers: HeaderMap,
    params: Params<EventParams>,
    account: Option<Extension<Arc<Account>>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Answer {
    origin::check(&headers, &state.settings.origins)?;
    let (filter, last_id) = params.0.check(None)?;
    let upgrade = upgrade.map_err(|rejection| no_websocket(&rejection))?;
    let listener = state.broker.listen(filter, last_id)?;
    let account = account.map(|Extension(account)| account);
    Ok(websocket::answer(&state, upgrade, listener, account))
}

fn no_websocket(rejection: &WebSocketUpgradeRejection) -> Refused {
    Refused::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", "This route is for WebSockets")
        .detail(rejection.body_text())
}
