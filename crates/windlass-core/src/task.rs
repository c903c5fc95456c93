//! What a task is: the part that changes ([`Record`]) and the part that never does ([`Body`]).

use bytes::Bytes;

use crate::ids::{Name, TaskId, Token};
use crate::priority::Priority;
use crate::retry;
use crate::state::{State, StateName};
use crate::time::Stamp;
use crate::unique::{Hold, Unique};

/// Opaque to the broker; JSON text is passed on as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    Json(Bytes),
    Binary(Bytes),
}

impl Payload {
    pub fn bytes(&self) -> &Bytes {
        match self {
            Payload::Json(bytes) | Payload::Binary(bytes) => bytes,
        }
    }
}

/// Written once, at submit.
#[derive(Debug, Clone, PartialEq)]
pub struct Body {
    pub payload: Payload,
    pub metadata: Vec<(String, String)>,
    pub timeout_ms: u64,
    pub max_retries: u32,
    pub max_crashes: u32,
    pub retry: retry::Policy,
    /// Digest of what the client sent, kept when the client chose the id: tells a repeated submit from a clash.
    pub fingerprint: Option<[u8; 16]>,
    /// `None` for a task that stands alone.
    pub links: Option<Box<Links>>,
}

/// What ties a task to others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    /// Tasks that must complete first, each once, at most [`crate::limits::DEPENDENCIES_MAX`].
    pub dependencies: Vec<TaskId>,
    /// The workflow that it is a node of.
    pub workflow: Option<Name>,
}

/// A task on its way into a store.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    pub id: TaskId,
    pub queue: Name,
    pub kind: Name,
    pub priority: Priority,
    pub created_at: u64,
    /// Earliest start.
    pub scheduled_at: Option<u64>,
    pub expires_at: Option<u64>,
    pub retention_ms: u64,
    pub counted: Counted,
    pub unique: Option<Box<Unique>>,
    /// Whose share of the queue it takes, and whose limit it counts towards, see [`crate::flow`].
    pub key: Option<Name>,
    pub body: Body,
}

/// How the durations of a new task are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// How far elapsed time was ahead of the wall clock at `created_at`, see [`crate::time`].
    pub ahead: i64,
    /// Whether `scheduled_at` was given as a delay and counts elapsed time. Otherwise it is a wall-clock time.
    pub delayed: bool,
}

/// Everything about a task that changes, and what is needed to index and decide without its body.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub id: TaskId,
    pub queue: Name,
    pub kind: Name,
    /// The store's own number of this task, in order of submit.
    pub seq: u64,
    /// Grows with every change; a commit names the revision it saw.
    pub revision: u64,
    /// Place among tasks of its queue and priority: the store's number of the moment when it became pending.
    pub order: u64,
    /// When it took that place. A task that was given back or lost keeps both.
    pub ready_at: u64,
    pub priority: Priority,
    pub state: State,
    /// How far elapsed time was ahead of the wall clock when the time of the state was set; `None` if that time does not count
    /// elapsed time. While the task is blocked, this is about `scheduled_at`. For a final state `None` means zero.
    pub ahead: Option<i64>,
    /// Attempts begun, those given back excepted.
    pub attempts: u32,
    /// Attempts that ended by a lost lease.
    pub crashes: u32,
    /// Others wait for its end. The store sets it with the first of them and clears it when the last has been told; neither
    /// is a change of the task, so the revision stays.
    pub awaited: bool,
    /// It is a node of a workflow.
    pub member: bool,
    /// The lease whose end was reported or asked for last: recognises a repeated report.
    pub ended: Option<Token>,
    pub created_at: u64,
    pub updated_at: u64,
    pub started_at: Option<u64>,
    pub scheduled_at: Option<u64>,
    pub expires_at: Option<u64>,
    pub retention_ms: u64,
    pub key: Option<Name>,
    pub error: Option<Box<str>>,
    pub result: Option<Payload>,
    /// The attempts that ended, oldest first, at most [`crate::limits::ATTEMPTS_KEPT_MAX`].
    pub history: Vec<Attempt>,
    /// Set by the worker while it runs; kept in memory only.
    pub progress: Option<Progress>,
    pub unique: Option<Box<Hold>>,
    /// What a worker saved of its work, for the attempts that follow.
    pub checkpoint: Option<Box<Checkpoint>>,
}

