//! Outcomes on their way to the broker.
//!
//! What a handler did is not lost by a broken connection: its outcome stays here until the broker has answered, and
//! everything that waits goes up in one batch. A few batches are under way at once, so that the broker never waits for
//! the worker; while they are, the next one grows. Outcomes are accepted once per lease, so repeating one is safe.
//!
//! An outcome is given up when [`super::Options::report_for`] is over, or when the worker must leave: then its lease runs
//! out and the task is delivered again.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use rand::Rng;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use windlass_core::limits::{self, BATCH_TASKS_MAX};

use super::Shared;
use super::context::{Context, cut};
use super::outcome::Outcome;
use super::port::{self, Error, Report, Verdict};

const PAUSE_MS_FIRST: u64 = 100;
const PAUSE_MS_MAX: u64 = 5000;
/// When the worker is about to leave, a broker that does not answer cannot hold it for longer.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Batches that wait for their answer at once: one on the wire, one at the disk, one on its way back, and one to spare.
const UNDER_WAY_MAX: usize = 4;
/// A batch ends early when its results have this many bytes.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Kept>,
    /// Of everything that has no answer yet, on its way or not.
    bytes: usize,
    closed: bool,
}

#[derive(Debug)]
struct Kept {
    report: Report,
    since: Instant,
}

/// Reports, and since when each is there.
type Batch = (Vec<Report>, Vec<Instant>);

