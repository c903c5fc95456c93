//! Whether one limit lets a task start.

use super::limit::Limit;
use super::window::Window;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gate {
    pub limit: Limit,
    pub window: Window,
    /// The rate is used up until then, as the last look at the clock has it.
    pub drained_until: Option<u64>,
}

/// Why a gate lets nothing start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    Paused,
    Full { running: u64, max: u32 },
    NoToken { until: u64 },
}

impl Gate {
    /// `running` tasks count towards it at the moment.
    pub fn closed(&self, running: u64) -> Option<Closed> {
        if self.limit.paused {
            return Some(Closed::Paused);
        }
        if let Some(max) = self.limit.max_concurrency.filter(|max| running >= u64::from(*max)) {
            return Some(Closed::Full { running, max });
        }
        self.drained_until.map(|until| Closed::NoToken { until })
    }

    /// How many more may start now; `None` for any number.
    pub(super) fn room(&self, running: u64) -> Option<u64> {
        let slots = self.limit.max_concurrency.map(|max| u64::from(max).saturating_sub(running));
        let tokens = self.limit.rate.map(|rate| self.window.room(rate));
        slots.into_iter().chain(tokens).min()
    }

    /// A task starts: it takes a token.
    pub(super) fn start(&mut self, now: u64) {
        if let Some(rate) = self.limit.rate {
            self.window.take(rate, now);
            self.drained_until = self.window.next(rate, now);
        }
    }

    /// Looks at the clock.
    pub(super) fn tick(&mut self, now: u64) {
        self.drained_until = self.limit.rate.and_then(|rate| self.window.next(rate, now));
    }
}
