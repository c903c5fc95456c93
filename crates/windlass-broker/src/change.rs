//! The one path of a change: read, decide, commit, and tell those who want to know.
//!
//! A decision is made on what was read and committed under its revision, so of several that race one wins and the
//! others read again. The number of tries is bounded: a task that changes that often is answered with "busy".

use std::slice::from_ref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use windlass_core::limits::CONFLICT_TRIES_MAX;
use windlass_core::{Change, Now, Outcome, Record, Refusal, Stamp, Task, TaskId, Transition};
use windlass_store::Committed;

use crate::broker::Broker;
use crate::error::Error;

pub(crate) type Decision = Result<Option<Change>, Refusal>;

/// What a committed change was, without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Happened {
    Submitted,
    Started,
    Completed,
    Failed,
    LeaseLost,
    Released,
    Cancelled,
    Checkpointed,
    Promoted,
    Settled,
    Requeued,
    /// Another priority or queue.
    Moved,
    Removed,
}

impl Happened {
    pub(crate) fn of(change: &Change) -> Happened {
        match change {
            Change::Claimed { .. } => Happened::Started,
            Change::Completed { .. } => Happened::Completed,
            Change::Failed { .. } => Happened::Failed,
            Change::LeaseLost { .. } => Happened::LeaseLost,
            Change::Released { .. } => Happened::Released,
            Change::Cancelled { .. } => Happened::Cancelled,
            Change::Checkpointed { .. } => Happened::Checkpointed,
            Change::Promoted { .. } => Happened::Promoted,
            Change::Settled { .. } => Happened::Settled,
            Change::Requeued { .. } => Happened::Requeued,
            Change::Reprioritised { .. } | Change::Moved { .. } => Happened::Moved,
            Change::Removed { .. } => Happened::Removed,
        }
    }
}

impl Broker {
    /// Changes one task by a decision that needs no body; answers with the record after it, or as it is when the
    /// decision only repeats what happened.
    pub(crate) async fn change(
        &self,
        id: &TaskId,
        mut decide: impl FnMut(&Record, Stamp) -> Decision + Send,
    ) -> Result<Record, Error> {
        for _ in 0..CONFLICT_TRIES_MAX {
            let seen = self.inner.store.peek(id).await?.ok_or(Error::NotFound("task"))?;
            let change = match decide(&seen, self.now().stamp()) {
                Ok(Some(change)) => change,
                Ok(None) if self.inner.store.are_kept(from_ref(&seen)).await? => return Ok(seen),
                Ok(None) => continue,
                Err(refusal) => return Err(Error::refused(refusal, &seen)),
            };
            if let Some(after) = self.commit_one(transition(&seen, change)).await? {
                return Ok(after);
            }
        }
        Err(Error::Busy)
    }

    /// Like [`Broker::change`], for decisions that need the body.
    pub(crate) async fn change_task(
        &self,
        id: &TaskId,
        mut decide: impl FnMut(&Task, Stamp) -> Decision + Send,
    ) -> Result<Task, Error> {
        for _ in 0..CONFLICT_TRIES_MAX {
            let seen = self.inner.store.get(id).await?.ok_or(Error::NotFound("task"))?;
            let change = match decide(&seen, self.now().stamp()) {
                Ok(Some(change)) => change,
                Ok(None) if self.inner.store.are_kept(from_ref(&seen.record)).await? => return Ok(seen),
                Ok(None) => continue,
                Err(refusal) => return Err(Error::refused(refusal, &seen.record)),
            };
            if let Some(record) = self.commit_one(transition(&seen.record, change)).await? {
                return Ok(Task { record, body: seen.body });
            }
        }
        Err(Error::Busy)
    }

    /// `None` when somebody else changed the task first.
    pub(crate) async fn commit_one(&self, transition: Transition) -> Result<Option<Record>, Error> {
        match self.commit(vec![transition]).await?.pop() {
            Some(Committed::Done(after)) => Ok(Some(*after)),
            Some(Committed::Conflict) => Ok(None),
            Some(Committed::Missing) | None => Err(Error::NotFound("task")),
            Some(Committed::KeyHeld(holder)) => Err(Error::UniqueConflict(holder)),
        }
    }

