//! The life of a claimed task inside a worker: run its handler within its limits, decide what to report.
//!
//! Many handlers end without ever waiting for anything. A task of its own for each, with its timers, would cost far more
//! than they do. So a handler of a type that was brief the last time is polled once in passing; if it ends there and then,
//! its outcome joins those of its batch. If it waits, it goes on in a task of its own as any other. A type whose
//! handlers wait, or compute for longer than [`BRIEF`], gets tasks of their own from the start, so that they run side by
//! side.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::TaskTracker;

use super::Shared;
use super::context::{Cause, Context, Job};
use super::handler::{Entry, Running};
use super::outbox;
use super::outcome::Outcome;
use super::pool::Pool;
use super::port::{Error, Word};

/// Between two progress reports of one task.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// What a handler may compute without a task of its own.
const BRIEF: Duration = Duration::from_micros(20);
/// What all handlers of a batch may compute in passing, before the rest gets tasks of their own.
const IN_PASSING: Duration = Duration::from_millis(10);

/// Starts what was claimed for the slots of `pool`.
pub(super) fn start(shared: &Arc<Shared>, pool: &Arc<Pool>, attempts: &TaskTracker, jobs: Vec<Job>) {
    let began = Instant::now();
    let mut now = began;
    let contexts: Vec<Context> = jobs.iter().map(|job| context(shared, job, now)).collect();
    shared.hand.take_up(contexts.iter());
    let (mut ended, mut done) = (Vec::with_capacity(jobs.len()), 0);
    for (job, context) in jobs.into_iter().zip(contexts) {
        let Some(entry) = shared.registry.get(&job.kind) else {
            // Only a broker that ignores the types of a claim gets here.
            ended.push((context, Outcome::Release));
            done += 1;
            continue;
        };
        let running = create(entry, &context, job);
        let running = if entry.is_brief() && now - began < IN_PASSING {
            let before = now;
            let polled = poll_once(running);
            now = Instant::now();
            entry.set_brief(matches!(polled, Polled::Ended(_)) && now - before < BRIEF);
            match polled {
                Polled::Ended(end) => {
                    let outcome = decide(shared, &context, end, now - before);
                    ended.extend(outcome.map(|outcome| (context, outcome)));
                    done += 1;
                    continue;
                }
                Polled::Waits(running) => Ok(running),
            }
        } else {
            running
        };
        attempts.spawn(go_on(shared.clone(), pool.clone(), entry.clone(), context, running));
    }
    shared.outbox.add(ended.into_iter());
    pool.give_back(done);
}

fn context(shared: &Shared, job: &Job, now: Instant) -> Context {
    let own = shared.registry.get(&job.kind).and_then(|entry| entry.options.timeout);
    let limit = own.map_or(job.timeout, |limit| limit.min(job.timeout));
    Context::new(job, &shared.options.id, now, limit)
}

enum End {
    Returned(Outcome),
    Panicked(String),
    TimedOut,
    /// It was told to stop, and did not in time.
    Dropped,
}

enum Polled {
    Ended(End),
    Waits(Running),
}

/// A handler may panic before it has a future to show.
fn create(entry: &Entry, context: &Context, job: Job) -> Result<Running, End> {
    catch_unwind(AssertUnwindSafe(|| entry.handler.run(context.clone(), job)))
        .map_err(|panic| panicked(&*panic))
}

/// Nobody is woken by this poll: a handler that waits is polled again at once by its own task.
fn poll_once(running: Result<Running, End>) -> Polled {
    let mut running = match running {
        Ok(running) => running,
        Err(end) => return Polled::Ended(end),
    };
    let mut nobody = task::Context::from_waker(task::Waker::noop());
    match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(&mut nobody))) {
        Ok(Poll::Ready(outcome)) => Polled::Ended(End::Returned(outcome)),
        Ok(Poll::Pending) => Polled::Waits(running),
        Err(panic) => Polled::Ended(panicked(&*panic)),
    }
}

async fn go_on(
    shared: Arc<Shared>,
    pool: Arc<Pool>,
    entry: Arc<Entry>,
    context: Context,
    running: Result<Running, End>,
) {
    let began = Instant::now();
    let mut waited = false;
    let end = match running {
        Ok(running) => until_end(&shared, &context, running, &mut waited).await,
        Err(end) => end,
    };
    let ran = began.elapsed();
    if !waited && ran < BRIEF {
        entry.set_brief(true);
    }
    let outcome = decide(&shared, &context, end, ran);
    shared.outbox.add(outcome.map(|outcome| (context, outcome)).into_iter());
    pool.give_back(1);
}

