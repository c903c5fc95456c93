//! The client: submits tasks, waits for what becomes of them, and asks and tells a broker everything else that it understands.
//!
//! A [`Client`] has one of three lines to its broker, and the same calls over each. Submitting and waiting are here, all others
//! in `calls`.
//!
//! Every task has its id before the first try, so a submit that got no answer is repeated without fear: the broker
//! answers the second one with the task of the first. Tries go on for [`Client::patience`], with growing pauses of which
//! half is random, and end early at any answer that time will not change.

pub mod blocking;
mod calls;
#[cfg(any(test, feature = "embedded"))]
mod embedded;
mod patience;
mod schedule;
mod submit;
mod workflow;

use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::time::Instant;
use windlass_core::limits::{BATCH_DEPENDENCIES_MAX, BATCH_TASKS_MAX};
use windlass_core::{Payload, StateName, TaskId};

pub use schedule::NewSchedule;
pub use submit::Submit;
pub(crate) use submit::ms as moment_ms;
/// A task as the broker shows it.
pub use windlass_proto::rest::TaskBody as Task;
pub use workflow::NewWorkflow;

use crate::error::Error;
use crate::grpc::Grpc;
use crate::rest;
use patience::Patience;

/// One long poll; waiting longer is waiting again.
const POLL: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(10);
/// A batch on its way ends early when its payloads have this many bytes.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// A handle on one broker; clones share its connections.
#[derive(Debug, Clone)]
pub struct Client {
    line: Line,
    patience: Duration,
}

#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a program has a handful of clients")]
enum Line {
    Grpc(Grpc),
    Rest(rest::Client),
    #[cfg(any(test, feature = "embedded"))]
    Broker(embedded::Embedded),
}

/// What the broker answers to a submit, when the task is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    pub id: TaskId,
    pub state: StateName,
}

/// The i-th answer belongs to the i-th task.
pub type Batch = Vec<Result<Submitted, Error>>;

impl Client {
    /// Over gRPC; `address` as `http://127.0.0.1:9090`. Connects when it is first used, and again whenever needed.
    pub fn connect(address: &str) -> Result<Self, Error> {
        Ok(Self::over(Line::Grpc(Grpc::new(address)?)))
    }

    /// Over REST; `address` as `http://127.0.0.1:8080`.
    pub fn rest(address: &str) -> Result<Self, Error> {
        Ok(Self::over(Line::Rest(rest::Client::new(address)?)))
    }

    /// Straight on a broker in the same process.
    #[cfg(any(test, feature = "embedded"))]
    pub fn embedded(broker: windlass_broker::Broker) -> Self {
        Self::over(Line::Broker(embedded::Embedded(broker)))
    }

    fn over(line: Line) -> Self {
        Self { line, patience: PATIENCE }
    }

    /// How long a call is repeated while the broker cannot be reached or asks to come later; zero for one try.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Adds a task. Answered when it is durable.
    pub async fn submit(&self, submit: Submit) -> Result<Submitted, Error> {
        let mut answers = self.send(std::slice::from_ref(&submit), false).await?;
        answers.pop().unwrap_or_else(|| Err(Error::Answer("no answer for the task".into())))
    }

    /// Adds many, in as few round trips as their size allows. Each is answered for itself.
    pub async fn submit_batch(&self, batch: &[Submit]) -> Result<Batch, Error> {
        let mut answers = Vec::with_capacity(batch.len());
        let mut rest = batch;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(portion(rest));
            answers.extend(self.send(now, false).await?);
            rest = later;
        }
        Ok(answers)
    }

    /// Adds all or none of up to 1,000 tasks.
    pub async fn submit_all(&self, batch: &[Submit]) -> Result<Vec<Submitted>, Error> {
        let answers = self.send(batch, true).await?;
        // What was refused says more than what was left out because of it.
        let aborted = |answer: &&Result<Submitted, Error>| {
            answer.as_ref().is_err_and(|error| error.code() != Some("aborted"))
        };
        match answers.iter().find(aborted) {
            Some(Err(error)) => Err(error.clone()),
            _ => answers.into_iter().collect(),
        }
    }

    async fn send(&self, batch: &[Submit], atomic: bool) -> Result<Batch, Error> {
        let mut patience = Patience::new(self.patience);
        loop {
            let answer = match &self.line {
                Line::Grpc(grpc) => grpc.submit(batch, atomic).await,
                Line::Rest(rest) => submit::over_rest(rest, batch, atomic).await,
                #[cfg(any(test, feature = "embedded"))]
                Line::Broker(broker) => broker.submit(batch, atomic).await,
            };
            match answer {
                Err(error) => patience.after(error).await?,
                answered => return answered,
            }
        }
    }

    /// The task as it is now.
    pub async fn task(&self, id: &TaskId) -> Result<Task, Error> {
        self.look(id, Duration::ZERO).await
    }

    /// The task when it has ended, or as it is when the wait is over.
    pub async fn wait(&self, id: &TaskId, wait: Duration) -> Result<Task, Error> {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let task = self.look(id, left.min(POLL)).await?;
            if task.state.is_terminal() || Instant::now() >= until {
                return Ok(task);
            }
        }
    }

    /// The typed result of a task, as soon as it has one; an error if it ends in another way or not in time.
    pub async fn result<T: DeserializeOwned>(&self, id: &TaskId, wait: Duration) -> Result<T, Error> {
        let task = self.wait(id, wait).await?;
        if task.state != StateName::Completed {
            let error = task.error.map(String::from);
            return Err(Error::Unfinished { id: task.id, state: task.state, error });
        }
        let result = task.result().unwrap_or(Payload::Json(bytes::Bytes::from_static(b"null")));
        serde_json::from_slice(result.bytes())
            .map_err(|error| Error::Answer(format!("the result of {id} does not fit: {error}")))
    }

    async fn look(&self, id: &TaskId, wait: Duration) -> Result<Task, Error> {
        let mut patience = Patience::new(self.patience);
        loop {
            let answer = match &self.line {
                Line::Grpc(grpc) => grpc.task(id, wait).await,
                Line::Rest(rest) => rest.wait(id, wait).await,
                #[cfg(any(test, feature = "embedded"))]
                Line::Broker(broker) => broker.task(id, wait).await,
            };
            match answer {
                Err(error) => patience.after(error).await?,
                answered => return answered,
            }
        }
    }
}

/// How many of these go together.
fn portion(batch: &[Submit]) -> usize {
    let (mut bytes, mut dependencies) = (0, 0);
    let fits = |submit: &&Submit| {
        bytes += submit.payload.bytes().len();
        dependencies += submit.dependencies.len();
        bytes <= BATCH_BYTES_MAX && dependencies <= BATCH_DEPENDENCIES_MAX
    };
    batch.iter().take(BATCH_TASKS_MAX).take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests;
