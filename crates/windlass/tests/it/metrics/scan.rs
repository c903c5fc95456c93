//! What the figures should be, from every task of the store.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use windlass_proto::rest::Time;

use super::load::Facts;
use crate::http::{Client, text};

pub(super) type Samples = BTreeMap<String, f64>;

/// The page as it is, by sample.
pub(super) fn scraped(client: &mut Client) -> Samples {
    let page = client.get("/metrics");
    let lines = page.text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

#[derive(Debug, Default)]
pub(super) struct Expected {
    counters: Samples,
    gauges: Samples,
    /// When the oldest pending task of a queue was submitted.
    oldest: BTreeMap<String, u64>,
    began: u64,
    tasks: u64,
    removed: u64,
}

const COUNTERS: [&str; 8] = [
    "taskqueue_tasks_submitted_total",
    "taskqueue_tasks_completed_total",
    "taskqueue_attempts_started_total",
    "taskqueue_attempts_failed_total",
    "taskqueue_retries_total",
    "taskqueue_leases_expired_total",
    "taskqueue_task_duration_seconds",
    "taskqueue_task_wait_seconds",
];
const GAUGES: [&str; 3] = ["taskqueue_tasks{", "taskqueue_queue_depth", "taskqueue_dlq_size"];

impl Expected {
    pub(super) fn scan(client: &mut Client, facts: &Facts) -> Expected {
        let mut expected = Expected { began: now(), ..Expected::default() };
        let mut cursor = String::new();
        loop {
            let page = client.get(&format!("/api/v1/tasks?limit=100&cursor={cursor}")).expect(200);
            for task in page["items"].as_array().unwrap() {
                let path = format!("/api/v1/tasks/{}/attempts", text(&task["id"]));
                let attempts = client.get(&path).expect(200)["items"].as_array().unwrap().clone();
                expected.task(task, &attempts);
            }
            match page["next_cursor"].as_str() {
                Some(next) => cursor = next.to_owned(),
                None => break,
            }
        }
        expected.facts(facts);
        expected
    }

    fn count(&mut self, sample: String, by: f64) {
        *self.counters.entry(sample).or_default() += by;
    }

    fn task(&mut self, task: &Value, attempts: &[Value]) {
        self.tasks += 1;
        let (kind, queue, state) = (text(&task["type"]), text(&task["queue"]), text(&task["state"]));
        let class = class(task["priority"].as_u64().unwrap());
        self.count(format!("taskqueue_tasks_submitted_total{{type=\"{kind}\",priority=\"{class}\"}}"), 1.0);
        if ["completed", "dead_letter", "cancelled"].contains(&state.as_str()) {
            self.count(format!("taskqueue_tasks_completed_total{{type=\"{kind}\",status=\"{state}\"}}"), 1.0);
        }
        if state == "dead_letter" {
            *self.gauges.entry("taskqueue_dlq_size".to_owned()).or_default() += 1.0;
        }
        *self.gauges.entry(format!("taskqueue_tasks{{state=\"{state}\"}}")).or_default() += 1.0;
        if state == "pending" {
            let sample = format!("taskqueue_queue_depth{{queue=\"{queue}\",priority=\"{class}\"}}");
            *self.gauges.entry(sample).or_default() += 1.0;
            let oldest = self.oldest.entry(queue).or_insert(u64::MAX);
            *oldest = (*oldest).min(ms(&task["created_at"]));
        }
        self.attempts(task, &kind, attempts);
    }

    fn attempts(&mut self, task: &Value, kind: &str, attempts: &[Value]) {
        for attempt in attempts {
            self.count(format!("taskqueue_attempts_started_total{{type=\"{kind}\"}}"), 1.0);
            let outcome = text(&attempt["outcome"]);
            let lasted = attempt["duration_ms"].as_u64().unwrap_or_default();
            match outcome.as_str() {
                "completed" => self.observe("taskqueue_task_duration_seconds", kind, lasted),
                "failed" | "crashed" => {
                    self.count(format!("taskqueue_attempts_failed_total{{type=\"{kind}\"}}"), 1.0);
                    let reason = if outcome == "failed" { "failed" } else { "lease_lost" };
                    self.count(format!("taskqueue_retries_total{{reason=\"{reason}\"}}"), 1.0);
                    if outcome == "crashed" {
                        self.count("taskqueue_leases_expired_total".to_owned(), 1.0);
                    }
                }
                _ => {}
            }
        }
        // The last attempt of a dead letter was not tried again.
        if let (Some(last), "dead_letter") = (attempts.last(), text(&task["state"]).as_str()) {
            let reason = if last["outcome"] == "failed" { "failed" } else { "lease_lost" };
            self.count(format!("taskqueue_retries_total{{reason=\"{reason}\"}}"), -1.0);
        }
        if let Some(first) = attempts.first() {
            let due = if task["scheduled_at"].is_null() { 0 } else { ms(&task["scheduled_at"]) };
            let waited = ms(&first["started_at"]) - due.max(ms(&task["created_at"]));
            self.observe("taskqueue_task_wait_seconds", kind, waited);
        }
    }

    fn observe(&mut self, family: &str, kind: &str, lasted_ms: u64) {
        const BOUNDS: [&str; 17] = [
            "0.001", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "30",
            "60", "300", "1800", "+Inf",
        ];
        for bound in BOUNDS {
            let within = bound.parse::<f64>().is_ok_and(|bound| lasted_ms as f64 / 1000.0 <= bound);
            self.count(
                format!("{family}_bucket{{type=\"{kind}\",le=\"{bound}\"}}"),
                f64::from(u8::from(within)),
            );
        }
        // In milliseconds, so that the order of adding does not matter.
        self.count(format!("{family}_sum{{type=\"{kind}\"}}"), lasted_ms as f64);
        self.count(format!("{family}_count{{type=\"{kind}\"}}"), 1.0);
    }

    fn facts(&mut self, facts: &Facts) {
        self.count("taskqueue_retries_total{reason=\"manual\"}".to_owned(), facts.manual_retries as f64);
        for (kind, count) in &facts.dead_lettered {
            let sample = format!("taskqueue_tasks_completed_total{{type=\"{kind}\",status=\"dead_letter\"}}");
            self.count(sample, *count as f64);
            self.count("taskqueue_retries_total{reason=\"failed\"}".to_owned(), -(*count as f64));
        }
        for (kind, count) in &facts.cancelled {
            let sample = format!("taskqueue_tasks_completed_total{{type=\"{kind}\",status=\"cancelled\"}}");
            self.count(sample, *count as f64);
        }
        for ((kind, class), count) in &facts.removed {
            self.removed += count;
            let sample = format!("taskqueue_tasks_submitted_total{{type=\"{kind}\",priority=\"{class}\"}}");
            self.count(sample, *count as f64);
        }
    }

    #[track_caller]
    pub(super) fn check_counters(&self, page: &Samples) {
        let seconds = self.counters.iter().map(|(sample, count)| {
            let unit = if sample.contains("_sum{") { 1000.0 } else { 1.0 };
            (sample.clone(), count / unit)
        });
        same(&COUNTERS, &seconds.collect(), page);
    }

    #[track_caller]
    pub(super) fn check_gauges(&self, page: &Samples, workers: f64) {
        same(&GAUGES, &self.gauges, page);
        assert_eq!(page["taskqueue_active_workers"], workers);
        for (queue, at) in &self.oldest {
            let age = page[&format!("taskqueue_queue_oldest_pending_seconds{{queue=\"{queue}\"}}")];
            let range = (self.began.saturating_sub(*at)) as f64 / 1000.0..=(now() - at) as f64 / 1000.0;
            assert!(range.contains(&age), "{queue} has waited for {age}, not for {range:?}");
        }
    }

    /// The store counts by itself; both must have seen the same.
    #[track_caller]
    pub(super) fn check_ledger(&self, ledger: &Value) {
        let sum = |part: &str| {
            self.counters
                .iter()
                .filter(|(sample, _)| sample.contains(part))
                .map(|(_, count)| count)
                .sum::<f64>()
        };
        let kept =
            |fields: &[&str]| fields.iter().map(|field| ledger[field].as_u64().unwrap()).sum::<u64>() as f64;
        assert_eq!(kept(&["submitted"]), (self.tasks + self.removed) as f64);
        assert_eq!(sum("tasks_submitted_total"), kept(&["submitted"]));
        assert_eq!(sum("status=\"completed\""), kept(&["completed"]));
        assert_eq!(sum("status=\"dead_letter\""), kept(&["dead_lettered"]));
        assert_eq!(sum("status=\"cancelled\""), kept(&["cancelled", "expired"]));
        assert_eq!(sum("attempts_failed_total"), kept(&["failed", "crashed"]));
        assert_eq!(sum("leases_expired_total"), kept(&["crashed"]));
    }
}

/// Every sample of these families on either side is on both; a sample that is not there is 0.
#[track_caller]
fn same(families: &[&str], expected: &Samples, page: &Samples) {
    let of = |sample: &&String| families.iter().any(|family| sample.starts_with(family));
    let mut wrong = Vec::new();
    for sample in page.keys().chain(expected.keys()).filter(of) {
        let (found, wanted) = (page.get(sample), expected.get(sample).copied().unwrap_or_default());
        if found.copied().unwrap_or_default() != wanted {
            wrong.push(format!("{sample} is {found:?}, not {wanted}"));
        }
    }
    assert!(expected.values().sum::<f64>() > 0.0, "nothing was expected");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn class(priority: u64) -> &'static str {
    match priority {
        225.. => "critical",
        200..225 => "high",
        100..200 => "normal",
        _ => "low",
    }
}

fn ms(time: &Value) -> u64 {
    text(time).parse::<Time>().unwrap().as_ms()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}
