//! The commands, and how their answers are compared.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use windlass_core::choice::{Draws, Mode, Queue};
use windlass_core::transition::{self, Failure};
use windlass_core::{
    Change, Name, NewTask, Payload, Priority, Progress, Record, State, StateName, Task, Token, Transition,
};
use windlass_store::clock::ManualClock;
use windlass_store::{
    Claim, Clock, Committed, Due, Error, Expire, Extend, Feature, Insert, Inserted, List, Store,
};

use super::Trial;
use super::both::{both, same, walk};
use super::table::Table;

/// In two groups.
pub(super) const QUEUES: [&str; 4] = ["q0", "q0:b", "q1", "q1:b"];
pub(super) const TYPES: [&str; 3] = ["t0", "t1", "t2"];
pub(super) const KEYS: [&str; 3] = ["k0", "k1", "k2"];
pub(super) const WORKERS: [&str; 3] = ["w0", "w1", "w2"];
/// How many records are remembered, fresh ones and those that went stale.
const SEEN_MAX: usize = 120;

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

/// What the queues of a group have in common.
pub(super) fn group_of(queue: &Name) -> String {
    queue.as_str().split(':').next().unwrap_or_default().to_owned()
}

pub(crate) struct Pair {
    pub(super) clock: Arc<ManualClock>,
    pub(super) a: Arc<dyn Store>,
    pub(crate) b: Arc<dyn Store>,
    pub(super) draws: Draws,
    /// From this place in line on the second store may say that it cannot tell.
    pub(super) far: u64,
    pub(super) tasks: u64,
    /// The latest `created_at`. Submits never go back in time, though the clock may.
    pub(super) born: u64,
    seen: Vec<Task>,
    conflicts: u64,
    /// Submits whose unique key was held, and those that replaced the holder.
    pub(super) met: u64,
    pub(super) replaced: u64,
    pub(super) fired: u64,
    /// Tasks that operations decided on, and those of them that had changed.
    pub(super) operated: u64,
    pub(super) left_over: u64,
    pub(super) told: u64,
    /// Whether both stores have limits and keys.
    pub(super) flow: bool,
    /// If the second store is spread: its numbers.
    pub(super) table: Option<Arc<Mutex<Table>>>,
    /// What it refused, as it should.
    pub(super) refused: u64,
}

impl Pair {
    pub(crate) fn new(clock: Arc<ManualClock>, a: Arc<dyn Store>, b: Arc<dyn Store>, trial: &Trial) -> Self {
        let draws = Draws::new(trial.seed);
        let flow = b.capabilities().has(Feature::Flow);
        Self {
            clock,
            a,
            b,
            draws,
            far: trial.far,
            tasks: 0,
            born: 0,
            seen: Vec::new(),
            conflicts: 0,
            met: 0,
            replaced: 0,
            fired: 0,
            operated: 0,
            left_over: 0,
            told: 0,
            flow,
            table: trial.table.clone(),
            refused: 0,
        }
    }

    pub(crate) async fn step(&mut self) {
        match self.draw(100) {
            0..20 => self.insert().await,
            20..36 => self.claim().await,
            36..43 => self.operate().await,
            43..62 => self.commit().await,
            62..67 => self.extend().await,
            67..73 => self.promote().await,
            73..77 => self.reap().await,
            77..80 => self.prune().await,
            80..83 => self.pause().await,
            83..88 => self.pass_time(),
            88..94 => self.schedule().await,
            94..97 => self.tell().await,
            97 if self.flow => self.limit().await,
            _ => self.look().await,
        }
    }

    pub(super) fn draw(&mut self, of: u64) -> u64 {
        self.draws.next_u64() % of
    }

    pub(super) fn one_in(&mut self, of: u64) -> bool {
        self.draw(of) == 0
    }

    pub(super) fn any(&mut self, texts: &[&str]) -> Name {
        let i = self.draw(texts.len() as u64) as usize;
        name(texts[i])
    }

