//! Test mode: a broker in the same process, on a store in memory, whose clock stands still until it is told to move.
//!
//! Handlers, retries, delays and dead letters are the real ones. What takes an hour by the clock takes none here:
//! [`Testing::drain`] runs everything that can run, moves the clock to whatever is due next, and so on until nothing is
//! left to do. Only a handler's own sleeping and its time limit pass in real time.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_broker::{Broker, Listener, Settings};
use windlass_core::limits::{HORIZON_MS, PAGE_ROWS_MAX};
use windlass_core::{Name, StateName};
use windlass_store::List;
use windlass_store::clock::{Clock, ManualClock};
use windlass_store::memory::MemoryStore;

use crate::client::{Client, Task, moment_ms};
use crate::worker::embedded::BrokerPort;
use crate::worker::{Builder, InvalidWorker, Worker};

/// Rounds of a drain before it is clear that it will not end: a task that submits itself again, for one.
const ROUNDS_MAX: usize = 100_000;
/// How long a drain waits for a sign before it looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub struct Testing {
    broker: Broker,
    clock: Arc<ManualClock>,
    served: Served,
    stop: CancellationToken,
    worker: JoinHandle<()>,
}

/// What the worker takes.
#[derive(Debug)]
struct Served {
    queues: Vec<Name>,
    types: Vec<Name>,
}

impl Testing {
    /// Starts a broker and a worker with the handlers that `with` adds. Must be called inside a tokio runtime.
    pub fn start(with: impl FnOnce(Builder) -> Builder) -> Result<Self, InvalidWorker> {
        let clock = ManualClock::shared();
        // The clock begins at the real time, so that moments which the tested code computes mean what they say.
        let behind = moment_ms(SystemTime::now()) as i64 - clock.now().wall as i64;
        clock.jump_wall_ms(behind);
        clock.resume(clock.now().wall);
        // The worker beats in real time: by the clock of the test it would be silent for hours.
        let settings = Settings { worker_dead_after_ms: HORIZON_MS, ..Settings::default() };
        let broker = Broker::start(MemoryStore::new(clock.clone()), clock.clone(), settings);
        let worker = with(Worker::builder(BrokerPort::new(broker.clone()))).build()?;
        let served = Served { queues: worker.queues(), types: worker.types() };
        let stop = CancellationToken::new();
        let worker = tokio::spawn(worker.run(stop.clone()));
        Ok(Self { broker, clock, served, stop, worker })
    }

    /// The producer to hand to the tested code.
    pub fn client(&self) -> Client {
        Client::embedded(self.broker.clone())
    }

    /// Moves the clock. What becomes due runs at the next [`Testing::drain`] or by itself.
    pub fn advance(&self, by: Duration) {
        self.clock.advance_ms(by.as_millis() as u64);
        self.broker.store().signals().due.notify_one();
    }

    /// Runs until nothing is left that could run, moving the clock over delays and retries. Tasks whose type nobody
    /// handles stay where they are.
    ///
    /// # Panics
    /// If there is no end to it.
    pub async fn drain(&self) {
        let mut events = self.broker.subscribe();
        for _ in 0..ROUNDS_MAX {
            // In this order: what is due now may start between any two looks, and the clock must not move over it. When
            // nothing is due and nothing runs, only the clock can change that.
            if self.next_due().await.is_none() || self.is_busy().await {
                heard(&mut events).await;
                continue;
            }
            match self.next_due().await {
                None => {}
                Some(None) => return,
                Some(Some(at)) => {
                    let ahead = at.saturating_sub(self.clock.now().wall).max(1);
                    self.advance(Duration::from_millis(ahead));
                }
            }
        }
        panic!("tasks keep coming: not drained after {ROUNDS_MAX} rounds");
    }

    /// `None` if something is due now; else when something will be, if ever.
    async fn next_due(&self) -> Option<Option<u64>> {
        let due = self.broker.store().due(1).await.expect("memory does not fail");
        if due.tasks.is_empty() {
            return Some(due.next);
        }
        self.advance(Duration::ZERO);
        None
    }

    /// Whether something runs, or waits and could.
    async fn is_busy(&self) -> bool {
        let live = List { states: vec![StateName::Running, StateName::Pending], ..List::default() };
        let tasks = self.list(live).await;
        tasks.iter().any(|task| {
            task.state == StateName::Running
                || (self.served.types.contains(&task.kind) && self.served.queues.contains(&task.queue))
        })
    }

    /// All tasks of a type, newest first.
    pub async fn submitted(&self, kind: &str) -> Vec<Task> {
        match Name::new(kind) {
            Ok(kind) => self.list(List { kind: Some(kind), ..List::default() }).await,
            Err(_) => Vec::new(),
        }
    }

    async fn list(&self, mut list: List) -> Vec<Task> {
        let mut tasks = Vec::new();
        list.limit = PAGE_ROWS_MAX;
        loop {
            let page = self.broker.list(list.clone()).await.expect("memory does not fail");
            tasks.extend(page.tasks.into_iter().map(Task::from));
            match page.next {
                Some(before) => list.before = Some(before),
                None => return tasks,
            }
        }
    }

    /// The newest task of this type whose payload is as `matches` says.
    ///
    /// # Panics
    /// If there is none; the message shows those that there are.
    #[track_caller]
    pub fn assert_submitted<T: DeserializeOwned + Debug>(
        &self,
        kind: &str,
        matches: impl Fn(&T) -> bool,
    ) -> impl Future<Output = Task> {
        let caller = std::panic::Location::caller();
        async move {
            let tasks = self.submitted(kind).await;
            let read = |task: &Task| serde_json::from_slice::<T>(task.payload().bytes());
            match tasks.iter().find(|task| read(task).is_ok_and(|payload| matches(&payload))) {
                Some(task) => task.clone(),
                None => {
                    let seen: Vec<_> = tasks.iter().map(read).collect();
                    panic!(
                        "{caller}: no such task of type {kind} was submitted, but {}: {seen:#?}",
                        seen.len()
                    );
                }
            }
        }
    }

    /// Ends the worker and the broker.
    pub async fn stop(self) {
        self.stop.cancel();
        let _ = self.worker.await;
        self.broker.stop().await;
    }
}

/// Waits until something happened.
async fn heard(events: &mut Listener) {
    // sleep: a checkpoint has no event, so a sign that does not come must not hold up the drain.
    let _ = tokio::time::timeout(LOOK_AGAIN, events.recv()).await;
}

#[cfg(test)]
mod tests;
