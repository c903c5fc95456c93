//! Figures of the store, for people and benchmarks. What is about groups is written once for each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use windlass_core::Histogram;
use windlass_core::histogram::{BUCKETS, bucket};

use super::inbox::Op;
use crate::store::Groups;

/// How the log has been doing since the store was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Activity {
    /// Syncs, each for everything that waited.
    pub groups: u64,
    pub entries: u64,
    pub bytes: u64,
    /// The longest that a group took to become durable since the last look, in microseconds.
    pub slowest_us: u64,
}

#[derive(Debug, Default)]
pub(super) struct Gauges {
    groups: AtomicU64,
    entries: AtomicU64,
    bytes: AtomicU64,
    /// The longest that one group took from its being taken to the end of its sync, in microseconds.
    slowest_us: AtomicU64,
    took_us: Counts,
    one_less_than_size: Counts,
    by_callers: AtomicU64,
    looked_at: AtomicU64,
}

#[derive(Debug)]
struct Counts {
    buckets: Box<[AtomicU64; BUCKETS]>,
    sum: AtomicU64,
}

impl Gauges {
    pub(super) fn note(&self, ops: &[Op], began: Instant) {
        if ops.is_empty() {
            return;
        }
        let took_us = began.elapsed().as_micros() as u64;
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.entries.fetch_add(ops.len() as u64, Ordering::Relaxed);
        let bytes: usize = ops.iter().map(|op| op.entry.len()).sum();
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.slowest_us.fetch_max(took_us, Ordering::Relaxed);
        self.took_us.observe(took_us);
        self.one_less_than_size.observe(ops.len() as u64 - 1);
    }

    /// A group was written by the thread of a caller.
    pub(super) fn note_caller(&self) {
        self.by_callers.fetch_add(1, Ordering::Relaxed);
    }

    /// A page of a list was made of so many records.
    pub(super) fn note_page(&self, looked_at: usize) {
        self.looked_at.fetch_add(looked_at as u64, Ordering::Relaxed);
    }

    pub(super) fn activity(&self) -> Activity {
        Activity {
            groups: self.groups.load(Ordering::Relaxed),
            entries: self.entries.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            slowest_us: self.slowest_us.swap(0, Ordering::Relaxed),
        }
    }

    pub(super) fn groups(&self) -> Groups {
        Groups {
            took_us: self.took_us.snapshot(),
            one_less_than_size: self.one_less_than_size.snapshot(),
            bytes: self.bytes.load(Ordering::Relaxed),
            by_callers: self.by_callers.load(Ordering::Relaxed),
            looked_at: self.looked_at.load(Ordering::Relaxed),
        }
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self { buckets: Box::new([const { AtomicU64::new(0) }; BUCKETS]), sum: AtomicU64::new(0) }
    }
}

impl Counts {
    fn observe(&self, value: u64) {
        self.buckets[bucket(value)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    fn snapshot(&self) -> Histogram {
        let counts = self.buckets.iter().map(|count| count.load(Ordering::Relaxed));
        Histogram::from_counts(counts, self.sum.load(Ordering::Relaxed))
    }
}
