//! The door between a worker and a broker. A worker knows nothing else of the broker, so one runtime serves a broker in
//! the same process, one behind REST, and whatever protocol comes next.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use windlass_core::choice::{Mode, Queue};
use windlass_core::{Name, Payload, Progress, TaskId, Token};

use super::job::Job;

/// Every call must end by itself: an implementation bounds the time it waits for an answer.
#[async_trait]
pub trait Port: Debug + Send + Sync + 'static {
    /// Waits up to `claim.wait` for work. A call whose future is dropped may have leased tasks that nobody sees; they
    /// come back when the worker says that it leaves.
    async fn claim(&self, claim: Claim) -> Result<Vec<Job>, Error>;
    async fn complete(&self, held: &Held, result: Option<Payload>) -> Result<(), Error>;
    async fn fail(&self, held: &Held, failed: Failed) -> Result<(), Error>;
    async fn release(&self, held: &Held, delay: Option<Duration>) -> Result<(), Error>;
    /// Extends one lease and keeps a progress report.
    async fn progress(&self, held: &Held, progress: Progress) -> Result<Word, Error>;
    /// Says that the worker lives and extends the leases it names.
    async fn heartbeat(&self, beat: Beat) -> Result<Pulse, Error>;
}

/// A task in hand: its id and the proof of the claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Held {
    pub id: TaskId,
    pub token: Token,
}

#[derive(Debug, Clone)]
pub struct Claim {
    pub worker: Name,
    pub queues: Vec<Queue>,
    pub mode: Mode,
    pub types: Vec<Name>,
    pub max: u32,
    pub wait: Duration,
    pub lease: Duration,
}

#[derive(Debug, Clone)]
pub struct Failed {
    pub error: String,
    pub retryable: bool,
    pub retry_after: Option<Duration>,
}

/// What a worker tells about itself with every heartbeat.
#[derive(Debug, Clone)]
pub struct Beat {
    pub worker: Name,
    /// Drawn at every start: tells a restarted worker from the one that had its name before.
    pub incarnation: u64,
    pub host: Option<String>,
    pub pid: u32,
    pub version: &'static str,
    pub queues: Vec<Name>,
    pub types: Vec<Name>,
    pub slots: u32,
    pub leases: Vec<Held>,
    pub leaving: bool,
}

/// What the broker answers to a heartbeat.
#[derive(Debug, Clone, Default)]
pub struct Pulse {
    pub lost: Vec<TaskId>,
    pub cancel: Vec<TaskId>,
    /// An operator paused this worker; its claims get nothing until it is resumed.
    pub paused: bool,
}

/// The broker's word on one lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    Continue,
    Cancel,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The task is no longer this worker's. Final.
    #[error("the lease is lost")]
    LeaseLost,
    /// The broker understood and said no. Asking again gets the same answer.
    #[error("{detail} ({code})")]
    Refused { code: String, detail: String },
    /// No answer, or one that asks for patience. Whether the call had an effect is unknown.
    #[error("{detail}")]
    Unavailable { detail: String, retry_after: Option<Duration> },
}
