//! What must hold after every step, judged by a ledger that is kept beside the record and never reads it.

use super::*;
use crate::limits::ATTEMPTS_KEPT_MAX;
use crate::state::{CancelReason, State, StateName};

/// The decisions under test: the real ones, or a broken copy.
#[derive(Clone, Copy)]
pub(super) struct Machine {
    pub(super) decide: fn(&Record, &Body, Input<Token>, u64) -> Answer,
    pub(super) evolve: fn(&mut Record, &Change, u64),
}

/// What an observer of the inputs and answers knows about the task.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ledger {
    open: Option<Token>,
    ended: Option<(Token, Outcome)>,
    pub(super) leases: Vec<Token>,
    /// These three count since the submit or the last manual retry.
    attempts: u32,
    failures: u32,
    crashes: u32,
    not_before: u64,
    expires_at: Option<u64>,
    saved: Bytes,
}

impl Ledger {
    pub(super) fn new(new: &NewTask) -> Ledger {
        Ledger {
            open: None,
            ended: None,
            leases: Vec::new(),
            attempts: 0,
            failures: 0,
            crashes: 0,
            not_before: new.scheduled_at.unwrap_or(0),
            expires_at: new.expires_at,
            saved: Bytes::new(),
        }
    }

    /// What is known after an input was accepted.
    pub(super) fn after(&self, input: Input<Token>, body: &Body, now: u64) -> Ledger {
        let mut next = self.clone();
        if let Some(outcome) = outcome(input) {
            next.ended = next.open.take().map(|lease| (lease, outcome)).or(next.ended);
        }
        match input {
            Input::Claim(lease) => {
                next.open = Some(lease);
                next.leases.push(lease);
                next.attempts += 1;
            }
            Input::Fail(_, fault) => {
                next.failures += 1;
                let backoff = body.retry.delay_ms(next.failures, RANDOM);
                next.not_before = now + fault.retry_after_ms.unwrap_or(backoff);
            }
            Input::Release(_, delay) => {
                next.attempts -= 1;
                next.not_before = now + delay.unwrap_or(0);
            }
            Input::LoseLease => {
                next.crashes += 1;
                next.not_before = now;
            }
            Input::Retry => {
                (next.attempts, next.failures, next.crashes) = (0, 0, 0);
                (next.not_before, next.ended) = (now, None);
                next.expires_at = next.expires_at.filter(|at| *at > now);
            }
            Input::Save(_) => next.saved = saved(now),
            Input::Complete(_) => next.saved = Bytes::new(),
            Input::Extend(_) | Input::Cancel | Input::Tick | Input::Remove => {}
            Input::SetPriority(_) | Input::MoveTo(_) => {}
        }
        next
    }

    fn expired(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

/// How an attempt ends by this input, if it does.
fn outcome(input: Input<Token>) -> Option<Outcome> {
    match input {
        Input::Complete(_) => Some(Outcome::Completed),
        Input::Fail(..) => Some(Outcome::Failed),
        Input::Release(..) => Some(Outcome::Released),
        Input::LoseLease => Some(Outcome::Crashed),
        Input::Cancel => Some(Outcome::Cancelled),
        _ => None,
    }
}

/// One input, its answer, and what was known before and after.
pub(super) struct Step<'a> {
    pub(super) machine: Machine,
    pub(super) body: &'a Body,
    pub(super) now: u64,
    pub(super) input: Input<Token>,
    pub(super) answer: Answer,
    pub(super) order: u64,
    pub(super) before: &'a Record,
    pub(super) after: &'a Record,
    pub(super) known: &'a Ledger,
    pub(super) knows: &'a Ledger,
}

pub(super) type Rule = (&'static str, fn(&Step<'_>) -> bool);

