//! From a frame to what it asks for.

use axum::http::StatusCode;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use windlass_broker::{Failed, Finish, Verdict};
use windlass_proto::rest::{BeatBody, Invalid, decode};
use windlass_proto::tcp::{Empty, IdBody, Kind, Report, ResultBody};

use super::job::{Request, Single};
use crate::api::params::ListParams;
use crate::api::problem::Refused;
use crate::api::{State, claim, identity, outcomes, tasks};

/// `gone` ends the wait of a claim when nobody is there any more to work on the tasks.
pub(super) fn read(state: &State, kind: Option<u8>, body: Bytes, gone: &CancellationToken) -> Request {
    known(state, kind, body, gone).unwrap_or_else(Request::Refused)
}

fn known(state: &State, kind: Option<u8>, body: Bytes, gone: &CancellationToken) -> Result<Request, Refused> {
    let Some(byte) = kind else {
        let title = "The frame has no type";
        return Err(Refused::new(StatusCode::BAD_REQUEST, "malformed", title));
    };
    let single = match Kind::of(byte) {
        Some(Kind::SubmitTask) if is_batch(&body) => Single::Batch(body),
        Some(Kind::SubmitTask) => {
            let submission = tasks::read_submit(state, &body)?;
            let retention_ms = state.broker.settings().retention_ms;
            return Ok(Request::Submit(identity::submit(submission, None, None, retention_ms)));
        }
        Some(Kind::TaskResult) => return Ok(Request::Result(result(state, &body)?)),
        Some(Kind::ClaimTask) => Single::Claim(claim::read(&body)?, gone.clone()),
        Some(Kind::Heartbeat) => beat(&body)?,
        Some(Kind::QueryStatus) => Single::Status(decode::<IdBody>(&body)?.id),
        Some(Kind::CancelTask) => Single::Cancel(decode::<IdBody>(&body)?.id),
        Some(Kind::ListTasks) => Single::List(decode::<ListParams>(&body)?.check()?),
        Some(Kind::GetStats) => {
            let Empty {} = decode(&body)?;
            Single::Stats
        }
        Some(Kind::Ack | Kind::Nack) | None => {
            let title = "There is no request of this type";
            return Err(Refused::new(StatusCode::BAD_REQUEST, "unknown_type", title)
                .detail(format!("the type is {byte}; requests have 1 to 4 and 7 to 10")));
        }
    };
    Ok(Request::Single(Box::new(single)))
}

/// A batch begins with a key that a single submit does not have.
fn is_batch(body: &[u8]) -> bool {
    let Some(inside) = body.trim_ascii_start().strip_prefix(b"{") else { return false };
    let key = inside.trim_ascii_start();
    key.starts_with(b"\"tasks\"") || key.starts_with(b"\"atomic\"")
}

fn result(state: &State, body: &Bytes) -> Result<Finish, Refused> {
    let result: ResultBody<'_> = decode(body)?;
    let (id, lease) = (result.id.clone(), result.lease.clone());
    let verdict = match result.check(body, state.settings.payload_bytes_max)? {
        Report::Completed { result } => Verdict::Completed { result },
        Report::Released { delay_ms } => Verdict::Released { delay_ms },
        Report::Failed(failing) => Verdict::Failed(Failed {
            error: failing.error,
            retryable: failing.retryable,
            retry_after_ms: failing.retry_after_ms,
        }),
    };
    Ok(Finish { id, token: outcomes::token(&lease)?, verdict })
}

fn beat(body: &[u8]) -> Result<Single, Refused> {
    let mut body: BeatBody = decode(body)?;
    let worker = body.worker_id.take().ok_or_else(|| Invalid::malformed("worker_id", "is missing"))?;
    Ok(Single::Beat(worker, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_told_by_its_first_key() {
        for batch in [r#"{"tasks":[]}"#, " {\n \"atomic\" : true, \"tasks\":[]}"] {
            assert!(is_batch(batch.as_bytes()), "{batch}");
        }
        for other in ["", "{", "[]", r#"{"type":"tasks"}"#, r#"{"payload":{"tasks":[]}}"#] {
            assert!(!is_batch(other.as_bytes()), "{other}");
        }
    }
}
