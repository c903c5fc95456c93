//! The starts of the last while, for a rate: a sliding window, exact to a hundredth of its length.
//!
//! Starts close together are kept as one entry with the time of the last of them, so that an entry is forgotten late
//! rather than early: there are never more starts in a stretch than allowed, and at most a hundredth is left unused. A wall clock
//! that is set back takes the entries back with it: no time has passed, and nothing waits for the old time to come again.

use std::collections::VecDeque;

use super::limit::Rate;

/// Entries that a window is divided into.
const GRAINS: u64 = 100;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Window {
    /// When, and how many; in order of time.
    taken: VecDeque<(u64, u32)>,
    total: u64,
    /// When the last entry began.
    began: u64,
}

impl Window {
    /// One start.
    pub fn take(&mut self, rate: Rate, now: u64) {
        self.settle(rate, now);
        let grain = rate.per_ms / GRAINS;
        self.total += 1;
        match self.taken.back_mut() {
            Some(last) if now < self.began.saturating_add(grain) => {
                *last = (now, last.1.saturating_add(1));
            }
            _ => {
                self.taken.push_back((now, 1));
                self.began = now;
            }
        }
    }

    /// `None` if a task may start now, else when the next may.
    pub fn next(&mut self, rate: Rate, now: u64) -> Option<u64> {
        self.settle(rate, now);
        let mut left = self.total;
        if left < u64::from(rate.count) {
            return None;
        }
        for (at, count) in &self.taken {
            left -= u64::from(*count);
            if left < u64::from(rate.count) {
                return Some(at.saturating_add(rate.per_ms));
            }
        }
        // A rate of zero: nothing ever starts, which a pause says better, so the edge refuses it.
        Some(now.saturating_add(rate.per_ms))
    }

    /// Starts that are left of the rate, as the last look at the clock has it.
    pub(super) fn room(&self, rate: Rate) -> u64 {
        u64::from(rate.count).saturating_sub(self.total)
    }

    /// Forgets what is over.
    fn settle(&mut self, rate: Rate, now: u64) {
        if let Some((latest, _)) = self.taken.back()
            && now < *latest
        {
            let back = latest - now;
            self.began = self.began.saturating_sub(back);
            self.taken.iter_mut().for_each(|(at, _)| *at = at.saturating_sub(back));
        }
        while let Some((at, count)) = self.taken.front() {
            if at.saturating_add(rate.per_ms) > now {
                break;
            }
            self.total -= u64::from(*count);
            self.taken.pop_front();
        }
    }

    pub fn entries(&self) -> impl Iterator<Item = (u64, u32)> {
        self.taken.iter().copied()
    }

    pub fn began(&self) -> u64 {
        self.began
    }

    pub fn restore(entries: impl IntoIterator<Item = (u64, u32)>, began: u64) -> Self {
        let taken: VecDeque<(u64, u32)> = entries.into_iter().collect();
        Self { total: taken.iter().map(|(_, count)| u64::from(*count)).sum(), taken, began }
    }
}
