//! Who is dead, whose leases go back, and who is forgotten.

use std::collections::HashSet;

use windlass_core::limits::LOOP_STEP_MAX;
use windlass_core::{Name, Now, Record, State, Token};

use super::{Gone, Life, Registry, Worker};

/// Workers that only claim are forgotten after this long without a call: longer than any wait, and than most work.
pub(super) const FORGOTTEN_AFTER_MS: u64 = 600_000;
/// A paused worker that went away stays listed for a day, so that it is still paused when it comes back.
const PAUSED_FORGOTTEN_AFTER_MS: u64 = 86_400_000;

#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Gone since the last look.
    pub(crate) left: Vec<Name>,
    /// Names without a life whose leases must go back, at most [`LOOP_STEP_MAX`].
    pub(crate) dead: Vec<Name>,
    pub(crate) orphans: Vec<Orphans>,
    /// When to look again, on the monotonic clock.
    pub(crate) next: Option<u64>,
}

/// The leases of a name that no living process of it holds.
#[derive(Debug)]
pub(crate) struct Orphans {
    pub(crate) worker: Name,
    /// Leases given out later belong to the living, whether or not a beat named them yet.
    before: u64,
    kept: HashSet<Token>,
}

impl Orphans {
    pub(crate) fn include(&self, record: &Record) -> bool {
        match &record.state {
            State::Running(lease) => {
                lease.worker == self.worker
                    && lease.started_at < self.before
                    && !self.kept.contains(&lease.token)
            }
            _ => false,
        }
    }
}

/// How long a silent worker counts as alive.
#[derive(Debug, Clone, Copy)]
struct Patience {
    dead_after_ms: u64,
    /// The end of the last pause of this process, on the monotonic clock; 0 if there was none.
    resumed: u64,
}

impl Registry {
    /// Decides which workers are dead. `resumed` is the end of the last pause of this process
    /// ([`windlass_store::Clock::resumed_at`]).
    pub(crate) fn judge(&self, now: Now, resumed: u64) -> Verdict {
        let patience = Patience { dead_after_ms: self.dead_after_ms, resumed };
        let mut state = self.state.lock();
        let mut verdict = Verdict::default();
        if now.mono < state.judge_at {
            verdict.next = Some(state.judge_at);
            return verdict;
        }
        let mut next = u64::MAX;
        state.by_name.retain(|name, worker| {
            worker.bury_lives(patience, now);
            if worker.is_forgotten(now) {
                verdict.left.push(name.clone());
                return false;
            }
            if let Some(gone) = &mut worker.gone {
                if !std::mem::replace(&mut gone.told, true) {
                    verdict.left.push(name.clone());
                }
                verdict.dead.push(name.clone());
            } else if worker.orphaned {
                verdict.orphans.push(worker.orphans(name));
            }
            next = next.min(worker.ends_at(patience));
            true
        });
        // While leases are on their way back, the next look must find them again.
        let busy = !verdict.dead.is_empty() || !verdict.orphans.is_empty();
        state.judge_at = if busy { 0 } else { next };
        verdict.next = Some(next).filter(|at| *at < u64::MAX);
        verdict.dead.truncate(LOOP_STEP_MAX);
        verdict
    }

    /// The leases of these names are back. A name that was heard of meanwhile, or is paused, stays listed.
    pub(crate) fn bury(&self, dead: &[Name]) {
        let mut state = self.state.lock();
        for name in dead {
            let Some(worker) = state.by_name.get_mut(name) else { continue };
            let Some(gone) = worker.gone.take() else { continue };
            if !worker.paused && worker.seen.mono <= gone.at {
                state.by_name.remove(name);
            }
        }
    }

    /// The leases of a name's former lives are back.
    pub(crate) fn settle(&self, orphans: &Orphans) {
        if let Some(worker) = self.state.lock().by_name.get_mut(&orphans.worker) {
            worker.orphaned = false;
        }
    }
}

impl Worker {
    fn bury_lives(&mut self, patience: Patience, now: Now) {
        let before = self.lives.len();
        if before == 0 {
            return;
        }
        let mut younger = before;
        self.lives.retain(|life| {
            younger -= 1;
            now.mono < life.ends_at(patience, younger > 0)
        });
        if self.lives.is_empty() {
            self.gone = Some(Gone { at: now.mono, told: false });
        } else if self.lives.len() < before {
            self.orphaned = true;
        }
    }

    fn is_forgotten(&self, now: Now) -> bool {
        self.lives.is_empty() && self.gone.is_none() && now.mono >= self.forgotten_at()
    }

    fn forgotten_at(&self) -> u64 {
        self.seen.mono + if self.paused { PAUSED_FORGOTTEN_AFTER_MS } else { FORGOTTEN_AFTER_MS }
    }

    /// When one of its lives ends, or it is forgotten, if nothing is heard of it.
    fn ends_at(&self, patience: Patience) -> u64 {
        let youngest = self.lives.len().saturating_sub(1);
        let ends = self.lives.iter().enumerate().map(|(i, life)| life.ends_at(patience, i < youngest));
        ends.min().unwrap_or_else(|| self.forgotten_at())
    }

    fn orphans(&self, name: &Name) -> Orphans {
        Orphans {
            worker: name.clone(),
            before: self.lives.iter().map(|life| life.born.wall).min().unwrap_or(0),
            kept: self.lives.iter().flat_map(Life::held).map(|(_, token)| token).collect(),
        }
    }
}

impl Life {
    /// When this life ends if the worker stays silent, on the monotonic clock. While this process was paused, heartbeats and
    /// new connections waited unread in sockets. So the worker gets its full time after a pause, even if its connection
    /// seems to be broken.
    fn ends_at(&self, patience: Patience, superseded: bool) -> u64 {
        let Patience { dead_after_ms, resumed } = patience;
        let silence_ms = if superseded { dead_after_ms / 2 } else { dead_after_ms };
        let silent_at = self.beat.mono + silence_ms;
        let ends_at = self.cut_at.map_or(silent_at, |cut_at| cut_at.min(silent_at));
        if resumed == 0 { ends_at } else { ends_at.max(resumed + silence_ms) }
    }
}
