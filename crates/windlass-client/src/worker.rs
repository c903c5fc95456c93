//! The worker runtime: claims tasks through a [`Port`], runs a handler for each and reports how it ended.
//!
//! Four kinds of activity share one `Shared`: the claim loop (`claim`) asks for as many tasks as there are free slots and
//! never more; every claimed task has a task of its own (`attempt`) that holds its slot until its outcome is reported;
//! the heartbeat (`beat`) extends every lease in hand and brings back which are lost or cancelled; and `run` waits for
//! the shutdown and drains.
//!
//! What holds whatever the handlers do:
//! - A lease in hand is extended until its outcome was answered, so a slow report cannot cost the lease.
//! - A handler that panics, overstays or ignores a cancel costs its attempt, not the worker.
//! - An outcome is repeated until the broker answers or [`Options::report_for`] is over. Outcomes are accepted once per
//!   lease, so repeating is safe. After that the lease runs out and the task is delivered again.
//! - A failure that the worker's own shutdown caused is a release: it uses no attempt.
//!
//! Draining: no more claims; running handlers get [`Options::drain_for`] to end; then they are told to stop, have
//! [`Options::stop_for`] for that, and what is still not done is released. The last heartbeat says that the worker
//! leaves, and the broker takes back whatever a cut connection may have left behind.

mod attempt;
mod beat;
mod claim;
#[cfg(any(test, feature = "embedded"))]
pub mod embedded;
pub mod handler;
pub mod job;
pub mod outcome;
pub mod port;
mod report;
pub mod rest;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_core::choice::{Mode, Queue};
use windlass_core::{Name, Token, limits};

pub use handler::Handler;
pub use job::{Cause, Context, Job};
pub use outcome::{Failure, IntoOutcome, Outcome};
pub use port::Port;

use handler::Registry;

/// Handlers running at once in one worker. A process that needs more starts more workers.
pub const CONCURRENCY_MAX: u32 = limits::CLAIM_TASKS_MAX;

#[derive(Debug, Clone)]
pub struct Options {
    pub id: Name,
    pub queues: Vec<Queue>,
    pub mode: Mode,
    pub concurrency: u32,
    pub lease: Duration,
    /// How long one claim waits for work.
    pub poll: Duration,
    /// The longest time between heartbeats; they come faster when leases are short.
    pub heartbeat: Duration,
    /// How long an outcome is repeated while the broker cannot be reached.
    pub report_for: Duration,
    pub drain_for: Duration,
    /// Between telling a handler to stop and dropping it.
    pub stop_for: Duration,
}

impl Default for Options {
    fn default() -> Self {
        let default = Name::new("default").expect("the name of the default queue is valid");
        Self {
            id: fresh_id(),
            queues: vec![Queue { name: default, weight: 1 }],
            mode: Mode::Weighted,
            concurrency: 10,
            lease: Duration::from_millis(limits::LEASE_MS_DEFAULT),
            poll: Duration::from_secs(20),
            heartbeat: Duration::from_secs(5),
            report_for: Duration::from_secs(600),
            drain_for: Duration::from_secs(25),
            stop_for: Duration::from_secs(2),
        }
    }
}

/// A worker that is ready to run.
#[derive(Debug)]
pub struct Worker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    port: Arc<dyn Port>,
    options: Options,
    registry: Registry,
    incarnation: u64,
    slots: Arc<Semaphore>,
    /// Told whenever a slot becomes free.
    freed: Notify,
    /// What is in hand, until its outcome was answered. By token: a task may come again while its old handler ends.
    held: Mutex<HashMap<Token, Context>>,
    /// The drain is over and reports must come to an end.
    hurry: CancellationToken,
}

#[derive(Debug)]
pub struct Builder {
    port: Arc<dyn Port>,
    options: Options,
    registry: Registry,
}

impl Worker {
    pub fn builder(port: Arc<dyn Port>) -> Builder {
        Builder { port, options: Options::default(), registry: Registry::default() }
    }

    pub fn id(&self) -> &Name {
        &self.shared.options.id
    }

    /// Works until `shutdown`, then drains.
    pub async fn run(self, shutdown: CancellationToken) {
        let shared = self.shared;
        let attempts = TaskTracker::new();
        let beats = CancellationToken::new();
        beat::once(&shared, false).await;
        let heart = tokio::spawn(beat::keep(shared.clone(), beats.clone()));
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = claim::keep(&shared, &attempts) => {}
        }
        shared.drain(&attempts).await;
        beats.cancel();
        // A heartbeat in flight would contradict the farewell if it arrived later.
        let _ = heart.await;
        beat::once(&shared, true).await;
        tracing::debug!(worker_id = %shared.options.id, "worker left");
    }
}

impl Shared {
    async fn drain(&self, attempts: &TaskTracker) {
        attempts.close();
        let running = attempts.len();
        if running > 0 {
            tracing::info!(worker_id = %self.options.id, running, "waiting for running tasks");
        }
        if tokio::time::timeout(self.options.drain_for, attempts.wait()).await.is_ok() {
            return;
        }
        self.hurry.cancel();
        for context in self.held.lock().values() {
            context.stop(Cause::ShuttingDown);
        }
        attempts.wait().await;
    }
}

impl Builder {
    pub fn id(mut self, id: Name) -> Self {
        self.options.id = id;
        self
    }

    pub fn queues(mut self, queues: Vec<Queue>) -> Self {
        self.options.queues = queues;
        self
    }

    pub fn concurrency(mut self, n: u32) -> Self {
        self.options.concurrency = n;
        self
    }

    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    pub fn drain_for(mut self, grace: Duration) -> Self {
        self.options.drain_for = grace;
        self
    }

    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    pub fn handler(self, kind: Name, handler: impl Handler) -> Self {
        self.handler_with(kind, handler::Options::default(), handler)
    }

    pub fn handler_with(mut self, kind: Name, options: handler::Options, handler: impl Handler) -> Self {
        self.registry.add(kind, Arc::new(handler), options);
        self
    }

    pub fn build(mut self) -> Worker {
        let options = &mut self.options;
        options.concurrency = options.concurrency.clamp(1, CONCURRENCY_MAX);
        let (shortest, longest) = (limits::LEASE_MS_MIN, limits::LEASE_MS_MAX);
        options.lease = options.lease.clamp(Duration::from_millis(shortest), Duration::from_millis(longest));
        let shared = Shared {
            slots: Arc::new(Semaphore::new(options.concurrency as usize)),
            port: self.port,
            options: self.options,
            registry: self.registry,
            incarnation: rand::random(),
            freed: Notify::new(),
            held: Mutex::default(),
            hurry: CancellationToken::new(),
        };
        Worker { shared: Arc::new(shared) }
    }
}

/// `host-pid-random`: readable, and new at every start.
fn fresh_id() -> Name {
    let host: String = host()
        .unwrap_or_else(|| "worker".into())
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
        .take(64)
        .collect();
    let text = format!("{host}-{}-{:04x}", std::process::id(), rand::random::<u16>());
    Name::new(&text).expect("made of allowed characters and short")
}

fn host() -> Option<String> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    (!name.is_empty()).then_some(name)
}