    /// Commits decided changes and tells what came of them.
    pub(crate) async fn commit(&self, transitions: Vec<Transition>) -> Result<Vec<Committed>, Error> {
        if transitions.is_empty() {
            return Ok(Vec::new());
        }
        let happened: Vec<Happened> = transitions.iter().map(|it| Happened::of(&it.change)).collect();
        let began = Instant::now();
        let committed = self.inner.store.commit(transitions).await;
        let now = self.now();
        let committed = self.progressed(committed, now)?;
        self.happened(done(happened, &committed), Some(began.elapsed()), now);
        Ok(committed)
    }

    /// Everything that follows from the changes of one commit: counters, events, those who wait for a task's end.
    pub(crate) fn happened<'a>(
        &self,
        changes: impl Iterator<Item = (Happened, &'a Record)> + Clone,
        took: Option<Duration>,
        now: Now,
    ) {
        self.inner.counters.happened(changes.clone(), took, now.mono);
        let tell = self.inner.events.wants_seen();
        for (what, after) in changes {
            if tell {
                self.inner.events.happened(what, after, after.updated_at);
            }
            if let Some(tracer) = &self.inner.settings.tracer {
                tracer.happened(what, after, now.wall);
            }
            if what == Happened::Removed || after.state.is_terminal() {
                self.inner.watchers.ended(&after.id);
                self.fire_ended(&after.id);
            }
            if let (Happened::Cancelled, Some(token), Some(attempt)) =
                (what, after.ended, after.history.last())
                && attempt.outcome == Outcome::Cancelled
            {
                self.inner.workers.cancelled(&attempt.worker, &after.id, token);
            }
        }
    }

    /// Tells of tasks that claims found expired.
    pub(crate) fn lapsed(&self, now: Now) {
        let lapsed = self.inner.store.signals().lapsed.take();
        if !lapsed.is_empty() {
            self.happened(lapsed.iter().map(|record| (Happened::Cancelled, record)), None, now);
        }
    }

    /// Keeps what the health page says about the store up to date.
    pub(crate) fn progressed<T>(
        &self,
        outcome: Result<T, windlass_store::Error>,
        now: Now,
    ) -> Result<T, Error> {
        match outcome {
            Ok(value) => {
                self.inner.progressing.ok(now.wall);
                Ok(value)
            }
            Err(error) => {
                self.inner.progressing.failed(&error);
                Err(error.into())
            }
        }
    }
}

/// What was carried out of what was to happen, with the records after it.
pub(crate) fn done(
    happened: Vec<Happened>,
    committed: &[Committed],
) -> impl Iterator<Item = (Happened, &Record)> + Clone {
    happened.into_iter().zip(committed).filter_map(|(what, outcome)| match outcome {
        Committed::Done(after) => Some((what, &**after)),
        _ => None,
    })
}

pub(crate) fn transition(seen: &Record, change: Change) -> Transition {
    Transition { id: seen.id.clone(), seq: seen.seq, revision: seen.revision, change }
}

/// Whether the store gets its work done: when it last did, and the error since then, if any.
#[derive(Debug, Default)]
pub(crate) struct Progressing {
    /// Wall clock; 0 before the first.
    ok_at: AtomicU64,
    failing: AtomicU64,
    error: Mutex<Option<String>>,
}

impl Progressing {
    fn ok(&self, wall: u64) {
        self.ok_at.store(wall, Ordering::Relaxed);
        if self.failing.load(Ordering::Relaxed) > 0 {
            self.failing.store(0, Ordering::Relaxed);
            *self.error.lock() = None;
        }
    }

    fn failed(&self, error: &windlass_store::Error) {
        *self.error.lock() = Some(error.to_string());
        self.failing.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn last_ok_at(&self) -> Option<u64> {
        Some(self.ok_at.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    pub(crate) fn error(&self) -> Option<String> {
        self.error.lock().clone()
    }
}
