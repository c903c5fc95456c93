//! Tasks that came together stand in the orders by number as one. Whatever leaves from the midst of them, lists show every task once,
//! in the state that it has.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::{Record, State, StateName, TaskId, Transition, transition};
use windlass_store::clock::ManualClock;
use windlass_store::{Claim, Clock, Committed, List, Store};

use super::shared::{add, claim, name, task};
use super::{fresh_url, open};

const TASKS: usize = 90;

/// All tasks of a state, by a walk over short pages.
async fn listed(store: &Arc<dyn Store>, states: Vec<StateName>) -> Vec<u64> {
    let (mut found, mut before) = (Vec::new(), None);
    loop {
        let list = List { states: states.clone(), before, limit: 7, ..List::default() };
        let page = store.list(list).await.expect("list");
        found.extend(page.tasks.iter().map(|task| task.record.seq));
        match page.next {
            Some(next) => before = Some(next),
            None => return found,
        }
    }
}

/// What lists and counters say is what the tasks say.
async fn check(store: &Arc<dyn Store>, after: &str) {
    let ids: Vec<TaskId> = (0..TASKS).map(|i| TaskId::new(&format!("t{i}")).expect("an id")).collect();
    let records: Vec<Record> = store.peek_all(&ids).await.expect("peek").into_iter().flatten().collect();
    let mut by_state: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for record in records.iter().rev() {
        by_state.entry(record.state_name().index()).or_default().push(record.seq);
    }
    for state in [StateName::Pending, StateName::Running, StateName::Completed, StateName::Cancelled] {
        let expected = by_state.remove(&state.index()).unwrap_or_default();
        assert_eq!(listed(store, vec![state]).await, expected, "{state:?} after {after}");
    }
    let all: Vec<u64> = records.iter().rev().map(|record| record.seq).collect();
    assert_eq!(listed(store, Vec::new()).await, all, "all after {after}");
    let queue = store.queues(Some(&name("q"))).await.expect("queues").remove(0);
    let pending = records.iter().filter(|record| matches!(record.state, State::Pending));
    let oldest = pending.map(|record| record.created_at).min();
    assert_eq!(queue.oldest_pending_at, oldest, "the oldest after {after}");
}

async fn commit(store: &Arc<dyn Store>, transitions: Vec<Transition>) {
    for committed in store.commit(transitions).await.expect("commit") {
        assert!(matches!(committed, Committed::Done(_)), "{committed:?}");
    }
}

fn of(record: &Record, change: windlass_core::Change) -> Transition {
    Transition { id: record.id.clone(), seq: record.seq, revision: record.revision, change }
}

#[tokio::test]
async fn lists_show_every_task_once_whatever_leaves_a_run() {
    let clock = ManualClock::shared();
    let store = open(&fresh_url(), clock.clone()).await;
    for batch in 0..3 {
        let new = (30 * batch..30 * (batch + 1)).map(|i| task(&format!("t{i}"), clock.now().wall));
        add(&store, new.collect()).await;
        clock.advance_ms(10);
    }
    check(&store, "they were added").await;
    let now = clock.now().wall;
    let peek = async |i: usize| {
        let id = TaskId::new(&format!("t{i}")).expect("an id");
        store.peek(&id).await.expect("peek").expect("a task")
    };
    // From the midst of a run, from its ends, and across two.
    for (i, what) in [(5, "one left"), (0, "the first left"), (29, "the last left")] {
        let record = peek(i).await;
        let change = transition::cancel(&record, now).expect("decided").expect("a change");
        commit(&store, vec![of(&record, change)]).await;
        check(&store, what).await;
    }
    let types = Some(vec![name("t")]);
    let held = store.claim(Claim { max: 50, types, ..claim() }).await.expect("claim");
    assert_eq!(held.len(), 50);
    check(&store, "a claim").await;
    let end = |record: &Record| {
        let State::Running(lease) = &record.state else { panic!("{record:?}") };
        of(record, transition::complete(record, lease.token, None, now).expect("held").expect("a change"))
    };
    for third in 0..3 {
        let ends = held.iter().filter(|task| task.record.seq % 3 == third).map(|task| end(&task.record));
        commit(&store, ends.collect()).await;
        check(&store, "every third ended").await;
    }
    let rest = store.claim(Claim { max: 50, types: None, ..claim() }).await.expect("claim");
    commit(&store, rest.iter().rev().map(|task| end(&task.record)).collect()).await;
    check(&store, "the rest ended").await;
    for i in [40, 41, 42, 60, 89, 1] {
        let record = peek(i).await;
        let change = transition::remove(&record, now).expect("decided").expect("a change");
        commit(&store, vec![of(&record, change)]).await;
        check(&store, "one was forgotten").await;
    }
}
