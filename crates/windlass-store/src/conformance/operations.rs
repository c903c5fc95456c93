//! Acts on many tasks: a step, its tasks and its counts are one commit.

use std::sync::Arc;

use windlass_core::operation::{Action, Expected, Operation, Order, Standing, Step};
use windlass_core::transition::Failure;
use windlass_core::{
    Change, NewTask, OnConflict, Priority, Record, StateName, Transition, Unique, UniqueKey,
};

use super::Harness;
use super::steps::{failure, id, name, on};
use crate::store::{
    Committed, List, ListOperations, OperationChange, OperationWritten, Scan, WriteOperation,
};

impl Harness {
    /// Begins an operation; the filter of these is made by the cases themselves.
    async fn start(&self, text: &str, action: Action) -> Operation {
        let order = Order { action, filter: "type:t".into(), by: Some("me".into()) };
        let expected = Expected { count: 7, at_least: true };
        let operation = Box::new(Operation::new(name(text), order, expected, self.wall()));
        operated(self.write_operation(text, OperationChange::Start { operation }).await).0
    }

    async fn write_operation(&self, text: &str, change: OperationChange) -> OperationWritten {
        let write = WriteOperation { id: name(text), change };
        self.store.write_operation(write).await.expect("write_operation")
    }

    async fn operation(&self, text: &str) -> Operation {
        self.store.operation(&name(text)).await.expect("operation").expect("it is there")
    }

    async fn listed(&self, list: ListOperations) -> Vec<String> {
        let operations = self.store.operations(list).await.expect("operations");
        operations.iter().map(|operation| operation.id.to_string()).collect()
    }

    /// What a step of the walk would be now, in pages of `limit`.
    async fn plan(&self, text: &str, limit: usize) -> (Step, Vec<Transition>) {
        let operation = self.operation(text).await;
        let list = List { before: Some(operation.cursor), limit, ..List::default() };
        let Scan { records, next } = self.store.scan(list).await.expect("scan");
        operation.plan(&records, next.unwrap_or(0), self.wall())
    }

    async fn step(&self, text: &str, limit: usize) -> Operation {
        let (step, transitions) = self.plan(text, limit).await;
        operated(self.write_operation(text, OperationChange::Step { step, transitions }).await).0
    }

    /// Tasks of these names, all of them dead letters.
    async fn add_dead(&self, texts: &[&str]) -> Vec<Record> {
        self.add_named(texts).await;
        let mut dead = Vec::new();
        for _ in texts {
            let task = self.take_one().await;
            dead.push(self.fail(&task, Failure { retryable: false, ..failure() }).await);
        }
        dead
    }
}

fn operated(written: OperationWritten) -> (Operation, Vec<Committed>) {
    match written {
        OperationWritten::Done { operation, committed } => (*operation, committed),
        refused => panic!("not done: {refused:?}"),
    }
}

pub async fn an_operation_walks_what_was_there(h: &mut Harness) {
    h.add_dead(&["a", "b", "c", "d", "e"]).await;
    let begun = h.start("op", Action::Retry).await;
    assert_eq!((begun.cursor, begun.seen()), (begun.first, 0));
    h.add_dead(&["later"]).await;
    for changed in [2, 4] {
        let operation = h.step("op", 2).await;
        assert_eq!((operation.changed, operation.is_running()), (changed, true));
        assert!(operation.cursor < operation.first);
    }
    let done = h.step("op", 2).await;
    assert_eq!((done.changed, done.skipped, done.failed), (5, 0, 0));
    assert_eq!(h.operation("op").await, done);
    assert_eq!(h.state("a").await, StateName::Pending);
    assert_eq!(h.state("later").await, StateName::DeadLetter);
    let ended = if done.is_running() { h.step("op", 2).await } else { done };
    assert_eq!(ended.standing, Standing::Done { at: h.wall() });
}