async fn until_end(shared: &Shared, context: &Context, mut running: Running, waited: &mut bool) -> End {
    // The first poll is the whole life of a brief handler, and spares it the timers.
    let first = std::future::poll_fn(|cx| {
        Poll::Ready(match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx))) {
            Ok(Poll::Ready(outcome)) => Some(End::Returned(outcome)),
            Ok(Poll::Pending) => None,
            Err(panic) => Some(panicked(&*panic)),
        })
    });
    if let Some(end) = first.await {
        return end;
    }
    *waited = true;
    let stopped = async {
        context.cancelled().await;
        // sleep: what a handler gets to stop by itself; its end cuts it short.
        sleep(shared.options.stop_for).await;
    };
    tokio::select! {
        biased;
        returned = AssertUnwindSafe(running).catch_unwind() => match returned {
            Ok(outcome) => End::Returned(outcome),
            Err(panic) => panicked(&*panic),
        },
        () = stopped => End::Dropped,
        () = sleep_until(context.deadline()) => End::TimedOut,
        () = send_progress(shared, context) => End::Dropped,
        () = save_checkpoints(shared, context) => End::Dropped,
        () = answer_questions(shared, context) => End::Dropped,
    }
}

/// `None` if there is nobody to report to: the lease is lost or the task was cancelled.
fn decide(shared: &Shared, context: &Context, end: End, ran: Duration) -> Option<Outcome> {
    let outcome = match (end, context.cause()) {
        (_, Some(Cause::Cancelled | Cause::LeaseLost)) => None,
        (End::TimedOut, _) => {
            let limit = context.limit().as_secs_f64();
            Some(Outcome::Retry { error: format!("timed out after {limit} s") })
        }
        (End::Dropped, _) => Some(Outcome::Release),
        (End::Panicked(error), _) => Some(Outcome::Retry { error }),
        (End::Returned(Outcome::Retry { .. } | Outcome::RetryIn { .. }), Some(Cause::ShuttingDown)) => {
            Some(Outcome::Release)
        }
        (End::Returned(outcome), _) => Some(outcome),
    };
    let (task_id, kind, worker_id, ran_ms) =
        (context.task_id(), context.kind(), &shared.options.id, ran.as_millis() as u64);
    match &outcome {
        None => {
            shared.hand.let_go([context.lease_token()].into_iter());
            tracing::info!(%task_id, %worker_id, %kind, ran_ms, cause = ?context.cause(), "stopped");
        }
        Some(Outcome::Done(_)) => tracing::debug!(%task_id, %worker_id, %kind, ran_ms, "done"),
        Some(Outcome::Release) => tracing::info!(%task_id, %worker_id, %kind, ran_ms, "released"),
        Some(Outcome::Snooze { delay }) => {
            tracing::info!(%task_id, %worker_id, %kind, ran_ms, ?delay, "snoozed");
        }
        Some(Outcome::Retry { error } | Outcome::RetryIn { error, .. }) => {
            tracing::info!(%task_id, %worker_id, %kind, ran_ms, error, "failed");
        }
        Some(Outcome::Fatal { error }) => {
            tracing::info!(%task_id, %worker_id, %kind, ran_ms, error, "failed for good");
        }
    }
    outcome
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
        // sleep: the pace of progress reports.
        sleep(PROGRESS_EVERY).await;
    }
}

/// Never ends by itself; a question that gets no answer is asked again, since the handler waits for it.
async fn answer_questions(shared: &Shared, context: &Context) {
    loop {
        let questions = context.next_questions().await;
        let mut failures = 0;
        let answer = loop {
            match shared.port.dependencies(context.task_id()).await {
                Err(error @ Error::Unavailable { .. }) => {
                    failures += 1;
                    // sleep: the backoff after an unanswered call.
                    sleep(outbox::pause(failures, &error)).await;
                }
                answer => break answer,
            }
        };
        for question in questions {
            // A handler that stopped waiting needs no answer.
            let _ = question.send(answer.clone());
        }
    }
}

/// Never ends by itself; a checkpoint that gets no answer is sent again, since the handler waits for it.
async fn save_checkpoints(shared: &Shared, context: &Context) {
    let held = context.held();
    loop {
        let saves = context.next_saves().await;
        let Some(newest) = saves.last().map(|save| save.bytes.clone()) else { continue };
        let mut failures = 0;
        let answer = loop {
            match shared.port.save(&held, newest.clone()).await {
                Ok(Word::Continue) => break Ok(()),
                Ok(Word::Cancel) => {
                    context.stop(Cause::Cancelled);
                    break Err(Error::LeaseLost);
                }
                Err(Error::LeaseLost) => {
                    context.stop(Cause::LeaseLost);
                    break Err(Error::LeaseLost);
                }
                Err(error @ Error::Refused { .. }) => break Err(error),
                Err(error @ Error::Unavailable { .. }) => {
                    failures += 1;
                    // sleep: the backoff after an unanswered call.
                    sleep(outbox::pause(failures, &error)).await;
                }
            }
        };
        // Whoever does not wait any longer needs no answer.
        saves.into_iter().for_each(|save| drop(save.saved.send(answer.clone())));
    }
}

fn panicked(panic: &(dyn Any + Send)) -> End {
    let message = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text.as_str(),
        _ => "no message",
    };
    End::Panicked(format!("panicked: {message}"))
}
