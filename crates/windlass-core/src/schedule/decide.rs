//! What a schedule does next.

use super::{CatchUp, Definition, Fire, Overlap, Progress, Schedule};
use crate::ids::{Name, TaskId};
use crate::limits::{SCHEDULE_FIRES_STEP_MAX, SCHEDULE_LATE_MS_MAX};
use crate::task::NewTask;
use crate::time::Stamp;

/// How a schedule moves on: small enough to be written with every fire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advance {
    /// The revision that it was decided on.
    pub revision: u64,
    pub progress: Progress,
    pub fires: Vec<Fire>,
}

/// What to commit, together.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    pub advance: Advance,
    pub tasks: Vec<NewTask>,
    /// The live fires are to be cancelled first.
    pub cancel: bool,
}

/// The slots that are due and that the catch-up rule chose, and how far that decides.
struct Due {
    slots: Vec<u64>,
    cursor: u64,
}

impl Schedule {
    /// A new schedule: its slots begin now.
    pub fn new(id: Name, definition: Definition, now: impl Into<Stamp>) -> Schedule {
        let now = now.into();
        let cursor = definition.clock(now);
        let progress = Progress { cursor, ..Progress::default() };
        let mut schedule = Schedule {
            id,
            // Not 1: what was decided about a schedule of this id that was removed must not fit the new one.
            revision: now.elapsed(),
            created_at: now.wall,
            updated_at: now.wall,
            definition,
            progress,
            fires: Vec::new(),
        };
        schedule.progress.wake_at = schedule.wake_after(cursor);
        schedule
    }

    /// The schedule with another definition. What came before is not caught up with if the slots are others now, or if the
    /// schedule was paused; a slot that waited is dropped then.
    pub fn redefined(&self, definition: Definition, now: impl Into<Stamp>) -> Schedule {
        let now = now.into();
        let slots = |definition: &Definition| {
            (definition.timing.clone(), definition.starts_at, definition.ends_at, definition.paused)
        };
        let mut next = self.clone();
        next.revision += 1;
        next.updated_at = now.wall;
        if slots(&definition) != slots(&self.definition) {
            next.progress.cursor = definition.clock(now);
            next.progress.queued = None;
        }
        next.definition = definition;
        if next.definition.overlap != Overlap::QueueOne {
            next.progress.queued = None;
        }
        next.progress.wake_at = next.wake_after(next.progress.cursor);
        next
    }

    /// Whether a decision needs to know if the last fire is still live.
    pub fn minds_overlap(&self) -> bool {
        self.definition.overlap != Overlap::Allow
    }

    /// Decides about the slots up to `now`; `live` tells whether a fire is not finished. `None` if there is nothing to do.
    pub fn tick(&self, now: impl Into<Stamp>, live: bool) -> Option<Tick> {
        let now = now.into();
        if self.definition.paused {
            return None;
        }
        let due = self.due(self.definition.clock(now));
        let mut progress = Progress { cursor: due.cursor, ..self.progress };
        let mut live = live;
        let mut slots = Vec::new();
        if let Some(queued) = progress.queued.filter(|_| !live) {
            slots.push(queued);
            progress.queued = None;
            live = true;
        }
        let cancel = live && !due.slots.is_empty() && self.definition.overlap == Overlap::CancelRunning;
        let left_out = due.slots.len() as u64;
        let chosen = match self.definition.overlap {
            Overlap::Allow => due.slots,
            Overlap::Skip => due.slots.into_iter().take(usize::from(!live)).collect(),
            Overlap::CancelRunning => due.slots.into_iter().next_back().into_iter().collect(),
            Overlap::QueueOne => {
                let mut rest = due.slots.into_iter();
                let now: Vec<u64> = rest.by_ref().take(usize::from(!live)).collect();
                if progress.queued.is_none() {
                    progress.queued = rest.next();
                }
                now
            }
        };
        let newly_queued = progress.queued.is_some() && progress.queued != self.progress.queued;
        progress.skipped += left_out - chosen.len() as u64 - u64::from(newly_queued);
        slots.extend(chosen);
        progress.fired += slots.len() as u64;
        progress.wake_at = self.wake_after(progress.cursor);
        if slots.is_empty() && progress.without_cursor() == self.progress.without_cursor() {
            return None;
        }
        let (fires, tasks) = slots.into_iter().map(|slot| self.fire_slot(slot, now)).unzip();
        Some(Tick { advance: Advance { revision: self.revision, progress, fires }, tasks, cancel })
    }

    /// A fire that somebody asked for, whatever the rules say. `task` is its id.
    pub fn run(&self, task: TaskId, now: impl Into<Stamp>) -> Tick {
        let now = now.into();
        let fire = Fire { slot: now.wall, fired_at: now.wall, task, manual: true };
        let (fire, task) = self.fire(fire, now.wall, now);
        let progress = Progress { fired: self.progress.fired + 1, ..self.progress };
        let advance = Advance { revision: self.revision, progress, fires: vec![fire] };
        Tick { advance, tasks: vec![task], cancel: false }
    }

    fn wake_after(&self, cursor: u64) -> Option<u64> {
        if self.definition.paused { None } else { self.definition.next_slot(cursor) }
    }

    fn due(&self, now: u64) -> Due {
        let cursor = self.progress.cursor;
        // After a clock that went back there is nothing new until it has caught up.
        let undecided = |from: u64| from.max(cursor).min(now);
        let back = |ms: u64| undecided(now.saturating_sub(ms.saturating_add(1)));
        let slots: Vec<u64> = match self.definition.catch_up {
            CatchUp::Skip => self.last_slot(back(SCHEDULE_LATE_MS_MAX), now).into_iter().collect(),
            CatchUp::One => self.last_slot(back(self.definition.window_ms), now).into_iter().collect(),
            CatchUp::All => {
                let mut from = back(self.definition.window_ms);
                let next = || {
                    from = self.definition.next_slot(from).filter(|slot| *slot <= now)?;
                    Some(from)
                };
                std::iter::from_fn(next).take(SCHEDULE_FIRES_STEP_MAX).collect()
            }
        };
        let full = slots.len() == SCHEDULE_FIRES_STEP_MAX;
        let decided = if full { slots.last().copied().unwrap_or(now) } else { now };
        Due { slots, cursor: decided.max(cursor) }
    }

    /// The last slot after `from` and up to `to`: the later one looks from, the later the next slot is.
    fn last_slot(&self, from: u64, to: u64) -> Option<u64> {
        let next = |from: u64| self.definition.next_slot(from).filter(|slot| *slot <= to);
        let mut last = next(from)?;
        let mut none_from = to;
        while last + 1 < none_from {
            let middle = last + (none_from - last) / 2;
            match next(middle) {
                Some(slot) => last = slot,
                None => none_from = middle,
            }
        }
        // Between these two there is room for one more.
        Some(next(last).unwrap_or(last))
    }
}

impl Progress {
    /// The cursor alone is not worth a write.
    fn without_cursor(self) -> Progress {
        Progress { cursor: 0, ..self }
    }
}
