//! Acts on many tasks, as things of their own: retry, cancel, delete, set the priority of or move all that match a filter.
//!
//! An operation walks the tasks that were there when it began, from the newest to the oldest, a page at a time. It looks at
//! each task once: `cursor` is the number below which it has not been yet. For every page the decisions of
//! [`crate::transition`] are made here, and a store commits them **together with** the operation's new cursor and counts
//! ([`Operation::advance`]), under the revision that was seen. So however often the walk is cut off, no task is counted twice
//! or left out.
//!
//! A task that changed between the look and the commit is not changed by it: its id is kept in `again`, and it is decided on
//! anew, if it still matches, before the walk goes on. One that changes all the time is counted as failed in the end.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::ids::{Name, TaskId};
use crate::limits::CONFLICT_TRIES_MAX;
use crate::priority::Priority;
use crate::task::Record;
use crate::time::Stamp;
use crate::transition::{self, Change, Refusal, Transition};

#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    pub id: Name,
    /// Grows with every change.
    pub revision: u64,
    pub order: Order,
    pub created_at: u64,
    pub updated_at: u64,
    pub standing: Standing,
    /// Tasks numbered from here on came after it began, and are left alone.
    pub first: u64,
    /// Tasks numbered from here on have been looked at; 0 when all have.
    pub cursor: u64,
    /// How many tasks matched when it began.
    pub expected: Expected,
    pub changed: u64,
    /// Matched, and their state does not allow the act or it would change nothing.
    pub skipped: u64,
    /// Matched, and could not be changed.
    pub failed: u64,
    /// To be decided on anew.
    pub again: Vec<TaskId>,
    /// Commits in a row that met a task that had changed.
    pub tries: u32,
}

/// What is asked for, and who asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    pub action: Action,
    /// As it was written; times in it count back from the beginning of the operation.
    pub filter: Box<str>,
    /// Who asked, as they say.
    pub by: Option<Box<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Retry,
    Cancel,
    Delete,
    SetPriority(Priority),
    Move(Name),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    Running,
    Done {
        at: u64,
    },
    Cancelled {
        at: u64,
    },
    /// It cannot go on.
    Failed {
        at: u64,
        reason: Box<str>,
    },
}

/// A count that ends at a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Expected {
    pub count: u64,
    /// There may be more.
    pub at_least: bool,
}

/// What tasks depend on as it is now, by the ids of those tasks. It matters for cancelled ones that are to run again.
pub type Behind = HashMap<TaskId, Vec<Record>>;

/// How an operation goes on from the revision that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub revision: u64,
    pub at: u64,
    pub cursor: u64,
    pub skipped: u64,
    pub failed: u64,
}

/// What became of the transitions of a step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    pub changed: u64,
    /// Those that the store refuses by itself.
    pub refused: u64,
    /// Those that had changed.
    pub conflicts: Vec<TaskId>,
}

impl Operation {
    /// One that a store has still to number ([`Operation::begin`]).
    pub fn new(id: Name, order: Order, expected: Expected, now: u64) -> Operation {
        Operation {
            id,
            revision: 1,
            order,
            created_at: now,
            updated_at: now,
            standing: Standing::Running,
            first: 0,
            cursor: 0,
            expected,
            changed: 0,
            skipped: 0,
            failed: 0,
            again: Vec::new(),
            tries: 0,
        }
    }

    /// It takes the tasks numbered below `first`.
    pub fn begin(&mut self, first: u64) {
        (self.first, self.cursor) = (first, first);
    }

    pub fn is_running(&self) -> bool {
        self.standing == Standing::Running
    }

    pub fn ended_at(&self) -> Option<u64> {
        match self.standing {
            Standing::Running => None,
            Standing::Done { at } | Standing::Cancelled { at } | Standing::Failed { at, .. } => Some(at),
        }
    }

    /// Tasks that matched and were decided on.
    pub fn seen(&self) -> u64 {
        self.changed + self.skipped + self.failed
    }

    /// Decides about tasks that match. They are those of a page that reached down to `cursor`, or, while there are tasks to
    /// look at again, those of them that still match, and then `cursor` is the present one. None of them waited for others.
    pub fn plan(&self, found: &[Record], cursor: u64, now: impl Into<Stamp>) -> (Step, Vec<Transition>) {
        self.plan_behind(found, &Behind::new(), cursor, now)
    }