pub async fn a_stale_step_changes_nothing(h: &mut Harness) {
    h.add_dead(&["a", "b"]).await;
    h.start("op", Action::Retry).await;
    let (step, transitions) = h.plan("op", 1).await;
    let stale = OperationChange::Step { step, transitions };
    let first = h.write_operation("op", stale.clone()).await;
    assert!(matches!(first, OperationWritten::Done { .. }));
    let before = h.operation("op").await;
    let dead = h.fail(&h.take_one().await, Failure { retryable: false, ..failure() }).await;
    assert_eq!(h.write_operation("op", stale).await, OperationWritten::Conflict);
    assert_eq!(h.operation("op").await, before);
    assert_eq!(h.peek("b").await, dead, "a task of the stale step is left alone");
    assert_eq!(h.write_operation("none", OperationChange::Remove).await, OperationWritten::Missing);
}

pub async fn a_task_that_changed_is_kept_for_another_look(h: &mut Harness) {
    let dead = h.add_dead(&["a", "b", "c"]).await;
    h.start("op", Action::Delete).await;
    let (step, transitions) = h.plan("op", 10).await;
    let moved = h.retry(&dead[1]).await;
    h.remove(&dead[2]).await;
    let change = OperationChange::Step { step, transitions };
    let (operation, committed) = operated(h.write_operation("op", change).await);
    let outcomes: Vec<bool> = committed.iter().map(|it| matches!(it, Committed::Done(_))).collect();
    assert_eq!(outcomes, [false, false, true], "c is gone, b is another, a is deleted");
    assert_eq!((operation.changed, operation.seen()), (1, 1));
    assert_eq!(operation.again, std::slice::from_ref(&moved.id));
    assert!(operation.is_running());
    let (step, transitions) = operation.plan(std::slice::from_ref(&moved), operation.cursor, h.wall());
    let change = OperationChange::Step { step, transitions };
    let (operation, _) = operated(h.write_operation("op", change).await);
    assert_eq!((operation.changed, operation.again.len()), (2, 0));
    assert!(!operation.is_running());
    assert!(h.walk(List { limit: 10, ..List::default() }).await.is_empty());
}

pub async fn one_of_many_racing_steps_is_taken(h: &mut Harness) {
    h.add_named(&["a", "b", "c", "d"]).await;
    h.start("op", Action::SetPriority(Priority(9))).await;
    let (step, transitions) = h.plan("op", 10).await;
    let racers: Vec<_> = (0..8)
        .map(|_| {
            let (store, step, transitions) = (Arc::clone(&h.store), step.clone(), transitions.clone());
            let change = OperationChange::Step { step, transitions };
            tokio::spawn(
                async move { store.write_operation(WriteOperation { id: name("op"), change }).await },
            )
        })
        .collect();
    let mut taken = 0;
    for racer in racers {
        let written = racer.await.expect("no panic").expect("write_operation");
        taken += usize::from(matches!(written, OperationWritten::Done { .. }));
    }
    assert_eq!((taken, h.operation("op").await.changed), (1, 4));
}

pub async fn an_operation_that_ended_goes_no_further(h: &mut Harness) {
    h.add_dead(&["a", "b"]).await;
    h.start("op", Action::Retry).await;
    h.step("op", 1).await;
    let (step, transitions) = h.plan("op", 1).await;
    let standing = Standing::Cancelled { at: h.wall() };
    let (ended, _) = operated(h.write_operation("op", OperationChange::End { standing }).await);
    assert_eq!((ended.changed, ended.ended_at()), (1, Some(h.wall())));
    for change in [
        OperationChange::Step { step, transitions },
        OperationChange::End { standing: Standing::Done { at: 1 } },
        OperationChange::Start { operation: Box::new(ended.clone()) },
    ] {
        assert_eq!(h.write_operation("op", change).await, OperationWritten::Conflict);
    }
    assert_eq!(h.state("a").await, StateName::DeadLetter);
    operated(h.write_operation("op", OperationChange::Remove).await);
    assert_eq!(h.store.operation(&name("op")).await.expect("operation"), None);
    h.start("op", Action::Retry).await;
    let removed = h.write_operation("op", OperationChange::Remove).await;
    assert_eq!(removed, OperationWritten::Conflict, "it is under way");
}

