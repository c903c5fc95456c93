//! What was seen before, for the bars.

use std::collections::{HashMap, VecDeque};

use windlass_core::Name;
use windlass_proto::rest::LedgerBody;

use crate::cli::top::snapshot::Snapshot;

/// Looks that are remembered: what fits on the widest screen.
const KEPT_MAX: usize = 240;
/// Queues whose depth is remembered; nobody scrolls through more.
const QUEUES_MAX: usize = 1000;

#[derive(Debug, Default)]
pub(in crate::cli::top) struct History {
    pub(in crate::cli::top) submitted: Track,
    pub(in crate::cli::top) completed: Track,
    pub(in crate::cli::top) failed: Track,
    depths: HashMap<Name, Track>,
    /// When the last look was, in milliseconds, and what had happened by then.
    last: Option<(u64, LedgerBody)>,
}

/// The same figure at the last looks, oldest first.
#[derive(Debug, Default)]
pub(in crate::cli::top) struct Track(VecDeque<u64>);

impl Track {
    fn push(&mut self, value: u64) {
        if self.0.len() == KEPT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(value);
    }

    pub(in crate::cli::top) fn values(
        &self,
    ) -> std::iter::Copied<std::collections::vec_deque::Iter<'_, u64>> {
        self.0.iter().copied()
    }

    pub(in crate::cli::top) fn last(&self) -> Option<u64> {
        self.0.back().copied()
    }
}

impl History {
    pub(in crate::cli::top) fn add(&mut self, snapshot: &Snapshot) {
        let (at, ledger) = (snapshot.at.as_ms(), snapshot.stats.ledger);
        if let Some((before, old)) = self.last.replace((at, ledger)) {
            let ms = at.saturating_sub(before).max(1) as f64;
            let rate = |now: u64, old: u64| (now.saturating_sub(old) as f64 * 1000.0 / ms).round() as u64;
            self.submitted.push(rate(ledger.submitted, old.submitted));
            self.completed.push(rate(ledger.completed, old.completed));
            self.failed.push(rate(ledger.failed + ledger.crashed, old.failed + old.crashed));
        }
        self.depths.retain(|name, _| snapshot.queues.iter().any(|queue| queue.name == *name));
        for queue in &snapshot.queues {
            if self.depths.len() < QUEUES_MAX || self.depths.contains_key(&queue.name) {
                self.depths.entry(queue.name.clone()).or_default().push(queue.tasks.pending);
            }
        }
    }

    pub(in crate::cli::top) fn depth(&self, queue: &Name) -> Option<&Track> {
        self.depths.get(queue)
    }
}
