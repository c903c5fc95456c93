//! Sending spans.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{StatusCode, Url};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_broker::{Broker, Fact, Tracer};
use windlass_core::TaskId;
use windlass_core::limits::{TRACE_BATCH_MAX, TRACE_TASKS_MAX};
use windlass_core::trace::Origin;

use super::Settings;
use super::otlp::{ExportRequest, Resource, ResourceSpans, Scope, ScopeSpans, Span, text};
use super::spans::Known;

/// How long a span waits for others.
const LINGER: Duration = Duration::from_millis(500);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// A batch is tried this often; a pause before each further try, which grows.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);
/// Between two complaints in the log.
const COMPLAIN: Duration = Duration::from_secs(60);

/// Whom spans are sent to.
#[derive(Debug)]
pub(super) struct Collector {
    http: reqwest::Client,
    url: Url,
    resource: Resource,
}

impl Collector {
    /// `headers` as in `OTEL_EXPORTER_OTLP_HEADERS`: `key=value,key=value`.
    pub(super) fn new(settings: &Settings, headers: &str) -> Result<Self, String> {
        let url = settings.endpoint.url.clone();
        let http = windlass_client::rest::http_client(url.scheme() == "https")
            .default_headers(read_headers(headers)?)
            .timeout(ANSWER_TIMEOUT)
            .build()
            .map_err(|error| error.to_string())?;
        let attributes =
            vec![text("service.name", &settings.service), text("service.version", env!("CARGO_PKG_VERSION"))];
        Ok(Self { http, url, resource: Resource { attributes } })
    }

    /// Whether the spans were taken; if not, whether it makes sense to try again.
    async fn take(&self, body: Vec<u8>) -> Result<(), (bool, String)> {
        let request = self.http.post(self.url.clone()).header(CONTENT_TYPE, "application/x-protobuf");
        let answer = request.body(body).send().await.map_err(|error| (true, error.to_string()))?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status @ (StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT) => Err((true, status.to_string())),
            status => Err((false, status.to_string())),
        }
    }

    fn request(&self, spans: Vec<Span>) -> ExportRequest {
        let scope = Scope { name: "windlass".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
        ExportRequest {
            resource_spans: vec![ResourceSpans { resource: Some(self.resource.clone()), scope_spans }],
        }
    }
}

fn read_headers(text: &str) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        // The value may be a secret: it is not shown.
        let wrong = || "OTEL_EXPORTER_OTLP_HEADERS: expected key=value,key=value".to_owned();
        let (key, value) = pair.split_once('=').ok_or_else(wrong)?;
        let key: HeaderName = key.trim().parse().map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

/// The task at the far end of the channel.
#[derive(Debug)]
pub(super) struct Exporter {
    tracer: Arc<Tracer>,
    collector: Collector,
    broker: Broker,
    tasks: HashMap<TaskId, Known>,
    /// Those tasks in the order in which they came, to forget the oldest.
    order: VecDeque<TaskId>,
    ready: Vec<Span>,
    complained: Option<Instant>,
}

impl Exporter {
    pub(super) fn new(tracer: Arc<Tracer>, collector: Collector, broker: Broker) -> Self {
        Self {
            tracer,
            collector,
            broker,
            tasks: HashMap::new(),
            order: VecDeque::new(),
            ready: Vec::new(),
            complained: None,
        }
    }

    /// Until it is stopped; then what is in the channel is sent, too.
    pub(super) async fn run(mut self, mut facts: mpsc::Receiver<Fact>, stop: CancellationToken) {
        let mut some = Vec::with_capacity(TRACE_BATCH_MAX);
        let mut send_at: Option<Instant> = None;
        loop {
            let lingers = send_at.unwrap_or_else(Instant::now);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep_until(lingers), if send_at.is_some() => {
                    self.send().await;
                    send_at = None;
                }
                count = facts.recv_many(&mut some, TRACE_BATCH_MAX) => {
                    if count == 0 {
                        break;
                    }
                    self.hear(&mut some).await;
                    if self.ready.len() >= TRACE_BATCH_MAX {
                        self.send().await;
                        send_at = None;
                    } else if !self.ready.is_empty() {
                        send_at = send_at.or_else(|| Some(Instant::now() + LINGER));
                    }
                }
            }
        }
        facts.close();
        while facts.recv_many(&mut some, TRACE_BATCH_MAX).await > 0 {
            self.hear(&mut some).await;
            self.send().await;
        }
        self.send().await;
    }

    async fn hear(&mut self, facts: &mut Vec<Fact>) {
        for fact in facts.drain(..) {
            if !self.tasks.contains_key(&fact.id) {
                self.meet(&fact.id).await;
            }
            let span = self.tasks.get_mut(&fact.id).and_then(|known| known.hear(&fact));
            self.ready.extend(span);
        }
    }

    /// Finds the trace of a task. One that is gone by now begins its own.
    async fn meet(&mut self, id: &TaskId) {
        let task = self.broker.get(id).await.ok();
        let metadata = task.map(|task| task.body.metadata).unwrap_or_default();
        if self.order.len() >= TRACE_TASKS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.tasks.remove(&oldest);
        }
        self.order.push_back(id.clone());
        self.tasks.insert(id.clone(), Known::new(Origin::of(id, &metadata)));
    }

    async fn send(&mut self) {
        while !self.ready.is_empty() {
            let rest = self.ready.split_off(self.ready.len().min(TRACE_BATCH_MAX));
            let spans = std::mem::replace(&mut self.ready, rest);
            let count = spans.len() as u64;
            let body = self.collector.request(spans).encode_to_vec();
            if let Err(reason) = self.deliver(body).await {
                self.tracer.lost(count);
                self.complain(count, &reason);
            }
        }
    }

    async fn deliver(&self, body: Vec<u8>) -> Result<(), String> {
        let mut pause = PAUSE;
        for tried in 1.. {
            match self.collector.take(body.clone()).await {
                Ok(()) => break,
                Err((true, _)) if tried < TRIES => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                Err((_, reason)) => return Err(reason),
            }
        }
        Ok(())
    }

    fn complain(&mut self, count: u64, reason: &str) {
        if self.complained.is_none_or(|at| at.elapsed() >= COMPLAIN) {
            self.complained = Some(Instant::now());
            let dropped = self.tracer.dropped();
            tracing::warn!(count, dropped, reason, "the collector does not take spans; they are dropped");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::read_headers;

    #[test]
    fn headers_are_pairs() {
        let read = read_headers("authorization=Basic abc=, x-tenant = 7,").unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(
            [&read["authorization"], &read["x-tenant"]].map(|it| it.to_str().unwrap()),
            ["Basic abc=", "7"]
        );
        assert!(read_headers("").unwrap().is_empty());
        for wrong in ["novalue", "ä=1", "a=\u{7}"] {
            let error = read_headers(wrong).unwrap_err();
            assert!(error.contains("key=value") && !error.contains(wrong), "{error}");
        }
    }
}
