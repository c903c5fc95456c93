//! The REST interface. A handler decodes, calls the broker and encodes; every rule is the broker's.
//! What other transports share with a handler (reading a body, the answer's body, the table of refusals) is a function of its
//! own beside it, which knows nothing of HTTP.
//!
//! To add a route: its bodies in `windlass_proto::rest`, a handler with its `#[utoipa::path]` in the file of its area here,
//! and its line in that file's `routes`. The OpenAPI document follows from that by itself.

mod answer;
mod backup;
pub(crate) mod batch;
mod body;
pub(crate) mod claim;
pub(crate) mod cursor;
mod dashboard;
pub(crate) mod dlq;
pub(crate) mod events;
mod front;
pub(crate) mod health;
pub(crate) mod identity;
pub(crate) mod limits;
mod metrics;
mod openapi;
pub(crate) mod operations;
mod origin;
pub(crate) mod outcomes;
pub(crate) mod params;
pub(crate) mod problem;
pub(crate) mod queues;
mod range;
pub(crate) mod schedules;
pub(crate) mod stats;
pub(crate) mod tasks;
#[cfg(test)]
mod tests;
pub(crate) mod traceparent;
pub(crate) mod workers;
pub(crate) mod workflows;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio_util::sync::CancellationToken;
use utoipa_axum::router::OpenApiRouter;
use windlass_broker::Broker;
use windlass_core::limits::PAYLOAD_BYTES_MAX;

pub(crate) use events::{Listens, Room};
pub(crate) use front::Front;
pub(crate) use origin::Origins;

use crate::server::budget::Budget;

/// What every handler needs.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) broker: Broker,
    pub(crate) settings: Settings,
    /// Listeners are served here.
    pub(crate) room: Room,
    /// Cancelled when what would go on for ever has to end.
    pub(crate) closing: CancellationToken,
    /// Shared by all interfaces.
    pub(crate) budget: Arc<Budget>,
    counters: front::Counters,
}

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Of one payload or result.
    pub(crate) payload_bytes_max: usize,
    /// From the first byte of a body to its last.
    pub(crate) body_timeout: Duration,
    /// For everything but the part of a request that waits for work or a result.
    pub(crate) request_timeout: Duration,
    /// How long a listener may leave what is written to it unread.
    pub(crate) listener_stall: Duration,
    /// Pages from elsewhere that may call and listen.
    pub(crate) origins: Origins,
    /// Only this machine can reach it: then a public name can only have been made to point here.
    pub(crate) local: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            body_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(60),
            listener_stall: Duration::from_secs(10),
            origins: Origins::default(),
            local: false,
        }
    }
}

impl Settings {
    pub(crate) fn body_bytes_max(&self) -> usize {
        body_bytes_max(self.payload_bytes_max)
    }
}

impl State {
    pub(crate) fn new(broker: Broker, settings: Settings) -> Self {
        let (room, closing) = (Room::default(), CancellationToken::new());
        let (budget, counters) = (Budget::unlimited(), front::Counters::default());
        Self { broker, settings, room, closing, budget, counters }
    }

    /// What clients make it hold is bounded by this.
    pub(crate) fn within(self, budget: Arc<Budget>) -> Self {
        Self { budget, ..self }
    }

    /// Listeners are served in this room, where the broker tells its events.
    pub(crate) fn listening_in(self, room: Room) -> Self {
        Self { room, ..self }
    }
}

/// The largest body. A payload may come as base64, with its task around it.
pub(crate) const fn body_bytes_max(payload_bytes_max: usize) -> usize {
    payload_bytes_max / 3 * 4 + 256 * 1024
}

type Shared = axum::extract::State<Arc<State>>;

pub(crate) fn serve(state: Arc<State>) -> Front {
    let (router, document) = OpenApiRouter::with_openapi(openapi::describe())
        .merge(tasks::routes())
        .merge(batch::routes())
        .merge(claim::routes())
        .merge(outcomes::routes())
        .merge(queues::routes())
        .merge(dlq::routes())
        .merge(schedules::routes())
        .merge(operations::routes())
        .merge(limits::routes())
        .merge(workers::routes())
        .merge(workflows::routes())
        .merge(stats::routes())
        .merge(backup::routes())
        .merge(health::routes())
        .merge(metrics::routes())
        .merge(events::routes())
        .merge(range::routes())
        .split_for_parts();
    let routes = router
        .merge(openapi::routes(&document))
        .merge(dashboard::routes())
        .fallback(problem::no_such_route)
        .method_not_allowed_fallback(problem::wrong_method)
        .with_state(state.clone());
    let routes = match origin::cors(&state.settings.origins) {
        Some(cors) => routes.layer(cors),
        None => routes,
    };
    Front::new(routes, state)
}

/// The wall clock, for judging whether a time in a request is possible.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
