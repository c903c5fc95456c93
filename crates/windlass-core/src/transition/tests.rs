//! The whole state × input table as one reviewed snapshot, and random walks that look for a way around it.
//!
//! Both give their inputs through [`decide`], which is the product's decisions behind one signature. The walks judge every
//! step by the rules in [`rules`], which keep a ledger of their own; [`mutants`] shows that each rule can fail.

mod clocks;
mod mutants;
mod rules;
mod table;
mod walk;

use bytes::Bytes;

use super::*;
use crate::limits::ERROR_BYTES_MAX;
use crate::priority::Priority;
use crate::retry::{Kind, Policy};
use crate::task::{Body, NewTask, Outcome, Record};

/// What can be done to a task. `L` says which lease: a token, or a word for one that is found on the way.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Input<L> {
    /// With the token that the new lease will have.
    Claim(L),
    Complete(L),
    Fail(L, Fault),
    Release(L, Option<u64>),
    Extend(L),
    Save(L),
    Cancel,
    Tick,
    LoseLease,
    Retry,
    Remove,
    SetPriority(u8),
    MoveTo(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Fault {
    retryable: bool,
    retry_after_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
enum Answer {
    Changed(Change),
    /// The input only repeats what is known.
    Repeat,
    Extended(Extension),
    Refused(Refusal),
}

const LEASE_MS: u64 = 30_000;
/// The middle of the jitter, where a delay is exact.
const RANDOM: f64 = 0.5;

impl<L> Input<L> {
    fn with_lease<M>(self, find: impl FnOnce(L) -> M) -> Input<M> {
        match self {
            Input::Claim(lease) => Input::Claim(find(lease)),
            Input::Complete(lease) => Input::Complete(find(lease)),
            Input::Fail(lease, fault) => Input::Fail(find(lease), fault),
            Input::Release(lease, delay) => Input::Release(find(lease), delay),
            Input::Extend(lease) => Input::Extend(find(lease)),
            Input::Save(lease) => Input::Save(find(lease)),
            Input::Cancel => Input::Cancel,
            Input::Tick => Input::Tick,
            Input::LoseLease => Input::LoseLease,
            Input::Retry => Input::Retry,
            Input::Remove => Input::Remove,
            Input::SetPriority(priority) => Input::SetPriority(priority),
            Input::MoveTo(queue) => Input::MoveTo(queue),
        }
    }
}

fn decide(record: &Record, body: &Body, input: Input<Token>, now: u64) -> Answer {
    let decision = match input {
        Input::Claim(token) => {
            claim(record, Claim { token, worker: name("w1"), lease_ms: LEASE_MS }, now).map(Some)
        }
        Input::Complete(token) => complete(record, token, Some(result()), now),
        Input::Fail(token, Fault { retryable, retry_after_ms }) => {
            let failure = Failure { error: "no luck".to_owned(), retryable, retry_after_ms, random: RANDOM };
            fail(record, body, token, failure, now)
        }
        Input::Release(token, delay_ms) => release(record, token, delay_ms, now),
        Input::Extend(token) => {
            return extend(record, token).map_or_else(Answer::Refused, Answer::Extended);
        }
        Input::Save(token) => save(record, token, saved(now), now),
        Input::Cancel => cancel(record, now),
        Input::Tick => tick(record, now),
        Input::LoseLease => lose_lease(record, body, "lease lost", now),
        Input::Retry => retry(record, now),
        Input::Remove => remove(record, now),
        Input::SetPriority(priority) => reprioritise(record, Priority(priority), now),
        Input::MoveTo(queue) => move_to(record, &name(queue), now),
    };
    match decision {
        Ok(Some(change)) => Answer::Changed(change),
        Ok(None) => Answer::Repeat,
        Err(refusal) => Answer::Refused(refusal),
    }
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn result() -> Payload {
    Payload::Json(Bytes::from_static(b"42"))
}

/// What a worker saves at a time; the next time it has nothing to save any more.
fn saved(now: u64) -> Bytes {
    if now.is_multiple_of(5) { Bytes::new() } else { Bytes::copy_from_slice(&now.to_be_bytes()) }
}

pub(super) fn token(number: u64) -> Token {
    Token { number, secret: number.wrapping_mul(0x9e37_79b9_7f4a_7c15) }
}

/// A task of three attempts and two crashes at most, created at time 0.
pub(super) fn new_task() -> NewTask {
    let retry =
        Policy { kind: Kind::Exponential, initial_ms: 1000, factor: 2.0, max_ms: 60_000, jitter: 0.1 };
    NewTask {
        id: TaskId::new("t1").unwrap(),
        queue: name("default"),
        kind: name("echo"),
        priority: Priority::default(),
        created_at: 0,
        scheduled_at: None,
        expires_at: None,
        retention_ms: 3_600_000,
        counted: crate::task::Counted::default(),
        unique: None,
        key: None,
        body: Body {
            payload: result(),
            metadata: Vec::new(),
            timeout_ms: 300_000,
            max_retries: 2,
            max_crashes: 2,
            retry,
            fingerprint: None,
            links: None,
        },
    }
}

#[test]
fn a_long_error_is_cut_at_a_character() {
    let new = new_task();
    let mut record = Record::submitted(&new, 1);
    let Answer::Changed(claimed) = decide(&record, &new.body, Input::Claim(token(1)), 0) else { panic!() };
    record.evolve(&claimed, 2);
    // Three bytes each, so that the limit falls inside one.
    let error = "€".repeat(ERROR_BYTES_MAX);
    let failure = Failure { error: error.clone(), retryable: true, retry_after_ms: None, random: RANDOM };
    let failed = fail(&record, &new.body, token(1), failure, 0).unwrap().unwrap();
    let lost = lose_lease(&record, &new.body, &error, 0).unwrap().unwrap();
    for change in [failed, lost] {
        let (Change::Failed { error: kept, .. } | Change::LeaseLost { error: kept, .. }) = change else {
            panic!()
        };
        assert_eq!(kept.len(), ERROR_BYTES_MAX - ERROR_BYTES_MAX % 3);
        assert!(error.starts_with(&*kept));
    }
}
