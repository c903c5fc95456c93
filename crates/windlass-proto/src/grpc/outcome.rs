//! What the holder of a lease reports.

use bytes::Bytes;
use windlass_core::{Payload, TaskId};

use super::content::Content;
use super::names::parsed;
use super::v1::{
    CompleteRequest, ExtendRequest, Extension, FailRequest, Failed, Outcome, Progress, ReleaseRequest,
    Released, outcome,
};
use crate::rest::{
    ExtendBody, Extending, FailBody, Failing, Invalid, ProgressBody, ReleaseBody, Seconds, checkpoint,
};

/// A report that passed every check that needs no broker.
#[derive(Debug, Clone, PartialEq)]
pub struct Reported {
    pub id: TaskId,
    /// As it came: a lease that cannot be read was never given out.
    pub lease: String,
    pub report: Report,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    Completed { result: Option<Payload> },
    Failed(Failing),
    Released { delay_ms: Option<u64> },
}

impl Outcome {
    pub fn check(self, result_max: usize) -> Result<Reported, Invalid> {
        let report = match self.verdict {
            Some(outcome::Verdict::Completed(completed)) => {
                let result = completed.result.map(|result| Content::from(result).check(result_max));
                Report::Completed { result: result.transpose()? }
            }
            Some(outcome::Verdict::Failed(failed)) => Report::Failed(failed.check()?),
            Some(outcome::Verdict::Released(released)) => Report::Released { delay_ms: released.check()? },
            None => return Err(Invalid::malformed("verdict", "is missing")),
        };
        Ok(Reported { id: parsed("id", &self.id)?, lease: self.lease, report })
    }
}

impl CompleteRequest {
    pub fn check(self, result_max: usize) -> Result<Reported, Invalid> {
        let result = self.result.map(|result| Content::from(result).check(result_max)).transpose()?;
        let report = Report::Completed { result };
        Ok(Reported { id: parsed("id", &self.id)?, lease: self.lease, report })
    }
}

impl FailRequest {
    pub fn check(self) -> Result<Reported, Invalid> {
        let failed =
            Failed { error: self.error, fatal: self.fatal, retry_after_seconds: self.retry_after_seconds };
        let report = Report::Failed(failed.check()?);
        Ok(Reported { id: parsed("id", &self.id)?, lease: self.lease, report })
    }
}

impl ReleaseRequest {
    pub fn check(self) -> Result<Reported, Invalid> {
        let report = Report::Released { delay_ms: Released { delay_seconds: self.delay_seconds }.check()? };
        Ok(Reported { id: parsed("id", &self.id)?, lease: self.lease, report })
    }
}

impl ExtendRequest {
    pub fn check(self) -> Result<(TaskId, Extending), Invalid> {
        let body = ExtendBody {
            lease: self.lease,
            lease_seconds: self.lease_seconds.map(Seconds),
            progress: self.progress.map(Into::into),
            checkpoint_base64: None,
        };
        let id = parsed("id", &self.id)?;
        Ok((id, Extending { checkpoint: own(self.checkpoint)?, ..body.check()? }))
    }
}

impl Extension {
    pub fn check(self) -> Result<(TaskId, Extending), Invalid> {
        let progress = self.progress.map(|progress| ProgressBody::from(progress).check()).transpose()?;
        let checkpoint = own(self.checkpoint)?;
        Ok((parsed("id", &self.id)?, Extending { lease_ms: None, progress, checkpoint }))
    }
}

/// A checkpoint that does not keep the message alive in which it came.
fn own(bytes: Option<Bytes>) -> Result<Option<Bytes>, Invalid> {
    Ok(checkpoint("checkpoint", bytes)?.map(|bytes| Bytes::copy_from_slice(&bytes)))
}

impl Failed {
    fn check(self) -> Result<Failing, Invalid> {
        let body = FailBody {
            lease: String::new(),
            error: self.error,
            retryable: !self.fatal,
            retry_after_seconds: self.retry_after_seconds.map(Seconds),
        };
        body.check()
    }
}

impl Released {
    fn check(self) -> Result<Option<u64>, Invalid> {
        ReleaseBody { lease: String::new(), delay_seconds: self.delay_seconds.map(Seconds) }.check()
    }
}

impl From<Progress> for ProgressBody {
    fn from(progress: Progress) -> Self {
        Self { fraction: progress.fraction, note: progress.note.map(String::into_boxed_str) }
    }
}
