//! Broken decisions, each a mistake that someone could make, and the rule that must notice it.

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;

use super::rules::{Machine, RULES};
use super::walk::{REAL, walks};
use super::*;
use crate::state::State;

const WALKS: usize = 800;

#[test]
fn every_mutant_is_caught_by_its_rule() {
    let mut runner = TestRunner::deterministic();
    let strategy = walks();
    let walks: Vec<_> = (0..WALKS).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect();
    assert!(walks.iter().all(|walk| walk.run(REAL).is_ok()));
    for (mistake, rule, machine) in mutants() {
        let caught =
            walks.iter().any(|walk| walk.run(machine).is_err_and(|broken| broken.rules.contains(&rule)));
        assert!(caught, "{mistake}: not caught by \"{rule}\"");
    }
}

#[test]
fn every_rule_has_a_mutant() {
    for (name, _) in RULES {
        assert!(mutants().iter().any(|(_, rule, _)| *rule == name), "nothing shows that \"{name}\" can fail");
    }
}

fn mutants() -> Vec<(&'static str, &'static str, Machine)> {
    let decides = |decide| Machine { decide, ..REAL };
    let evolves = |evolve| Machine { evolve, ..REAL };
    let token_rule = "an old or foreign lease changes nothing";
    let limit_rule = "a task dies when its limits are used up, not before";
    let start_rule = "no start before its time or after it expired";
    let report_rule = "the record shows the last report";
    vec![
        ("complete ignores the token", token_rule, decides(complete_by_anyone)),
        ("extend ignores the token", token_rule, decides(extend_by_anyone)),
        ("only the number of a token is compared", token_rule, decides(secret_ignored)),
        ("a lost lease may still fail the task", token_rule, decides(fail_after_loss)),
        ("any last lease is told of a cancel", token_rule, decides(cancel_told_to_ended)),
        ("a repeated report is refused", token_rule, decides(repeat_refused)),
        ("release is refused once the task expired", "the current lease is heard", decides(release_refused)),
        ("a completed task can be retried", "completed is final", decides(retry_completed)),
        ("a completed task can be cancelled", "completed is final", decides(cancel_anything)),
        ("a running task can be removed", "an input does what its name says", decides(remove_running)),
        (
            "a release costs the place in line",
            "an input does what its name says",
            evolves(release_to_the_end),
        ),
        ("a running task can be moved", "an input does what its name says", decides(move_running)),
        (
            "another priority leaves the place in line",
            "an input does what its name says",
            evolves(priority_keeps_place),
        ),
        ("a release uses up an attempt", "attempts and crashes are counted", evolves(release_counts)),
        (
            "a manual retry keeps the old count",
            "attempts and crashes are counted",
            evolves(retry_keeps_count),
        ),
        ("failures are retried for ever", limit_rule, decides(fail_for_ever)),
        ("crashes have no limit", limit_rule, decides(crash_for_ever)),
        ("crashes use up retries", limit_rule, decides(crashes_are_failures)),
        ("claim ignores the expiry", start_rule, decides(claim_expired)),
        ("claim takes scheduled tasks", start_rule, decides(claim_early)),
        (
            "a manual retry forgets the expiry",
            "wake and prune times follow from the state",
            evolves(retry_unbounded),
        ),
        ("the retry time is lost", "wake and prune times follow from the state", evolves(retry_at_once)),
        ("tick promotes before the time", "a tick acts at its time, not before", decides(tick_early)),
        (
            "tick forgets pending tasks that expired",
            "a tick acts at its time, not before",
            decides(tick_not_pending),
        ),
        ("a lease cannot be lost", "every live task has a way on", decides(lease_for_ever)),
        ("history is not kept", report_rule, evolves(no_history)),
        ("history has no bound", report_rule, evolves(endless_history)),
        ("the error of a failure is not shown", report_rule, evolves(no_error)),
        (
            "a lost lease loses the checkpoint",
            "a checkpoint stays until the next one or the completion",
            evolves(checkpoint_lost),
        ),
        ("the revision stays", "one revision per change", evolves(same_revision)),
        ("evolve depends on more than its arguments", "the same again gives the same", evolves(counting)),
    ]
}

