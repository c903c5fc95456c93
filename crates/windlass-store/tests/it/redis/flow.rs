//! Limits, turns and ageing are decided by scripts here and by core in every other store: both must choose the same.

use std::sync::Arc;

use windlass_core::choice::{Draws, Mode, Queue};
use windlass_core::flow::{Ageing, Limit, Rate, Scope};
use windlass_core::{Change, NewTask, Priority, Record, State, Task, Transition, transition};
use windlass_store::clock::ManualClock;
use windlass_store::memory::MemoryStore;
use windlass_store::{Claim, Clock, ListLimits, SetLimit, Store};

use super::shared::{add, claim, name, task};
use super::{Server, fresh_url, open};

const QUEUES: [&str; 2] = ["q0", "q1"];
const TYPES: [&str; 3] = ["t0", "t1", "t2"];
const KEYS: [&str; 6] = ["k0", "k1", "k2", "k3", "k4", "k5"];

/// Two stores that get the same commands on one clock.
struct Pair {
    seed: u64,
    clock: Arc<ManualClock>,
    stores: [Arc<dyn Store>; 2],
    draws: Draws,
    tasks: u64,
    running: Vec<Task>,
    claimed: u64,
    /// Claims that left ready tasks where they were.
    held: u64,
}

impl Pair {
    async fn new(seed: u64) -> Pair {
        let clock = ManualClock::shared();
        let redis = open(&fresh_url(), clock.clone()).await;
        let stores = [MemoryStore::new(clock.clone()) as Arc<dyn Store>, redis];
        Pair {
            seed,
            clock,
            stores,
            draws: Draws::new(seed),
            tasks: 0,
            running: Vec::new(),
            claimed: 0,
            held: 0,
        }
    }

    fn draw(&mut self, of: u64) -> u64 {
        self.draws.next_u64() % of
    }

