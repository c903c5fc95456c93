//! One look as text.

use super::figures::{age, count, rate};
use super::snapshot::Snapshot;
use crate::cli::output::table;

pub(super) fn text(snapshot: &Snapshot) -> String {
    let stats = &snapshot.stats;
    let tasks = &stats.tasks;
    let mut text = format!(
        "{}  up {}  workers {}\npending {}  running {}  scheduled {}  retrying {}  dead {}  done {}\n\
         in {}/s  done {}/s  failed {}/s  (over the last minute)\n",
        snapshot.server,
        age(stats.uptime_seconds.0),
        stats.active_workers,
        count(tasks.pending),
        count(tasks.running),
        count(tasks.scheduled),
        count(tasks.retrying),
        count(tasks.dead_letter),
        count(tasks.completed),
        rate(stats.rates.submitted_per_second),
        rate(stats.rates.completed_per_second),
        rate(stats.rates.failed_per_second),
    );
    let queues = snapshot.queues.iter().map(|queue| {
        vec![
            queue.name.to_string(),
            queue.tasks.pending.to_string(),
            queue.tasks.running.to_string(),
            queue.tasks.dead_letter.to_string(),
            format!("{}/s", rate(queue.rates.completed_per_second)),
            if queue.paused { "paused".to_owned() } else { String::new() },
        ]
    });
    let header = ["QUEUE", "PENDING", "RUNNING", "DEAD", "DONE", ""];
    text.push_str(&section(&header, queues.collect()));
    let workers = snapshot.workers.iter().filter(|worker| worker.active).map(|worker| {
        let slots = worker.slots.map(|slots| format!("/{slots}")).unwrap_or_default();
        vec![worker.id.to_string(), format!("{}{slots}", worker.tasks.len())]
    });
    text.push_str(&section(&["WORKER", "BUSY"], workers.collect()));
    let failures = snapshot.failures.iter().take(10).map(|failed| {
        let line = failed.error.lines().next().unwrap_or_default().to_owned();
        vec![failed.task_id.clone(), failed.kind.clone(), failed.state.clone(), line]
    });
    text.push_str(&section(&["FAILED", "TYPE", "STATE", "ERROR"], failures.collect()));
    text
}

fn section(header: &[&str], rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() { String::new() } else { format!("\n{}\n", table(header, rows)) }
}
