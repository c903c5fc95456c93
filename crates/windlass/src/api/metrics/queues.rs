//! How the queues are.

use windlass_broker::{OTHER, QueueView};
use windlass_core::Class;
use windlass_core::limits::METRICS_NAMES_MAX;

use super::text::Text;

pub(super) fn write(text: &mut Text, queues: &[QueueView], now: u64) {
    let rows = rows(queues, now);
    let mut family =
        text.family("taskqueue_queue_depth", "gauge", "Pending tasks in the store, which brokers may share.");
    for row in &rows {
        for (class, count) in Class::ALL.iter().zip(row.pending) {
            family.sample(&[("queue", row.name), ("priority", class.as_str())], count);
        }
    }
    let help = "Age of the oldest pending task, 0 if there is none.";
    let mut family = text.family("taskqueue_queue_oldest_pending_seconds", "gauge", help);
    for row in &rows {
        family.sample(&[("queue", row.name)], row.oldest_ms as f64 / 1000.0);
    }
    let mut family = text.family(
        "taskqueue_queue_paused",
        "gauge",
        "1 if the queue is paused; how many of those added up are.",
    );
    for row in &rows {
        family.sample(&[("queue", row.name)], row.paused);
    }
}

#[derive(Debug)]
struct Row<'a> {
    name: &'a str,
    pending: [u64; 4],
    oldest_ms: u64,
    paused: u32,
}

/// In order of name; those beyond the limit are one, and so is a queue that has its name.
fn rows(queues: &[QueueView], now: u64) -> Vec<Row<'_>> {
    let row = |queue: &'_ QueueView| Row {
        name: OTHER,
        pending: queue.counts.pending_by_class,
        oldest_ms: queue.counts.oldest_pending_at.map_or(0, |at| now.saturating_sub(at)),
        paused: u32::from(queue.counts.paused),
    };
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut others: Option<Row<'_>> = None;
    for queue in queues {
        let named = Row { name: queue.counts.name.as_str(), ..row(queue) };
        if named.name != OTHER && rows.len() < METRICS_NAMES_MAX {
            rows.push(named);
            continue;
        }
        let others = others.get_or_insert(Row { name: OTHER, pending: [0; 4], oldest_ms: 0, paused: 0 });
        others.pending.iter_mut().zip(named.pending).for_each(|(sum, count)| *sum += count);
        others.oldest_ms = others.oldest_ms.max(named.oldest_ms);
        others.paused += named.paused;
    }
    rows.extend(others);
    rows
}

#[cfg(test)]
mod tests {
    use windlass_core::Name;
    use windlass_store::QueueCounts;

    use super::*;

    fn queue(name: &str, pending: u64, oldest: u64) -> QueueView {
        let counts = QueueCounts {
            name: Name::new(name).unwrap(),
            paused: false,
            by_state: [0; 8],
            pending_by_class: [0, 0, pending, 0],
            oldest_pending_at: Some(oldest),
        };
        QueueView {
            counts,
            ageing: None,
            submitted_per_second: 0.0,
            completed_per_second: 0.0,
            failed_per_second: 0.0,
        }
    }

    #[test]
    fn queues_beyond_the_limit_are_added_up_with_the_one_of_that_name() {
        let mut queues: Vec<QueueView> =
            (0..METRICS_NAMES_MAX + 2).map(|i| queue(&format!("a{i:04}"), 2, 900)).collect();
        queues.push(queue(OTHER, 5, 400));
        let rows = rows(&queues, 1000);
        assert_eq!(rows.len(), METRICS_NAMES_MAX + 1);
        let last = rows.last().unwrap();
        assert_eq!((last.name, last.pending[2], last.oldest_ms), (OTHER, 9, 600));
    }
}