impl Outbox {
    pub(super) fn add(&self, ended: impl Iterator<Item = (Context, Outcome)>) {
        let since = Instant::now();
        let mut state = self.state.lock();
        let before = state.waiting.len();
        for (context, outcome) in ended {
            let report = Report { held: context.held(), verdict: verdict(outcome) };
            state.bytes += bytes(&report);
            state.waiting.push_back(Kept { report, since });
        }
        if state.waiting.len() > before {
            self.arrived.notify_one();
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// Nothing more will come: the reporter ends when all is answered.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.arrived.notify_one();
    }

    fn is_over(&self) -> bool {
        let state = self.state.lock();
        state.closed && state.waiting.is_empty()
    }

    /// The next batch, oldest first.
    fn take(&self) -> Option<Batch> {
        let mut state = self.state.lock();
        let (mut count, mut size) = (0, 0);
        for kept in state.waiting.iter().take(BATCH_TASKS_MAX) {
            size += bytes(&kept.report);
            if count > 0 && size > BATCH_BYTES_MAX {
                break;
            }
            count += 1;
        }
        (count > 0).then(|| state.waiting.drain(..count).map(|kept| (kept.report, kept.since)).unzip())
    }

    /// Keeps what has no answer, before all that came later, and forgets `settled` bytes.
    fn put_back(&self, again: Vec<Kept>, settled: usize) {
        let mut state = self.state.lock();
        state.bytes = state.bytes.saturating_sub(settled);
        for kept in again.into_iter().rev() {
            state.waiting.push_front(kept);
        }
    }
}

/// Reports until the outbox is closed and empty, or the worker cannot wait any longer.
pub(super) async fn keep(shared: &Shared) {
    let mut under_way = FuturesUnordered::new();
    let (mut failures, mut not_before) = (0, None);
    let mut patience = pin!(async {
        shared.hurry.cancelled().await;
        // sleep: how long the last reports may take.
        sleep(LAST_WORDS).await;
    });
    loop {
        while not_before.is_none() && under_way.len() < UNDER_WAY_MAX {
            let Some(batch) = shared.outbox.take() else { break };
            under_way.push(send(shared, batch));
        }
        if under_way.is_empty() && shared.outbox.is_over() {
            return;
        }
        tokio::select! {
            Some(unanswered) = under_way.next() => match unanswered {
                None => failures = 0,
                Some(error) => {
                    // Batches that broke together count as one failure.
                    if not_before.is_none() {
                        failures += 1;
                        not_before = Some(Instant::now() + pause(failures, &error));
                    }
                }
            },
            () = shared.outbox.arrived.notified(), if not_before.is_none() && under_way.len() < UNDER_WAY_MAX => {}
            // sleep: the backoff after a batch without an answer.
            () = sleep_until(not_before.unwrap_or_else(Instant::now)), if not_before.is_some() => not_before = None,
            () = &mut patience => {
                let left = shared.hand.len();
                tracing::error!(worker_id = %shared.options.id, left, "outcomes could not be reported; their leases will run out");
                return;
            }
        }
    }
}

/// Sends one batch and settles what was answered; gives back why something was not.
async fn send(shared: &Shared, (reports, since): Batch) -> Option<Error> {
    let answers = shared.port.report(&reports).await;
    let mut unanswered = None;
    let (mut again, mut tokens, mut settled) = (Vec::new(), Vec::with_capacity(reports.len()), 0);
    for ((report, since), answer) in reports.into_iter().zip(since).zip(answers) {
        let kept = Kept { report, since };
        let held = &kept.report.held;
        let (task_id, worker_id) = (&held.id, &shared.options.id);
        match answer {
            Err(error @ Error::Unavailable { .. }) if kept.since.elapsed() < shared.options.report_for => {
                unanswered = Some(error);
                again.push(kept);
                continue;
            }
            Err(Error::Refused { code, detail }) if matches!(kept.report.verdict, Verdict::Completed(_)) => {
                settled += bytes(&kept.report);
                again.push(refused_result(kept, &code, &detail));
                continue;
            }
            Ok(()) => {}
            Err(Error::LeaseLost) => {
                tracing::warn!(%task_id, %worker_id, "the lease was lost; another attempt decides the outcome");
            }
            Err(error) => {
                tracing::error!(%task_id, %worker_id, %error, "the outcome could not be reported; the lease will run out");
            }
        }
        tokens.push(held.token);
        settled += bytes(&kept.report);
    }
    shared.hand.let_go(tokens.into_iter());
    shared.outbox.put_back(again, settled);
    for pool in &shared.pools {
        pool.room.notify_one();
    }
    unanswered
}

/// A result that the broker does not take (too large, for one) would otherwise be produced again and again.
fn refused_result(mut kept: Kept, code: &str, detail: &str) -> Kept {
    let error = format!("the result was refused: {detail} ({code})");
    kept.report.verdict = verdict(Outcome::Fatal { error });
    kept
}

fn verdict(outcome: Outcome) -> Verdict {
    let failed = |error: String, retryable, retry_after| {
        let error = cut(&error, limits::ERROR_BYTES_MAX).to_owned();
        Verdict::Failed(port::Failed { error, retryable, retry_after })
    };
    match outcome {
        Outcome::Done(result) => Verdict::Completed(result),
        Outcome::Retry { error } => failed(error, true, None),
        Outcome::RetryIn { error, delay } => failed(error, true, Some(delay)),
        Outcome::Fatal { error } => failed(error, false, None),
        Outcome::Release => Verdict::Released { delay: None },
        Outcome::Snooze { delay } => Verdict::Released { delay: Some(delay) },
    }
}

fn bytes(report: &Report) -> usize {
    match &report.verdict {
        Verdict::Completed(Some(result)) => result.bytes().len(),
        Verdict::Failed(failed) => failed.error.len(),
        _ => 0,
    }
}

/// How long to wait after the n-th failure in a row: doubled up to a ceiling and half of it random, so that the workers of a
/// broker that comes back do not all come at once. A broker that names a time is believed.
pub(super) fn pause(failures: u32, error: &Error) -> Duration {
    let ceiling = PAUSE_MS_FIRST.saturating_mul(1 << failures.min(10)).min(PAUSE_MS_MAX);
    let backoff = Duration::from_millis(rand::rng().random_range(ceiling / 2..=ceiling));
    match error {
        Error::Unavailable { retry_after: Some(asked), .. } => {
            backoff.max(*asked).min(Duration::from_secs(60))
        }
        _ => backoff,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_ceiling_and_believe_the_broker() {
        let away = |retry_after| Error::Unavailable { detail: String::new(), retry_after };
        for failures in 1..100 {
            let pause = pause(failures, &away(None)).as_millis() as u64;
            assert!((PAUSE_MS_FIRST..=PAUSE_MS_MAX).contains(&pause), "{failures}: {pause}");
        }
        assert!(pause(50, &away(None)).as_millis() as u64 >= PAUSE_MS_MAX / 2);
        assert!(pause(1, &away(Some(Duration::from_secs(30)))) >= Duration::from_secs(30));
        assert_eq!(pause(1, &away(Some(Duration::from_secs(3000)))), Duration::from_secs(60));
    }
}
