//! Repeating a call that got no answer.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::error::Error;

const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How long a call may still be repeated.
#[derive(Debug)]
pub(super) struct Patience {
    until: Instant,
    ceiling: Duration,
}

impl Patience {
    pub(super) fn new(length: Duration) -> Self {
        Self { until: Instant::now() + length, ceiling: PAUSE_FIRST }
    }

    /// Pauses before the next try, or gives the error back: time will not change it, or the time is up.
    pub(super) async fn after(&mut self, error: Error) -> Result<(), Error> {
        if !error.may_pass() {
            return Err(error);
        }
        let jittered = self.ceiling.mul_f64(rand::random_range(0.5..=1.0));
        let pause = jittered.max(error.retry_after().unwrap_or_default());
        if Instant::now() + pause > self.until {
            return Err(error);
        }
        tracing::debug!(%error, ?pause, "asking again");
        // sleep: the backoff between two tries.
        sleep(pause).await;
        self.ceiling = (self.ceiling * 2).min(PAUSE_MAX);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_is_repeated_until_the_time_is_up() {
        let mut patience = Patience::new(Duration::from_secs(60));
        let mut tries = 0;
        while patience.after(Error::Unreachable { detail: "cut".into() }).await.is_ok() {
            tries += 1;
        }
        assert!((30..200).contains(&tries), "{tries} tries in a minute");
        let mut fresh = Patience::new(Duration::from_secs(60));
        assert!(fresh.after(Error::Answer("nonsense".into())).await.is_err(), "an answer is an answer");
    }
}
