//! Schedules as they are sent; how they are shown is in `show`.

mod show;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use windlass_core::limits::{
    HORIZON_MS, SCHEDULE_ID_BYTES_MAX, SCHEDULE_JITTER_MS_MAX, SCHEDULE_PAYLOAD_BYTES_MAX,
    SCHEDULE_WINDOW_MS_DEFAULT,
};
use windlass_core::schedule::{CatchUp, Definition, InvalidTiming, Overlap, Template, Timing};
use windlass_core::{Body, Name};

use super::invalid::{Fault, Invalid};
use super::object;
#[cfg(feature = "openapi")]
use super::schema;
use super::submission::{Start, Submission};
use super::submit::SubmitBody;
use super::text;
use super::time::{Seconds, Time};

pub use show::{FireBody, FiresBody, ScheduleBody, SchedulePage, SlotBody, SlotsBody, TemplateBody};

/// A schedule as a client defines it. `id` (with POST), `cron` and `task` are required.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduleInput<'a> {
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::ScheduleId>, examples("nightly-report")))]
    pub id: Option<Name>,
    /// Five fields, six with seconds first, `@daily` and its like, or `@every 90s`.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::CronPattern, examples("0 2 * * MON-FRI")))]
    pub cron: String,
    /// An IANA name; `UTC` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(examples("Europe/Berlin")))]
    pub timezone: Option<String>,
    /// What every task looks like: a submit body without an id and times. `{{scheduled_at}}` in a string value of its
    /// payload becomes the slot.
    #[serde(borrow, deserialize_with = "object::required")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::ScheduleTask))]
    pub task: SubmitBody<'a>,
    /// `allow` (default), `skip`, `queue_one` or `cancel_running`: when the last fire is not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::OverlapRule>))]
    pub overlap: Option<String>,
    /// `skip`, `one` (default) or `all`: when slots were missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::CatchUpRule>))]
    pub catch_up: Option<String>,
    /// How far back missed slots are caught up with; a day unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::DelaySeconds>))]
    pub catch_up_window_seconds: Option<Seconds>,
    /// A task starts up to this much after its slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::JitterSeconds>))]
    pub jitter_seconds: Option<Seconds>,
    /// No slot before this; `@every` is counted from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Time>,
    /// No slot after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Time>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

/// What a check needs to know.
#[derive(Debug, Clone)]
pub struct ScheduleCheck {
    /// The id in the path, if there is one.
    pub id: Option<Name>,
    pub now: u64,
    /// For tasks that do not say how long they are kept.
    pub retention_ms: u64,
}

impl ScheduleInput<'_> {
    /// `source` is the body that this was read from.
    pub fn check(self, source: &Bytes, given: ScheduleCheck) -> Result<(Name, Definition), Invalid> {
        let rules = Rules {
            id: self.id,
            cron: self.cron,
            timezone: self.timezone,
            overlap: self.overlap,
            catch_up: self.catch_up,
            window: self.catch_up_window_seconds,
            jitter: self.jitter_seconds,
            starts_at: self.starts_at,
            ends_at: self.ends_at,
            paused: self.paused,
        };
        let now = given.now;
        rules.check(given, || self.task.check(source, now, SCHEDULE_PAYLOAD_BYTES_MAX))
    }
}

/// What a schedule says besides its task, whichever door it comes through.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) id: Option<Name>,
    pub(crate) cron: String,
    pub(crate) timezone: Option<String>,
    pub(crate) overlap: Option<String>,
    pub(crate) catch_up: Option<String>,
    pub(crate) window: Option<Seconds>,
    pub(crate) jitter: Option<Seconds>,
    pub(crate) starts_at: Option<Time>,
    pub(crate) ends_at: Option<Time>,
    pub(crate) paused: bool,
}

