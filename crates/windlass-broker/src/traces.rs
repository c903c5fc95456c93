//! What happens to tasks, told to whoever turns it into spans.
//!
//! A [`Tracer`] is the near end of a bounded channel. The path of a change puts facts into it and never waits: when the far
//! end is too slow, facts are dropped and counted. Facts are only what the record says; the far end finds out which
//! trace a task belongs to. A broker without a tracer pays one look at an `Option` per change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;
use windlass_core::trace::Run;
use windlass_core::{Attempt, Name, Outcome, Record, State, TaskId};

use crate::change::Happened;

/// Something that a span begins or ends with.
#[derive(Debug, Clone)]
pub struct Fact {
    pub id: TaskId,
    pub kind: Name,
    pub queue: Name,
    pub created_at: u64,
    pub scheduled_at: Option<u64>,
    /// Wall clock, when it was durable.
    pub at: u64,
    pub what: What,
}

#[derive(Debug, Clone)]
pub enum What {
    /// A schedule adds the task; that it was submitted follows.
    Fired {
        schedule: Name,
    },
    Submitted,
    /// It can start from now on: its time came, or somebody asked for it to run again.
    Ready,
    Started {
        run: Run,
        worker: Name,
        before: Option<Ended>,
    },
    Ended {
        attempt: Attempt,
        before: Option<Ended>,
    },
}

/// The attempt before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    pub run: Run,
    pub at: u64,
}

#[derive(Debug)]
pub struct Tracer {
    facts: mpsc::Sender<Fact>,
    dropped: AtomicU64,
}

impl Tracer {
    /// `capacity` facts wait at most.
    pub fn new(capacity: usize) -> (Arc<Self>, mpsc::Receiver<Fact>) {
        let (facts, receiver) = mpsc::channel(capacity);
        (Arc::new(Self { facts, dropped: AtomicU64::new(0) }), receiver)
    }

    /// Facts and spans that were lost because somebody was too slow.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Counts what was lost further on.
    pub fn lost(&self, spans: u64) {
        self.dropped.fetch_add(spans, Ordering::Relaxed);
    }

    pub(crate) fn happened(&self, happened: Happened, after: &Record, at: u64) {
        if let Some(what) = what(happened, after) {
            self.tell(what, after, at);
        }
    }

    pub(crate) fn fired(&self, schedule: &Name, record: &Record, at: u64) {
        self.tell(What::Fired { schedule: schedule.clone() }, record, at);
    }

    fn tell(&self, what: What, record: &Record, at: u64) {
        let fact = Fact {
            id: record.id.clone(),
            kind: record.kind.clone(),
            queue: record.queue.clone(),
            created_at: record.created_at,
            scheduled_at: record.scheduled_at,
            at,
            what,
        };
        if self.facts.try_send(fact).is_err() {
            self.lost(1);
        }
    }
}

fn what(happened: Happened, after: &Record) -> Option<What> {
    let nth_last = |back: usize| {
        let attempt = after.history.iter().nth_back(back)?;
        Some(Ended { run: attempt.into(), at: attempt.ended_at })
    };
    match happened {
        Happened::Submitted => Some(What::Submitted),
        Happened::Promoted | Happened::Settled | Happened::Requeued => Some(What::Ready),
        Happened::Started => {
            let State::Running(lease) = &after.state else { return None };
            let run = Run { number: after.attempts, started_at: lease.started_at };
            Some(What::Started { run, worker: lease.worker.clone(), before: nth_last(0) })
        }
        Happened::Completed | Happened::Failed | Happened::LeaseLost | Happened::Released => {
            Some(What::Ended { attempt: after.history.last()?.clone(), before: nth_last(1) })
        }
        // A task that was not running has no attempt that ended.
        Happened::Cancelled => {
            let attempt = after.history.last().filter(|attempt| {
                attempt.outcome == Outcome::Cancelled && attempt.ended_at == after.updated_at
            })?;
            Some(What::Ended { attempt: attempt.clone(), before: nth_last(1) })
        }
        Happened::Checkpointed | Happened::Moved | Happened::Removed => None,
    }
}