pub(super) const RULES: [Rule; 14] = [
    ("one revision per change", |step| match &step.answer {
        Answer::Changed(change) => {
            change.at() == step.now
                && step.after.updated_at == step.now
                && step.after.revision == step.before.revision + 1
        }
        _ => step.after == step.before,
    }),
    ("an old or foreign lease changes nothing", |step| match reported(step.input) {
        Some((lease, outcome)) if step.known.open != Some(lease) => {
            let repeats = step.known.open.is_none() && step.known.ended == Some((lease, outcome));
            step.answer
                == match step.input {
                    Input::Extend(_) if repeats => Answer::Extended(Extension::CancelRequested),
                    Input::Save(_) => Answer::Refused(Refusal::LeaseLost),
                    _ if repeats => Answer::Repeat,
                    _ => Answer::Refused(Refusal::LeaseLost),
                }
        }
        _ => true,
    }),
    ("the current lease is heard", |step| match reported(step.input) {
        Some((lease, _)) if step.known.open == Some(lease) => {
            matches!(step.answer, Answer::Changed(_) | Answer::Extended(Extension::Granted))
        }
        _ => true,
    }),
    ("completed is final", |step| match (&step.before.state, &step.answer) {
        (State::Completed { .. }, Answer::Changed(change)) => {
            matches!((step.input, change), (Input::Remove, Change::Removed { .. }))
                && step.after.state == step.before.state
        }
        _ => true,
    }),
    ("an input does what its name says", |step| match &step.answer {
        Answer::Changed(change) => lawful(step, change),
        _ => true,
    }),
    ("attempts and crashes are counted", |step| {
        step.after.attempts == step.knows.attempts && step.after.crashes == step.knows.crashes
    }),
    ("a task dies when its limits are used up, not before", limits),
    ("no start before its time or after it expired", |step| match step.answer {
        Answer::Changed(Change::Claimed { .. }) => {
            step.known.not_before <= step.now && !step.known.expired(step.now)
        }
        _ => true,
    }),
    ("wake and prune times follow from the state", times),
    ("a tick acts at its time, not before", |step| {
        let acts =
            |at| matches!((step.machine.decide)(step.after, step.body, Input::Tick, at), Answer::Changed(_));
        match step.after.wakes().first(0.into()) {
            Some(at) => acts(at) && (at == 0 || !acts(at - 1)),
            None => !acts(u64::MAX),
        }
    }),
    ("every live task has a way on", way_on),
    ("the record shows the last report", report_kept),
    ("a checkpoint stays until the next one or the completion", |step| {
        step.after.checkpoint.as_ref().map_or(Bytes::new(), |it| it.bytes.clone()) == step.knows.saved
    }),
    ("the same again gives the same", |step| {
        let mut again = step.before.clone();
        if let Answer::Changed(change) = &step.answer {
            (step.machine.evolve)(&mut again, change, step.order);
        }
        again == *step.after
            && (step.machine.decide)(step.before, step.body, step.input, step.now) == step.answer
    }),
];

/// The lease that reports, and the end of it that the report would repeat.
fn reported(input: Input<Token>) -> Option<(Token, Outcome)> {
    match input {
        Input::Complete(lease) => Some((lease, Outcome::Completed)),
        Input::Fail(lease, _) => Some((lease, Outcome::Failed)),
        Input::Release(lease, _) => Some((lease, Outcome::Released)),
        Input::Extend(lease) | Input::Save(lease) => Some((lease, Outcome::Cancelled)),
        _ => None,
    }
}

fn lawful(step: &Step<'_>, change: &Change) -> bool {
    use StateName::{Blocked, Cancelled, DeadLetter, Pending, Retrying, Running, Scheduled};
    let (from, to) = (step.before.state_name(), step.after.state_name());
    let waits = matches!(from, Scheduled | Blocked | Pending | Retrying);
    let own = match (step.input, change) {
        (Input::Claim(_), Change::Claimed { .. }) => from == Pending && to == Running,
        (Input::Complete(_), Change::Completed { .. }) => from == Running && to == StateName::Completed,
        (Input::Fail(..), Change::Failed { .. }) => from == Running && matches!(to, Retrying | DeadLetter),
        (Input::Release(_, delay), Change::Released { .. }) => {
            from == Running && to == if delay.unwrap_or(0) > 0 { Scheduled } else { Pending }
        }
        (Input::LoseLease, Change::LeaseLost { .. }) => from == Running && matches!(to, Pending | DeadLetter),
        (Input::Save(_), Change::Checkpointed { .. }) => {
            from == Running && step.after.state == step.before.state
        }
        (Input::Cancel, Change::Cancelled { reason: CancelReason::Asked, .. }) => {
            !from.is_terminal() && to == Cancelled
        }
        (Input::Tick, Change::Cancelled { reason: CancelReason::Expired, .. }) => {
            waits && to == Cancelled && step.known.expired(step.now)
        }
        (Input::Tick, Change::Promoted { .. }) => matches!(from, Scheduled | Retrying) && to == Pending,
        (Input::Retry, Change::Requeued { .. }) => matches!(from, DeadLetter | Cancelled) && to == Pending,
        (Input::Remove, Change::Removed { .. }) => from != Running && to == from,
        (Input::SetPriority(_), Change::Reprioritised { .. }) | (Input::MoveTo(_), Change::Moved { .. }) => {
            (waits || from == DeadLetter) && step.after.state == step.before.state
        }
        _ => false,
    };
    let (priority, queue) = match step.input {
        Input::SetPriority(priority) => (Priority(priority), &step.before.queue),
        Input::MoveTo(queue) => (step.before.priority, &name(queue)),
        _ => (step.before.priority, &step.before.queue),
    };
    let placed = matches!(step.input, Input::Retry | Input::SetPriority(_) | Input::MoveTo(_))
        || matches!(change, Change::Promoted { .. });
    own && (step.after.priority, &step.after.queue) == (priority, queue)
        && step.after.order == if placed { step.order } else { step.before.order }
}