impl Rules {
    pub(crate) fn check(
        self,
        given: ScheduleCheck,
        task: impl FnOnce() -> Result<Submission, Invalid>,
    ) -> Result<(Name, Definition), Invalid> {
        let id = checked_id(self.id, given.id)?;
        let zone = self.timezone.as_deref().unwrap_or("UTC");
        let timing = Timing::parse(&self.cron, zone).map_err(|error| match error {
            InvalidTiming::Cron(message) => Invalid::out_of_range("cron", message),
            InvalidTiming::Zone(message) => Invalid::out_of_range("timezone", message),
        })?;
        let overlap = match self.overlap {
            Some(word) => Overlap::parse(&word).ok_or_else(|| {
                Invalid::out_of_range("overlap", "must be allow, skip, queue_one or cancel_running")
            })?,
            None => Overlap::Allow,
        };
        let catch_up = match self.catch_up {
            Some(word) => CatchUp::parse(&word)
                .ok_or_else(|| Invalid::out_of_range("catch_up", "must be skip, one or all"))?,
            None => CatchUp::One,
        };
        let span = |span: Option<Seconds>, field, default, most| {
            span.map_or(Ok(default), |span| span.check(field, 0..=most))
        };
        let moment = |time: Option<Time>, field| time.map(|time| time.check(field, given.now)).transpose();
        let (starts_at, ends_at) = (moment(self.starts_at, "starts_at")?, moment(self.ends_at, "ends_at")?);
        if starts_at.zip(ends_at).is_some_and(|(start, end)| end < start) {
            return Err(Invalid::out_of_range("ends_at", "is before starts_at"));
        }
        let template = task().and_then(|task| template(task, given.retention_ms));
        let definition = Definition {
            timing,
            template: template.map_err(|invalid| invalid.within("task"))?,
            overlap,
            catch_up,
            window_ms: span(self.window, "catch_up_window_seconds", SCHEDULE_WINDOW_MS_DEFAULT, HORIZON_MS)?,
            jitter_ms: span(self.jitter, "jitter_seconds", 0, SCHEDULE_JITTER_MS_MAX)?,
            starts_at,
            ends_at,
            paused: self.paused,
        };
        Ok((id, definition))
    }
}

fn checked_id(body: Option<Name>, path: Option<Name>) -> Result<Name, Invalid> {
    let id = match (body, path) {
        (Some(body), Some(path)) if body != path => {
            return Err(Invalid::malformed("id", "is not the one in the path"));
        }
        (Some(id), _) | (None, Some(id)) => id,
        (None, None) => return Err(Invalid::malformed("id", "is missing")),
    };
    if id.as_str().len() > SCHEDULE_ID_BYTES_MAX {
        let message = format!("must be at most {SCHEDULE_ID_BYTES_MAX} bytes long");
        return Err(Invalid::out_of_range("id", message));
    }
    Ok(id)
}