fn move_running(record: &Record, body: &Body, input: Input<Token>, now: u64) -> Answer {
    match (input, &record.state) {
        (Input::MoveTo(queue), State::Running(_)) => {
            accepted(Change::Moved { at: now.into(), queue: name(queue) })
        }
        _ => decide(record, body, input, now),
    }
}

fn accepted(change: Change) -> Answer {
    Answer::Changed(change)
}

fn complete_by_anyone(record: &Record, body: &Body, input: Input<Token>, now: u64) -> Answer {
    match (input, &record.state) {
        (Input::Complete(_), State::Running(lease)) => {
            decide(record, body, Input::Complete(lease.token), now)
        }
        _ => decide(record, body, input, now),
    }
}

fn extend_by_anyone(record: &Record, body: &Body, input: Input<Token>, now: u64) -> Answer {
    match (input, &record.state) {
        (Input::Extend(_), State::Running(_)) => Answer::Extended(Extension::Granted),
        _ => decide(record, body, input, now),
    }
}

fn secret_ignored(record: &Record, body: &Body, input: Input<Token>, now: u64) -> Answer {
    let guessed = |lease: Token| token(lease.number);
    match input {
        Input::Claim(_) => decide(record, body, input, now),
        _ => decide(record, body, input.with_lease(guessed), now),
    }
}

fn fail_after_loss(record: &Record, body: &Body, input: Input<Token>, now: u64) -> Answer {
    match input {
        Input::Fail(..) if record.state == State::Pending && record.crashes > 0 => {
            accepted(Change::Failed { at: now.into(), error: "no luck".into(), retry_at: None })
        }
        _ => decide(record, body, input, now),
    }
}

fn cancel_told_to_ended(record: &Record, body: &Body, input: Input<Token>, now: u64) -> Answer {
    match (input, &record.state) {
        (Input::Extend(lease), State::Cancelled { .. }) if record.ended == Some(lease) => {
            Answer::Extended(Extension::CancelRequested)
        }
        _ => decide(record, body, input, now),
    }
}

fn repeat_refused(record: &Record, body: &Body, input: Input<Token>, now: u64) -> Answer {
    match decide(record, body, input, now) {
        Answer::Repeat if !matches!(input, Input::Tick) => Answer::Refused(Refusal::LeaseLost),
        answer => answer,
    }
}

fn release_refused(record: &Record, body: &Body, input: Input<Token>, now: u64) -> Answer {
    match input {
        Input::Release(..) if record.expires_at.is_some_and(|at| at <= now) => {
            Answer::Refused(Refusal::LeaseLost)
        }
        _ => decide(record, body, input, now),
    }
}

fn retry_completed(record: &Record, body: &Body, input: Input<Token>, now: u64) -> Answer {
    match (input, &record.state) {
        (Input::Retry, State::Completed { .. }) => {
            accepted(Change::Requeued { at: now.into(), after: Box::default() })
        }
        _ => decide(record, body, input, now),
    }
}

fn cancel_anything(record: &Record, body: &Body, input: Input<Token>, now: u64) -> Answer {
    match input {
        Input::Cancel => {
            accepted(Change::Cancelled { at: now.into(), reason: crate::state::CancelReason::Asked })
        }
        _ => decide(record, body, input, now),
    }
}

fn remove_running(record: &Record, body: &Body, input: Input<Token>, now: u64) -> Answer {
    match input {
        Input::Remove => accepted(Change::Removed { at: now.into() }),
        _ => decide(record, body, input, now),
    }
}

fn fail_for_ever(record: &Record, body: &Body, input: Input<Token>, now: u64) -> Answer {
    let body = Body { max_retries: u32::MAX, ..body.clone() };
    decide(record, &body, input, now)
}

fn crash_for_ever(record: &Record, body: &Body, input: Input<Token>, now: u64) -> Answer {
    let body = Body { max_crashes: u32::MAX, ..body.clone() };
    decide(record, &body, input, now)
}

