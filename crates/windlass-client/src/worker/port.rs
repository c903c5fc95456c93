//! The door between a worker and a broker. A worker knows nothing else of the broker, so one runtime serves a broker in
//! the same process, one behind REST, and one behind a stream of gRPC.
//!
//! A port is asked and answers; it keeps nothing that matters. A call that gets no answer says so ([`Error::Unavailable`]),
//! the runtime keeps what it wanted to say and asks again, and the port connects anew by itself.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use windlass_core::choice::{Mode, Queue};
use windlass_core::limits::ANSWER_BYTES_MAX;
use windlass_core::{Name, Payload, Progress, TaskId, Token};

use super::context::{Cause, Job};
use super::hand::Hand;
use super::outcome::Failure;

/// Every call must end by itself: an implementation bounds the time it waits for an answer.
#[async_trait]
pub trait Port: Debug + Send + Sync + 'static {
    /// Says for whom the calls are that follow; comes once, before all others. `hand` is what the worker holds at any
    /// moment, for ports that must name it when they connect again.
    fn begin(&mut self, profile: Arc<Profile>, hand: Hand);

    /// Waits up to `claim.wait` for work. A call whose future is dropped may have leased tasks that nobody sees; they
    /// come back when the worker says that it leaves.
    async fn claim(&self, claim: Claim) -> Result<Vec<Job>, Error>;

    /// The i-th answer belongs to the i-th report. An outcome counts once per lease, so a report may be repeated.
    async fn report(&self, reports: &[Report]) -> Vec<Result<(), Error>>;

    /// Extends one lease and keeps a progress report.
    async fn progress(&self, held: &Held, progress: Progress) -> Result<Word, Error>;

    /// Extends one lease and keeps what the next attempt shall begin with; durable when it answers. Nothing is kept unless the
    /// answer is [`Word::Continue`].
    async fn save(&self, held: &Held, checkpoint: Bytes) -> Result<Word, Error>;

    /// Says that the worker lives and extends the leases it names. With `leaving` the worker is gone, and what it still
    /// holds goes back.
    async fn heartbeat(&self, leases: &[Held], leaving: bool) -> Result<Vec<Stop>, Error>;

    /// What a task depends on, all of it.
    async fn dependencies(&self, _id: &TaskId) -> Result<Vec<Dependency>, Error> {
        Err(Error::Refused { code: "not_supported".into(), detail: "this port cannot ask for that".into() })
    }

    /// There will be no more claims. A port that was promised tasks gives back those that nobody took.
    async fn no_more(&self) {}

    /// Waits for what the broker says without being asked. Only a port with a standing connection hears anything; over
    /// the others the next heartbeat brings it.
    async fn told(&self) -> Vec<Stop> {
        std::future::pending().await
    }

    /// Waits until a standing connection broke. The broker gives the worker's tasks to others unless it is back soon, so
    /// the runtime answers with a heartbeat at once; it connects anew.
    async fn broke(&self) {
        std::future::pending().await
    }
}

/// A task that another one depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Dependency {
    pub id: TaskId,
    /// Its name in the workflow that both belong to.
    pub name: Option<String>,
    pub result: Option<Payload>,
}

impl Dependency {
    /// The result as a typed value; a task without one has `null`. A result that does not fit is fatal: no retry will change it.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let bytes = self.result.as_ref().map_or(&b"null"[..], |result| &result.bytes()[..]);
        serde_json::from_slice(bytes)
            .map_err(|error| Failure::fatal(format!("the result of {} does not fit: {error}", self.id)))
    }

    /// Adds what a page brought; more results than a handler should hold are an error.
    pub(super) fn keep(all: &mut Vec<Dependency>, page: Vec<Dependency>) -> Result<(), Error> {
        all.extend(page);
        let bytes = |it: &Dependency| it.result.as_ref().map_or(0, |result| result.bytes().len());
        if all.iter().map(bytes).sum::<usize>() <= ANSWER_BYTES_MAX {
            return Ok(());
        }
        let detail = format!("the results of its dependencies have more than {ANSWER_BYTES_MAX} bytes");
        Err(Error::Refused { code: "too_large".into(), detail })
    }
}

