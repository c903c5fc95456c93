//! Schedules: tasks that come again and again.
//!
//! **Slots.** A pattern and a time zone name an endless row of *slots*, moments in UTC (`timing`). A schedule remembers up to
//! where its row is decided (`cursor`) and nothing about the rest, so a slot is decided once, in order, whatever the wall
//! clock does. A clock that goes back finds the cursor ahead of it, so nothing fires again before the next new slot.
//!
//! **Fires.** [`Schedule::tick`] looks at the slots between the cursor and now and returns an [`Advance`] and the tasks to
//! add. The store writes both in one commit under the revision that was seen, and the id of a task is made of schedule and
//! slot: a second decision about a slot loses by the revision, and even a wrong one could only name the same task.
//!
//! **Late slots** go by the catch-up rule, which chooses among the slots that are due; what it chose goes by the overlap
//! rule, slot by slot.
//!
//! **Daylight saving time.** A pattern that names its hours (`30 2 * * *`, `0 9-17 * * *`) fires once for every time of day that
//! it names: at the moment of the jump for times that the clock jumps over, and only the first time for times that come twice.
//! A pattern whose hours begin with `*` (`*/10 * * * *`) follows the clock as it runs: times that are jumped over do not
//! exist, times that come twice fire twice. `@every` counts elapsed time ([`crate::time`]): its slots, its cursor and its `wake_at`
//! are moments of elapsed time, and no change of the wall clock delays, repeats or skips one.

mod decide;
mod fire;
#[cfg(test)]
mod tests;
mod timing;

use crate::ids::{Name, TaskId};
use crate::limits::SCHEDULE_FIRES_KEPT_MAX;
use crate::priority::Priority;
use crate::task::{Body, Wakes};
use crate::time::Stamp;

pub use decide::{Advance, Tick};
pub use fire::{PLACEHOLDER, Planned};
pub use timing::{InvalidTiming, Timing};

/// A clock that is behind by less than this was not set back: the clocks of brokers on one store differ as much.
const SET_BACK_MS: u64 = 1000;

/// A schedule as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    pub id: Name,
    /// Grows with every change; a write names the revision it saw.
    pub revision: u64,
    pub created_at: u64,
    /// When its definition changed last.
    pub updated_at: u64,
    pub definition: Definition,
    pub progress: Progress,
    /// The last fires, oldest first, at most [`SCHEDULE_FIRES_KEPT_MAX`].
    pub fires: Vec<Fire>,
}

/// What people say about a schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    pub timing: Timing,
    pub template: Template,
    pub overlap: Overlap,
    pub catch_up: CatchUp,
    /// How far back missed slots are caught up with.
    pub window_ms: u64,
    /// A task starts up to this much after its slot.
    pub jitter_ms: u64,
    /// No slot before this, and none after `ends_at`.
    pub starts_at: Option<u64>,
    pub ends_at: Option<u64>,
    pub paused: bool,
}

/// What every task of a schedule looks like.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    pub queue: Name,
    pub kind: Name,
    pub priority: Priority,
    pub retention_ms: u64,
    pub key: Option<Name>,
    /// Its fingerprint is made for each task.
    pub body: Body,
}

/// The progress of a schedule, in times of its clock ([`Definition::clock`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Every slot up to here is decided.
    pub cursor: u64,
    /// The next slot, when the schedule must be looked at again.
    pub wake_at: Option<u64>,
    /// A slot that waits for the last fire to end.
    pub queued: Option<u64>,
    /// Tasks made so far.
    pub fired: u64,
    /// Slots that the overlap rule left out.
    pub skipped: u64,
}

/// One task that the schedule made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fire {
    /// The slot, as the wall clock showed it at that time; for a manual run, the time of the request.
    pub slot: u64,
    pub fired_at: u64,
    pub task: TaskId,
    pub manual: bool,
}

/// What happens to a slot that comes while the last fire is not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// Fire.
    Allow,
    /// Leave it out.
    Skip,
    /// Fire when the last fire ends; while one slot waits, others are left out.
    QueueOne,
    /// Cancel the last fire, then fire.
    CancelRunning,
}

/// What happens to slots that came while nobody could fire them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatchUp {
    /// Left out; a slot that is late by [`crate::limits::SCHEDULE_LATE_MS_MAX`] at most is not missed yet.
    Skip,
    /// The last of them fires and stands for all.
    One,
    /// Each fires.
    All,
}

impl Overlap {
    pub const ALL: [Overlap; 4] = [Overlap::Allow, Overlap::Skip, Overlap::QueueOne, Overlap::CancelRunning];

    pub fn as_str(self) -> &'static str {
        match self {
            Overlap::Allow => "allow",
            Overlap::Skip => "skip",
            Overlap::QueueOne => "queue_one",
            Overlap::CancelRunning => "cancel_running",
        }
    }

    pub fn parse(text: &str) -> Option<Overlap> {
        Overlap::ALL.into_iter().find(|overlap| overlap.as_str() == text)
    }
}

impl CatchUp {
    pub const ALL: [CatchUp; 3] = [CatchUp::Skip, CatchUp::One, CatchUp::All];

    pub fn as_str(self) -> &'static str {
        match self {
            CatchUp::Skip => "skip",
            CatchUp::One => "one",
            CatchUp::All => "all",
        }
    }

    pub fn parse(text: &str) -> Option<CatchUp> {
        CatchUp::ALL.into_iter().find(|catch_up| catch_up.as_str() == text)
    }
}

impl Definition {
    /// Converts `now` to the clock of the slots: elapsed time for `@every`, otherwise the wall clock.
    pub fn clock(&self, now: impl Into<Stamp>) -> u64 {
        let now = now.into();
        if self.timing.is_steady() { now.elapsed() } else { now.wall }
    }

    /// Converts a time of that clock to the present wall clock.
    pub fn shown(&self, at: u64, now: Stamp) -> u64 {
        if self.timing.is_steady() { now.shown(at) } else { at }
    }

    /// The first slot after `after`; `None` when there is none any more.
    pub fn next_slot(&self, after: u64) -> Option<u64> {
        let earliest = self.starts_at.unwrap_or(0);
        // A slot at `starts_at` itself counts.
        let after = after.max(earliest.saturating_sub(1));
        self.timing.next_after(after, earliest).filter(|slot| self.ends_at.is_none_or(|end| *slot <= end))
    }
}

impl Schedule {
    /// When the schedule must be looked at again.
    pub fn wakes(&self) -> Wakes {
        match (self.definition.timing.is_steady(), self.progress.wake_at) {
            (true, elapsed) => Wakes { wall: None, elapsed },
            (false, wall) => Wakes { wall, elapsed: None },
        }
    }

    /// Returns the slot that the schedule waits for if the wall clock was set back to before slots that have fired.
    pub fn set_back(&self, now: Stamp) -> Option<u64> {
        if self.definition.paused
            || self.progress.cursor <= self.definition.clock(now).saturating_add(SET_BACK_MS)
        {
            return None;
        }
        let next = self.progress.wake_at?;
        self.definition.next_slot(self.definition.clock(now)).filter(|slot| *slot < next).map(|_| next)
    }

    /// Carries out an advance that was decided on this very revision.
    pub fn advance(&mut self, advance: &Advance) {
        self.revision += 1;
        self.progress = advance.progress;
        self.fires.extend(advance.fires.iter().cloned());
        let surplus = self.fires.len().saturating_sub(SCHEDULE_FIRES_KEPT_MAX);
        self.fires.drain(..surplus);
    }
}