fn limits(step: &Step<'_>) -> bool {
    let (body, known) = (step.body, step.knows);
    let crashes_max = body.max_crashes.max(1);
    let bounded = known.attempts - known.crashes <= 1 + body.max_retries && known.crashes <= crashes_max;
    let dies = match (&step.answer, step.input) {
        (Answer::Changed(_), Input::Fail(_, fault)) => !fault.retryable || known.failures > body.max_retries,
        (Answer::Changed(_), Input::LoseLease) => known.crashes == crashes_max,
        _ => return bounded,
    };
    bounded && dies == (step.after.state_name() == StateName::DeadLetter)
}

fn times(step: &Step<'_>) -> bool {
    let record = step.after;
    let expires_at = step.knows.expires_at;
    let waits_until = Some(expires_at.map_or(step.knows.not_before, |at| at.min(step.knows.not_before)));
    let (wake_at, prune_at) = match record.state {
        State::Scheduled { .. } | State::Retrying { .. } => (waits_until, None),
        State::Pending | State::Blocked { .. } => (expires_at, None),
        State::Running(_) => (None, None),
        State::Completed { at } | State::DeadLetter { at } | State::Cancelled { at, .. } => {
            (None, Some(at + record.retention_ms))
        }
    };
    record.wakes().first(0.into()) == wake_at && record.prune_at() == prune_at
}

/// A task that waits is woken at some time, one that is ready can be claimed, and one that runs can end with and without
/// its worker.
fn way_on(step: &Step<'_>) -> bool {
    let acts =
        |input, at| matches!((step.machine.decide)(step.after, step.body, input, at), Answer::Changed(_));
    match &step.after.state {
        State::Scheduled { .. } | State::Retrying { .. } => {
            step.after.wakes().first(0.into()).is_some_and(|at| acts(Input::Tick, at.max(step.now)))
        }
        State::Pending if step.knows.expired(step.now) => acts(Input::Tick, step.now),
        State::Pending => acts(Input::Claim(token(u64::MAX)), step.now),
        State::Running(lease) => {
            step.knows.open == Some(lease.token)
                && acts(Input::Complete(lease.token), step.now)
                && acts(Input::LoseLease, step.now)
        }
        State::Blocked { .. } => false,
        State::Completed { .. } | State::DeadLetter { .. } | State::Cancelled { .. } => {
            step.knows.open.is_none()
        }
    }
}

fn report_kept(step: &Step<'_>) -> bool {
    let (before, after) = (step.before, step.after);
    let text = match (&step.answer, step.input) {
        (Answer::Changed(_), Input::Fail(..)) => Some("no luck"),
        (Answer::Changed(_), Input::LoseLease) => Some("lease lost"),
        _ => None,
    };
    let shown = match step.answer {
        Answer::Changed(Change::Completed { .. }) => after.error.is_none() && after.result == Some(result()),
        _ if text.is_some() => after.error.as_deref() == text,
        _ => after.error == before.error,
    };
    let (State::Running(lease), true) = (&before.state, after.state_name() != StateName::Running) else {
        return shown && after.history == before.history;
    };
    let dropped = (before.history.len() + 1).saturating_sub(ATTEMPTS_KEPT_MAX);
    let Some((last, earlier)) = after.history.split_last() else { return false };
    shown
        && earlier == &before.history[dropped..]
        && Some(last.outcome) == outcome(step.input)
        && last.error.as_deref() == text
        && (last.number, &last.worker) == (before.attempts, &lease.worker)
        && (last.started_at, last.ended_at) == (lease.started_at, step.now)
}
