//! Submitting one task or many.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_core::limits::{
    CRASHES_DEFAULT, RETENTION_MS_MAX, RETRIES_DEFAULT, TIMEOUT_MS_DEFAULT, TIMEOUT_MS_MAX,
};
use windlass_core::{Name, Payload, Priority, StateName, TaskId, retry};

use super::decode::decode_item;
use super::invalid::Invalid;
use super::json::{Base64, Content};
use super::object;
use super::priority::PriorityInput;
use super::problem::Problem;
use super::retry::RetryBody;
#[cfg(feature = "openapi")]
use super::schema;
use super::submission::{
    Submission, batch_size, checked_dependencies, checked_metadata, count, default_queue, span, start, unique,
};
use super::task::Metadata;
use super::text;
use super::time::{Seconds, Time};

/// A new task. Only `type` is required.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SubmitBody<'a> {
    /// Chosen by the client, to make a repeated submit harmless; otherwise a UUID v7 is given.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::TaskId>))]
    pub id: Option<TaskId>,
    /// What to run. Also read as `task_type`.
    #[serde(rename = "type", alias = "task_type", with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name, examples("email.send")))]
    pub kind: Name,
    /// Where it waits, `default` unless given. Also read as `topic`.
    #[serde(default, alias = "topic", with = "text::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Name>))]
    pub queue: Option<Name>,
    /// Whose share of the queue it takes, and whose limit it counts towards: a tenant, say.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Name>))]
    pub key: Option<Name>,
    /// Any JSON; it is passed on as it came.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub payload: Option<&'a RawValue>,
    /// Bytes instead of JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<Base64>,
    /// 0–255, higher first, or `critical`, `high`, `normal`, `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::PriorityInput>))]
    pub priority: Option<PriorityInput>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::RetryCount>))]
    pub max_retries: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::CrashCount>))]
    pub max_crashes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::TimeoutSeconds>))]
    pub timeout_seconds: Option<Seconds>,
    /// Earliest start. Also read as `schedule_at` and `execute_time`.
    #[serde(default, alias = "schedule_at", alias = "execute_time", skip_serializing_if = "Option::is_none")]
    pub scheduled_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::DelaySeconds>))]
    pub delay_seconds: Option<Seconds>,
    /// Never start after this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryBody>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::RetentionSeconds>))]
    pub retention_seconds: Option<Seconds>,
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Metadata))]
    pub metadata: Metadata,
    /// Ids of tasks that must complete first, up to 10,000. Each is in the store, or before this one in its batch.
    #[serde(default, with = "text::list", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Dependencies))]
    pub dependencies: Vec<TaskId>,
    /// Only for the tasks of a workflow: names of those that must complete first.
    #[serde(default, with = "text::option_list", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    pub after: Option<Vec<Name>>,
    /// At most one live task has this key, of 1 to 256 bytes; freed when the task ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::UniqueKey>))]
    pub unique_key: Option<String>,
    /// The key is free again after this long, even if the task still lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::UniqueSeconds>))]
    pub unique_for_seconds: Option<Seconds>,
    /// When another live task has the key: `return` it (default), `reject` this submit, or `replace` the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::ConflictRule>))]
    pub on_conflict: Option<String>,
}

impl<'a> SubmitBody<'a> {
    pub fn new(kind: Name) -> Self {
        Self {
            id: None,
            kind,
            queue: None,
            key: None,
            payload: None,
            payload_base64: None,
            priority: None,
            max_retries: None,
            max_crashes: None,
            timeout_seconds: None,
            scheduled_at: None,
            delay_seconds: None,
            expires_at: None,
            retry: None,
            retention_seconds: None,
            metadata: Metadata::default(),
            dependencies: Vec::new(),
            after: None,
            unique_key: None,
            unique_for_seconds: None,
            on_conflict: None,
        }
    }

    /// `source` is the body that this was read from, `now` the wall clock, `payload_max` in bytes.
    pub fn check(self, source: &Bytes, now: u64, payload_max: usize) -> Result<Submission, Invalid> {
        if self.after.is_some() {
            let message = "names tasks of a workflow; a single task has dependencies";
            return Err(Invalid::malformed("after", message));
        }
        self.check_node(source, now, payload_max)
    }

