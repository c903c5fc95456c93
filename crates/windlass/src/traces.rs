//! Traces: from what happens to tasks to spans at an OpenTelemetry collector, by OTLP over HTTP.
//!
//! The broker puts facts into a bounded channel (`windlass_broker::Tracer`) and goes on. One task at the other end finds the
//! trace of each task, makes spans of the facts ([`spans`]), and sends them in batches ([`exporter`]) in the messages of
//! OTLP ([`otlp`]). Nothing here is ever waited for: a collector that is slow or away costs spans, which are counted.
//!
//! Why not the OpenTelemetry SDK: its spans are opened and closed by the code that runs, with ids that it draws. A task's
//! spans are made from records, after the fact and over restarts, with ids that follow from the task
//! ([`windlass_core::trace`]). What is left of it would be six small messages, and these are below.

mod exporter;
mod otlp;
mod spans;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_broker::{Broker, Fact, Tracer};
use windlass_core::limits::TRACE_FACTS_MAX;

use crate::config::value::Endpoint;
use exporter::{Collector, Exporter};

/// How long a shutdown waits for the last spans.
const FLUSH: Duration = Duration::from_secs(3);

/// Where spans go, and under which name.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) endpoint: Endpoint,
    pub(crate) service: String,
}

/// Traces of a broker that is yet to be started.
#[derive(Debug)]
pub(crate) struct Traces {
    pub(crate) tracer: Arc<Tracer>,
    facts: mpsc::Receiver<Fact>,
    collector: Collector,
}

impl Traces {
    /// The error says what is wrong with the endpoint.
    pub(crate) fn new(settings: &Settings) -> Result<Self, String> {
        let headers = std::env::var("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
        let collector = Collector::new(settings, &headers)?;
        let (tracer, facts) = Tracer::new(TRACE_FACTS_MAX);
        Ok(Self { tracer, facts, collector })
    }

    /// Begins to send.
    pub(crate) fn start(self, broker: Broker) -> Sending {
        let stop = CancellationToken::new();
        let exporter = Exporter::new(self.tracer, self.collector, broker);
        let task = tokio::spawn(exporter.run(self.facts, stop.clone()));
        Sending { stop, task }
    }
}

#[derive(Debug)]
pub(crate) struct Sending {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Sending {
    /// Sends what is left, as far as there is time.
    pub(crate) async fn finish(mut self) {
        self.stop.cancel();
        if tokio::time::timeout(FLUSH, &mut self.task).await.is_err() {
            tracing::warn!("the collector does not take the last spans; they are lost");
            self.task.abort();
        }
    }
}
