//! The life of one claimed task inside a worker: run its handler within its limits, decide what to report, report it.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::TaskTracker;

use super::handler::Entry;
use super::job::{Cause, Context, Job};
use super::outcome::Outcome;
use super::port::{Error, Word};
use super::{Shared, report};

/// Between two progress reports of one task.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// `slot` is missing only if a broker gives out more than it was asked for; its task runs all the same.
pub(super) fn start(
    shared: &Arc<Shared>,
    attempts: &TaskTracker,
    job: Job,
    slot: Option<OwnedSemaphorePermit>,
) {
    let entry = shared.registry.get(&job.kind).cloned();
    let own_slot = entry.as_ref().and_then(|entry| entry.slots.clone()?.try_acquire_owned().ok());
    let limit = entry.as_ref().and_then(|entry| entry.timeout).unwrap_or(job.timeout);
    let timeout = limit.min(job.timeout);
    let context = Context::new(&job, timeout);
    shared.held.lock().insert(job.token, context.clone());
    let shared = shared.clone();
    attempts.spawn(async move {
        let token = job.token;
        let held = job.held();
        let outcome = match entry {
            Some(entry) => run(&shared, entry, &context, job, timeout).await,
            // Only a broker that ignores the types of a claim gets here.
            None => Some(Outcome::Release),
        };
        if let Some(outcome) = outcome {
            report::report(&shared, &held, outcome).await;
        }
        shared.held.lock().remove(&token);
        drop((slot, own_slot));
        shared.freed.notify_one();
    });
}

/// `None` if there is nobody to report to: the lease is lost or the task was cancelled.
async fn run(
    shared: &Shared,
    entry: Entry,
    context: &Context,
    job: Job,
    timeout: Duration,
) -> Option<Outcome> {
    let began = Instant::now();
    let (task_id, kind, worker_id) = (job.id.clone(), job.kind.clone(), &shared.options.id);
    tracing::debug!(%task_id, %worker_id, %kind, attempt = job.attempt, "started");
    let end = until_end(shared, entry, context, job).await;
    let outcome = match (end, context.cause()) {
        (_, Some(Cause::Cancelled | Cause::LeaseLost)) => None,
        (End::TimedOut, _) => Some(Outcome::Retry { error: format!("timed out after {}", seconds(timeout)) }),
        (End::Dropped, _) => Some(Outcome::Release),
        (End::Panicked(error), _) => Some(Outcome::Retry { error }),
        (End::Returned(Outcome::Retry { .. } | Outcome::RetryIn { .. }), Some(Cause::ShuttingDown)) => {
            Some(Outcome::Release)
        }
        (End::Returned(outcome), _) => Some(outcome),
    };
    let ran_ms = began.elapsed().as_millis() as u64;
    match &outcome {
        None => tracing::info!(%task_id, %worker_id, %kind, ran_ms, cause = ?context.cause(), "stopped"),
        Some(Outcome::Done(_)) => tracing::debug!(%task_id, %worker_id, %kind, ran_ms, "done"),
        Some(Outcome::Release) => tracing::info!(%task_id, %worker_id, %kind, ran_ms, "released"),
        Some(Outcome::Retry { error } | Outcome::RetryIn { error, .. }) => {
            tracing::info!(%task_id, %worker_id, %kind, ran_ms, error, "failed");
        }
        Some(Outcome::Fatal { error }) => {
            tracing::info!(%task_id, %worker_id, %kind, ran_ms, error, "failed for good")
        }
    }
    outcome
}

enum End {
    Returned(Outcome),
    Panicked(String),
    TimedOut,
    /// It was told to stop, and did not in time.
    Dropped,
}

async fn until_end(shared: &Shared, entry: Entry, context: &Context, job: Job) -> End {
    let running = {
        let context = context.clone();
        AssertUnwindSafe(async move { entry.handler.run(context, job).await }).catch_unwind()
    };
    let stopped = async {
        context.cancelled().await;
        sleep(shared.options.stop_for).await;
    };
    tokio::select! {
        biased;
        returned = running => match returned {
            Ok(outcome) => End::Returned(outcome),
            Err(panic) => End::Panicked(format!("panicked: {}", message(&*panic))),
        },
        () = stopped => End::Dropped,
        () = sleep_until(context.deadline()) => End::TimedOut,
        () = send_progress(shared, context) => End::Dropped,
    }
}

/// Never ends by itself; a report that fails is dropped, since a newer one follows or the attempt ends.
async fn send_progress(shared: &Shared, context: &Context) {
    let held = context.held();
    loop {
        let progress = context.next_progress().await;
        match shared.port.progress(&held, progress).await {
            Ok(Word::Continue) | Err(Error::Unavailable { .. } | Error::Refused { .. }) => {}
            Ok(Word::Cancel) => context.stop(Cause::Cancelled),
            Err(Error::LeaseLost) => context.stop(Cause::LeaseLost),
        }
        sleep(PROGRESS_EVERY).await;
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "no message",
    }
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}
