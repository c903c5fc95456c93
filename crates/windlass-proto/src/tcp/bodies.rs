//! Bodies that REST spreads over a path and a body, or has no need of.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_core::{Payload, TaskId};

use crate::rest::{
    Base64, FailBody, Failing, Invalid, ReleaseBody, Seconds, Shown, TaskBody, result_payload, text,
};

/// The answer to a submit, a look and a cancel.
#[derive(Debug, Serialize, Deserialize)]
pub struct TaskAnswer {
    pub task: TaskBody,
}

impl TaskAnswer {
    /// Adds the JSON of an answer with this task to `out`.
    pub fn write(task: Shown<'_>, out: &mut Vec<u8>) -> serde_json::Result<()> {
        out.extend_from_slice(b"{\"task\":");
        task.write(out)?;
        out.push(b'}');
        Ok(())
    }
}

/// Names a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdBody {
    #[serde(with = "text")]
    pub id: TaskId,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Empty {}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Completed,
    Failed,
    Released,
}

/// The end of an attempt. A field that does not belong to the status is a mistake.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultBody<'a> {
    #[serde(with = "text")]
    pub id: TaskId,
    #[serde(borrow)]
    pub lease: Cow<'a, str>,
    pub status: Status,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub result: Option<&'a RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<Base64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<Seconds>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_seconds: Option<Seconds>,
}

/// A result that passed every check that needs no broker.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    Completed { result: Option<Payload> },
    Failed(Failing),
    Released { delay_ms: Option<u64> },
}

impl ResultBody<'_> {
    /// `source` is the body that this was read from.
    pub fn check(self, source: &Bytes, result_max: usize) -> Result<Report, Invalid> {
        self.refuse_strays()?;
        match self.status {
            Status::Completed => {
                let result = result_payload(self.result, self.result_base64, source, result_max)?;
                Ok(Report::Completed { result })
            }
            Status::Failed => {
                let error = self.error.ok_or_else(|| Invalid::malformed("error", "is missing"))?;
                let body = FailBody {
                    lease: String::new(),
                    error,
                    retryable: self.retryable.unwrap_or(true),
                    retry_after_seconds: self.retry_after_seconds,
                };
                body.check().map(Report::Failed)
            }
            Status::Released => {
                let body = ReleaseBody { lease: String::new(), delay_seconds: self.delay_seconds };
                body.check().map(|delay_ms| Report::Released { delay_ms })
            }
        }
    }

    fn refuse_strays(&self) -> Result<(), Invalid> {
        let fields = [
            ("result", self.result.is_some(), Status::Completed),
            ("result_base64", self.result_base64.is_some(), Status::Completed),
            ("error", self.error.is_some(), Status::Failed),
            ("retryable", self.retryable.is_some(), Status::Failed),
            ("retry_after_seconds", self.retry_after_seconds.is_some(), Status::Failed),
            ("delay_seconds", self.delay_seconds.is_some(), Status::Released),
        ];
        match fields.into_iter().find(|(_, given, status)| *given && *status != self.status) {
            Some((field, ..)) => Err(Invalid::malformed(field, "does not belong to this status")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::decode;

    fn check(rest: &str) -> Result<Report, Invalid> {
        let source = Bytes::from(format!(r#"{{"id":"a","lease":"l",{rest}}}"#));
        decode::<ResultBody<'_>>(&source)?.check(&source, 10)
    }

    #[test]
    fn each_status_has_its_fields() {
        let json = |text: &'static str| Some(Payload::Json(Bytes::from_static(text.as_bytes())));
        assert_eq!(
            check(r#""status":"completed","result":[1]"#),
            Ok(Report::Completed { result: json("[1]") })
        );
        assert_eq!(check(r#""status":"completed""#), Ok(Report::Completed { result: None }));
        let failing = Failing { error: "no".into(), retryable: false, retry_after_ms: None };
        assert_eq!(check(r#""status":"failed","error":"no","retryable":false"#), Ok(Report::Failed(failing)));
        assert_eq!(
            check(r#""status":"released","delay_seconds":2"#),
            Ok(Report::Released { delay_ms: Some(2000) })
        );
    }

    #[test]
    fn every_mistake_has_its_status_and_field() {
        let table = [
            (r#""status":"done""#, 400, "status"),
            (r#""result":1"#, 400, "status"),
            (r#""status":"failed""#, 400, "error"),
            (r#""status":"failed","error":"no","result":1"#, 400, "result"),
            (r#""status":"completed","error":"no""#, 400, "error"),
            (r#""status":"completed","retryable":true"#, 400, "retryable"),
            (r#""status":"completed","delay_seconds":1"#, 400, "delay_seconds"),
            (r#""status":"released","retry_after_seconds":1"#, 400, "retry_after_seconds"),
            (r#""status":"released","delay_seconds":-1"#, 422, "delay_seconds"),
            (r#""status":"failed","error":"no","retry_after_seconds":1e300"#, 422, "retry_after_seconds"),
            (r#""status":"completed","result":"0123456789""#, 413, "result"),
            (r#""status":"completed","result":1,"result_base64":"MQ==""#, 400, "result_base64"),
            (r#""status":"completed","colour":1"#, 400, "colour"),
        ];
        for (text, status, field) in table {
            let invalid = check(text).expect_err(text);
            assert_eq!((invalid.fault.status(), invalid.field.as_deref()), (status, Some(field)), "{text}");
        }
    }
}