fn template(submission: Submission, retention_default_ms: u64) -> Result<Template, Invalid> {
    let Submission {
        id,
        queue,
        kind,
        key,
        payload,
        priority,
        start,
        expires_at,
        retry,
        max_retries,
        max_crashes,
        timeout_ms,
        retention_ms,
        metadata,
        unique,
        links,
    } = submission;
    let refused = |field| Err(Invalid::new(Fault::NotSupported, field, "comes from the schedule"));
    if id.is_some() {
        return refused("id");
    }
    match start {
        Start::Now => {}
        Start::At(_) => return refused("scheduled_at"),
        Start::AfterMs(_) => return refused("delay_seconds"),
    }
    if expires_at.is_some() {
        return refused("expires_at");
    }
    if unique.is_some() {
        let message = "is not possible for the tasks of a schedule: its `overlap` says what happens when one still lives";
        return Err(Invalid::new(Fault::NotSupported, "unique_key", message));
    }
    if links.is_some() {
        let message = "the tasks of a schedule depend on none";
        return Err(Invalid::new(Fault::NotSupported, "dependencies", message));
    }
    let retention_ms = retention_ms.unwrap_or(retention_default_ms);
    let body = Body {
        payload,
        metadata,
        timeout_ms,
        max_retries,
        max_crashes,
        retry,
        fingerprint: None,
        links: None,
    };
    Ok(Template { queue, kind, priority, retention_ms, key, body })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::decode;

    const NOW: u64 = 1_800_000_000_000;

    fn check(text: &str) -> Result<(Name, Definition), Invalid> {
        let source = Bytes::copy_from_slice(text.as_bytes());
        let given = ScheduleCheck { id: None, now: NOW, retention_ms: 1000 };
        decode::<ScheduleInput<'_>>(&source)?.check(&source, given)
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let (id, definition) = check(r#"{"id":"a","cron":"@daily","task":{"type":"t"}}"#).unwrap();
        assert_eq!((id.as_str(), definition.timing.zone()), ("a", "UTC"));
        assert_eq!((definition.overlap, definition.catch_up), (Overlap::Allow, CatchUp::One));
        assert_eq!((definition.window_ms, definition.jitter_ms), (86_400_000, 0));
        assert_eq!(definition.template.retention_ms, 1000);
    }

    #[test]
    fn mistakes_name_their_field() {
        let large = "x".repeat(SCHEDULE_PAYLOAD_BYTES_MAX);
        let long = "x".repeat(SCHEDULE_ID_BYTES_MAX + 1);
        let task = r#""task":{"type":"t"}"#;
        let cases = [
            (format!(r#"{{"cron":"@daily",{task}}}"#), 400, "id"),
            (format!(r#"{{"id":"a",{task}}}"#), 400, "cron"),
            (r#"{"id":"a","cron":"@daily"}"#.to_owned(), 400, "task"),
            (r#"{"id":"a","cron":"@daily","task":{}}"#.to_owned(), 400, "task.type"),
            (format!(r#"{{"id":"a","cron":"@daily",{task},"color":1}}"#), 400, "color"),
            (format!(r#"{{"id":"{long}","cron":"@daily",{task}}}"#), 422, "id"),
            (format!(r#"{{"id":"a","cron":"*/0 * * * *",{task}}}"#), 422, "cron"),
            (format!(r#"{{"id":"a","cron":"@daily","timezone":"Mars/Base",{task}}}"#), 422, "timezone"),
            (format!(r#"{{"id":"a","cron":"@daily","overlap":"never",{task}}}"#), 422, "overlap"),
            (format!(r#"{{"id":"a","cron":"@daily","catch_up":"some",{task}}}"#), 422, "catch_up"),
            (format!(r#"{{"id":"a","cron":"@daily","jitter_seconds":-1,{task}}}"#), 422, "jitter_seconds"),
            (
                format!(r#"{{"id":"a","cron":"@daily","catch_up_window_seconds":1e12,{task}}}"#),
                422,
                "catch_up_window_seconds",
            ),
            (format!(r#"{{"id":"a","cron":"@daily","starts_at":"soon",{task}}}"#), 400, "starts_at"),
            (
                format!(
                    r#"{{"id":"a","cron":"@daily","starts_at":"2027-02-01T00:00:00Z","ends_at":"2027-01-31T00:00:00Z",{task}}}"#
                ),
                422,
                "ends_at",
            ),
            (r#"{"id":"a","cron":"@daily","task":{"type":"t","id":"x"}}"#.to_owned(), 422, "task.id"),
            (
                r#"{"id":"a","cron":"@daily","task":{"type":"t","delay_seconds":5}}"#.to_owned(),
                422,
                "task.delay_seconds",
            ),
            (
                r#"{"id":"a","cron":"@daily","task":{"type":"t","priority":256}}"#.to_owned(),
                422,
                "task.priority",
            ),
            (
                format!(r#"{{"id":"a","cron":"@daily","task":{{"type":"t","payload":"{large}"}}}}"#),
                413,
                "task.payload",
            ),
        ];
        for (text, status, field) in cases {
            let invalid = check(&text).expect_err(&text);
            assert_eq!((invalid.fault.status(), invalid.field.as_deref()), (status, Some(field)), "{text}");
        }
    }
}
