//! What happened, told to whoever listens.
//!
//! Events are a courtesy, not a record: they are built only while somebody listens, a slow listener loses the oldest and
//! is told so, and events of different tasks (or of one task from two callers) may overtake each other by a hair.
//! `revision` puts those of one task in order.

use parking_lot::Mutex;
use tokio::sync::broadcast;
use windlass_core::{Name, Priority, Progress, Record, State, StateName, TaskId};

use crate::change::Happened;

/// Events a listener may lag behind before it loses some.
const BACKLOG: usize = 4096;

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Grows by one with every event that is sent.
    pub id: u64,
    pub kind: EventKind,
    /// Wall clock.
    pub at: u64,
    pub task: Option<TaskFacts>,
    pub queue: Option<Name>,
    pub worker: Option<Name>,
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
    pub error: Option<Box<str>>,
    pub progress: Option<Progress>,
    /// Of the attempt that ended with this event.
    pub duration_ms: Option<u64>,
    /// When a retry or a delayed release is due.
    pub next_at: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    Submitted,
    Started,
    Completed,
    /// An attempt failed, or its lease was lost; what becomes of the task follows as an event of its own, unless it is
    /// simply pending again.
    Failed,
    /// The task will run again: after a failure, a release, or because a person asked.
    Retrying,
    DeadLettered,
    Cancelled,
    Progress,
    WorkerJoined,
    WorkerLeft,
    WorkerPaused,
    WorkerResumed,
    QueuePaused,
    QueueResumed,
}

impl EventKind {
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Submitted => "task.submitted",
            EventKind::Started => "task.started",
            EventKind::Completed => "task.completed",
            EventKind::Failed => "task.failed",
            EventKind::Retrying => "task.retrying",
            EventKind::DeadLettered => "task.dead_lettered",
            EventKind::Cancelled => "task.cancelled",
            EventKind::Progress => "task.progress",
            EventKind::WorkerJoined => "worker.joined",
            EventKind::WorkerLeft => "worker.left",
            EventKind::WorkerPaused => "worker.paused",
            EventKind::WorkerResumed => "worker.resumed",
            EventKind::QueuePaused => "queue.paused",
            EventKind::QueueResumed => "queue.resumed",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Events {
    sender: broadcast::Sender<Event>,
    /// The last id; held while sending, so that ids arrive in order.
    last: Mutex<u64>,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self { sender: broadcast::Sender::new(BACKLOG), last: Mutex::new(0) }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.sender.subscribe()
    }

    pub(crate) fn heard(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    pub(crate) fn happened(&self, what: Happened, after: &Record) {
        if !self.heard() {
            return;
        }
        let dead = matches!(after.state, State::DeadLetter { .. });
        let kinds: &[EventKind] = match what {
            Happened::Submitted => &[EventKind::Submitted],
            Happened::Started => &[EventKind::Started],
            Happened::Completed => &[EventKind::Completed],
            Happened::Failed | Happened::LeaseLost if dead => &[EventKind::Failed, EventKind::DeadLettered],
            Happened::Failed => &[EventKind::Failed, EventKind::Retrying],
            Happened::LeaseLost => &[EventKind::Failed],
            Happened::Released | Happened::Requeued => &[EventKind::Retrying],
            Happened::Cancelled => &[EventKind::Cancelled],
            Happened::Checkpointed
            | Happened::Promoted
            | Happened::Settled
            | Happened::Moved
            | Happened::Removed => &[],
        };
        for kind in kinds {
            self.task(*kind, after);
        }
    }

    pub(crate) fn task(&self, kind: EventKind, record: &Record) {
        if !self.heard() {
            return;
        }
        let ended = record.history.last();
        let ends_attempt = matches!(
            kind,
            EventKind::Completed | EventKind::Failed | EventKind::DeadLettered | EventKind::Retrying
        );
        let worker = match &record.state {
            State::Running(lease) => Some(lease.worker.clone()),
            _ => ended.map(|attempt| attempt.worker.clone()),
        };
        let facts = TaskFacts {
            id: record.id.clone(),
            kind: record.kind.clone(),
            queue: record.queue.clone(),
            state: record.state_name(),
            revision: record.revision,
            priority: record.priority,
            attempts: record.attempts,
            error: record.error.clone(),
            progress: record.progress.clone(),
            duration_ms: ended
                .filter(|_| ends_attempt)
                .map(|attempt| attempt.ended_at.saturating_sub(attempt.started_at)),
            next_at: match record.state {
                State::Retrying { at } | State::Scheduled { at } => Some(at),
                _ => None,
            },
        };
        let queue = Some(record.queue.clone());
        self.send(Event { id: 0, kind, at: record.updated_at, task: Some(facts), queue, worker });
    }

    pub(crate) fn worker(&self, kind: EventKind, worker: &Name, at: u64) {
        if self.heard() {
            self.send(Event { id: 0, kind, at, task: None, queue: None, worker: Some(worker.clone()) });
        }
    }

    pub(crate) fn queue(&self, kind: EventKind, queue: &Name, at: u64) {
        if self.heard() {
            self.send(Event { id: 0, kind, at, task: None, queue: Some(queue.clone()), worker: None });
        }
    }

    fn send(&self, mut event: Event) {
        let mut last = self.last.lock();
        *last += 1;
        event.id = *last;
        // Fails only when the last listener left meanwhile.
        let _ = self.sender.send(event);
    }
}