/// What a worker tells about itself.
#[derive(Debug, Clone)]
pub struct Profile {
    pub worker: Name,
    /// Drawn at every start: tells a restarted worker from the one that had its name before.
    pub incarnation: u64,
    pub host: Option<String>,
    pub pid: u32,
    pub version: &'static str,
    pub queues: Vec<Queue>,
    pub mode: Mode,
    /// Types that share the worker's slots.
    pub types: Vec<Name>,
    /// Types with slots of their own.
    pub apart: Vec<Name>,
    pub slots: u32,
    pub lease: Duration,
}

impl Profile {
    pub(super) fn all_types(&self) -> Vec<Name> {
        self.types.iter().chain(&self.apart).cloned().collect()
    }
}

/// A task in hand: its id and the proof of the claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Held {
    pub id: TaskId,
    pub token: Token,
}

#[derive(Debug, Clone)]
pub struct Claim {
    pub which: Which,
    /// Free slots. One call may bring fewer, whatever the number.
    pub max: u32,
    pub wait: Duration,
}

/// Whose slots a claim wants to fill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// Those that most types share: [`Profile::types`].
    Shared,
    /// Those of one type alone.
    Apart(Name),
}

impl Claim {
    pub(super) fn types(&self, profile: &Profile) -> Vec<Name> {
        match &self.which {
            Which::Shared => profile.types.clone(),
            Which::Apart(kind) => vec![kind.clone()],
        }
    }
}

/// How an attempt ended, in the broker's words.
#[derive(Debug, Clone)]
pub struct Report {
    pub held: Held,
    pub verdict: Verdict,
}

#[derive(Debug, Clone)]
pub enum Verdict {
    Completed(Option<Payload>),
    Failed(Failed),
    Released { delay: Option<Duration> },
}

#[derive(Debug, Clone)]
pub struct Failed {
    pub error: String,
    pub retryable: bool,
    pub retry_after: Option<Duration>,
}

/// The broker's word that a handler should stop, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    pub token: Token,
    pub cause: Cause,
}

/// An answer that speaks of leases by the ids of their tasks, in terms of the leases that were named.
///
/// A task may be in hand twice, when it came again while its old handler ends. An answer names it as often as it lost a
/// lease, and older leases are lost before newer ones.
pub(super) fn stops(named: &[Held], lost: &[TaskId], cancel: &[TaskId]) -> Vec<Stop> {
    if lost.is_empty() && cancel.is_empty() {
        return Vec::new();
    }
    let mut losses: HashMap<&TaskId, usize> = HashMap::new();
    for id in lost {
        *losses.entry(id).or_default() += 1;
    }
    let cancel: HashSet<&TaskId> = cancel.iter().collect();
    let concerned = |held: &&Held| losses.contains_key(&held.id) || cancel.contains(&held.id);
    let mut concerned: Vec<&Held> = named.iter().filter(concerned).collect();
    concerned.sort_unstable_by_key(|held| held.token.number);
    let stop = |held: &Held| {
        let cause = match losses.get_mut(&held.id).filter(|left| **left > 0) {
            Some(left) => {
                *left -= 1;
                Cause::LeaseLost
            }
            None if cancel.contains(&held.id) => Cause::Cancelled,
            None => return None,
        };
        Some(Stop { token: held.token, cause })
    };
    concerned.into_iter().filter_map(stop).collect()
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

impl Error {
    pub(super) fn unavailable(detail: impl ToString) -> Self {
        Self::Unavailable { detail: detail.to_string(), retry_after: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_task_in_hand_twice_the_older_lease_is_lost() {
        let id = |text: &str| text.parse::<TaskId>().unwrap();
        let held = |text, number| Held { id: id(text), token: Token { number, secret: 1 } };
        let named = [held("a", 7), held("b", 5), held("a", 3)];
        let check = |lost: &[TaskId], cancel: &[TaskId], expected: &[(u64, Cause)]| {
            let said = stops(&named, lost, cancel);
            let said: Vec<_> = said.iter().map(|stop| (stop.token.number, stop.cause)).collect();
            assert_eq!(said, expected);
        };
        check(&[], &[], &[]);
        check(&[id("a")], &[], &[(3, Cause::LeaseLost)]);
        check(&[id("a"), id("a")], &[], &[(3, Cause::LeaseLost), (7, Cause::LeaseLost)]);
        check(&[id("a")], &[id("a")], &[(3, Cause::LeaseLost), (7, Cause::Cancelled)]);
        check(&[id("b")], &[], &[(5, Cause::LeaseLost)]);
        check(&[], &[id("b")], &[(5, Cause::Cancelled)]);
    }
}
