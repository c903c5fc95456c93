//! The broker on the memory store, in simulated time: the clock of the broker is the clock of the (paused) runtime, so
//! whoever sleeps or waits moves the time on when nobody else has anything to do.

mod admin;
mod clock;
mod dead_groups;
mod dependents;
mod events;
mod explain;
mod faults;
mod figures;
mod gather;
mod leases;
mod life;
mod metrics;
mod operations;
mod pauses;
mod schedules;
mod sessions;
mod traces;
mod unique;
mod waiting;
mod workers;
mod workflows;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use windlass_core::choice::{Mode, Queue};
use windlass_core::{Name, Now, Payload, Priority, Record, State, Task, TaskId, Token, limits, retry};
use windlass_store::memory::MemoryStore;
use windlass_store::{Clock, Store};

use crate::{Beat, Broker, ClaimRequest, Error, EventKind, Heard, Listener, Settings, Start, Submit};

const YEAR_2026: u64 = 1_790_000_000_000;

#[derive(Debug)]
struct SimulatedClock {
    start: Instant,
    resumed: AtomicU64,
    /// How far the wall clock was moved.
    set_ms: AtomicI64,
}

impl SimulatedClock {
    fn shared() -> Arc<SimulatedClock> {
        let (start, resumed, set_ms) = (Instant::now(), AtomicU64::new(0), AtomicI64::new(0));
        Arc::new(SimulatedClock { start, resumed, set_ms })
    }

    fn set(&self, by_ms: i64) {
        self.set_ms.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Now {
        let passed = self.start.elapsed().as_millis() as u64;
        let set = self.set_ms.load(Ordering::SeqCst);
        Now { wall: (YEAR_2026 + passed).saturating_add_signed(set), mono: passed, ahead: -set }
    }

    fn resume(&self, _elapsed: u64) {}

    fn resumed_at(&self, _now: Now) -> u64 {
        self.resumed.load(Ordering::SeqCst)
    }
}

pub(crate) fn start() -> Broker {
    start_with(Settings::default())
}

fn start_with(settings: Settings) -> Broker {
    start_on(SimulatedClock::shared(), settings)
}

fn start_on(clock: Arc<SimulatedClock>, settings: Settings) -> Broker {
    let store: Arc<dyn Store> = MemoryStore::new(clock.clone());
    Broker::start(store, clock, settings)
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn id(text: &str) -> TaskId {
    TaskId::new(text).unwrap()
}

fn json(text: &str) -> Payload {
    Payload::Json(Bytes::copy_from_slice(text.as_bytes()))
}

/// A task of type `echo` in the queue `default`.
fn echo() -> Submit {
    Submit {
        id: None,
        queue: name("default"),
        kind: name("echo"),
        key: None,
        payload: json("{}"),
        priority: Priority::default(),
        start: Start::Now,
        expires_at: None,
        retry: retry::Policy { jitter: 0.0, ..retry::Policy::default() },
        max_retries: 1,
        max_crashes: 2,
        timeout_ms: limits::TIMEOUT_MS_DEFAULT,
        retention_ms: 60_000,
        metadata: Vec::new(),
        unique: None,
        fingerprint: None,
        links: None,
    }
}

fn named(text: &str) -> Submit {
    Submit { id: Some(id(text)), ..echo() }
}

/// One task of any type from `default`, if there is one.
fn one(worker: &str) -> ClaimRequest {
    ClaimRequest {
        worker: name(worker),
        queues: vec![Queue { name: name("default"), weight: 1 }],
        mode: Mode::Weighted,
        types: None,
        max: 1,
        wait_ms: 0,
        lease_ms: None,
    }
}

fn beat(worker: &str, incarnation: u64, leases: &[&Task]) -> Beat {
    Beat {
        worker: name(worker),
        incarnation,
        host: Some("laptop".to_owned()),
        pid: Some(7),
        version: None,
        queues: vec![name("default")],
        types: None,
        slots: Some(4),
        cpu: None,
        memory_bytes: None,
        leases: leases.iter().map(|task| (task.record.id.clone(), token(task))).collect(),
        leaving: false,
    }
}

fn token(task: &Task) -> Token {
    match &task.record.state {
        State::Running(lease) => lease.token,
        other => panic!("not running but {other:?}"),
    }
}

/// Submits a task and has a worker claim it.
async fn running(broker: &Broker, submit: Submit, claim: ClaimRequest) -> Task {
    let id = broker.submit(submit).await.unwrap().task.record.id;
    let task = broker.claim(claim).await.unwrap().pop().unwrap();
    assert_eq!(task.record.id, id);
    task
}

/// Lets time pass until the record is as wanted; answers how long it took.
async fn until(broker: &Broker, id: &TaskId, wanted: impl Fn(&Record) -> bool) -> Duration {
    let began = Instant::now();
    for _ in 0..200_000 {
        if broker.get(id).await.is_ok_and(|task| wanted(&task.record)) {
            return began.elapsed();
        }
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    panic!("it never came to this: {:?}", broker.get(id).await.map(|task| task.record));
}

/// Lets time pass for everybody, in steps small enough for the loops to take their turns.
async fn pass(ms: u64) {
    let step = Duration::from_millis((ms / 500).max(1));
    let end = Instant::now() + Duration::from_millis(ms);
    while Instant::now() < end {
        tokio::time::advance(step.min(end - Instant::now())).await;
    }
}

/// The events that were sent so far.
fn heard(events: &mut Listener) -> Vec<EventKind> {
    let kinds = std::iter::from_fn(|| events.try_recv()).map(|heard| match heard {
        Heard::Event(event) => event.kind,
        Heard::Gap(gap) => panic!("nothing should be missing: {gap:?}"),
    });
    kinds.collect()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<T, Error>, code: &str) {
    assert_eq!(outcome.expect_err("it should be refused").code(), code);
}
