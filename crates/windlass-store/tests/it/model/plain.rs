//! The work that most stores have nearly all of the time: tasks without times, keys and limits, claimed by type, many at once, and
//! ended many at once.
//!
//! A store may give tasks that are claimed together one secret, so tokens are compared by their numbers, and each store is asked with
//! its own.

use std::fmt::Debug;

use windlass_core::choice::{Mode, Queue};
use windlass_core::transition::{self, Failure};
use windlass_core::{Change, NewTask, Priority, Record, State, StateName, Task, Token, Transition};
use windlass_store::{Claim, Committed, Due, Expire, Extend, Insert, List};

use super::both::{both, same, walk};
use super::commands::{Pair, QUEUES, TYPES, WORKERS};

const BATCH_MAX: u64 = 40;
const CLAIM_MAX: u64 = 50;

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// As the first store told it, and as the second did.
    held: Vec<[Task; 2]>,
    /// The most that one claim got, and how many reports had as many ends as go by the short way.
    largest: usize,
    reports: u64,
    lost: usize,
}

impl Work {
    /// A run whose claims got one task each has shown little.
    pub(super) fn show_coverage(&self) {
        let Work { largest, reports, lost, .. } = self;
        assert!(*largest > 20 && *reports > 5 && *lost > 0, "{largest}, {reports} and {lost}");
    }
}

fn bare(mut record: Record) -> Record {
    if let State::Running(lease) = &mut record.state {
        lease.token.secret = 0;
    }
    if let Some(token) = &mut record.ended {
        token.secret = 0;
    }
    record
}

fn bare_all(tasks: &[Task]) -> Vec<Task> {
    tasks.iter().map(|task| Task { record: bare(task.record.clone()), body: task.body.clone() }).collect()
}

fn token(task: &Task) -> Option<Token> {
    match &task.record.state {
        State::Running(lease) => Some(lease.token),
        _ => None,
    }
}

impl Pair {
    pub(super) async fn step_plain(&mut self, work: &mut Work) {
        match self.draw(20) {
            0..6 => self.add_plain().await,
            6..10 => self.claim_type(work).await,
            10..15 => self.end_plain(work).await,
            15 => self.extend_plain(work).await,
            16 => self.reap_plain(work).await,
            17 => self.prune_plain().await,
            18 => self.clock.advance_ms(self.draws.next_u64() % 900),
            _ => self.compare_plain().await,
        }
    }

    /// Everything that there is, by state and by number.
    pub(super) async fn compare_plain(&mut self) {
        for states in [vec![StateName::Pending], vec![StateName::Running], Vec::new()] {
            let list = List { states, limit: 100, ..List::default() };
            let (a, b) = (walk(&self.a, list.clone()).await, walk(&self.b, list).await);
            same("list", &bare_all(&a), &bare_all(&b));
        }
        both!(self, queues(None));
        both!(self, ledger());
    }

    /// Mostly alike, so that they stand in line as they were numbered; sometimes one of them is not.
    async fn add_plain(&mut self) {
        let (queue, kind) = (self.any(&QUEUES[..2]), self.any(&TYPES[..2]));
        let mut tasks: Vec<NewTask> = Vec::new();
        for _ in 0..=self.draw(BATCH_MAX) {
            let id = format!("plain-{}", self.tasks).parse().expect("a valid id");
            let mut new = NewTask {
                id,
                queue: queue.clone(),
                kind: kind.clone(),
                unique: None,
                key: None,
                ..self.new_task()
            };
            self.tasks += 1;
            new.body.links = None;
            if !self.one_in(12) {
                new = NewTask { priority: Priority(80), scheduled_at: None, expires_at: None, ..new };
            }
            tasks.push(new);
        }
        both!(self, insert(Insert { tasks: tasks.clone().into(), atomic: false, max_depth: None }));
    }

    async fn claim_type(&mut self, work: &mut Work) {
        let claim = Claim {
            worker: self.any(&WORKERS),
            queues: vec![Queue { name: self.any(&QUEUES[..2]), weight: 1 }],
            mode: Mode::Weighted,
            types: Some(vec![self.any(&TYPES[..2])]),
            max: 1 + self.draw(CLAIM_MAX) as u32,
            lease_ms: 100 + self.draw(1500),
            wait_ms: 0,
            seed: self.draws.next_u64(),
        };
        let a = self.a.claim(claim.clone()).await.expect("claim");
        let b = self.b.claim(claim).await.expect("claim");
        same("claim", &bare_all(&a), &bare_all(&b));
        work.largest = work.largest.max(a.len());
        work.held.extend(a.into_iter().zip(b).map(|(a, b)| [a, b]));
    }