    fn any<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        texts[self.draw(texts.len() as u64) as usize]
    }

    async fn step(&mut self) {
        match self.draw(100) {
            0..30 => self.add().await,
            30..60 => self.claim().await,
            60..82 => self.end().await,
            82..92 => self.limit().await,
            _ => self.pass_time(),
        }
    }

    /// Mostly on, now and then back by so much that no other clock can be meant.
    fn pass_time(&mut self) {
        let ms = self.draw(120);
        if self.draw(12) == 0 {
            self.clock.jump_wall_ms(-61_000 - 5 * ms as i64);
        } else {
            self.clock.advance_ms(ms);
        }
    }

    async fn add(&mut self) {
        let mut tasks = Vec::new();
        for _ in 0..=self.draw(5) {
            self.tasks += 1;
            let now = self.clock.now().wall;
            tasks.push(NewTask {
                queue: name(self.any(&QUEUES)),
                kind: name(self.any(&TYPES)),
                priority: Priority(self.draw(3) as u8 * 100),
                key: (self.draw(3) > 0).then(|| name(self.any(&KEYS))),
                expires_at: (self.draw(10) == 0).then(|| now + self.draw(300)),
                ..task(&format!("task-{}", self.tasks), now)
            });
        }
        let [a, b] = [add(&self.stores[0], tasks.clone()).await, add(&self.stores[1], tasks).await];
        assert_eq!(a, b);
    }

    async fn claim(&mut self) {
        let queues = (0..=self.draw(2)).map(|_| Queue { name: name(self.any(&QUEUES)), weight: 1 }).collect();
        let types = (self.draw(3) == 0).then(|| (0..=self.draw(2)).map(|_| name(self.any(&TYPES))).collect());
        let mode = if self.draw(2) == 0 { Mode::Strict } else { Mode::Weighted };
        let max = 1 + self.draw(6) as u32;
        let claim = Claim { queues, types, mode, max, seed: self.draws.next_u64(), ..claim() };
        let a = self.stores[0].claim(claim.clone()).await.expect("claim");
        let b = self.stores[1].claim(claim.clone()).await.expect("claim");
        assert_eq!(a, b, "seed {} by {claim:?}", self.seed);
        self.claimed += a.len() as u64;
        self.held += u64::from(a.len() < max as usize);
        self.running.extend(a);
    }

    /// A running task goes on in one of the ways there are.
    async fn end(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let place = self.draw(self.running.len() as u64) as usize;
        let Task { record, body } = self.running.swap_remove(place);
        let now = self.clock.now().wall;
        let State::Running(lease) = &record.state else { panic!("{record:?}") };
        let change = match self.draw(5) {
            0 => transition::release(&record, lease.token, None, now),
            1 => transition::cancel(&record, now),
            2 => transition::lose_lease(&record, &body, "lost", now),
            _ => transition::complete(&record, lease.token, None, now),
        };
        self.commit(&record, change.expect("it is held").expect("a change")).await;
    }

    async fn commit(&self, record: &Record, change: Change) {
        let transition =
            Transition { id: record.id.clone(), seq: record.seq, revision: record.revision, change };
        let [a, b] = [&self.stores[0], &self.stores[1]];
        let a = a.commit(vec![transition.clone()]).await.expect("commit");
        let b = b.commit(vec![transition]).await.expect("commit");
        assert_eq!(a, b);
    }

    async fn limit(&mut self) {
        let (scope, name) = match self.draw(5) {
            0 | 1 => (Scope::Queue, name(self.any(&QUEUES))),
            2 => (Scope::Type, name(self.any(&TYPES))),
            _ => (Scope::Key, name(self.any(&KEYS))),
        };
        let one_in = |pair: &mut Pair, of| pair.draw(of) == 0;
        let limit = Limit {
            max_concurrency: one_in(self, 2).then(|| 1 + self.draw(4) as u32),
            rate: one_in(self, 3)
                .then(|| Rate { count: 1 + self.draw(5) as u32, per_ms: 1 + self.draw(900) }),
            weight: 1 + self.draw(4) as u32,
            max_depth: one_in(self, 8).then(|| 10 + self.draw(40)),
            paused: one_in(self, 16),
            ageing: (scope == Scope::Queue && one_in(self, 2))
                .then(|| Ageing { every_ms: 1 + self.draw(40) }),
        };
        let set = SetLimit { scope, name, limit: (self.draw(3) > 0).then_some(limit) };
        let [a, b] = [&self.stores[0], &self.stores[1]];
        let (a, b) =
            (a.set_limit(set.clone()).await.expect("set"), b.set_limit(set.clone()).await.expect("set"));
        assert_eq!(a, b, "{set:?}");
        self.compare().await;
    }

    async fn compare(&self) {
        let list = ListLimits { limit: 100, ..ListLimits::default() };
        let [a, b] = [&self.stores[0], &self.stores[1]];
        let (a, b) = (a.limits(list.clone()).await.expect("limits"), b.limits(list).await.expect("limits"));
        assert_eq!(a, b);
    }
}

#[tokio::test]
async fn scripts_choose_as_core_does() {
    for seed in crate::model::seeds(4) {
        let mut pair = Pair::new(seed).await;
        for _ in 0..700 {
            pair.step().await;
        }
        pair.compare().await;
        assert!(pair.claimed > 100 && pair.held > 20, "seed {seed}: {} and {}", pair.claimed, pair.held);
    }
}

/// Processes whose clocks differ take no more starts together than one alone: to a rate the latest clock is the time.
#[tokio::test]
async fn clocks_that_differ_do_not_widen_a_rate() {
    const PER_MS: u64 = 1000;
    let url = fresh_url();
    let clocks = [ManualClock::shared(), ManualClock::shared()];
    clocks[1].jump_wall_ms(200);
    let stores = [open(&url, clocks[0].clone()).await, open(&url, clocks[1].clone()).await];
    let rate = Some(Rate { count: 10, per_ms: PER_MS });
    let limit = Some(Limit { rate, ..Limit::default() });
    stores[0].set_limit(SetLimit { scope: Scope::Queue, name: name("q"), limit }).await.expect("set");
    let now = clocks[0].now().wall;
    add(&stores[0], (0..400).map(|i| task(&format!("task-{i}"), now)).collect()).await;
    let mut starts = Vec::new();
    for step in 0..400 {
        let claimed = stores[step % 2].claim(claim()).await.expect("claim");
        starts.extend(claimed.iter().map(|_| clocks[0].now().mono));
        clocks.iter().for_each(|clock| clock.advance_ms(10));
    }
    let busiest =
        starts.iter().map(|from| starts.iter().filter(|at| (*from..from + PER_MS).contains(at)).count());
    // A window is kept in hundredths.
    assert!(busiest.max().unwrap_or(0) <= 11, "{starts:?}");
    assert!(starts.len() >= 38, "the rate is used up: {}", starts.len());
}

