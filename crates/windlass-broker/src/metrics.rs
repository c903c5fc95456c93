//! Counters for the metrics page, the rates and the recorder.
//!
//! One short lock per commit, one look-up by type and one by queue per change, and no allocation for a name that is known.
//! The number of types and queues that are counted apart is bounded; the rest is counted under [`OTHER`], so totals stay true.

mod by_name;
mod durations;
mod meters;

use std::time::Duration;

use parking_lot::Mutex;
use windlass_core::limits::{METRICS_NAMES_MAX, RATED_QUEUES_MAX};
use windlass_core::{Class, Histogram, Name, Record, State};

pub(crate) use by_name::ByName;
pub use durations::{BOUNDS_MS, Durations};
pub(crate) use meters::{Meters, QueueMeter};

use crate::broker::Broker;
use crate::change::Happened;
use crate::rates::{Counted, PerSecond, Ring};

/// The type or queue under which those beyond the limit are counted.
pub const OTHER: &str = "other";

#[derive(Debug, Clone, PartialEq, Default)]
pub struct TypeMetrics {
    /// By [`Class::ALL`].
    pub submitted: [u64; 4],
    /// Attempts.
    pub started: u64,
    /// Attempts that failed or whose lease was lost.
    pub failed: u64,
    pub completed: u64,
    pub dead_lettered: u64,
    pub cancelled: u64,
    /// From start to success.
    pub duration: Durations,
    /// From when it was due to the first start.
    pub wait: Durations,
}

/// Why tasks got another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retries {
    pub failed: u64,
    pub lease_lost: u64,
    /// Somebody asked for it.
    pub manual: u64,
}

impl Retries {
    pub fn total(&self) -> u64 {
        self.failed + self.lease_lost + self.manual
    }
}

/// Everything counted since the broker started.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsSnapshot {
    /// In order of type.
    pub types: Vec<(Name, TypeMetrics)>,
    pub leases_expired: u64,
    pub retries: Retries,
    /// How long the store took to commit a change or a submit, in microseconds.
    pub commit_us: Histogram,
}

#[derive(Debug)]
pub(crate) struct Counters {
    started_mono: u64,
    all: Mutex<All>,
}

#[derive(Debug)]
struct All {
    types: ByName<TypeMetrics>,
    queues: ByName<QueueMeter>,
    total: Ring,
    meters: Meters,
}

impl Broker {
    pub fn metrics(&self) -> MetricsSnapshot {
        let all = self.inner.counters.all.lock();
        let mut types: Vec<_> = all.types.iter().cloned().collect();
        let (leases_expired, retries) = (all.meters.leases_expired, all.meters.retries);
        let commit_us = all.meters.commit_us.clone();
        drop(all);
        types.sort_by(|a, b| a.0.cmp(&b.0));
        MetricsSnapshot { types, leases_expired, retries, commit_us }
    }
}

impl Counters {
    pub(crate) fn new(started_mono: u64) -> Self {
        let all = All {
            types: ByName::default(),
            queues: ByName::default(),
            total: Ring::default(),
            meters: Meters::default(),
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
            all.meters.commit_us.observe(took.as_micros() as u64);
        }
        changes.for_each(|(what, after)| all.count(what, after, mono));
    }

    /// Of each of these queues.
    pub(crate) fn per_second<'a>(&self, queues: impl Iterator<Item = &'a Name>, mono: u64) -> Vec<PerSecond> {
        let all = self.all.lock();
        let age_ms = self.age_ms(mono);
        let rates = |name| all.queues.get(name).map(|meter| meter.recent.per_second(mono, age_ms));
        queues.map(|name| rates(name).unwrap_or_default()).collect()
    }

    /// Over all queues, with the mean duration of what was completed.
    pub(crate) fn total(&self, mono: u64) -> (PerSecond, Option<f64>) {
        let all = self.all.lock();
        (all.total.per_second(mono, self.age_ms(mono)), all.total.mean_duration_ms(mono))
    }

    /// Everything over all types, and what `look` makes of the queues.
    pub(crate) fn meters<T>(&self, look: impl FnOnce(&ByName<QueueMeter>) -> T) -> (Meters, T) {
        let all = self.all.lock();
        (all.meters.clone(), look(&all.queues))
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
                self.meters.submitted += 1;
                self.rate(&after.queue, Counted::Submitted, mono);
            }
            Happened::Started => self.started(after),
            Happened::Completed => {
                let ended = after.history.last();
                let duration_ms =
                    ended.map_or(0, |attempt| attempt.ended_at.saturating_sub(attempt.started_at));
                let counts = self.of(&after.kind);
                counts.completed += 1;
                counts.duration.observe(duration_ms);
                self.meters.completed += 1;
                self.meters.run_ms.observe(duration_ms);
                self.rate(&after.queue, Counted::Completed { duration_ms }, mono);
            }
            Happened::Failed | Happened::LeaseLost => self.failed(what, after, mono),
            Happened::Cancelled => {
                self.of(&after.kind).cancelled += 1;
                self.meters.cancelled += 1;
            }
            Happened::Requeued => self.meters.retries.manual += 1,
            Happened::Released
            | Happened::Checkpointed
            | Happened::Promoted
            | Happened::Moved
            | Happened::Settled
            | Happened::Removed => {}
        }
    }

    fn started(&mut self, after: &Record) {
        let first = after.attempts == 1 && after.history.is_empty();
        let due = after.scheduled_at.unwrap_or(0).max(after.created_at);
        let waited_ms = after.updated_at.saturating_sub(due);
        let counts = self.of(&after.kind);
        counts.started += 1;
        if first {
            counts.wait.observe(waited_ms);
            self.meters.wait_ms.observe(waited_ms);
        }
        self.meters.started += 1;
    }

    fn failed(&mut self, what: Happened, after: &Record, mono: u64) {
        let lost = what == Happened::LeaseLost;
        let dead = matches!(after.state, State::DeadLetter { .. });
        let counts = self.of(&after.kind);
        counts.failed += 1;
        counts.dead_lettered += u64::from(dead);
        let meters = &mut self.meters;
        meters.failed += 1;
        meters.leases_expired += u64::from(lost);
        match (dead, lost) {
            (true, _) => meters.dead_lettered += 1,
            (false, true) => meters.retries.lease_lost += 1,
            (false, false) => meters.retries.failed += 1,
        }
        self.rate(&after.queue, Counted::Failed, mono);
    }

    fn of(&mut self, kind: &Name) -> &mut TypeMetrics {
        if self.types.len() < METRICS_NAMES_MAX || self.types.get_mut(kind).is_some() {
            return self.types.entry(kind);
        }
        self.types.entry(&Name::new(OTHER).expect("a valid name"))
    }

    fn rate(&mut self, queue: &Name, what: Counted, mono: u64) {
        self.total.count(what, mono);
        if self.queues.len() < RATED_QUEUES_MAX {
            self.queues.entry(queue).count(what, mono);
        } else if let Some(meter) = self.queues.get_mut(queue) {
            meter.count(what, mono);
        }
    }
}

fn class_index(record: &Record) -> usize {
    let class = record.priority.class();
    Class::ALL.iter().position(|it| *it == class).expect("ALL holds every class")
}
