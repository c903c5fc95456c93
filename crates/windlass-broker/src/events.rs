//! What happened, told to whoever listens.
//!
//! Every change of a task comes from the store itself ([`windlass_store::Observer`]), in the order of commits: also the changes that
//! no caller hears of. What is no change of a task (workers, pauses, figures) comes from the broker. An event gets a number that
//! only grows, also over restarts, and goes into the `feed`: an intake that costs whoever commits next to nothing, and behind it a
//! bounded ring from which every listener reads at its own pace. A listener that falls behind the ring, or comes back with a
//! number that the ring no longer has, is told that something is missing, and how much if that is known. The figures of every second are told beside the ring: only the
//! latest are there, so that they never push out what happened to a task.
//!
//! While nobody listens, and nobody has for a while, nothing is built and a change costs one load.
//!
//! A store that several processes share cannot tell of all changes. There every process tells what it did itself, and the
//! `relay` carries that to those where somebody listens.

mod feed;
mod figures;
mod filter;
mod listener;
mod relay;
mod ring;

use std::sync::OnceLock;

use bytes::Bytes;
use windlass_core::limits::EVENT_ERROR_BYTES_MAX;
use windlass_core::{CancelReason, Name, Outcome, Priority, Progress, Record, State, StateName, TaskId};

use crate::change::Happened;

pub(crate) use feed::{Feed, pump};
pub(crate) use figures::tell_figures;
pub use figures::{QueueDepth, SystemFigures};
pub use filter::{EventFilter, Kinds};
pub use listener::{Audience, Gap, GapReason, Heard, Listener};

#[derive(Debug)]
pub struct Event {
    /// Grows with every event. Figures have that of the event before them.
    pub id: u64,
    pub kind: EventKind,
    /// Wall clock.
    pub at: u64,
    pub data: EventData,
    text: OnceLock<Bytes>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum EventData {
    Task(TaskFacts),
    Worker(Name),
    Queue(Name),
    /// The deepest queues.
    Depths(Vec<QueueDepth>),
    Figures(SystemFigures),
    /// As many events of other processes were not heard, if that is known.
    Missed(Option<u64>),
}

/// A task as it was just after the event.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskFacts {
    pub id: TaskId,
    pub kind: Name,
    pub queue: Name,
    pub state: StateName,
    pub revision: u64,
    pub priority: Priority,
    pub attempts: u32,
    /// The beginning of it; the task has all.
    pub error: Option<Box<str>>,
    pub progress: Option<Progress>,
    /// Who runs it, or ran it last.
    pub worker: Option<Name>,
    /// Of the attempt that ended with this event.
    pub duration_ms: Option<u64>,
    /// When a retry, a delayed release or a later start is due.
    pub next_at: Option<u64>,
    /// Why it was cancelled.
    pub reason: Option<CancelReason>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    Submitted,
    /// It waits for nothing any more but a worker: its time came, or its dependencies completed.
    Ready,
    Started,
    Completed,
    /// An attempt failed, or its lease was lost; what becomes of the task follows as an event of its own.
    Failed,
    /// The task will run again: after a failure, a lost lease, a release, or because a person asked.
    Retrying,
    DeadLettered,
    Cancelled,
    Progress,
    /// It has another priority or queue, or waits for its time and no longer for other tasks.
    Updated,
    /// It was forgotten: its retention ended, or somebody purged or deleted it.
    Removed,
    WorkerJoined,
    WorkerLeft,
    WorkerPaused,
    WorkerResumed,
    QueuePaused,
    QueueResumed,
    /// How many tasks are in which queue, every second while somebody listens.
    QueueDepth,
    /// The whole broker in numbers, every second while somebody listens.
    SystemMetrics,
    /// What other processes on the same store told was not all heard. Told to everybody as a gap.
    Unheard,
}

impl EventKind {
    /// All that can be asked for.
    pub const ALL: [EventKind; 19] = [
        EventKind::Submitted,
        EventKind::Ready,
        EventKind::Started,
        EventKind::Completed,
        EventKind::Failed,
        EventKind::Retrying,
        EventKind::DeadLettered,
        EventKind::Cancelled,
        EventKind::Progress,
        EventKind::Updated,
        EventKind::Removed,
        EventKind::WorkerJoined,
        EventKind::WorkerLeft,
        EventKind::WorkerPaused,
        EventKind::WorkerResumed,
        EventKind::QueuePaused,
        EventKind::QueueResumed,
        EventKind::QueueDepth,
        EventKind::SystemMetrics,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Submitted => "task.submitted",
            EventKind::Ready => "task.ready",
            EventKind::Started => "task.started",
            EventKind::Completed => "task.completed",
            EventKind::Failed => "task.failed",
            EventKind::Retrying => "task.retrying",
            EventKind::DeadLettered => "task.dead_lettered",
            EventKind::Cancelled => "task.cancelled",
            EventKind::Progress => "task.progress",
            EventKind::Updated => "task.updated",
            EventKind::Removed => "task.removed",
            EventKind::WorkerJoined => "worker.joined",
            EventKind::WorkerLeft => "worker.left",
            EventKind::WorkerPaused => "worker.paused",
            EventKind::WorkerResumed => "worker.resumed",
            EventKind::QueuePaused => "queue.paused",
            EventKind::QueueResumed => "queue.resumed",
            EventKind::QueueDepth => "queue.depth",
            EventKind::SystemMetrics => "system.metrics",
            EventKind::Unheard => "gap",
        }
    }
}

