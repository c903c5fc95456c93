use crate::worker::{Context, Job, Outcome};

/// Gives the payload back as the result.
pub async fn echo(_: Context, job: Job) -> Outcome {
    Outcome::Done(Some(job.payload))
}
