//! The metrics page, in the text format of Prometheus, made from a snapshot when somebody asks.
//!
//! Labels are types, queues, classes and states; never ids of tasks or workers. All of them are names of the domain, whose
//! characters need no escaping.

use std::fmt::{self, Display, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_broker::{Audience, BUCKETS_SECONDS, Histogram, MetricsSnapshot, QueueView, Stats};
use windlass_core::{Class, StateName};

use super::problem::Refused;
use super::{Shared, front, now_ms};

/// Queues shown apart; the rest are added up, because every queue is a set of time series to whoever scrapes.
const QUEUES_MAX: usize = 1000;

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new().routes(routes!(metrics))
}

/// Metrics for Prometheus
#[utoipa::path(get, path = "/metrics", tag = "system",
    responses((status = 200, description = "Text format 0.0.4", content_type = "text/plain")))]
async fn metrics(State(state): Shared) -> Result<Response, Refused> {
    let stats = state.broker.stats().await?;
    let queues = state.broker.queues().await?;
    let mut text = Text(String::with_capacity(16 * 1024));
    let written = text
        .types(&state.broker.metrics())
        .and_then(|()| text.queues(&queues))
        .and_then(|()| text.system(&stats, &state.counters))
        .and_then(|()| text.events(&state.broker.audience()));
    written.map_err(|_| Refused::internal())?;
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(([(CONTENT_TYPE, kind)], text.0).into_response())
}

struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) -> fmt::Result {
        writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}")
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) -> fmt::Result {
        self.0.push_str(name);
        for (i, (label, word)) in labels.iter().enumerate() {
            write!(self.0, "{}{label}=\"{word}\"", if i == 0 { '{' } else { ',' })?;
        }
        writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" })
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) -> fmt::Result {
        self.head(name, kind, help)?;
        self.sample(name, &[], value)
    }

    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], histogram: &Histogram) -> fmt::Result {
        let bucket = format!("{name}_bucket");
        let mut total = 0;
        for (bound, count) in BUCKETS_SECONDS.iter().zip(histogram.buckets) {
            total += count;
            let bound = bound.to_string();
            self.sample(&bucket, &[labels, &[("le", bound.as_str())]].concat(), total)?;
        }
        self.sample(&bucket, &[labels, &[("le", "+Inf")]].concat(), histogram.count)?;
        self.sample(&format!("{name}_sum"), labels, histogram.sum_seconds)?;
        self.sample(&format!("{name}_count"), labels, histogram.count)
    }

    fn types(&mut self, snapshot: &MetricsSnapshot) -> fmt::Result {
        let name = "taskqueue_tasks_submitted_total";
        self.head(name, "counter", "Tasks submitted since the broker started.")?;
        for (kind, counts) in &snapshot.types {
            for (class, count) in Class::ALL.iter().zip(counts.submitted) {
                self.sample(name, &[("type", kind.as_str()), ("priority", class.as_str())], count)?;
            }
        }
        let name = "taskqueue_tasks_completed_total";
        self.head(name, "counter", "Tasks that came to an end, by how they ended.")?;
        for (kind, counts) in &snapshot.types {
            let ends = [
                (StateName::Completed, counts.completed),
                (StateName::DeadLetter, counts.dead_lettered),
                (StateName::Cancelled, counts.cancelled),
            ];
            for (state, count) in ends {
                self.sample(name, &[("type", kind.as_str()), ("status", state.as_str())], count)?;
            }
        }
        let name = "taskqueue_task_duration_seconds";
        self.head(name, "histogram", "From the start of an attempt to its success.")?;
        for (kind, counts) in &snapshot.types {
            self.histogram(name, &[("type", kind.as_str())], &counts.duration)?;
        }
        let name = "taskqueue_task_wait_seconds";
        self.head(name, "histogram", "From when a task could have started to its first start.")?;
        for (kind, counts) in &snapshot.types {
            self.histogram(name, &[("type", kind.as_str())], &counts.wait)?;
        }
        let expired = "Leases that ended without a report.";
        self.single("taskqueue_leases_expired_total", "counter", expired, snapshot.leases_expired)?;
        let retries = "Failed attempts that are tried again.";
        self.single("taskqueue_retries_total", "counter", retries, snapshot.retries)?;
        let name = "taskqueue_store_commit_seconds";
        self.head(name, "histogram", "How long the store took to commit.")?;
        self.histogram(name, &[], &snapshot.commit)
    }

    fn queues(&mut self, queues: &[QueueView]) -> fmt::Result {
        let (shown, rest) = queues.split_at(queues.len().min(QUEUES_MAX));
        let name = "taskqueue_queue_depth";
        self.head(name, "gauge", "Pending tasks.")?;
        for queue in shown {
            for (class, count) in Class::ALL.iter().zip(queue.counts.pending_by_class) {
                let labels = [("queue", queue.counts.name.as_str()), ("priority", class.as_str())];
                self.sample(name, &labels, count)?;
            }
        }
        if !rest.is_empty() {
            for (index, class) in Class::ALL.iter().enumerate() {
                let count: u64 = rest.iter().map(|queue| queue.counts.pending_by_class[index]).sum();
                self.sample(name, &[("queue", "_other"), ("priority", class.as_str())], count)?;
            }
        }
        let name = "taskqueue_queue_oldest_pending_seconds";
        self.head(name, "gauge", "Age of the oldest pending task.")?;
        let now = now_ms();
        for queue in shown {
            let age = queue.counts.oldest_pending_at.map_or(0, |at| now.saturating_sub(at));
            self.sample(name, &[("queue", queue.counts.name.as_str())], age as f64 / 1000.0)?;
        }
        Ok(())
    }

    fn system(&mut self, stats: &Stats, counters: &front::Counters) -> fmt::Result {
        let workers = "Workers that are there.";
        self.single("taskqueue_active_workers", "gauge", workers, stats.workers_active)?;
        let dead = stats.count(StateName::DeadLetter);
        self.single("taskqueue_dlq_size", "gauge", "Dead letters.", dead)?;
        let name = "taskqueue_tasks";
        self.head(name, "gauge", "Tasks in the store.")?;
        for state in StateName::ALL {
            self.sample(name, &[("state", state.as_str())], stats.count(state))?;
        }
        let up = "Since the broker started.";
        self.single("taskqueue_uptime_seconds", "gauge", up, stats.uptime_ms as f64 / 1000.0)?;
        let panics = counters.panics.load(Ordering::Relaxed);
        self.single("taskqueue_http_panics_total", "counter", "Requests whose handler panicked.", panics)?;
        let timeouts = counters.timeouts.load(Ordering::Relaxed);
        self.single("taskqueue_http_timeouts_total", "counter", "Requests given up.", timeouts)
    }

    fn events(&mut self, audience: &Audience) -> fmt::Result {
        let listeners = "Listeners to events.";
        self.single("taskqueue_event_listeners", "gauge", listeners, audience.listeners)?;
        let recorded = "Events made while somebody listened.";
        self.single("taskqueue_events_total", "counter", recorded, audience.recorded)?;
        let missed = "Events that did not reach a listener because it fell behind, for each of them.";
        self.single("taskqueue_events_dropped_total", "counter", missed, audience.missed)?;
        let cut = "Listeners that were cut because they did not read.";
        self.single("taskqueue_event_listeners_cut_total", "counter", cut, audience.cut)
    }
}
