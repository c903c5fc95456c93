//! How the broker reacts when the wall clock is set.
//!
//! Nothing has to be repaired: durations count elapsed time, absolute times follow the wall clock, and every loop looks at
//! both at least every 30 seconds. The broker logs that the clock was set. While the wall clock is behind elapsed time, the
//! store records elapsed time, and health names the schedules that wait because their slots have already fired.

use parking_lot::Mutex;
use windlass_core::limits::PAGE_ROWS_MAX;
use windlass_core::{Name, Now, Record};
use windlass_store::ListSchedules;

use crate::broker::Broker;
use crate::error::Error;
use crate::explain::length;

/// A change of the wall clock smaller than this is not logged.
const TOLD_MS: u64 = 1000;
/// How often the broker checks a wall clock that is behind.
const LOOK_MS: u64 = 5000;
/// The most schedules that health names.
const NAMED_MAX: usize = 5;

#[derive(Debug, Default)]
pub(crate) struct ClockWatch(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// [`Now::ahead`] as it was logged last; `None` before the first check.
    told: Option<i64>,
    /// When to check again, on the monotonic clock.
    look_at: u64,
    behind: Option<Behind>,
}

/// Schedules that wait because the wall clock was set back.
#[derive(Debug)]
struct Behind {
    ms: u64,
    count: usize,
    /// The names of the first few.
    named: Vec<Name>,
}

impl ClockWatch {
    pub(crate) fn problem(&self) -> Option<String> {
        let state = self.0.lock();
        let Behind { ms, count, named } = state.behind.as_ref()?;
        let mut names: Vec<&str> = named.iter().map(Name::as_str).collect();
        if *count > names.len() {
            names.push("…");
        }
        Some(format!(
            "the wall clock was set back by {}; schedules waiting for a slot that has not fired yet: {count} ({})",
            length(*ms),
            names.join(", ")
        ))
    }

    /// Logs that the clock was set. Returns whether it is time to look for schedules that wait.
    fn notice(&self, now: Now) -> bool {
        let mut state = self.0.lock();
        let told = *state.told.get_or_insert(now.ahead);
        let set = now.ahead.abs_diff(told) >= TOLD_MS;
        if set {
            let by = length(now.ahead.abs_diff(told));
            let direction = if now.ahead > told { "back" } else { "forward" };
            tracing::warn!(
                "the wall clock was set {direction} by {by}; durations are not affected, absolute times follow it"
            );
            state.told = Some(now.ahead);
        }
        if now.ahead < TOLD_MS as i64 {
            state.behind = None;
            return false;
        }
        if !set && now.mono < state.look_at {
            return false;
        }
        state.look_at = now.mono + LOOK_MS;
        true
    }
}

impl Broker {
    /// Checks the wall clock. The cron loop calls it, because it runs often enough.
    pub(crate) async fn watch_clock(&self) -> Result<(), Error> {
        let now = self.now();
        if !self.inner.clock_watch.notice(now) {
            return Ok(());
        }
        self.inner.store.keep_time().await;
        let mut behind = Behind { ms: now.ahead.unsigned_abs(), count: 0, named: Vec::new() };
        let mut list = ListSchedules { after: None, limit: PAGE_ROWS_MAX };
        loop {
            let page = self.inner.store.schedules(list.clone()).await?;
            let Some(last) = page.last() else { break };
            list.after = Some(last.id.clone());
            let waiting = page.iter().filter(|schedule| schedule.set_back(now.stamp()).is_some());
            for schedule in waiting {
                behind.count += 1;
                if behind.named.len() < NAMED_MAX {
                    behind.named.push(schedule.id.clone());
                }
            }
        }
        self.inner.clock_watch.0.lock().behind = (behind.count > 0).then_some(behind);
        Ok(())
    }

    /// Prepares a record for people: times that count elapsed time are converted to the present wall clock.
    pub(crate) fn show(&self, record: &mut Record) {
        let counts = record.ahead.is_some() || record.unique.is_some();
        if counts {
            record.show(self.now().stamp());
        }
    }
}