    /// The same for a task of a workflow; what it says of others there is not looked at.
    pub(crate) fn check_node(
        self,
        source: &Bytes,
        now: u64,
        payload_max: usize,
    ) -> Result<Submission, Invalid> {
        let content = Content {
            json: self.payload,
            base64: self.payload_base64,
            field: "payload",
            base64_field: "payload_base64",
        };
        let payload = content.check(source, payload_max)?;
        Ok(Submission {
            id: self.id,
            queue: self.queue.unwrap_or_else(default_queue),
            kind: self.kind,
            key: self.key,
            payload: payload.unwrap_or(Payload::Json(Bytes::from_static(b"null"))),
            priority: self.priority.map_or(Ok(Priority::default()), PriorityInput::check)?,
            start: start(self.scheduled_at, self.delay_seconds, now)?,
            expires_at: self.expires_at.map(|at| at.check("expires_at", now)).transpose()?,
            retry: self.retry.map_or(Ok(retry::Policy::default()), RetryBody::check)?,
            max_retries: count("max_retries", self.max_retries, RETRIES_DEFAULT, 0)?,
            max_crashes: count("max_crashes", self.max_crashes, CRASHES_DEFAULT, 1)?,
            timeout_ms: span(
                "timeout_seconds",
                self.timeout_seconds,
                TIMEOUT_MS_DEFAULT,
                1..=TIMEOUT_MS_MAX,
            )?,
            retention_ms: self
                .retention_seconds
                .map(|span| span.check("retention_seconds", 0..=RETENTION_MS_MAX))
                .transpose()?,
            metadata: checked_metadata(self.metadata)?,
            unique: unique(self.unique_key.as_deref(), self.unique_for_seconds, self.on_conflict.as_deref())?,
            links: checked_dependencies(self.dependencies)?,
        })
    }
}

/// Many submits in one request. Each is read on its own, so that one mistake does not spoil the others.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchBody<'a> {
    /// At most 1,000 submit bodies.
    #[serde(borrow)]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::BatchTasks))]
    pub tasks: Vec<&'a RawValue>,
    /// All or nothing.
    #[serde(default)]
    pub atomic: bool,
}

