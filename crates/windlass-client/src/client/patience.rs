//! Repeating a call that got no answer.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::error::Error;

const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Calls until there is an answer that time will not change, or the time is up; then the last error is the answer.
pub(super) async fn persist<T>(
    patience: Duration,
    mut call: impl AsyncFnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    let until = Instant::now() + patience;
    let mut ceiling = PAUSE_FIRST;
    loop {
        let error = match call().await {
            Err(error) if error.may_pass() => error,
            answered => return answered,
        };
        let pause =
            ceiling.mul_f64(rand::random_range(0.5..=1.0)).max(error.retry_after().unwrap_or_default());
        if Instant::now() + pause > until {
            return Err(error);
        }
        tracing::debug!(%error, ?pause, "asking again");
        // sleep: the backoff between two tries.
        sleep(pause).await;
        ceiling = (ceiling * 2).min(PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> Error {
        Error::Unreachable { detail: "cut".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_repeated_until_it_is_answered_or_the_time_is_up() {
        let mut calls = 0;
        let answer = persist(Duration::from_secs(60), async || {
            calls += 1;
            if calls < 5 { Err(away()) } else { Ok(calls) }
        });
        assert_eq!(answer.await.unwrap(), 5);
        let mut calls = 0;
        let given_up = persist(Duration::from_secs(60), async || {
            calls += 1;
            Err::<(), _>(away())
        });
        assert!(matches!(given_up.await, Err(Error::Unreachable { .. })));
        assert!((30..200).contains(&calls), "{calls} tries in a minute");
        let mut calls = 0;
        let refused = persist(Duration::from_secs(60), async || {
            calls += 1;
            Err::<(), _>(Error::Answer("nonsense".into()))
        });
        assert!(refused.await.is_err());
        assert_eq!(calls, 1, "an answer is an answer");
    }
}