    /// Like [`Operation::plan`], for tasks of which some depend on others.
    pub fn plan_behind(
        &self,
        found: &[Record],
        behind: &Behind,
        cursor: u64,
        now: impl Into<Stamp>,
    ) -> (Step, Vec<Transition>) {
        let now = now.into();
        let mut step = Step { revision: self.revision, at: now.wall, cursor, skipped: 0, failed: 0 };
        if self.tries as usize >= CONFLICT_TRIES_MAX {
            step.failed = found.len() as u64;
            return (step, Vec::new());
        }
        let transitions = self.order.action.decide_all(found, behind, now);
        step.skipped = (found.len() - transitions.len()) as u64;
        (step, transitions)
    }

    /// The step was committed, at the revision that it names.
    pub fn advance(&mut self, step: &Step, tally: Tally) {
        self.revision += 1;
        self.updated_at = step.at;
        self.cursor = step.cursor;
        self.changed += tally.changed;
        self.skipped += step.skipped + tally.refused;
        self.failed += step.failed;
        self.tries = if tally.conflicts.is_empty() { 0 } else { self.tries + 1 };
        self.again = tally.conflicts;
        if self.cursor == 0 && self.again.is_empty() {
            self.standing = Standing::Done { at: step.at };
        }
    }

    /// It ends before its time.
    pub fn end(&mut self, standing: &Standing) {
        self.revision += 1;
        self.standing = standing.clone();
        self.updated_at = self.ended_at().unwrap_or(self.updated_at);
        self.again.clear();
    }
}

impl Action {
    pub const WORDS: [&'static str; 5] = ["retry", "cancel", "delete", "set_priority", "move"];

    pub fn as_str(&self) -> &'static str {
        match self {
            Action::Retry => "retry",
            Action::Cancel => "cancel",
            Action::Delete => "delete",
            Action::SetPriority(_) => "set_priority",
            Action::Move(_) => "move",
        }
    }

    /// What it does to some tasks; those that it does nothing to are left out. A retried task waits again for what it depends
    /// on, and it can only do that behind tasks that live or are retried with it: so the oldest are decided on first.
    pub fn decide_all(&self, found: &[Record], behind: &Behind, now: Stamp) -> Vec<Transition> {
        let mut found: Vec<&Record> = found.iter().collect();
        if !behind.is_empty() {
            found.sort_by_key(|record| record.seq);
        }
        let mut revived: HashMap<&TaskId, Record> = HashMap::new();
        let mut transitions = Vec::with_capacity(found.len());
        for record in found {
            let decided = match (self, behind.get(&record.id)) {
                (Action::Retry, Some(parents)) => {
                    let mut current = Vec::with_capacity(parents.len());
                    for parent in parents {
                        current.push((parent.id.clone(), revived.get(&parent.id).unwrap_or(parent)));
                    }
                    transition::retry_behind(record, &current, now)
                }
                _ => self.decide(record, now),
            };
            let Ok(Some(change)) = decided else { continue };
            if !behind.is_empty() {
                let mut after = record.clone();
                after.evolve(&change, 0);
                revived.insert(&record.id, after);
            }
            let Record { id, seq, revision, .. } = record;
            transitions.push(Transition { id: id.clone(), seq: *seq, revision: *revision, change });
        }
        transitions
    }

    /// For a task that does not wait for others.
    pub fn decide(&self, record: &Record, now: impl Into<Stamp>) -> Result<Option<Change>, Refusal> {
        match self {
            Action::Retry => transition::retry(record, now),
            Action::Cancel => transition::cancel(record, now),
            Action::Delete => transition::remove(record, now),
            Action::SetPriority(priority) => transition::reprioritise(record, *priority, now),
            Action::Move(queue) => transition::move_to(record, queue, now),
        }
    }
}

impl Standing {
    pub fn as_str(&self) -> &'static str {
        match self {
            Standing::Running => "running",
            Standing::Done { .. } => "done",
            Standing::Cancelled { .. } => "cancelled",
            Standing::Failed { .. } => "failed",
        }
    }
}
