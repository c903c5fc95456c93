//! Tasks that were claimed together are held by one lease text, and those that ended together are forgotten by one entry. Whatever
//! becomes of one of them, the others keep what is theirs.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::transition::{self, Refusal};
use windlass_core::{Change, Record, State, StateName, Task, TaskId, Token, Transition};
use windlass_store::clock::ManualClock;
use windlass_store::{Claim, Clock, Committed, Expire, Extend, Extended, List, Store};

use super::shared::{add, claim, name, task};
use super::{fresh_url, open};

/// Whoever claims and reports, and one who has seen nothing of that and leads.
struct Two {
    clock: Arc<ManualClock>,
    leader: Arc<dyn Store>,
    worker: Arc<dyn Store>,
}

impl Two {
    async fn start() -> Two {
        let (clock, url) = (ManualClock::shared(), fresh_url());
        let leader = open(&url, clock.clone()).await;
        Two { leader, worker: open(&url, clock.clone()).await, clock }
    }

    /// Adds tasks and claims them.
    async fn claimed(&self, many: usize) -> Vec<Task> {
        let first = self.worker.ledger().await.expect("ledger").submitted as usize;
        let new = (first..first + many).map(|i| task(&format!("t{i}"), self.clock.now().wall));
        add(&self.worker, new.collect()).await;
        self.again(many).await
    }

    async fn again(&self, many: usize) -> Vec<Task> {
        let claim = Claim { max: many as u32, types: Some(vec![name("t")]), ..claim() };
        self.worker.claim(claim).await.expect("claim")
    }

    async fn peek(&self, record: &Record) -> Record {
        self.leader.peek(&record.id).await.expect("peek").expect("a task")
    }

    /// What whoever leads notices as over.
    async fn expired(&self) -> BTreeSet<TaskId> {
        let expire = Expire { dead_workers: Vec::new(), limit: 10_000 };
        let due = self.leader.expired(expire).await.expect("expired");
        due.tasks.into_iter().map(|task| task.record.id).collect()
    }

    async fn extend(&self, record: &Record, token: Token) -> Extended {
        let extend = Extend { id: record.id.clone(), token, lease_ms: None, progress: None };
        self.worker.extend(vec![extend]).await.expect("extend").remove(0)
    }

    fn completion(&self, record: &Record) -> Transition {
        of(record, transition::complete(record, token(record), None, self.clock.now().wall))
    }
}

fn token(record: &Record) -> Token {
    let State::Running(lease) = &record.state else { panic!("{record:?}") };
    lease.token
}

fn of(record: &Record, decision: Result<Option<Change>, Refusal>) -> Transition {
    let change = decision.expect("decided").expect("a change");
    Transition { id: record.id.clone(), seq: record.seq, revision: record.revision, change }
}

async fn commit(store: &Arc<dyn Store>, transitions: Vec<Transition>) {
    for committed in store.commit(transitions).await.expect("commit") {
        assert!(matches!(committed, Committed::Done(_)), "{committed:?}");
    }
}

fn ids<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> BTreeSet<TaskId> {
    tasks.into_iter().map(|task| task.record.id.clone()).collect()
}

#[tokio::test]
async fn every_task_of_a_claim_has_a_token_of_its_own() {
    let two = Two::start().await;
    let held = two.claimed(20).await;
    for task in &held {
        let seen = two.peek(&task.record).await;
        assert_eq!(seen, task.record, "as it was given out");
    }
    let tokens: BTreeSet<u64> = held.iter().map(|task| token(&task.record).number).collect();
    assert_eq!(tokens.len(), held.len());
    let neighbours = Token { number: token(&held[5].record).number, ..token(&held[6].record) };
    assert!(matches!(two.extend(&held[6].record, neighbours).await, Extended::LeaseLost));
    assert!(matches!(two.extend(&held[6].record, token(&held[6].record)).await, Extended::Until { .. }));
}

#[tokio::test]
async fn what_becomes_of_one_is_no_matter_of_the_others() {
    let two = Two::start().await;
    let held = two.claimed(30).await;
    let now = two.clock.now().wall;
    let record = |i: usize| &held[i].record;
    // One each: let go from the midst, cancelled at the beginning, extended, noted, ended at the end, and two beside each other.
    commit(&two.worker, vec![of(record(12), transition::release(record(12), token(record(12)), None, now))])
        .await;
    commit(&two.leader, vec![of(record(0), transition::cancel(record(0), now))]).await;
    assert!(matches!(two.extend(record(20), token(record(20))).await, Extended::Until { .. }));
    let notes = Bytes::from_static(b"half of it");
    commit(&two.worker, vec![of(record(16), transition::save(record(16), token(record(16)), notes, now))])
        .await;
    commit(&two.worker, vec![two.completion(record(29))]).await;
    commit(&two.worker, vec![two.completion(record(5)), two.completion(record(6))]).await;
    let gone = [0, 5, 6, 12, 29];
    for i in (0..30).filter(|i| !gone.contains(i)) {
        let (seen, more) = (two.peek(record(i)).await, u64::from(i == 16));
        assert_eq!((token(&seen), seen.revision), (token(record(i)), record(i).revision + more), "task {i}");
    }
    let noted = two.peek(record(16)).await;
    assert!(matches!(two.peek(record(12)).await.state, State::Pending));
    assert!(matches!(two.peek(record(0)).await.state, State::Cancelled { .. }));
    // What is over is not ended again with those who go on, and what goes on ends: in one call, in any order.
    let mut ends: Vec<usize> = (0..30).filter(|i| *i != 12).collect();
    ends.reverse();
    let reports = ends.iter().map(|i| two.completion(if *i == 16 { &noted } else { record(*i) })).collect();
    let answers = two.worker.commit(reports).await.expect("commit");
    for (i, answer) in ends.iter().zip(&answers) {
        let done = matches!(answer, Committed::Done(_));
        assert_eq!(done, !gone.contains(i), "task {i}: {answer:?}");
    }
    let ledger = two.leader.ledger().await.expect("ledger");
    assert_eq!((ledger.completed, ledger.cancelled), (28, 1));
    // The one that was let go is claimed under a newer token, and by that it ends.
    let last = two.again(9).await;
    assert_eq!(ids(&last), ids([&held[12]]));
    assert!(token(&last[0].record).number > token(record(12)).number);
    let stale = two.worker.commit(vec![two.completion(record(12))]).await.expect("commit").remove(0);
    assert!(matches!(stale, Committed::Conflict), "{stale:?}");
    commit(&two.worker, vec![two.completion(&last[0].record)]).await;
    let running = List { states: vec![StateName::Running], limit: 100, ..List::default() };
    assert!(two.leader.list(running).await.expect("list").tasks.is_empty());
    two.clock.advance_ms(10_000);
    assert!(two.expired().await.is_empty(), "nothing is held any more");
}