    pub(super) fn wall(&self) -> u64 {
        self.clock.now().wall
    }

    pub(super) fn remember(&mut self, task: Task) {
        self.seen.push(task);
        if self.seen.len() > SEEN_MAX {
            let i = self.draw(SEEN_MAX as u64) as usize;
            self.seen.swap_remove(i);
        }
    }

    pub(super) fn recall(&mut self) -> Option<Task> {
        let i = self.draw(self.seen.len().max(1) as u64) as usize;
        self.seen.get(i).cloned()
    }

    async fn claim(&mut self) {
        let queues = (0..=self.draw(4))
            .map(|_| Queue { name: self.any(&QUEUES), weight: self.draw(5) as u32 })
            .collect();
        let types = self.one_in(3).then(|| (0..self.draw(3)).map(|_| self.any(&TYPES)).collect());
        let claim = Claim {
            worker: self.any(&WORKERS),
            queues,
            mode: if self.one_in(2) { Mode::Strict } else { Mode::Weighted },
            types,
            max: self.draw(5) as u32,
            lease_ms: 100 + self.draw(1500),
            wait_ms: 0,
            seed: self.draws.next_u64(),
        };
        if self.reaches_over(&claim) {
            return self.claim_over(claim).await;
        }
        for task in both!(self, claim(claim.clone())) {
            self.remember(task);
        }
    }

    async fn commit(&mut self) {
        let mut tasks = Vec::new();
        for _ in 0..=self.draw(4) {
            let Some(mut task) = self.recall() else { return };
            // Half of the time what is decided on is what is stored; the rest may be long out of date.
            if self.one_in(2)
                && let Some(stored) = both!(self, get(&task.record.id))
            {
                task = stored;
            }
            tasks.push(task);
        }
        self.commit_decided(tasks, Self::decide).await;
    }

    /// Any input, as a worker, a person or a loop could have it.
    fn decide(&mut self, Task { record, body }: &Task) -> Option<Change> {
        let now = self.now();
        let token = match &record.state {
            State::Running(lease) => lease.token,
            _ => record.ended.unwrap_or(Token { number: 0, secret: 0 }),
        };
        let failure = Failure {
            error: format!("error {}", self.draw(9)),
            retryable: !self.one_in(4),
            retry_after_ms: self.one_in(3).then(|| self.draw(1000)),
            random: self.draw(100) as f64 / 100.0,
        };
        let result = self.one_in(2).then(|| Payload::Json(Bytes::from_static(b"[1,2]")));
        let saved = Bytes::from(vec![3; self.draw(3) as usize * 700]);
        let decision = match self.draw(12) {
            0 | 1 => transition::complete(record, token, result, now),
            2 | 10 | 11 => transition::fail(record, body, token, failure, now),
            3 => transition::release(record, token, self.one_in(2).then_some(300), now),
            4 => transition::cancel(record, now),
            5 if self.one_in(2) => self.wait_again(record),
            5 => transition::retry(record, now),
            8 => transition::save(record, token, saved, now),
            6 if self.one_in(4) => transition::remove(record, now),
            6 => transition::lose_lease(record, body, "lost", now),
            7 if self.one_in(2) => transition::reprioritise(record, Priority(self.draw(256) as u8), now),
            7 => transition::move_to(record, &self.any_near(&record.queue), now),
            _ => transition::tick(record, now),
        };
        decision.ok().flatten()
    }

    pub(super) async fn commit_decided(
        &mut self,
        tasks: Vec<Task>,
        mut decide: impl FnMut(&mut Self, &Task) -> Option<Change>,
    ) {
        let mut transitions = Vec::new();
        let mut bodies = Vec::new();
        for task in tasks {
            let Some(change) = decide(self, &task) else { continue };
            let Record { id, seq, revision, .. } = task.record;
            transitions.push(Transition { id, seq, revision, change });
            bodies.push(task.body);
        }
        for (answer, body) in both!(self, commit(transitions.clone())).into_iter().zip(bodies) {
            match answer {
                Committed::Done(record) => self.remember(Task { record: *record, body }),
                Committed::Conflict => self.conflicts += 1,
                Committed::KeyHeld(_) | Committed::Missing => {}
            }
        }
    }

