//! What a handler is given: the [`Job`] and, to talk with the worker while it runs, a [`Context`].

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use windlass_core::trace::{self, TRACEPARENT};
use windlass_core::{Name, Payload, Priority, Progress, TaskId, Token, limits};

use super::outcome::Failure;
use super::port::{Dependency, Error, Held};

/// A claimed task.
#[derive(Debug, Clone)]
pub struct Job {
    pub id: TaskId,
    pub kind: Name,
    pub queue: Name,
    pub priority: Priority,
    pub payload: Payload,
    pub metadata: Vec<(String, String)>,
    /// From 1.
    pub attempt: u32,
    pub max_retries: u32,
    pub timeout: Duration,
    /// What an earlier attempt saved.
    pub checkpoint: Option<Bytes>,
    pub token: Token,
}

impl Job {
    /// Where this attempt stands in a trace.
    pub fn traceparent(&self) -> Option<&str> {
        let (_, text) = self.metadata.iter().find(|(key, _)| key == TRACEPARENT)?;
        // What others put there is not passed on.
        trace::Context::parse(text).is_some().then_some(text)
    }

    /// The payload as a typed value. A payload that does not fit is fatal: no retry will change it.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(self.payload.bytes()).map_err(|error| Failure::Fatal {
            error: format!("the payload does not fit the type {}: {error}", self.kind),
        })
    }
}

/// Why a handler is asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Someone cancelled the task. Its outcome will not be looked at.
    Cancelled,
    /// Another worker may have the task by now. Its outcome would be refused.
    LeaseLost,
    /// The worker stops; what is not done soon is given back.
    ShuttingDown,
}

/// The handler's line to its worker. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Context {
    shared: Arc<Shared>,
}

/// One allocation for each task, and nothing that costs more until it is used.
#[derive(Debug)]
struct Shared {
    id: TaskId,
    kind: Name,
    queue: Name,
    worker: Name,
    token: Token,
    attempt: u32,
    max_retries: u32,
    started: Instant,
    limit: Duration,
    cause: OnceLock<Cause>,
    stopped: Notify,
    progress: Mutex<Option<Progress>>,
    progressed: Notify,
    checkpoint: Mutex<Option<Bytes>>,
    traceparent: Option<Box<str>>,
    saves: Mutex<Vec<Save>>,
    asked: Notify,
    questions: Mutex<Vec<Question>>,
    questioned: Notify,
}

/// Who waits to hear what the task depends on.
pub(super) type Question = oneshot::Sender<Result<Vec<Dependency>, Error>>;

/// A checkpoint on its way to the broker, and who waits for that.
#[derive(Debug)]
pub(super) struct Save {
    pub(super) bytes: Bytes,
    pub(super) saved: oneshot::Sender<Result<(), Error>>,
}

