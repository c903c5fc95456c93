//! Telling the broker how an attempt ended, for as long as it takes.

use std::future::Future;
use std::time::Duration;

use rand::Rng;
use tokio::time::{Instant, sleep};
use windlass_core::{Payload, limits};

use super::Shared;
use super::job::cut;
use super::outcome::Outcome;
use super::port::{self, Error, Held};

const PAUSE_MS_FIRST: u64 = 100;
const PAUSE_MS_MAX: u64 = 5000;
/// When the worker is about to leave, a broker that does not answer cannot hold it for longer.
const LAST_WORDS: Duration = Duration::from_secs(5);

pub(super) async fn report(shared: &Shared, held: &Held, outcome: Outcome) {
    let result = match outcome {
        Outcome::Done(result) => complete(shared, held, result).await,
        Outcome::Retry { error } => fail(shared, held, error, true, None).await,
        Outcome::RetryIn { error, delay } => fail(shared, held, error, true, Some(delay)).await,
        Outcome::Fatal { error } => fail(shared, held, error, false, None).await,
        Outcome::Release => persist(shared, || shared.port.release(held, None)).await,
    };
    let worker_id = &shared.options.id;
    match result {
        Ok(()) => {}
        Err(Error::LeaseLost) => {
            tracing::warn!(task_id = %held.id, %worker_id, "the lease was lost; another attempt decides the outcome");
        }
        Err(error) => {
            tracing::error!(task_id = %held.id, %worker_id, %error, "the outcome could not be reported; the lease will run out");
        }
    }
}

async fn complete(shared: &Shared, held: &Held, result: Option<Payload>) -> Result<(), Error> {
    match persist(shared, || shared.port.complete(held, result.clone())).await {
        // A result that the broker does not take (too large, for one) would otherwise be produced again and again.
        Err(Error::Refused { code, detail }) => {
            let error = format!("the result was refused: {detail} ({code})");
            fail(shared, held, error, false, None).await
        }
        other => other,
    }
}

async fn fail(
    shared: &Shared,
    held: &Held,
    error: String,
    retryable: bool,
    retry_after: Option<Duration>,
) -> Result<(), Error> {
    let error = cut(&error, limits::ERROR_BYTES_MAX).to_owned();
    let failed = port::Failed { error, retryable, retry_after };
    persist(shared, || shared.port.fail(held, failed.clone())).await
}

/// Repeats a call until it is answered, or the time for it is over.
async fn persist<F, R>(shared: &Shared, mut call: F) -> Result<(), Error>
where
    F: FnMut() -> R,
    R: Future<Output = Result<(), Error>>,
{
    let deadline = Instant::now() + shared.options.report_for;
    let mut failures = 0;
    let patience = async {
        shared.hurry.cancelled().await;
        sleep(LAST_WORDS).await;
    };
    tokio::pin!(patience);
    loop {
        let error = match call().await {
            Err(error @ Error::Unavailable { .. }) => error,
            answered => return answered,
        };
        failures += 1;
        let pause = pause(failures, &error);
        if Instant::now() + pause > deadline {
            return Err(error);
        }
        tokio::select! {
            () = sleep(pause) => {}
            () = &mut patience => return Err(error),
        }
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
