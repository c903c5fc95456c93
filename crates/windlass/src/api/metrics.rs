//! The metrics page, in the text format of Prometheus, made from a snapshot when somebody asks.
//!
//! Labels are types, queues, classes and states; never ids of tasks or workers. Types and queues beyond a limit are added up under
//! one name. To add a family: its lines in the file of its area here, its row in `docs/metrics.md`.

mod process;
mod queues;
mod store;
mod text;
mod types;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_broker::{Audience, Stats};
use windlass_core::StateName;

use super::problem::Refused;
use super::{Shared, front, now_ms};
use crate::server::budget::Usage;
use text::Text;

/// How long the page waits for the store. After that it shows that the store does not answer.
const STORE_WAIT: Duration = Duration::from_millis(900);

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new().routes(routes!(metrics))
}

/// Metrics for Prometheus
#[utoipa::path(get, path = "/metrics", operation_id = "get_metrics", tag = "system",
    responses((status = 200, description = "Text format 0.0.4", body = String, content_type = "text/plain")))]
async fn metrics(State(state): Shared) -> Result<Response, Refused> {
    let broker = &state.broker;
    let asked = async { broker.stats().await.ok().zip(broker.all_queues().await.ok()) };
    let seen = tokio::time::timeout(STORE_WAIT, asked).await.unwrap_or(None);
    let now = now_ms();
    let mut text = Text::default();
    let counted = broker.metrics();
    types::write(&mut text, &counted);
    text.gauge(
        "taskqueue_store_up",
        "Whether the store answered; without it what it knows is missing.",
        u8::from(seen.is_some()),
    );
    if let Some((stats, queues)) = &seen {
        queues::write(&mut text, queues, now);
        tasks(&mut text, stats);
    }
    system(&mut text, &state.counters);
    memory(&mut text, &state.budget.usage());
    events(&mut text, &broker.audience());
    let dropped = broker.settings().tracer.as_ref().map_or(0, |tracer| tracer.dropped());
    text.counter("taskqueue_spans_dropped_total", "Spans that did not reach the collector.", dropped);
    store::write(&mut text, &counted, broker.store().groups().as_ref());
    process::write(&mut text, now);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(([(CONTENT_TYPE, kind)], text.into_string()).into_response())
}

/// What the store knows.
fn tasks(text: &mut Text, stats: &Stats) {
    text.gauge("taskqueue_active_workers", "Workers of this broker that are there.", stats.workers_active);
    text.gauge(
        "taskqueue_dlq_size",
        "Dead letters in the store, which brokers may share.",
        stats.count(StateName::DeadLetter),
    );
    let mut tasks =
        text.family("taskqueue_tasks", "gauge", "Tasks in the store, which brokers may share, by state.");
    for state in StateName::ALL {
        tasks.sample(&[("state", state.as_str())], stats.count(state));
    }
    text.gauge("taskqueue_uptime_seconds", "Since the broker started.", stats.uptime_ms as f64 / 1000.0);
}

fn system(text: &mut Text, counters: &front::Counters) {
    let mut build =
        text.family("taskqueue_build_info", "gauge", "Always 1; the label says which version runs.");
    build.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let panics = counters.panics.load(Ordering::Relaxed);
    text.counter("taskqueue_http_panics_total", "Requests whose handler panicked.", panics);
    let timeouts = counters.timeouts.load(Ordering::Relaxed);
    text.counter("taskqueue_http_timeouts_total", "Requests given up.", timeouts);
}

fn memory(text: &mut Text, usage: &Usage) {
    let limit = "Memory for bodies under way, answers not taken yet and listeners.";
    text.gauge("taskqueue_memory_budget_bytes", limit, usage.limit);
    text.gauge("taskqueue_memory_budget_used_bytes", "How much of that budget is in use.", usage.used);
    let cut = "Connections that were cut because the budget was short and they were slow.";
    text.counter("taskqueue_memory_budget_cut_total", cut, usage.cut);
    let refused = "Requests and connections that were refused because the budget was used up.";
    text.counter("taskqueue_memory_budget_refused_total", refused, usage.refused);
}

fn events(text: &mut Text, audience: &Audience) {
    text.gauge("taskqueue_event_listeners", "Listeners to events of this broker.", audience.listeners);
    text.counter("taskqueue_events_total", "Events made while somebody listened.", audience.recorded);
    let missed = "Events that did not reach a listener because it fell behind, for each of them.";
    text.counter("taskqueue_events_dropped_total", missed, audience.missed);
    let cut = "Listeners that were cut because they did not read.";
    text.counter("taskqueue_event_listeners_cut_total", cut, audience.cut);
}
