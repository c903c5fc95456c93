use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use windlass_core::limits::TIMEOUT_MS_MAX;

use crate::worker::{Context, Failure, IntoOutcome, Job, Outcome};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(default)]
    seconds: f64,
    #[serde(default)]
    ms: u64,
}

/// Sleeps for `{"seconds": 1.5}` or `{"ms": 1500}`, reporting progress, until it is cancelled.
pub async fn sleep(context: Context, job: Job) -> Outcome {
    let length = match length(&job) {
        Ok(length) => length,
        Err(failure) => return failure.into(),
    };
    let step = (length / 10).max(Duration::from_secs(1));
    let mut slept = Duration::ZERO;
    while slept < length {
        let nap = step.min(length - slept);
        tokio::select! {
            () = tokio::time::sleep(nap) => slept += nap,
            _ = context.cancelled() => return Outcome::Release,
        }
        if slept < length {
            context.progress(slept.as_secs_f64() / length.as_secs_f64(), None);
        }
    }
    Ok::<_, Failure>(json!({ "slept_ms": length.as_millis() as u64 })).into_outcome()
}

fn length(job: &Job) -> Result<Duration, Failure> {
    let input: Input = job.json()?;
    let ms = input.seconds * 1000.0 + input.ms as f64;
    if !(0.0..=TIMEOUT_MS_MAX as f64).contains(&ms) {
        return Err(Failure::fatal("cannot sleep for a negative time or for more than a day"));
    }
    Ok(Duration::from_millis(ms as u64))
}