impl Context {
    pub(crate) fn new(job: &Job, worker: &Name, started: Instant, limit: Duration) -> Self {
        let shared = Shared {
            id: job.id.clone(),
            kind: job.kind.clone(),
            queue: job.queue.clone(),
            worker: worker.clone(),
            token: job.token,
            attempt: job.attempt,
            max_retries: job.max_retries,
            started,
            limit,
            cause: OnceLock::new(),
            stopped: Notify::new(),
            progress: Mutex::new(None),
            progressed: Notify::new(),
            checkpoint: Mutex::new(job.checkpoint.clone()),
            traceparent: job.traceparent().map(Box::from),
            saves: Mutex::default(),
            asked: Notify::new(),
            questions: Mutex::default(),
            questioned: Notify::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Resolves when the handler should stop. A handler that ignores it is dropped a moment later.
    pub async fn cancelled(&self) -> Cause {
        loop {
            // Listen first, look second: a cause that comes in between is noticed.
            let mut stopped = std::pin::pin!(self.shared.stopped.notified());
            stopped.as_mut().enable();
            if let Some(cause) = self.cause() {
                return cause;
            }
            stopped.await;
        }
    }

    pub fn is_cancelled(&self) -> bool {
        self.cause().is_some()
    }

    pub fn cause(&self) -> Option<Cause> {
        self.shared.cause.get().copied()
    }

    /// Reports how far the work is, 0–1. Only the newest report is sent, at most one a second.
    pub fn progress(&self, fraction: f64, note: Option<&str>) {
        let fraction = if fraction.is_finite() { fraction.clamp(0.0, 1.0) } else { 0.0 };
        let note = note.map(|note| cut(note, limits::PROGRESS_NOTE_BYTES_MAX).into());
        *self.shared.progress.lock() = Some(Progress { fraction, note });
        self.shared.progressed.notify_one();
    }

    /// What the last attempt saved, or this one since.
    pub fn checkpoint(&self) -> Option<Bytes> {
        self.shared.checkpoint.lock().clone()
    }

    /// Keeps up to 64 KiB for the attempts that follow, whoever runs them. It is durable when this answers; while the broker
    /// cannot be reached it is tried again and again. It is gone when the task is completed, or by saving nothing.
    ///
    /// An error means that the task is no longer this worker's, or that the checkpoint is too large.
    pub async fn save_checkpoint(&self, bytes: impl Into<Bytes>) -> Result<(), Error> {
        let bytes: Bytes = bytes.into();
        if bytes.len() > limits::CHECKPOINT_BYTES_MAX {
            let most = limits::CHECKPOINT_BYTES_MAX;
            let detail = format!("a checkpoint of {} bytes, {most} are allowed", bytes.len());
            return Err(Error::Refused { code: "too_large".into(), detail });
        }
        let (tell, saved) = oneshot::channel();
        self.shared.saves.lock().push(Save { bytes: bytes.clone(), saved: tell });
        self.shared.asked.notify_one();
        // Nobody answers when the attempt is over.
        saved.await.unwrap_or(Err(Error::LeaseLost))?;
        *self.shared.checkpoint.lock() = Some(bytes).filter(|bytes| !bytes.is_empty());
        Ok(())
    }

    /// The tasks that this one depends on, in the order of its submit, with their results. It fails if the results are more than
    /// 16 MiB in all.
    pub async fn dependencies(&self) -> Result<Vec<Dependency>, Error> {
        let (tell, told) = oneshot::channel();
        self.shared.questions.lock().push(tell);
        self.shared.questioned.notify_one();
        // Nobody answers when the attempt is over.
        told.await.unwrap_or(Err(Error::LeaseLost))
    }

    /// Writes a line to the worker's log, with the task, its type, the attempt and the worker beside it.
    pub fn log(&self, message: impl fmt::Display) {
        let Shared { id, kind, worker, attempt, .. } = &*self.shared;
        tracing::info!(task_id = %id, worker_id = %worker, %kind, attempt, "{message}");
    }

    pub fn task_id(&self) -> &TaskId {
        &self.shared.id
    }

    pub fn kind(&self) -> &Name {
        &self.shared.kind
    }

    pub fn queue(&self) -> &Name {
        &self.shared.queue
    }

    pub fn worker(&self) -> &Name {
        &self.shared.worker
    }

    /// Where this attempt stands in a trace, as the header of the same name has it: what the handler does can go on from
    /// there. `None` if the producer sent none and the broker makes no traces.
    pub fn traceparent(&self) -> Option<&str> {
        self.shared.traceparent.as_deref()
    }

    /// From 1.
    pub fn attempt(&self) -> u32 {
        self.shared.attempt
    }

    /// Whether a failure of this attempt makes the task a dead letter.
    pub fn is_last_attempt(&self) -> bool {
        self.shared.attempt > self.shared.max_retries
    }

    /// Grows with every claim of the task: a fence for what the handler writes elsewhere.
    pub fn lease_token(&self) -> Token {
        self.shared.token
    }

    /// When the handler's time is up.
    pub fn deadline(&self) -> Instant {
        self.shared.started + self.shared.limit
    }

    /// The handler's time limit: the task's own, or that of its type if that is shorter.
    pub fn limit(&self) -> Duration {
        self.shared.limit
    }

    /// The first cause stays.
    pub(super) fn stop(&self, cause: Cause) {
        if self.shared.cause.set(cause).is_ok() {
            self.shared.stopped.notify_waiters();
        }
    }

    pub(super) fn held(&self) -> Held {
        Held { id: self.shared.id.clone(), token: self.shared.token }
    }

    /// Waits for questions that were not taken yet.
    pub(super) async fn next_questions(&self) -> Vec<Question> {
        loop {
            let questions = std::mem::take(&mut *self.shared.questions.lock());
            if !questions.is_empty() {
                return questions;
            }
            self.shared.questioned.notified().await;
        }
    }

    /// Waits for checkpoints that were not taken yet; the last of them counts for all.
    pub(super) async fn next_saves(&self) -> Vec<Save> {
        loop {
            let saves = std::mem::take(&mut *self.shared.saves.lock());
            if !saves.is_empty() {
                return saves;
            }
            self.shared.asked.notified().await;
        }
    }

    /// Waits for a report that was not taken yet.
    pub(super) async fn next_progress(&self) -> Progress {
        loop {
            if let Some(progress) = self.shared.progress.lock().take() {
                return progress;
            }
            self.shared.progressed.notified().await;
        }
    }
}

/// The longest beginning of `text` that fits, ending between two characters.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abc", 2), "ab");
        assert_eq!(cut("aü", 2), "a");
    }
}