#[tokio::test]
async fn leases_run_out_for_those_that_were_not_extended() {
    let two = Two::start().await;
    let held = two.claimed(10).await;
    assert!(two.expired().await.is_empty(), "seen for the first time");
    two.clock.advance_ms(600);
    for i in [0, 4, 5, 9] {
        let record = &held[i].record;
        assert!(matches!(two.extend(record, token(record)).await, Extended::Until { .. }));
    }
    assert!(two.expired().await.is_empty(), "the beats are seen");
    two.clock.advance_ms(400);
    let lost = two.expired().await;
    assert_eq!(lost, ids([1, 2, 3, 6, 7, 8].map(|i| &held[i])));
    for task in &held {
        let gone = lost.contains(&task.record.id);
        let answer = two.extend(&task.record, token(&task.record)).await;
        assert_eq!(matches!(answer, Extended::LeaseLost), gone, "{}: {answer:?}", task.record.id);
    }
    let now = two.clock.now().wall;
    for task in held.iter().filter(|task| lost.contains(&task.record.id)) {
        let seen = two.peek(&task.record).await;
        commit(&two.leader, vec![of(&seen, transition::lose_lease(&seen, &task.body, "it is gone", now))])
            .await;
    }
    let rest: Vec<Transition> = held
        .iter()
        .filter(|task| !lost.contains(&task.record.id))
        .map(|task| two.completion(&task.record))
        .collect();
    commit(&two.worker, rest).await;
    assert!(two.expired().await.is_empty());
}

/// Pieces of a claim share its beat, and there may be more of them than are read at once.
#[tokio::test]
async fn a_leader_sees_every_piece_of_what_was_claimed_together() {
    let two = Two::start().await;
    let mut left = BTreeSet::new();
    for _ in 0..3 {
        let held = two.claimed(900).await;
        let (ends, stay): (Vec<&Task>, Vec<&Task>) = held.iter().partition(|task| task.record.seq % 2 == 0);
        commit(&two.worker, ends.iter().map(|task| two.completion(&task.record)).collect()).await;
        left.extend(ids(stay));
    }
    assert!(two.expired().await.is_empty(), "seen for the first time");
    two.clock.advance_ms(1000);
    assert_eq!(two.expired().await, left);
}

#[tokio::test]
async fn what_ended_together_is_forgotten_once_whatever_left_before() {
    let two = Two::start().await;
    let held = two.claimed(120).await;
    // At one time some as a run, others alone, and one by another way.
    commit(&two.worker, held[..60].iter().map(|task| two.completion(&task.record)).collect()).await;
    for third in 0..3 {
        let ends = held[60..119].iter().filter(|task| task.record.seq % 3 == third);
        commit(&two.worker, ends.map(|task| two.completion(&task.record)).collect()).await;
    }
    let (last, now) = (&held[119].record, two.clock.now().wall);
    commit(&two.leader, vec![of(last, transition::cancel(last, now))]).await;
    let mut left: BTreeSet<TaskId> = ids(&held);
    for i in [0, 30, 31, 59, 60, 80, 118] {
        let ended = two.peek(&held[i].record).await;
        commit(&two.leader, vec![of(&ended, transition::remove(&ended, now))]).await;
        left.remove(&ended.id);
    }
    assert!(two.leader.prunable(1000).await.expect("prunable").tasks.is_empty(), "not yet");
    two.clock.advance_ms(60_000);
    let mut forgotten = BTreeSet::new();
    loop {
        // Seven at a time: they begin and end in the midst of what stands together.
        let due = two.leader.prunable(7).await.expect("prunable");
        if due.tasks.is_empty() {
            break;
        }
        let now = two.clock.now().wall;
        for id in ids(&due.tasks) {
            assert!(forgotten.insert(id), "told again after it was forgotten");
        }
        let removals = due.tasks.iter().map(|task| of(&task.record, transition::remove(&task.record, now)));
        commit(&two.leader, removals.collect()).await;
    }
    assert_eq!(forgotten, left);
    let page = two.leader.list(List { limit: 10, ..List::default() }).await.expect("list");
    assert!(page.tasks.is_empty());
}
