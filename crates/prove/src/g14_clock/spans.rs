//! Durations, measured from outside on a clock that nobody sets.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{EARLY, LATE, LEASE_S, SPAN_S, expect, state_of, submit};
use crate::http::Http;
use crate::proof::Trouble;

/// A duration as it was measured from outside, on a clock that nobody set.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) what: &'static str,
    pub(super) wanted: Duration,
    /// When it was asked for at the earliest, and at the latest.
    pub(super) asked: (Instant, Instant),
    pub(super) ended: Option<Instant>,
}

impl Span {
    pub(super) fn complaint(&self) -> Option<String> {
        let (before, after) = self.asked;
        let Some(ended) = self.ended else { return Some(format!("{} did not end", self.what)) };
        if ended.saturating_duration_since(before) + EARLY < self.wanted {
            return Some(format!(
                "{} ended early, after {:?}",
                self.what,
                ended.saturating_duration_since(before)
            ));
        }
        let late = ended.saturating_duration_since(after) > self.wanted + LATE;
        late.then(|| format!("{} ended late, after {:?}", self.what, ended.saturating_duration_since(after)))
    }
}

/// Begins one duration of each kind: a delay, a retry, a snooze and a lease that nobody extends.
pub(super) async fn begin(http: &mut Http, when: &'static str, spans: &mut Vec<Span>) -> Result<(), Trouble> {
    let kinds: [(&'static str, u64); 4] = match when {
        "before" => [
            ("delay-before", SPAN_S),
            ("retry-before", SPAN_S),
            ("snooze-before", SPAN_S),
            ("lease-before", LEASE_S),
        ],
        _ => [
            ("delay-after", SPAN_S),
            ("retry-after", SPAN_S),
            ("snooze-after", SPAN_S),
            ("lease-after", LEASE_S),
        ],
    };
    for (what, seconds) in kinds {
        let mut asked = Instant::now();
        let queue = format!("of-{what}");
        let mut body = json!({"id": what, "queue": queue, "type": "t", "max_retries": 5});
        if what.starts_with("delay") {
            body["delay_seconds"] = json!(seconds);
        }
        submit(http, body).await?;
        if !what.starts_with("delay") {
            let lease_s = if what.starts_with("lease") { seconds } else { 60 };
            asked = Instant::now();
            let claim = json!({"worker_id": what, "queues": [queue], "max": 1, "lease_seconds": lease_s});
            let claimed = expect(http.post("/api/v1/claim", &claim).await?, 200)?;
            let lease = claimed["tasks"][0]["lease"].clone();
            let (verb, report) = match what.split_once('-').map_or(what, |(kind, _)| kind) {
                "retry" => {
                    ("fail", json!({"lease": lease, "error": "as planned", "retry_after_seconds": seconds}))
                }
                "snooze" => ("release", json!({"lease": lease, "delay_seconds": seconds})),
                _ => ("", Value::Null),
            };
            if !verb.is_empty() {
                asked = Instant::now();
                expect(http.post(&format!("/api/v1/tasks/{what}/{verb}"), &report).await?, 200)?;
            }
        }
        let wanted = Duration::from_secs(seconds);
        spans.push(Span { what, wanted, asked: (asked, Instant::now()), ended: None });
    }
    Ok(())
}

/// Waits until every duration has ended, or far longer than any may take.
pub(super) async fn watch(http: &mut Http, spans: &mut [Span]) -> Result<(), Trouble> {
    let patience = Instant::now() + Duration::from_secs(LEASE_S) + LATE;
    while Instant::now() < patience && spans.iter().any(|span| span.ended.is_none()) {
        for span in spans.iter_mut().filter(|span| span.ended.is_none()) {
            if state_of(http, span.what).await? == "pending" {
                span.ended = Some(Instant::now());
            }
        }
        // sleep: the end of a duration is told by the state of the task alone.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

impl Span {
    pub(super) fn figure(&self) -> String {
        let took = self.ended.map(|ended| ended.saturating_duration_since(self.asked.0).as_secs_f64());
        format!("{} {}", self.what, took.map_or("never".to_owned(), |took| format!("{took:.1} s")))
    }
}
