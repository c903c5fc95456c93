//! What the holder of a lease reports.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_core::limits::{
    CHECKPOINT_BYTES_MAX, HORIZON_MS, LEASE_MS_MAX, LEASE_MS_MIN, PROGRESS_NOTE_BYTES_MAX,
};
use windlass_core::{Payload, Progress, Record, State, StateName, TaskId};

use super::invalid::{Fault, Invalid};
use super::json::{Base64, Content};
use super::object;
#[cfg(feature = "openapi")]
use super::schema;
use super::text;
use super::time::{Seconds, Time};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExtendBody {
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Lease))]
    pub lease: String,
    /// The length of the claim unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::LeaseSeconds>))]
    pub lease_seconds: Option<Seconds>,
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressBody>,
    /// Up to 64 KiB for the attempts that follow, durable when this is answered; an empty one takes the last one away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Checkpoint>))]
    pub checkpoint_base64: Option<Base64>,
}

/// A wish for more time that passed every check that needs no broker.
#[derive(Debug, Clone, PartialEq)]
pub struct Extending {
    pub lease_ms: Option<u64>,
    pub progress: Option<Progress>,
    pub checkpoint: Option<Bytes>,
}

impl ExtendBody {
    pub fn check(self) -> Result<Extending, Invalid> {
        let lease = |lease: Seconds| lease.check("lease_seconds", LEASE_MS_MIN..=LEASE_MS_MAX);
        Ok(Extending {
            lease_ms: self.lease_seconds.map(lease).transpose()?,
            progress: self.progress.map(ProgressBody::check).transpose()?,
            checkpoint: checkpoint("checkpoint_base64", self.checkpoint_base64.map(|base64| base64.0))?,
        })
    }
}

pub fn checkpoint(field: &'static str, bytes: Option<Bytes>) -> Result<Option<Bytes>, Invalid> {
    match bytes {
        Some(bytes) if bytes.len() > CHECKPOINT_BYTES_MAX => {
            let message = format!("has {} bytes, {CHECKPOINT_BYTES_MAX} are allowed", bytes.len());
            Err(Invalid::new(Fault::TooLarge, field, message))
        }
        bytes => Ok(bytes),
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProgressBody {
    /// 0–1.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1))]
    pub fraction: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::ProgressNote>))]
    pub note: Option<Box<str>>,
}

impl ProgressBody {
    pub(crate) fn check(self) -> Result<Progress, Invalid> {
        if !(0.0..=1.0).contains(&self.fraction) {
            return Err(Invalid::out_of_range("progress.fraction", "must be between 0 and 1"));
        }
        if self.note.as_ref().is_some_and(|note| note.len() > PROGRESS_NOTE_BYTES_MAX) {
            let message = format!("must be at most {PROGRESS_NOTE_BYTES_MAX} bytes");
            return Err(Invalid::out_of_range("progress.note", message));
        }
        Ok(Progress { fraction: self.fraction, note: self.note })
    }
}

impl From<Progress> for ProgressBody {
    fn from(progress: Progress) -> Self {
        Self { fraction: progress.fraction, note: progress.note }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Extended {
    /// `null` when there is nothing left to extend.
    pub lease_expires_at: Option<Time>,
    /// The task was cancelled: stop working on it.
    pub cancel_requested: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CompleteBody<'a> {
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Lease))]
    pub lease: String,
    /// Any JSON.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub result: Option<&'a RawValue>,
    /// Bytes instead of JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<Base64>,
}

impl CompleteBody<'_> {
    pub fn check(self, source: &Bytes, result_max: usize) -> Result<Option<Payload>, Invalid> {
        result_payload(self.result, self.result_base64, source, result_max)
    }
}

/// A result that comes as JSON or as base64; `source` is the body that it was read from.
pub fn result_payload(
    json: Option<&RawValue>,
    base64: Option<Base64>,
    source: &Bytes,
    bytes_max: usize,
) -> Result<Option<Payload>, Invalid> {
    Content { json, base64, field: "result", base64_field: "result_base64" }.check(source, bytes_max)
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailBody {
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Lease))]
    pub lease: String,
    pub error: String,
    /// `false` makes the task a dead letter at once.
    #[serde(default = "yes")]
    pub retryable: bool,
    /// Overrules the retry policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::DelaySeconds>))]
    pub retry_after_seconds: Option<Seconds>,
}

fn yes() -> bool {
    true
}

/// A failure report that passed every check that needs no broker.
#[derive(Debug, Clone, PartialEq)]
pub struct Failing {
    pub error: String,
    pub retryable: bool,
    pub retry_after_ms: Option<u64>,
}

impl FailBody {
    pub fn check(self) -> Result<Failing, Invalid> {
        let after = |after: Seconds| after.check("retry_after_seconds", 0..=HORIZON_MS);
        Ok(Failing {
            error: self.error,
            retryable: self.retryable,
            retry_after_ms: self.retry_after_seconds.map(after).transpose()?,
        })
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReleaseBody {
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Lease))]
    pub lease: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::DelaySeconds>))]
    pub delay_seconds: Option<Seconds>,
}

impl ReleaseBody {
    pub fn check(self) -> Result<Option<u64>, Invalid> {
        self.delay_seconds.map(|delay| delay.check("delay_seconds", 0..=HORIZON_MS)).transpose()
    }
}

/// What became of a task after a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OutcomeBody {
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::TaskId))]
    pub id: TaskId,
    #[serde(with = "text::state")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::State))]
    pub state: StateName,
    pub attempts: u32,
    pub crashes: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_retry_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
}

impl From<&Record> for OutcomeBody {
    fn from(record: &Record) -> Self {
        let next_retry_at = match record.state {
            State::Retrying { at } => Some(Time::from_ms(at)),
            _ => None,
        };
        Self {
            id: record.id.clone(),
            state: record.state_name(),
            attempts: record.attempts,
            crashes: record.crashes,
            next_retry_at,
            completed_at: record.ended_at().map(Time::from_ms),
        }
    }
}