/// When a task or a schedule must be looked at again, on each of the two time lines ([`crate::time`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Wakes {
    pub wall: Option<u64>,
    pub elapsed: Option<u64>,
}

impl Wakes {
    /// The earlier of the two, on the present wall clock.
    pub fn first(self, now: Stamp) -> Option<u64> {
        self.wall.into_iter().chain(self.elapsed.map(|at| now.shown(at))).min()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    pub bytes: Bytes,
    pub saved_at: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub record: Record,
    pub body: Body,
}

/// One ended attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub number: u32,
    pub worker: Name,
    pub started_at: u64,
    pub ended_at: u64,
    pub outcome: Outcome,
    pub error: Option<Box<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Completed,
    Failed,
    /// The lease ran out or the worker died.
    Crashed,
    Released,
    Cancelled,
}

impl Outcome {
    pub const ALL: [Outcome; 5] =
        [Outcome::Completed, Outcome::Failed, Outcome::Crashed, Outcome::Released, Outcome::Cancelled];

    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Completed => "completed",
            Outcome::Failed => "failed",
            Outcome::Crashed => "crashed",
            Outcome::Released => "released",
            Outcome::Cancelled => "cancelled",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// 0–1.
    pub fraction: f64,
    pub note: Option<Box<str>>,
}

impl NewTask {
    /// When the task was submitted.
    pub fn stamp(&self) -> Stamp {
        Stamp { wall: self.created_at, ahead: self.counted.ahead }
    }
}

impl Task {
    /// All that may be long: what counts towards [`crate::limits::ANSWER_BYTES_MAX`].
    pub fn bytes(&self) -> usize {
        self.record.bytes() + self.body.bytes()
    }
}

impl Body {
    /// Of all that may be long.
    pub fn bytes(&self) -> usize {
        let ids = self.dependencies().iter().map(|id| id.as_str().len());
        let metadata = self.metadata.iter().map(|(key, value)| key.len() + value.len());
        self.payload.bytes().len() + ids.chain(metadata).sum::<usize>()
    }

    /// The tasks that must complete first.
    pub fn dependencies(&self) -> &[TaskId] {
        self.links.as_ref().map_or(&[], |links| &links.dependencies)
    }

    /// Whether submitting `other` under the same id only repeats the submit of this task.
    pub fn repeats(&self, other: &Body) -> bool {
        self.fingerprint.is_some() && self.fingerprint == other.fingerprint
    }
}

