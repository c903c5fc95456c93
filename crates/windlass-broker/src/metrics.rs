//! Counters for the metrics page and the rates.
//!
//! One short lock per change and no allocation for a known type or queue. The number of types and queues that are
//! counted apart is bounded; the rest is counted under [`OTHER`], so totals stay true.

use std::time::Duration;

use foldhash::{HashMap, HashMapExt};
use parking_lot::Mutex;
use windlass_core::{Class, Name, Record, State};

use crate::broker::Broker;
use crate::change::Happened;
use crate::rates::{Counted, PerSecond, Ring};

/// Types and queues counted apart: every one is a set of time series to whoever scrapes.
const NAMES_MAX: usize = 1000;
/// The type under which the others are counted.
const OTHER: &str = "_other";

/// The upper bounds of a histogram's buckets; the last bucket has none.
pub const BUCKETS_SECONDS: [f64; 16] =
    [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0];

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Histogram {
    /// Not cumulative: the i-th holds what is above the bound before and at most [`BUCKETS_SECONDS`]`[i]`.
    pub buckets: [u64; BUCKETS_SECONDS.len() + 1],
    pub count: u64,
    pub sum_seconds: f64,
}

impl Histogram {
    fn observe(&mut self, seconds: f64) {
        self.buckets[BUCKETS_SECONDS.partition_point(|bound| *bound < seconds)] += 1;
        self.count += 1;
        self.sum_seconds += seconds;
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct TypeMetrics {
    /// By [`Class::ALL`].
    pub submitted: [u64; 4],
    pub completed: u64,
    pub dead_lettered: u64,
    pub cancelled: u64,
    /// From start to success.
    pub duration: Histogram,
    /// From when it could have started to the first start.
    pub wait: Histogram,
}

/// Everything counted since the broker started.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsSnapshot {
    /// In order of type.
    pub types: Vec<(Name, TypeMetrics)>,
    pub leases_expired: u64,
    pub retries: u64,
    /// How long the store took to commit a change or a submit.
    pub commit: Histogram,
}

#[derive(Debug)]
pub(crate) struct Counters {
    started_mono: u64,
    all: Mutex<All>,
}

#[derive(Debug)]
struct All {
    types: HashMap<Name, TypeMetrics>,
    queues: HashMap<Name, Ring>,
    total: Ring,
    leases_expired: u64,
    retries: u64,
    commit: Histogram,
}

impl Broker {
    pub fn metrics(&self) -> MetricsSnapshot {
        let all = self.inner.counters.all.lock();
        let mut types: Vec<_> =
            all.types.iter().map(|(name, counts)| (name.clone(), counts.clone())).collect();
        let (leases_expired, retries, commit) = (all.leases_expired, all.retries, all.commit.clone());
        drop(all);
        types.sort_by(|a, b| a.0.cmp(&b.0));
        MetricsSnapshot { types, leases_expired, retries, commit }
    }
}

impl Counters {
    pub(crate) fn new(started_mono: u64) -> Self {
        let all = All {
            types: HashMap::new(),
            queues: HashMap::new(),
            total: Ring::new(),
            leases_expired: 0,
            retries: 0,
            commit: Histogram::default(),
        };
        Self { started_mono, all: Mutex::new(all) }
    }

    /// Counts the changes of one commit, which took so long.
    pub(crate) fn happened<'a>(
        &self,
        changes: impl Iterator<Item = (Happened, &'a Record)>,
        took: Option<Duration>,
        mono: u64,
    ) {
        let mut all = self.all.lock();
        if let Some(took) = took {
            all.commit.observe(took.as_secs_f64());
        }
        changes.for_each(|(what, after)| all.count(what, after, mono));
    }

    pub(crate) fn per_second(&self, queue: &Name, mono: u64) -> PerSecond {
        let all = self.all.lock();
        all.queues.get(queue).map(|ring| ring.per_second(mono, self.age_ms(mono))).unwrap_or_default()
    }

    /// Over all queues, with the mean duration of what was completed.
    pub(crate) fn total(&self, mono: u64) -> (PerSecond, Option<f64>) {
        let all = self.all.lock();
        (all.total.per_second(mono, self.age_ms(mono)), all.total.mean_duration_ms(mono))
    }

    fn age_ms(&self, mono: u64) -> u64 {
        mono.saturating_sub(self.started_mono)
    }
}

impl All {
    fn count(&mut self, what: Happened, after: &Record, mono: u64) {
        match what {
            Happened::Submitted => {
                self.of(&after.kind).submitted[class_index(after)] += 1;
                self.rate(&after.queue, Counted::Submitted, mono);
            }
            Happened::Started if after.attempts == 1 && after.crashes == 0 => {
                let ready_at = after.scheduled_at.unwrap_or(0).max(after.created_at);
                self.of(&after.kind).wait.observe(seconds(ready_at, after.updated_at));
            }
            Happened::Completed => {
                let ended = after.history.last();
                let (from, to) = ended.map_or((0, 0), |attempt| (attempt.started_at, attempt.ended_at));
                let counts = self.of(&after.kind);
                counts.completed += 1;
                counts.duration.observe(seconds(from, to));
                self.rate(&after.queue, Counted::Completed { duration_ms: to.saturating_sub(from) }, mono);
            }
            Happened::Failed | Happened::LeaseLost => {
                match (what, &after.state) {
                    (_, State::DeadLetter { .. }) => self.of(&after.kind).dead_lettered += 1,
                    _ => self.retries += 1,
                }
                self.leases_expired += u64::from(what == Happened::LeaseLost);
                self.rate(&after.queue, Counted::Failed, mono);
            }
            Happened::Cancelled => self.of(&after.kind).cancelled += 1,
            Happened::Requeued => self.retries += 1,
            Happened::Started
            | Happened::Released
            | Happened::Checkpointed
            | Happened::Promoted
            | Happened::Moved
            | Happened::Settled
            | Happened::Removed => {}
        }
    }

    fn of(&mut self, kind: &Name) -> &mut TypeMetrics {
        if !self.types.contains_key(kind) {
            let full = self.types.len() >= NAMES_MAX;
            let name = if full { Name::new(OTHER).expect("a valid name") } else { kind.clone() };
            return self.types.entry(name).or_default();
        }
        self.types.get_mut(kind).expect("it was there a moment ago")
    }

    fn rate(&mut self, queue: &Name, what: Counted, mono: u64) {
        self.total.count(what, mono);
        if let Some(ring) = self.queues.get_mut(queue) {
            ring.count(what, mono);
        } else if self.queues.len() < NAMES_MAX {
            let mut ring = Ring::new();
            ring.count(what, mono);
            self.queues.insert(queue.clone(), ring);
        }
    }
}

fn class_index(record: &Record) -> usize {
    let class = record.priority.class();
    Class::ALL.iter().position(|it| *it == class).expect("ALL holds every class")
}

fn seconds(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lands_in_the_bucket_whose_bound_it_does_not_exceed() {
        let mut histogram = Histogram::default();
        for seconds in [0.0, 0.001, 0.002, 1800.0, 1800.1] {
            histogram.observe(seconds);
        }
        assert_eq!(histogram.buckets[0], 2);
        assert_eq!(histogram.buckets[1], 1);
        assert_eq!(histogram.buckets[15], 1);
        assert_eq!(histogram.buckets[16], 1);
        assert_eq!(histogram.count, 5);
    }
}