    /// Some of what is held, out of order and out of the midst of what was claimed together.
    fn some_held(&mut self, work: &mut Work) -> Vec<[Task; 2]> {
        let many = self.draw(work.held.len() as u64 + 1);
        let mut some = Vec::new();
        for _ in 0..many {
            let i = self.draw(work.held.len() as u64) as usize;
            some.push(work.held.swap_remove(i));
        }
        some
    }

    /// Most of it completes.
    async fn end_plain(&mut self, work: &mut Work) {
        let (ended, mixed) = (self.some_held(work), self.one_in(3));
        work.reports += u64::from(!mixed && ended.len() >= 16);
        let tasks: Vec<Task> = ended.into_iter().map(|[task, _]| task).collect();
        self.commit_plain(&tasks, |pair, Task { record, body }| {
            let State::Running(lease) = &record.state else { return None };
            let (token, now) = (lease.token, pair.now());
            let failure =
                Failure { error: "no".to_owned(), retryable: true, retry_after_ms: Some(10), random: 0.5 };
            let decision = match if mixed { pair.draw(8) } else { 0 } {
                1 => transition::fail(record, body, token, failure, now),
                2 => transition::release(record, token, None, now),
                3 => transition::cancel(record, now),
                _ => transition::complete(record, token, None, now),
            };
            decision.ok().flatten()
        })
        .await;
    }

    async fn commit_plain(
        &mut self,
        tasks: &[Task],
        mut decide: impl FnMut(&mut Self, &Task) -> Option<Change>,
    ) {
        let mut transitions = Vec::new();
        for task in tasks {
            let Some(change) = decide(self, task) else { continue };
            let Record { id, seq, revision, .. } = task.record.clone();
            transitions.push(Transition { id, seq, revision, change });
        }
        let told = |answers: Vec<Committed>| -> Vec<Committed> {
            let told = |answer| match answer {
                Committed::Done(record) => Committed::Done(Box::new(bare(*record))),
                other => other,
            };
            answers.into_iter().map(told).collect()
        };
        let a = self.a.commit(transitions.clone()).await.expect("commit");
        let b = self.b.commit(transitions).await.expect("commit");
        same("commit", &told(a), &told(b));
    }

    async fn extend_plain(&mut self, work: &mut Work) {
        let some = self.some_held(work);
        let lease_ms = self.one_in(2).then(|| 100 + self.draw(3000));
        let extend = |task: &Task| {
            let id = task.record.id.clone();
            token(task).map(|token| Extend { id, token, lease_ms, progress: None })
        };
        let a = self.a.extend(some.iter().filter_map(|[a, _]| extend(a)).collect()).await.expect("extend");
        let b = self.b.extend(some.iter().filter_map(|[_, b]| extend(b)).collect()).await.expect("extend");
        same("extend", &a, &b);
        work.held.extend(some);
    }

    async fn reap_plain(&mut self, work: &mut Work) {
        let expire = || Expire { dead_workers: Vec::new(), limit: usize::MAX };
        let (a, b) = (self.a.expired(expire()).await, self.b.expired(expire()).await);
        let lost = told_alike("expired", [a, b]);
        work.lost += lost.len();
        self.commit_plain(&lost, |pair, Task { record, body }| {
            transition::lose_lease(record, body, "lease ran out", pair.now()).ok().flatten()
        })
        .await;
    }

    async fn prune_plain(&mut self) {
        let (a, b) = (self.a.prunable(500).await, self.b.prunable(500).await);
        let over = told_alike("prunable", [a, b]);
        self.commit_plain(&over, |pair, task| transition::remove(&task.record, pair.now()).ok().flatten())
            .await;
    }
}

/// What came up, in the order of numbers: that among them is not promised.
fn told_alike<E: Debug>(verb: &str, answers: [Result<Due, E>; 2]) -> Vec<Task> {
    let [a, b] = answers.map(|answer| {
        let mut tasks = answer.expect(verb).tasks;
        tasks.sort_by_key(|task| task.record.seq);
        tasks
    });
    same(verb, &bare_all(&a), &bare_all(&b));
    a
}