impl BatchBody<'_> {
    /// The i-th answer belongs to the i-th task; the outer error is about the batch as a whole.
    pub fn check(
        &self,
        source: &Bytes,
        now: u64,
        payload_max: usize,
    ) -> Result<Vec<Result<Submission, Invalid>>, Invalid> {
        batch_size(self.tasks.len())?;
        let item = |raw: &&RawValue| decode_item::<SubmitBody<'_>>(raw)?.check(source, now, payload_max);
        Ok(self.tasks.iter().map(item).collect())
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchResults {
    pub results: Vec<BatchItem>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BatchItem {
    Submitted {
        #[serde(with = "text")]
        #[cfg_attr(feature = "openapi", schema(value_type = schema::TaskId))]
        id: TaskId,
        #[serde(with = "text::state")]
        #[cfg_attr(feature = "openapi", schema(value_type = schema::State))]
        state: StateName,
    },
    Refused(BatchItemError),
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchItemError {
    pub error: Problem,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::Start;
    use crate::rest::decode;

    const NOW: u64 = 1_800_000_000_000;

    fn check(text: &str) -> Result<Submission, Invalid> {
        let source = Bytes::copy_from_slice(text.as_bytes());
        decode::<SubmitBody<'_>>(&source)?.check(&source, NOW, 1000)
    }

    fn refused(text: &str) -> (u16, String) {
        let invalid = check(text).expect_err(text);
        (invalid.fault.status(), invalid.field.unwrap_or_default().into_owned())
    }

    #[test]
    fn aliases_and_defaults() {
        let plain = check(r#"{"type":"echo"}"#).unwrap();
        assert_eq!(plain.queue.as_str(), "default");
        assert_eq!(plain.payload, Payload::Json(Bytes::from_static(b"null")));
        assert_eq!((plain.priority, plain.max_retries, plain.timeout_ms), (Priority(100), 3, 300_000));
        let other = check(
            r#"{"task_type":"echo","topic":"q","priority":"high","execute_time":"2027-01-15T08:00:00Z",
                "payload": {"b" : 1, "a":[1.50, 1e2]},"metadata":{"z":"1","a":"2"}}"#,
        )
        .unwrap();
        assert_eq!((other.queue.as_str(), other.priority), ("q", Priority(200)));
        assert_eq!(other.start, Start::At(1_800_000_000_000));
        assert_eq!(other.payload, Payload::Json(Bytes::from_static(br#"{"b" : 1, "a":[1.50, 1e2]}"#)));
        assert_eq!(other.metadata[0].0, "z");
        assert_eq!((plain.links, check(r#"{"type":"a","dependencies":[]}"#).unwrap().links), (None, None));
        let links = check(r#"{"type":"a","dependencies":["b","a","b"]}"#).unwrap().links.unwrap();
        assert_eq!(links.dependencies.iter().map(TaskId::as_str).collect::<Vec<_>>(), ["b", "a"]);
    }

    #[test]
    fn every_mistake_has_its_status_and_field() {
        let table = [
            (r#"{}"#, 400, "type"),
            (r#"{"type":"a","x":1}"#, 400, "x"),
            (r#"{"type":"a","task_type":"a"}"#, 400, "type"),
            (r#"{"type":"../a"}"#, 400, "type"),
            (r#"{"type":"a","queue":""}"#, 400, "queue"),
            (r#"{"type":"a","id":"<script>"}"#, 400, "id"),
            (r#"{"type":"a","priority":256}"#, 422, "priority"),
            (r#"{"type":"a","priority":-1}"#, 422, "priority"),
            (r#"{"type":"a","priority":1.5}"#, 400, "priority"),
            (r#"{"type":"a","priority":"urgent"}"#, 422, "priority"),
            (r#"{"type":"a","priority":18446744073709551616}"#, 400, "priority"),
            (r#"{"type":"a","max_retries":18446744073709551616}"#, 400, "max_retries"),
            (r#"{"type":"a","max_retries":-1}"#, 400, "max_retries"),
            (r#"{"type":"a","max_retries":1001}"#, 422, "max_retries"),
            (r#"{"type":"a","max_crashes":0}"#, 422, "max_crashes"),
            (r#"{"type":"a","delay_seconds":-1}"#, 422, "delay_seconds"),
            (r#"{"type":"a","delay_seconds":1e300}"#, 422, "delay_seconds"),
            (r#"{"type":"a","delay_seconds":NaN}"#, 400, ""),
            (r#"{"type":"a","delay_seconds":1,"scheduled_at":"2030-01-01T00:00:00Z"}"#, 400, "delay_seconds"),
            (r#"{"type":"a","scheduled_at":"soon"}"#, 400, "scheduled_at"),
            (r#"{"type":"a","scheduled_at":"1969-01-01T00:00:00Z"}"#, 422, "scheduled_at"),
            (r#"{"type":"a","expires_at":"2100-01-01T00:00:00Z"}"#, 422, "expires_at"),
            (r#"{"type":"a","timeout_seconds":0}"#, 422, "timeout_seconds"),
            (r#"{"type":"a","payload_base64":"%"}"#, 400, "payload_base64"),
            (r#"{"type":"a","payload":1,"payload_base64":""}"#, 400, "payload_base64"),
            (r#"{"type":"a","retry":{"policy":"magic"}}"#, 422, "retry.policy"),
            (r#"{"type":"a","retry":{"factor":-1}}"#, 422, "retry.factor"),
            (r#"{"type":"a","retry":{"pace":1}}"#, 400, "retry.pace"),
            (r#"{"type":"a","metadata":{"a":1}}"#, 400, "metadata.a"),
            (r#"{"type":"a","dependencies":["x","y z"]}"#, 400, "dependencies[1]"),
            (r#"{"type":"a","dependencies":"x"}"#, 400, "dependencies"),
            (r#"{"type":"a","after":["x"]}"#, 400, "after"),
            (r#"{"type":"a","unique_key":""}"#, 422, "unique_key"),
            (r#"{"type":"a","unique_key":7}"#, 400, "unique_key"),
            (r#"{"type":"a","unique_key":"x","unique_for_seconds":0}"#, 422, "unique_for_seconds"),
            (r#"{"type":"a","unique_key":"x","on_conflict":"wait"}"#, 422, "on_conflict"),
            (r#"{"type":"a","unique_for_seconds":1}"#, 400, "unique_for_seconds"),
            (r#"{"type":"a","on_conflict":"reject"}"#, 400, "on_conflict"),
            (r#"{"type":"a","key":"a b"}"#, 400, "key"),
        ];
        for (text, status, field) in table {
            assert_eq!(refused(text), (status, field.to_owned()), "{text}");
        }
        let many: Vec<String> = (0..=10_000).map(|i| format!("\"t{i}\"")).collect();
        let many = format!(r#"{{"type":"a","dependencies":[{}]}}"#, many.join(","));
        assert_eq!(refused(&many), (422, "dependencies".to_owned()));
        let large = format!(r#"{{"type":"a","payload":"{}"}}"#, "x".repeat(1000));
        assert_eq!(refused(&large), (413, "payload".to_owned()));
        let deep = format!(r#"{{"type":"a","payload":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(refused(&deep), (400, String::new()));
    }

    #[test]
    fn what_a_client_writes_is_what_the_server_reads() {
        let raw: Box<RawValue> = serde_json::from_str("[1]").unwrap();
        let mut body = SubmitBody::new(Name::new("echo").unwrap());
        body.payload = Some(&raw);
        body.priority = Some(Priority(7).into());
        body.delay_seconds = Some(Seconds(1.5));
        let read = check(&serde_json::to_string(&body).unwrap()).unwrap();
        assert_eq!(read.priority, Priority(7));
        assert_eq!(read.start, Start::AfterMs(1500));
        assert_eq!(read.payload, Payload::Json(Bytes::from_static(b"[1]")));
    }
}
