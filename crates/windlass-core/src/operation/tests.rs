use bytes::Bytes;

use super::*;
use crate::retry;
use crate::state::{CancelReason, State};
use crate::task::{Body, NewTask, Payload};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn record(seq: u64, state: State) -> Record {
    let body = Body {
        payload: Payload::Json(Bytes::new()),
        metadata: Vec::new(),
        timeout_ms: 1,
        max_retries: 0,
        max_crashes: 1,
        retry: retry::Policy::default(),
        fingerprint: None,
        links: None,
    };
    let new = NewTask {
        id: TaskId::new(&format!("t{seq}")).unwrap(),
        queue: name("q"),
        kind: name("t"),
        priority: Priority::default(),
        created_at: 0,
        scheduled_at: None,
        expires_at: None,
        retention_ms: 0,
        counted: crate::task::Counted::default(),
        key: None,
        unique: None,
        body,
    };
    Record { state, ..Record::submitted(&new, seq) }
}

fn operation(action: Action) -> Operation {
    let order = Order { action, filter: "".into(), by: None };
    let mut operation = Operation::new(name("op"), order, Expected::default(), 5);
    operation.begin(10);
    operation
}

fn changed(count: u64) -> Tally {
    Tally { changed: count, ..Tally::default() }
}

#[test]
fn each_action_is_the_transition_of_its_name() {
    let cases = [
        (Action::Retry, State::DeadLetter { at: 1 }, "Requeued"),
        (Action::Cancel, State::Pending, "Cancelled"),
        (Action::Delete, State::Completed { at: 1 }, "Removed"),
        (Action::SetPriority(Priority(7)), State::Pending, "Reprioritised"),
        (Action::Move(name("other")), State::DeadLetter { at: 1 }, "Moved"),
    ];
    for (word, (action, state, expected)) in Action::WORDS.into_iter().zip(cases) {
        assert_eq!(action.as_str(), word);
        let change = action.decide(&record(1, state), 9).unwrap().unwrap();
        assert!(format!("{change:?}").starts_with(expected), "{change:?}");
    }
}

#[test]
fn what_cannot_or_need_not_change_is_skipped() {
    let moved = operation(Action::Move(name("q")));
    let (step, transitions) = moved.plan(&[record(9, State::Pending)], 0, 6);
    assert_eq!((step.skipped, transitions.len()), (1, 0), "it is there already");
    let retried = operation(Action::Retry);
    let found = [record(9, State::DeadLetter { at: 1 }), record(8, State::Completed { at: 1 })];
    let (step, transitions) = retried.plan(&found, 8, 6);
    assert_eq!((step.skipped, transitions.len(), step.cursor), (1, 1, 8));
}

#[test]
fn a_retried_task_waits_for_what_it_depends_on() {
    let cancelled = |seq| record(seq, State::Cancelled { at: 1, reason: CancelReason::Dependency });
    let (old, new) = (cancelled(3), cancelled(5));
    let behind: Behind = [(new.id.clone(), vec![old.clone()])].into();
    let retried = operation(Action::Retry);
    let (step, transitions) = retried.plan_behind(std::slice::from_ref(&new), &behind, 0, 6);
    assert_eq!((step.skipped, transitions.len()), (1, 0), "what it depends on stays cancelled");
    let (step, transitions) = retried.plan_behind(&[new.clone(), old.clone()], &behind, 0, 6);
    assert_eq!(step.skipped, 0);
    let changes: Vec<(u64, &Change)> = transitions.iter().map(|it| (it.seq, &it.change)).collect();
    let requeued = |after: &[&Record]| Change::Requeued {
        at: 6.into(),
        after: after.iter().map(|record| record.id.clone()).collect(),
    };
    assert_eq!(changes, [(3, &requeued(&[])), (5, &requeued(&[&old]))]);
    let behind: Behind = [(new.id.clone(), vec![record(3, State::Completed { at: 1 })])].into();
    let (_, transitions) = retried.plan_behind(std::slice::from_ref(&new), &behind, 0, 6);
    assert_eq!(transitions[0].change, requeued(&[]));
}

#[test]
fn a_walk_ends_when_nothing_is_below_or_left_over() {
    let mut operation = operation(Action::Retry);
    let (step, _) = operation.plan(&[record(9, State::DeadLetter { at: 1 })], 5, 6);
    operation.advance(&step, changed(1));
    assert_eq!((operation.cursor, operation.seen(), operation.is_running()), (5, 1, true));
    let (step, transitions) = operation.plan(&[record(4, State::DeadLetter { at: 1 })], 0, 7);
    let conflicts = vec![transitions[0].id.clone()];
    operation.advance(&step, Tally { conflicts, ..Tally::default() });
    assert!(operation.is_running(), "one task is to be looked at again");
    let (step, _) = operation.plan(&[], operation.cursor, 8);
    operation.advance(&step, changed(0));
    assert_eq!(operation.standing, Standing::Done { at: 8 });
    assert_eq!((operation.changed, operation.revision), (1, 4));
}

#[test]
fn a_task_that_never_keeps_still_is_given_up() {
    let mut operation = operation(Action::Cancel);
    let restless = record(9, State::Pending);
    let mut rounds = 0;
    while operation.is_running() {
        let (step, transitions) = operation.plan(std::slice::from_ref(&restless), 0, 6);
        let conflicts = transitions.into_iter().map(|transition| transition.id).collect();
        operation.advance(&step, Tally { conflicts, ..Tally::default() });
        rounds += 1;
    }
    assert_eq!((rounds, operation.failed, operation.changed), (CONFLICT_TRIES_MAX + 1, 1, 0));
}

#[test]
fn an_end_is_final() {
    let mut operation = operation(Action::Cancel);
    operation.again.push(TaskId::new("t").unwrap());
    operation.end(&Standing::Cancelled { at: 77 });
    assert_eq!((operation.ended_at(), operation.updated_at), (Some(77), 77));
    assert!(operation.again.is_empty() && operation.revision == 2);
}