    async fn extend(&mut self) {
        let mut extensions = Vec::new();
        for _ in 0..=self.draw(6) {
            let Some(Task { record, .. }) = self.recall() else { return };
            let held = match &record.state {
                State::Running(lease) => Some(lease.token),
                _ => record.ended,
            };
            let Some(token) = held else { continue };
            let progress =
                self.one_in(2).then(|| Progress { fraction: self.draw(10) as f64 / 10.0, note: None });
            let lease_ms = self.one_in(3).then(|| 100 + self.draw(3000));
            extensions.push(Extend { id: record.id, token, lease_ms, progress });
        }
        both!(self, extend(extensions.clone()));
    }

    async fn promote(&mut self) {
        let limit = 1 + self.draw(20) as usize;
        let due = self.due("due", self.wall(), [self.a.due(limit).await, self.b.due(limit).await]);
        self.commit_decided(due.tasks, |pair, task| {
            transition::tick(&task.record, pair.now()).ok().flatten()
        })
        .await;
    }

    async fn prune(&mut self) {
        let limit = 1 + self.draw(20) as usize;
        let due =
            self.due("prunable", self.wall(), [self.a.prunable(limit).await, self.b.prunable(limit).await]);
        self.commit_decided(due.tasks, |pair, task| {
            transition::remove(&task.record, pair.now()).ok().flatten()
        })
        .await;
        self.release_names().await;
    }

    async fn reap(&mut self) {
        let dead_workers: Vec<Name> = if self.one_in(4) { vec![self.any(&WORKERS)] } else { Vec::new() };
        let mut tasks = self.expired(dead_workers).await;
        // The reaper may come back for some of them later.
        tasks.retain(|_| !self.one_in(4));
        self.lose(tasks).await;
    }

    /// All leases that are over. The order among them is not promised.
    async fn expired(&mut self, dead_workers: Vec<Name>) -> Vec<Task> {
        let expire = || Expire { dead_workers: dead_workers.clone(), limit: usize::MAX };
        let by_seq = |mut due: Due| {
            due.tasks.sort_by_key(|task| task.record.seq);
            due
        };
        let a = self.a.expired(expire()).await.map(by_seq);
        let b = self.b.expired(expire()).await.map(by_seq);
        self.due("expired", self.clock.now().mono, [a, b]).tasks
    }

    async fn lose(&mut self, tasks: Vec<Task>) {
        self.commit_decided(tasks, |pair, Task { record, body }| {
            transition::lose_lease(record, body, "lease ran out", pair.now()).ok().flatten()
        })
        .await;
    }

    /// A store may tell fewer than have come up if it says that there are more, and may name too early a time for the
    /// next, but neither too late a time nor one that has come if it has nothing to tell. Both go on with what the
    /// second told.
    pub(super) fn due(&self, verb: &str, now: u64, answers: [Result<Due, Error>; 2]) -> Due {
        let [mut a, b] = answers.map(|answer| answer.expect(verb));
        let next = if b.tasks.len() < a.tasks.len() { Some(now) } else { a.next };
        let in_time = next.is_none_or(|next| b.next.is_some_and(|at| at <= next));
        let idle = b.tasks.is_empty() && b.next.is_some_and(|at| at <= now);
        assert!(in_time && !idle, "the stores differ in {verb} at {now}:\n  {a:?}\nand\n  {b:?}");
        a.tasks.truncate(b.tasks.len());
        same(verb, &a.tasks, &b.tasks);
        a
    }

    async fn pause(&mut self) {
        let queue = self.any(&QUEUES);
        let paused = self.one_in(3);
        both!(self, set_paused(&queue, paused));
    }