pub async fn operations_are_listed_newest_first(h: &mut Harness) {
    h.add_named(&["a"]).await;
    for text in ["1", "2", "3", "4"] {
        h.start(text, Action::Cancel).await;
    }
    h.step("2", 9).await;
    let list =
        |before: Option<&str>, running, limit| ListOperations { before: before.map(name), running, limit };
    assert_eq!(h.listed(list(None, false, 9)).await, ["4", "3", "2", "1"]);
    assert_eq!(h.listed(list(None, true, 9)).await, ["4", "3", "1"]);
    assert_eq!(h.listed(list(None, false, 2)).await, ["4", "3"]);
    assert_eq!(h.listed(list(Some("3"), false, 2)).await, ["2", "1"]);
    assert_eq!(h.listed(list(Some("1"), false, 2)).await, Vec::<String>::new());
}

pub async fn only_some_operations_run_at_once(h: &mut Harness) {
    h.add_named(&["a"]).await;
    let max = windlass_core::limits::OPERATIONS_RUNNING_MAX;
    for i in 0..max {
        h.start(&format!("op-{i:03}"), Action::Cancel).await;
    }
    let operation = Box::new(h.operation("op-000").await);
    let one_more = OperationChange::Start { operation };
    assert_eq!(h.write_operation("more", one_more.clone()).await, OperationWritten::TooMany);
    h.step("op-000", 9).await;
    operated(h.write_operation("more", one_more).await);
}

pub async fn operations_outlive_a_reopen(h: &mut Harness) {
    h.add_dead(&["a", "b", "c", "d", "e", "f"]).await;
    h.start("walks", Action::Move(name("q:other"))).await;
    h.start("ends", Action::SetPriority(Priority(7))).await;
    h.start("goes", Action::Cancel).await;
    let reason = "it cannot go on".into();
    let failed = OperationChange::End { standing: Standing::Failed { at: h.wall(), reason } };
    operated(h.write_operation("ends", failed.clone()).await);
    for round in 0..4 {
        h.step("walks", 2).await;
        if round == 1 {
            operated(h.write_operation("goes", failed.clone()).await);
            operated(h.write_operation("goes", OperationChange::Remove).await);
        }
        let all = ListOperations { before: None, running: false, limit: 9 };
        let before = h.store.operations(all.clone()).await.expect("operations");
        if !h.reopen().await {
            return;
        }
        assert_eq!(h.store.operations(all).await.expect("operations"), before, "round {round}");
        if !h.operation("walks").await.is_running() {
            break;
        }
    }
    let walked = h.operation("walks").await;
    assert_eq!((walked.changed, walked.is_running()), (6, false));
    assert_eq!(h.counts("q:other").await.by_state[StateName::DeadLetter.index()], 6);
    assert_eq!(h.counts("q").await.by_state[StateName::DeadLetter.index()], 0);
    let stale = on(&h.peek("a").await, Change::Removed { at: h.wall().into() });
    let stale = Transition { revision: stale.revision - 1, ..stale };
    assert_eq!(h.store.commit(vec![stale]).await.expect("commit"), [Committed::Conflict]);
}

/// One that would wait for a task that is gone is not made, so the key is free for the next one of its step.
pub async fn a_retry_that_a_step_refuses_takes_no_key(h: &mut Harness) {
    for text in ["a", "b"] {
        let key = UniqueKey::new("k").expect("a valid key");
        let unique = Unique { key, for_ms: None, on_conflict: OnConflict::Reject };
        h.add(vec![NewTask { unique: Some(Box::new(unique)), ..h.task(text) }]).await;
        h.cancel(&h.peek(text).await).await;
    }
    h.start("op", Action::Retry).await;
    let (step, _) = h.plan("op", 10).await;
    let requeue = |record: &Record, after: &[&str]| {
        let after = after.iter().map(|text| id(text)).collect();
        on(record, Change::Requeued { at: h.wall().into(), after })
    };
    let transitions = vec![requeue(&h.peek("a").await, &["gone"]), requeue(&h.peek("b").await, &[])];
    let change = OperationChange::Step { step, transitions };
    let (_, committed) = operated(h.write_operation("op", change).await);
    assert!(matches!(committed[..], [Committed::Conflict, Committed::Done(_)]), "{committed:?}");
    assert_eq!((h.state("a").await, h.state("b").await), (StateName::Cancelled, StateName::Pending));
}