/// Commands that Redis has carried out, those of scripts included.
pub(super) async fn commands(url: &str) -> u64 {
    calls_of(url, "cmdstat_").await
}

/// How often it has carried out those whose name begins so in its figures.
pub(super) async fn calls_of(url: &str, head: &str) -> u64 {
    let client = redis::Client::open(url).expect("a URL");
    let mut connection = client.get_multiplexed_async_connection().await.expect("a connection");
    let stats: String =
        redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await.expect("figures");
    let lines = stats.lines().filter(|line| line.starts_with(head));
    lines.filter_map(|line| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok()).sum()
}

/// What a claim costs is counted, not timed: it must not grow with what is blocked, nor with types and queues beside those that
/// have work.
#[tokio::test]
async fn a_claim_does_not_look_at_what_is_blocked() {
    let server = Server::start(&[]);
    let url = format!("redis+unix://{}", server.socket.display());
    let clock = ManualClock::shared();
    let store = open(&url, clock.clone()).await;
    let cap = |max| Some(Limit { max_concurrency: Some(max), ..Limit::default() });
    for (scope, text) in [(Scope::Key, "full"), (Scope::Type, "shut")] {
        store.set_limit(SetLimit { scope, name: name(text), limit: cap(1) }).await.expect("set");
    }
    let now = clock.now().wall;
    let blocked = |i: usize| match i % 2 {
        0 => NewTask { key: Some(name("full")), ..task(&format!("full-{i}"), now) },
        _ => NewTask { kind: name("shut"), priority: Priority(200), ..task(&format!("shut-{i}"), now) },
    };
    for first in (0..4000).step_by(1000) {
        add(&store, (first..first + 1000).map(blocked).collect()).await;
    }
    let other = |i: usize| NewTask { key: Some(name("other")), ..task(&format!("other-{i}"), now) };
    add(&store, (0..20).map(other).collect()).await;
    let started = store.claim(Claim { max: 2, ..claim() }).await.expect("claim");
    assert_eq!(started.len(), 2, "the blocked ones have their one place each");
    // The first claim notes what is closed; then it costs nobody a look.
    store.claim(claim()).await.expect("claim");
    let before = commands(&url).await;
    let served = store.claim(claim()).await.expect("claim");
    let spent = commands(&url).await - before;
    assert_eq!(served[0].record.key, Some(name("other")));
    assert!(spent < 80, "{spent} commands for one task");
}

/// A claim of many tasks over many types costs a few commands for each task.
#[tokio::test]
async fn a_claim_over_many_types_costs_by_task() {
    const TYPES: usize = 200;
    let server = Server::start(&[]);
    let url = format!("redis+unix://{}", server.socket.display());
    let clock = ManualClock::shared();
    let store = open(&url, clock.clone()).await;
    let now = clock.now().wall;
    let of = |i: usize| NewTask { kind: name(&format!("t{}", i % TYPES)), ..task(&format!("task-{i}"), now) };
    add(&store, (0..1000).map(of).collect()).await;
    let types = Some((0..TYPES).map(|i| name(&format!("t{i}"))).collect());
    for types in [None, types] {
        let before = commands(&url).await;
        let tasks = store.claim(Claim { max: 400, types, ..claim() }).await.expect("claim");
        let spent = commands(&url).await - before;
        let orders: Vec<u64> = tasks.iter().map(|task| task.record.order).collect();
        assert!(tasks.len() == 400 && orders.is_sorted(), "{orders:?}");
        assert!(spent < 400 * 14, "{spent} commands for 400 tasks");
    }
}