    fn pass_time(&mut self) {
        let ms = if self.one_in(5) { self.draw(5000) } else { self.draw(200) };
        self.clock.advance_ms(ms);
        if self.one_in(8) {
            let jump = self.draw(4000) as i64 - 2000;
            // Stores that processes with clocks of their own share take a little back for a difference between those.
            let shared = self.b.capabilities().name == "redis";
            self.clock.jump_wall_ms(if shared { jump.abs() } else { jump });
        }
    }

    pub(crate) async fn compare_everything(&mut self) {
        let tasks = self.compare_lists(List { limit: 500, ..List::default() }).await;
        for Task { record, .. } in &tasks {
            both!(self, get(&record.id));
            self.compare_positions(record).await;
        }
        both!(self, queues(None));
        self.compare_schedules().await;
        self.compare_operations().await;
        both!(self, limits(windlass_store::ListLimits { limit: 100, ..Default::default() }));
        both!(self, endings(1000));
        let ledger = both!(self, ledger());
        assert_eq!(ledger.submitted, tasks.len() as u64 + ledger.removed);
    }

    /// A run that left out half of what can happen has shown little.
    pub(crate) async fn show_coverage(&self) {
        let ledger = self.a.ledger().await.expect("ledger");
        let counts =
            [ledger.completed, ledger.failed, ledger.crashed, ledger.dead_lettered, ledger.cancelled];
        assert!(
            counts.iter().all(|count| *count > 0) && ledger.expired > 0 && ledger.removed > 0,
            "{ledger:?}"
        );
        assert!(self.conflicts > 0, "no stale change was tried");
        assert!(self.fired > 0, "no schedule fired");
        assert!(self.met > 0 && self.replaced > 0, "unique keys that never met");
        assert!(self.operated > 0 && self.left_over > 0, "no operation met a task, or all kept still");
        assert!(self.told > 0, "nobody was told of an end");
        assert!(self.table.is_none() || self.refused > 5, "nothing was refused");
    }

    /// Deadlines do not outlive a store, so none may have passed when it is closed.
    pub(crate) async fn before_reopen(&mut self) {
        let tasks = self.expired(Vec::new()).await;
        self.lose(tasks).await;
    }

    /// Puts what is kept in memory only, deadlines and progress, back to the same values in both.
    pub(crate) async fn after_reopen(&mut self) {
        let running = List { states: vec![StateName::Running], limit: 500, ..List::default() };
        let extension = |Task { record, .. }: Task| match record.state {
            State::Running(lease) => Extend {
                id: record.id,
                token: lease.token,
                lease_ms: None,
                progress: Some(Progress { fraction: 0.0, note: None }),
            },
            state => panic!("listed as running: {state:?}"),
        };
        let extensions: Vec<Extend> = walk(&self.a, running).await.into_iter().map(extension).collect();
        both!(self, extend(extensions.clone()));
        self.compare_everything().await;
    }
}

/// Uses up one number of a store and leaves nothing else behind but its ledger's count.
pub(crate) async fn add_and_remove(store: &Arc<dyn Store>) {
    let mut pair = Pair::new(
        ManualClock::shared(),
        Arc::clone(store),
        Arc::clone(store),
        &Trial { seed: 0, far: 0, steps: 0, table: None },
    );
    let mut task = NewTask { queue: name("q0"), scheduled_at: None, unique: None, ..pair.new_task() };
    task.body.links = None;
    let tasks = vec![task];
    let answers =
        store.insert(Insert { tasks: tasks.into(), atomic: false, max_depth: None }).await.expect("insert");
    let Inserted::New(Record { id, seq, revision, .. }) = answers[0].clone() else { panic!("{answers:?}") };
    let change = Change::Removed { at: pair.wall().into() };
    store.commit(vec![Transition { id, seq, revision, change }]).await.expect("commit");
}
