//! Submitting.

use bytes::Bytes;
use windlass_core::limits::{
    CRASHES_DEFAULT, RETENTION_MS_MAX, RETRIES_DEFAULT, TIMEOUT_MS_DEFAULT, TIMEOUT_MS_MAX,
};
use windlass_core::{Payload, Priority, retry};

use super::content::Content;
use super::names::{given, parsed};
use super::time::time;
use super::v1::{NewTask, RetryPolicy, SubmitBatchRequest};
use crate::rest::submission;
use crate::rest::{Invalid, Metadata, PriorityInput, RetryBody, Seconds, Submission};

impl NewTask {
    /// `now` is the wall clock, `payload_max` in bytes.
    pub fn check(self, now: u64, payload_max: usize) -> Result<Submission, Invalid> {
        let payload = self.payload.map(|payload| Content::from(payload).check(payload_max)).transpose()?;
        let scheduled_at = self.scheduled_at.map(|at| time("scheduled_at", at)).transpose()?;
        let expires_at = self.expires_at.map(|at| time("expires_at", at)).transpose()?;
        let priority = self.priority.map(|number| PriorityInput::Number(number.into()).check());
        let mut metadata: Vec<_> = self.metadata.into_iter().collect();
        metadata.sort_unstable();
        let id = |id: &String| parsed("dependencies", id);
        let dependencies = self.dependencies.iter().map(id).collect::<Result<_, _>>()?;
        Ok(Submission {
            id: given("id", &self.id)?,
            queue: given("queue", &self.queue)?.unwrap_or_else(submission::default_queue),
            kind: parsed("type", &self.r#type)?,
            key: self.key.as_deref().map(|key| parsed("key", key)).transpose()?,
            payload: payload.unwrap_or(Payload::Json(Bytes::from_static(b"null"))),
            priority: priority.unwrap_or(Ok(Priority::default()))?,
            start: submission::start(scheduled_at, self.delay_seconds.map(Seconds), now)?,
            expires_at: expires_at.map(|at| at.check("expires_at", now)).transpose()?,
            retry: self.retry.map_or(Ok(retry::Policy::default()), |retry| RetryBody::from(retry).check())?,
            max_retries: submission::count(
                "max_retries",
                self.max_retries.map(u64::from),
                RETRIES_DEFAULT,
                0,
            )?,
            max_crashes: submission::count(
                "max_crashes",
                self.max_crashes.map(u64::from),
                CRASHES_DEFAULT,
                1,
            )?,
            timeout_ms: submission::span(
                "timeout_seconds",
                self.timeout_seconds.map(Seconds),
                TIMEOUT_MS_DEFAULT,
                1..=TIMEOUT_MS_MAX,
            )?,
            retention_ms: self
                .retention_seconds
                .map(|span| Seconds(span).check("retention_seconds", 0..=RETENTION_MS_MAX))
                .transpose()?,
            metadata: submission::checked_metadata(Metadata(metadata))?,
            unique: submission::unique(
                self.unique_key.as_deref(),
                self.unique_for_seconds.map(Seconds),
                self.on_conflict.as_deref(),
            )?,
            links: submission::checked_dependencies(dependencies)?,
        })
    }
}

impl SubmitBatchRequest {
    /// The i-th answer belongs to the i-th task; the outer error is about the batch as a whole.
    pub fn check(self, now: u64, payload_max: usize) -> Result<Vec<Result<Submission, Invalid>>, Invalid> {
        submission::batch_size(self.tasks.len())?;
        Ok(self.tasks.into_iter().map(|task| task.check(now, payload_max)).collect())
    }
}

impl From<RetryPolicy> for RetryBody {
    fn from(retry: RetryPolicy) -> Self {
        Self {
            policy: retry.policy.map(Into::into),
            initial_ms: retry.initial_ms,
            factor: retry.factor,
            max_ms: retry.max_ms,
            jitter: retry.jitter,
        }
    }
}

impl From<retry::Policy> for RetryPolicy {
    fn from(policy: retry::Policy) -> Self {
        Self {
            policy: Some(policy.kind.as_str().to_owned()),
            initial_ms: Some(policy.initial_ms),
            factor: Some(policy.factor),
            max_ms: Some(policy.max_ms),
            jitter: Some(policy.jitter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::v1::new_task;
    use crate::rest::{Fault, SubmitBody, decode};

    const NOW: u64 = 1_800_000_000_000;

    fn task() -> NewTask {
        NewTask { r#type: "a".into(), ..NewTask::default() }
    }

    fn json(text: &str) -> Option<new_task::Payload> {
        Some(new_task::Payload::PayloadJson(Bytes::copy_from_slice(text.as_bytes())))
    }

    fn by_rest(text: &str) -> Submission {
        let source = Bytes::copy_from_slice(text.as_bytes());
        decode::<SubmitBody<'_>>(&source).unwrap().check(&source, NOW, 100).unwrap()
    }

    #[test]
    fn both_doors_see_the_same_task() {
        assert_eq!(task().check(NOW, 100), Ok(by_rest(r#"{"type":"a"}"#)));
        let full = NewTask {
            id: "x".into(),
            queue: "q".into(),
            payload: json(" {\"n\": 1} "),
            priority: Some(7),
            max_retries: Some(0),
            max_crashes: Some(2),
            timeout_seconds: Some(1.5),
            delay_seconds: Some(2.0),
            expires_at: Some(super::super::timestamp(NOW)),
            retry: Some(RetryPolicy { policy: Some("fixed".into()), ..RetryPolicy::default() }),
            retention_seconds: Some(60.0),
            unique_key: Some("u".into()),
            unique_for_seconds: Some(9.0),
            on_conflict: Some("replace".into()),
            metadata: [("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())].into(),
            dependencies: vec!["y".into(), "z".into()],
            ..task()
        };
        let rest = r#"{"type":"a","id":"x","queue":"q","payload":{"n": 1},"priority":7,"max_retries":0,"max_crashes":2,
            "timeout_seconds":1.5,"delay_seconds":2,"expires_at":"2027-01-15T08:00:00Z","retry":{"policy":"fixed"},
            "retention_seconds":60,"unique_key":"u","unique_for_seconds":9,"on_conflict":"replace","metadata":{"a":"1","b":"2"},
            "dependencies":["y","z"]}"#;
        assert_eq!(full.check(NOW, 100), Ok(by_rest(rest)));
    }

    #[test]
    fn every_mistake_has_its_code_and_field() {
        let table = [
            (NewTask::default(), "malformed", "type"),
            (NewTask { id: "a b".into(), ..task() }, "malformed", "id"),
            (NewTask { queue: "../q".into(), ..task() }, "malformed", "queue"),
            (NewTask { payload: json("{"), ..task() }, "malformed", "payload_json"),
            (NewTask { payload: json(""), ..task() }, "malformed", "payload_json"),
            (NewTask { payload: json(&"[".repeat(200)), ..task() }, "too_large", "payload_json"),
            (NewTask { priority: Some(256), ..task() }, "out_of_range", "priority"),
            (NewTask { max_retries: Some(1001), ..task() }, "out_of_range", "max_retries"),
            (NewTask { timeout_seconds: Some(f64::NAN), ..task() }, "out_of_range", "timeout_seconds"),
            (NewTask { delay_seconds: Some(-1.0), ..task() }, "out_of_range", "delay_seconds"),
            (NewTask { dependencies: vec!["y z".into()], ..task() }, "malformed", "dependencies"),
        ];
        for (task, code, field) in table {
            let invalid = task.check(NOW, 100).expect_err(field);
            assert_eq!((invalid.fault.code(), invalid.field.as_deref()), (code, Some(field)));
        }
        let deep = NewTask { payload: json(&format!("{}{}", "[".repeat(200), "]".repeat(200))), ..task() };
        assert_eq!(deep.check(NOW, 1000).expect_err("deep").fault, Fault::Malformed);
    }
}