impl Record {
    /// Of all that may be long.
    pub fn bytes(&self) -> usize {
        let length = |error: &Option<Box<str>>| error.as_ref().map_or(0, |text| text.len());
        self.result.as_ref().map_or(0, |result| result.bytes().len())
            + self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.bytes.len())
            + length(&self.error)
            + self.history.iter().map(|attempt| length(&attempt.error)).sum::<usize>()
    }

    /// The record of a task just submitted. `seq` comes from the store and is its place in line too.
    pub fn submitted(new: &NewTask, seq: u64) -> Record {
        Record::submitted_to(new, seq, new.queue.clone(), new.kind.clone())
    }

    /// The same with names that are shared with other records: those of the task, held by whoever keeps it.
    pub fn submitted_to(new: &NewTask, seq: u64, queue: Name, kind: Name) -> Record {
        let state = match new.scheduled_at {
            Some(at) if at > new.created_at => State::Scheduled { at },
            _ => State::Pending,
        };
        let Counted { ahead, delayed } = new.counted;
        let waits = state != State::Pending;
        Record {
            id: new.id.clone(),
            queue,
            kind,
            seq,
            revision: 1,
            order: seq,
            ready_at: new.created_at,
            priority: new.priority,
            state,
            ahead: (delayed && waits).then_some(ahead),
            attempts: 0,
            crashes: 0,
            awaited: false,
            member: new.body.links.as_ref().is_some_and(|links| links.workflow.is_some()),
            ended: None,
            created_at: new.created_at,
            updated_at: new.created_at,
            started_at: None,
            scheduled_at: new.scheduled_at,
            expires_at: new.expires_at,
            retention_ms: new.retention_ms,
            key: new.key.clone(),
            error: None,
            result: None,
            history: Vec::new(),
            progress: None,
            unique: new.unique.as_ref().map(|unique| Box::new(Hold::new(unique, new.stamp()))),
            checkpoint: None,
        }
    }

    pub fn state_name(&self) -> StateName {
        self.state.name()
    }

    /// When a live task must be looked at again ([`crate::transition::tick`]); a running one has its lease instead.
    pub fn wakes(&self) -> Wakes {
        let expires = self.expires_at;
        match (&self.state, self.ahead) {
            (State::Scheduled { at } | State::Retrying { at }, Some(ahead)) => {
                Wakes { wall: expires, elapsed: Some(at.saturating_add_signed(ahead)) }
            }
            (State::Scheduled { at } | State::Retrying { at }, None) => {
                Wakes { wall: Some(expires.map_or(*at, |expires| expires.min(*at))), elapsed: None }
            }
            (State::Blocked { .. } | State::Pending, _) => Wakes { wall: expires, elapsed: None },
            _ => Wakes::default(),
        }
    }

    /// Converts `now` to the clock that the time of the state is stored in.
    pub(crate) fn clock_of_state(&self, now: Stamp) -> u64 {
        self.ahead.map_or(now.wall, |ahead| now.elapsed().saturating_add_signed(ahead.saturating_neg()))
    }

    /// Converts times that count elapsed time to the present wall clock, for people to read.
    pub fn show(&mut self, now: Stamp) {
        if let (State::Scheduled { at } | State::Retrying { at }, Some(ahead)) = (&mut self.state, self.ahead)
        {
            let due = now.shown(at.saturating_add_signed(ahead));
            self.scheduled_at = self.scheduled_at.map(|start| if start == *at { due } else { start });
            (*at, self.ahead) = (due, Some(now.ahead));
        }
        if let Some(until) = self.unique.as_mut().and_then(|hold| hold.until.as_mut()) {
            *until = now.shown(*until);
        }
    }

    /// When a finished task may be pruned, on elapsed time. `None` while dependents have yet to be notified of its end.
    pub fn prune_at(&self) -> Option<u64> {
        if self.must_tell() { None } else { self.kept_until() }
    }

    /// When the retention of a finished task ends, on elapsed time, whether or not dependents have been notified.
    pub fn kept_until(&self) -> Option<u64> {
        let ended_at = self.ended_at()?.saturating_add_signed(self.ahead.unwrap_or(0));
        Some(ended_at.saturating_add(self.retention_ms))
    }

    /// Whether it ended in a way that decides about those who wait for it. A dead letter does not: it may be retried.
    pub fn must_tell(&self) -> bool {
        self.awaited && matches!(self.state, State::Completed { .. } | State::Cancelled { .. })
    }

    /// A new task waits for this many others first.
    pub fn wait_for(&mut self, open: u32) {
        if open > 0 {
            self.state = State::Blocked { open };
        }
    }

    /// When a finished task finished.
    pub fn ended_at(&self) -> Option<u64> {
        match self.state {
            State::Completed { at } | State::DeadLetter { at } | State::Cancelled { at, .. } => Some(at),
            _ => None,
        }
    }
}
