//! The worker runtime: claims tasks through a [`Port`], runs a handler for each and reports how it ended.
//!
//! Four kinds of activity share one `Shared`: every pool of slots (`pool`) asks for as many tasks as it has free slots and
//! never more; every claimed task runs its handler (`attempt`); the outbox (`outbox`) reports outcomes in batches; and
//! the heartbeat (`beat`) extends every lease in hand and brings back which are lost or cancelled. `run` waits for the
//! shutdown and drains.
//!
//! What holds whatever the handlers do and whatever becomes of the connection:
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
mod builder;
pub mod context;
#[cfg(any(test, feature = "embedded"))]
pub mod embedded;
pub mod grpc;
pub mod hand;
pub mod handler;
pub mod layer;
mod outbox;
pub mod outcome;
mod pool;
pub mod port;
pub mod rest;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_core::choice::{Mode, Queue};
use windlass_core::{Name, limits};

pub use builder::{Builder, InvalidWorker};
pub use context::{Cause, Context, Job};
pub use handler::{Handler, typed};
pub use layer::{Layer, Next, around};
pub use outcome::{Failure, IntoOutcome, Outcome};
pub use port::{Dependency, Port};

use hand::Hand;
use handler::Registry;
use outbox::Outbox;
use pool::Pool;

/// Handlers running at once in one worker, all its slots together: with the outcomes that it may keep it must be able to
/// name them all in one message. A process that needs more starts more workers.
pub const CONCURRENCY_MAX: u32 = (limits::LEASES_NAMED_MAX - limits::OUTCOMES_KEPT_MAX) as u32 - 1000;

#[derive(Debug, Clone)]
pub struct Options {
    pub id: Name,
    pub queues: Vec<Queue>,
    pub mode: Mode,
    /// Handlers that run at once; types with a number of their own come on top.
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
    port: Box<dyn Port>,
    options: Options,
    registry: Registry,
    pools: Vec<Arc<Pool>>,
    /// Of all pools together.
    slots: usize,
    hand: Hand,
    outbox: Outbox,
    /// The drain is over and reports must come to an end.
    hurry: CancellationToken,
}

impl Worker {
    /// `port` is the way to the broker, as [`rest::RestPort`].
    pub fn builder(port: impl Port) -> Builder {
        Builder::new(Box::new(port))
    }

    pub fn id(&self) -> &Name {
        &self.shared.options.id
    }

    /// The queues it serves.
    pub fn queues(&self) -> Vec<Name> {
        self.shared.options.queues.iter().map(|queue| queue.name.clone()).collect()
    }

    /// The types it has handlers for.
    pub fn types(&self) -> Vec<Name> {
        self.shared.registry.types()
    }

    /// Works until `shutdown`, then drains.
    pub async fn run(self, shutdown: CancellationToken) {
        self.run_until(shutdown.cancelled_owned()).await;
    }

    /// Works until `shutdown` resolves, then drains.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) {
        let shared = self.shared;
        let attempts = TaskTracker::new();
        let stop_beating = CancellationToken::new();
        beat::once(&shared, false).await;
        let heart = tokio::spawn({
            let (shared, stop) = (shared.clone(), stop_beating.clone());
            async move { stop.run_until_cancelled(beat::keep(&shared)).await }
        });
        let reporter = tokio::spawn({
            let shared = shared.clone();
            async move { outbox::keep(&shared).await }
        });
        tokio::select! {
            biased;
            () = shutdown => {}
            _ = join_all(shared.pools.iter().map(|pool| pool::keep(&shared, pool, &attempts))) => {}
        }
        shared.port.no_more().await;
        shared.drain(&attempts).await;
        shared.outbox.close();
        let _ = reporter.await;
        stop_beating.cancel();
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
        let in_time = tokio::time::timeout(self.options.drain_for, attempts.wait()).await.is_ok();
        self.hurry.cancel();
        if !in_time {
            self.hand.stop_all(Cause::ShuttingDown);
            attempts.wait().await;
        }
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
