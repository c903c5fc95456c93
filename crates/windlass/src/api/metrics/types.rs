//! What happened to tasks, by type.

use windlass_broker::{BOUNDS_MS, Durations, MetricsSnapshot, TypeMetrics};
use windlass_core::{Class, StateName};

use super::text::Text;

pub(super) fn write(text: &mut Text, counted: &MetricsSnapshot) {
    submitted(text, counted);
    ended(text, counted);
    attempts(text, counted);
    let help = "From the start of an attempt to its success.";
    durations(text, counted, "taskqueue_task_duration_seconds", help, |counts| &counts.duration);
    let help = "From when a task was due to its first start.";
    durations(text, counted, "taskqueue_task_wait_seconds", help, |counts| &counts.wait);
}

fn submitted(text: &mut Text, counted: &MetricsSnapshot) {
    let help = "Tasks submitted, by class of priority.";
    let mut family = text.family("taskqueue_tasks_submitted_total", "counter", help);
    for (kind, counts) in &counted.types {
        for (class, count) in Class::ALL.iter().zip(counts.submitted) {
            family.sample(&[("type", kind.as_str()), ("priority", class.as_str())], count);
        }
    }
}

fn ended(text: &mut Text, counted: &MetricsSnapshot) {
    let help = "Tasks that came to an end, by how they ended.";
    let mut family = text.family("taskqueue_tasks_completed_total", "counter", help);
    for (kind, counts) in &counted.types {
        let ends = [
            (StateName::Completed, counts.completed),
            (StateName::DeadLetter, counts.dead_lettered),
            (StateName::Cancelled, counts.cancelled),
        ];
        for (state, count) in ends {
            family.sample(&[("type", kind.as_str()), ("status", state.as_str())], count);
        }
    }
}

fn attempts(text: &mut Text, counted: &MetricsSnapshot) {
    let mut family = text.family("taskqueue_attempts_started_total", "counter", "Attempts begun.");
    for (kind, counts) in &counted.types {
        family.sample(&[("type", kind.as_str())], counts.started);
    }
    let help = "Attempts that failed or whose lease was lost.";
    let mut family = text.family("taskqueue_attempts_failed_total", "counter", help);
    for (kind, counts) in &counted.types {
        family.sample(&[("type", kind.as_str())], counts.failed);
    }
    let retries = counted.retries;
    let reasons =
        [("failed", retries.failed), ("lease_lost", retries.lease_lost), ("manual", retries.manual)];
    let mut family =
        text.family("taskqueue_retries_total", "counter", "Tasks given another attempt, and why.");
    for (reason, count) in reasons {
        family.sample(&[("reason", reason)], count);
    }
    let help = "Leases that ended without a report.";
    text.counter("taskqueue_leases_expired_total", help, counted.leases_expired);
}

fn durations(
    text: &mut Text,
    counted: &MetricsSnapshot,
    name: &str,
    help: &str,
    of: fn(&TypeMetrics) -> &Durations,
) {
    let mut family = text.family(name, "histogram", help);
    for (kind, counts) in &counted.types {
        let durations = of(counts);
        let cumulative = BOUNDS_MS.iter().zip(durations.buckets).scan(0, |total, (bound, count)| {
            *total += count;
            Some((*bound as f64 / 1000.0, *total))
        });
        family.histogram(
            &[("type", kind.as_str())],
            cumulative,
            durations.count(),
            durations.sum_ms as f64 / 1000.0,
        );
    }
}
