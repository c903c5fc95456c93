//! The decisions. Each returns `Ok(None)` when the input only repeats what the record already shows.

use bytes::Bytes;

use crate::ids::{Name, Token};
use crate::limits::ERROR_BYTES_MAX;
use crate::priority::Priority;
use crate::state::{CancelReason, Lease, State};
use crate::task::{Body, Outcome, Payload, Record};
use crate::time::Stamp;
use crate::transition::{Change, Refusal};

type Decision = Result<Option<Change>, Refusal>;

/// What a claim brings along.
#[derive(Debug, Clone)]
pub struct Claim {
    pub token: Token,
    pub worker: Name,
    pub lease_ms: u64,
}

/// A worker's report of a failed attempt.
#[derive(Debug, Clone)]
pub struct Failure {
    pub error: String,
    pub retryable: bool,
    /// The worker's own wish for the delay; it wins over the policy.
    pub retry_after_ms: Option<u64>,
    /// In 0–1, for the jitter.
    pub random: f64,
}

pub fn claim(record: &Record, input: Claim, now: impl Into<Stamp>) -> Result<Change, Refusal> {
    let now = now.into();
    match record.state {
        State::Pending if record.expires_at.is_some_and(|at| at <= now.wall) => Err(Refusal::Expired),
        State::Pending => Ok(Change::Claimed {
            at: now,
            token: input.token,
            worker: input.worker,
            lease_ms: input.lease_ms,
        }),
        _ if record.state.is_terminal() => Err(Refusal::Terminal(record.state_name())),
        _ => Err(Refusal::WrongState(record.state_name())),
    }
}

pub fn complete(record: &Record, token: Token, result: Option<Payload>, now: impl Into<Stamp>) -> Decision {
    let now = now.into();
    match held(record, token, Outcome::Completed)? {
        Some(_) => Ok(Some(Change::Completed { at: now, result })),
        None => Ok(None),
    }
}

pub fn fail(record: &Record, body: &Body, token: Token, input: Failure, now: impl Into<Stamp>) -> Decision {
    let now = now.into();
    if held(record, token, Outcome::Failed)?.is_none() {
        return Ok(None);
    }
    // Crashes have a limit of their own, so they do not use up the retries of the handler.
    let failures = record.attempts.saturating_sub(record.crashes).max(1);
    let delay = input.retry_after_ms.unwrap_or_else(|| body.retry.delay_ms(failures, input.random));
    let again = input.retryable && failures <= body.max_retries;
    let retry_at = again.then(|| now.wall.saturating_add(delay));
    Ok(Some(Change::Failed { at: now, error: bounded(input.error), retry_at }))
}

pub fn release(record: &Record, token: Token, delay_ms: Option<u64>, now: impl Into<Stamp>) -> Decision {
    let now = now.into();
    match held(record, token, Outcome::Released)? {
        Some(_) => {
            let until = delay_ms.filter(|delay| *delay > 0).map(|delay| now.wall.saturating_add(delay));
            Ok(Some(Change::Released { at: now, until }))
        }
        None => Ok(None),
    }
}

/// Keeps the holder's checkpoint; an empty one takes the last one away.
pub fn save(record: &Record, token: Token, bytes: Bytes, now: impl Into<Stamp>) -> Decision {
    let now = now.into();
    match &record.state {
        State::Running(lease) if lease.token == token => Ok(Some(Change::Checkpointed { at: now, bytes })),
        _ => Err(Refusal::LeaseLost),
    }
}

/// What the holder of a lease is told when it asks for more time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extension {
    Granted,
    /// The task was cancelled under this lease: stop working.
    CancelRequested,
}

pub fn extend(record: &Record, token: Token) -> Result<Extension, Refusal> {
    match &record.state {
        State::Running(lease) if lease.token == token => Ok(Extension::Granted),
        State::Cancelled { .. } if ended_by(record, token, Outcome::Cancelled) => {
            Ok(Extension::CancelRequested)
        }
        _ => Err(Refusal::LeaseLost),
    }
}

pub fn cancel(record: &Record, now: impl Into<Stamp>) -> Decision {
    let now = now.into();
    if record.state.is_terminal() {
        return Err(Refusal::Terminal(record.state_name()));
    }
    Ok(Some(Change::Cancelled { at: now, reason: CancelReason::Asked }))
}