impl Event {
    fn new(kind: EventKind, at: u64, data: EventData) -> Self {
        Self { id: 0, kind, at, data, text: OnceLock::new() }
    }

    /// The event as text: written by the first who asks, and shared by all who do.
    pub fn text(&self, write: impl FnOnce(&Event) -> Bytes) -> &Bytes {
        self.text.get_or_init(|| write(self))
    }

    pub fn task(&self) -> Option<&TaskFacts> {
        match &self.data {
            EventData::Task(facts) => Some(facts),
            _ => None,
        }
    }

    /// The queue that it is about.
    pub fn queue(&self) -> Option<&Name> {
        match &self.data {
            EventData::Task(facts) => Some(&facts.queue),
            EventData::Queue(name) => Some(name),
            _ => None,
        }
    }

    /// Bytes in memory with its text, about.
    fn weight(&self) -> usize {
        const PLAIN: usize = 900;
        match &self.data {
            EventData::Task(facts) => {
                let note = facts.progress.as_ref().and_then(|progress| progress.note.as_ref());
                PLAIN + 2 * facts.error.as_ref().map_or(0, |it| it.len()) + 2 * note.map_or(0, |it| it.len())
            }
            _ => PLAIN,
        }
    }
}

/// What listeners hear of a change. A checkpoint is no news.
fn kinds(what: Happened, after: &Record) -> &'static [EventKind] {
    match what {
        Happened::Submitted => &[EventKind::Submitted],
        Happened::Started => &[EventKind::Started],
        Happened::Completed => &[EventKind::Completed],
        Happened::Failed | Happened::LeaseLost if matches!(after.state, State::DeadLetter { .. }) => {
            &[EventKind::Failed, EventKind::DeadLettered]
        }
        Happened::Failed | Happened::LeaseLost => &[EventKind::Failed, EventKind::Retrying],
        Happened::Released | Happened::Requeued => &[EventKind::Retrying],
        Happened::Cancelled => &[EventKind::Cancelled],
        Happened::Promoted => &[EventKind::Ready],
        Happened::Settled if after.state == State::Pending => &[EventKind::Ready],
        // Its dependencies completed before its time.
        Happened::Settled if matches!(after.state, State::Scheduled { .. }) => &[EventKind::Updated],
        Happened::Moved => &[EventKind::Updated],
        Happened::Removed => &[EventKind::Removed],
        Happened::Settled | Happened::Checkpointed => &[],
    }
}

impl TaskFacts {
    fn of(record: &Record) -> Self {
        let ended = record.history.last();
        Self {
            id: record.id.clone(),
            kind: record.kind.clone(),
            queue: record.queue.clone(),
            state: record.state_name(),
            revision: record.revision,
            priority: record.priority,
            attempts: record.attempts,
            error: record.error.as_deref().map(beginning),
            progress: None,
            worker: match &record.state {
                State::Running(lease) => Some(lease.worker.clone()),
                _ => ended.map(|attempt| attempt.worker.clone()),
            },
            duration_ms: None,
            next_at: match record.state {
                State::Retrying { at } | State::Scheduled { at } => Some(at),
                _ => None,
            },
            reason: match record.state {
                State::Cancelled { reason, .. } => Some(reason),
                _ => None,
            },
        }
    }
}

/// How long the attempt took that this change ended, if it ended one.
fn ended_ms(what: Happened, after: &Record) -> Option<u64> {
    let attempt = after.history.last()?;
    let ended = match what {
        Happened::Completed | Happened::Failed | Happened::LeaseLost | Happened::Released => true,
        // A cancel ends an attempt only if there was one: a retry forgets the token of the one before it.
        Happened::Cancelled => attempt.outcome == Outcome::Cancelled && after.ended.is_some(),
        _ => false,
    };
    ended.then(|| attempt.ended_at.saturating_sub(attempt.started_at))
}

fn beginning(error: &str) -> Box<str> {
    let mut end = error.len().min(EVENT_ERROR_BYTES_MAX);
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    error[..end].into()
}