fn crashes_are_failures(record: &Record, body: &Body, input: Input<Token>, now: u64) -> Answer {
    match input {
        Input::Fail(..) => decide(&Record { crashes: 0, ..record.clone() }, body, input, now),
        _ => decide(record, body, input, now),
    }
}

fn claim_expired(record: &Record, body: &Body, input: Input<Token>, now: u64) -> Answer {
    match input {
        Input::Claim(_) => decide(&Record { expires_at: None, ..record.clone() }, body, input, now),
        _ => decide(record, body, input, now),
    }
}

fn claim_early(record: &Record, body: &Body, input: Input<Token>, now: u64) -> Answer {
    match (input, &record.state) {
        (Input::Claim(_), State::Scheduled { .. }) => {
            decide(&Record { state: State::Pending, ..record.clone() }, body, input, now)
        }
        _ => decide(record, body, input, now),
    }
}

fn tick_early(record: &Record, body: &Body, input: Input<Token>, now: u64) -> Answer {
    match decide(record, body, input, now) {
        Answer::Refused(Refusal::NotDue) => accepted(Change::Promoted { at: now.into() }),
        answer => answer,
    }
}

fn tick_not_pending(record: &Record, body: &Body, input: Input<Token>, now: u64) -> Answer {
    match input {
        Input::Tick if record.state == State::Pending => Answer::Repeat,
        _ => decide(record, body, input, now),
    }
}

fn lease_for_ever(record: &Record, body: &Body, input: Input<Token>, now: u64) -> Answer {
    match input {
        Input::LoseLease => Answer::Repeat,
        _ => decide(record, body, input, now),
    }
}

fn release_to_the_end(record: &mut Record, change: &Change, order: u64) {
    record.evolve(change, order);
    if matches!(change, Change::Released { .. }) {
        record.order = order;
    }
}

fn priority_keeps_place(record: &mut Record, change: &Change, order: u64) {
    let place = record.order;
    record.evolve(change, order);
    if matches!(change, Change::Reprioritised { .. }) {
        record.order = place;
    }
}

fn release_counts(record: &mut Record, change: &Change, order: u64) {
    record.evolve(change, order);
    record.attempts += u32::from(matches!(change, Change::Released { .. }));
}

fn retry_keeps_count(record: &mut Record, change: &Change, order: u64) {
    let attempts = record.attempts;
    record.evolve(change, order);
    if matches!(change, Change::Requeued { .. }) {
        record.attempts = attempts;
    }
}

fn retry_unbounded(record: &mut Record, change: &Change, order: u64) {
    record.evolve(change, order);
    if matches!(change, Change::Requeued { .. }) {
        record.expires_at = None;
    }
}

fn retry_at_once(record: &mut Record, change: &Change, order: u64) {
    record.evolve(change, order);
    if let State::Retrying { at } = &mut record.state {
        *at = change.at();
    }
}

fn no_history(record: &mut Record, change: &Change, order: u64) {
    record.evolve(change, order);
    record.history.clear();
}

fn endless_history(record: &mut Record, change: &Change, order: u64) {
    let mut history = record.history.clone();
    record.evolve(change, order);
    if record.history != history {
        history.extend(record.history.pop());
        record.history = history;
    }
}

fn no_error(record: &mut Record, change: &Change, order: u64) {
    record.evolve(change, order);
    record.error = None;
}

fn checkpoint_lost(record: &mut Record, change: &Change, order: u64) {
    record.evolve(change, order);
    if matches!(change, Change::LeaseLost { .. }) {
        record.checkpoint = None;
    }
}

fn same_revision(record: &mut Record, change: &Change, order: u64) {
    let revision = record.revision;
    record.evolve(change, order);
    record.revision = revision;
}

fn counting(record: &mut Record, change: &Change, order: u64) {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    record.evolve(change, order);
    record.started_at = Some(CALLS.fetch_add(1, Ordering::Relaxed));
}