/// Decides about a waiting task when one of its [`Record::wakes`] has come.
pub fn tick(record: &Record, now: impl Into<Stamp>) -> Decision {
    let now = now.into();
    if !matches!(
        record.state,
        State::Scheduled { .. } | State::Retrying { .. } | State::Pending | State::Blocked { .. }
    ) {
        return Err(Refusal::WrongState(record.state_name()));
    }
    if record.expires_at.is_some_and(|at| at <= now.wall) {
        return Ok(Some(Change::Cancelled { at: now, reason: CancelReason::Expired }));
    }
    match record.state {
        State::Scheduled { at } | State::Retrying { at } if at <= record.clock_of_state(now) => {
            Ok(Some(Change::Promoted { at: now }))
        }
        State::Scheduled { .. } | State::Retrying { .. } => Err(Refusal::NotDue),
        _ => Ok(None),
    }
}

/// The lease is over without a report: it ran out, or its worker is dead.
pub fn lose_lease(record: &Record, body: &Body, error: &str, now: impl Into<Stamp>) -> Decision {
    let now = now.into();
    match &record.state {
        State::Running(_) => {
            let dead = record.crashes.saturating_add(1) >= body.max_crashes.max(1);
            Ok(Some(Change::LeaseLost { at: now, error: bounded(error.to_owned()), dead }))
        }
        _ => Err(Refusal::WrongState(record.state_name())),
    }
}

/// A person asks for a finished task to run again, whatever it waited for; [`super::retry_behind`] looks at that too.
pub fn retry(record: &Record, now: impl Into<Stamp>) -> Decision {
    let now = now.into();
    match record.state {
        State::DeadLetter { .. } | State::Cancelled { .. } => {
            Ok(Some(Change::Requeued { at: now, after: Box::default() }))
        }
        State::Completed { .. } => Err(Refusal::Terminal(record.state_name())),
        _ => Err(Refusal::WrongState(record.state_name())),
    }
}

/// A task may be forgotten in every state but running: a worker's report must find something to report to. One that others
/// wait for is cancelled instead, so that they learn of it, and forgotten when they have.
pub fn remove(record: &Record, now: impl Into<Stamp>) -> Decision {
    let now = now.into();
    match record.state {
        State::Running(_) => Err(Refusal::WrongState(record.state_name())),
        _ if record.must_tell() => Err(Refusal::WrongState(record.state_name())),
        _ if record.awaited => Ok(Some(Change::Cancelled { at: now, reason: CancelReason::Forgotten })),
        _ => Ok(Some(Change::Removed { at: now })),
    }
}

/// A person gives a task another priority.
pub fn reprioritise(record: &Record, priority: Priority, now: impl Into<Stamp>) -> Decision {
    let now = now.into();
    lies_still(record)?;
    let other = record.priority != priority;
    Ok(other.then_some(Change::Reprioritised { at: now, priority }))
}

/// A person puts a task into another queue.
pub fn move_to(record: &Record, queue: &Name, now: impl Into<Stamp>) -> Decision {
    let now = now.into();
    lies_still(record)?;
    let other = record.queue != *queue;
    Ok(other.then(|| Change::Moved { at: now, queue: queue.clone() }))
}

/// Where and how a task waits can change while it waits, and before a dead letter is retried. A running task is in the hands of
/// a worker that came for its queue, and the other ends are history.
fn lies_still(record: &Record) -> Result<(), Refusal> {
    match record.state {
        State::Running(_) => Err(Refusal::WrongState(record.state_name())),
        State::Completed { .. } | State::Cancelled { .. } => Err(Refusal::Terminal(record.state_name())),
        _ => Ok(()),
    }
}

/// The lease if `token` is the current one, `None` if it is the last one and ended in the way reported again.
fn held(record: &Record, token: Token, report: Outcome) -> Result<Option<&Lease>, Refusal> {
    match &record.state {
        State::Running(lease) if lease.token == token => Ok(Some(lease)),
        State::Running(_) => Err(Refusal::LeaseLost),
        _ if ended_by(record, token, report) => Ok(None),
        _ => Err(Refusal::LeaseLost),
    }
}

/// Whether `token` was the last lease and its attempt ended in this way.
fn ended_by(record: &Record, token: Token, outcome: Outcome) -> bool {
    record.ended == Some(token) && record.history.last().is_some_and(|attempt| attempt.outcome == outcome)
}

/// Cuts an error text to what is kept, at a character boundary.
fn bounded(mut text: String) -> Box<str> {
    if text.len() > ERROR_BYTES_MAX {
        let mut end = ERROR_BYTES_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    text.into_boxed_str()
}
