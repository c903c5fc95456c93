//! Schedules, which are those of REST.

use windlass_core::limits::SCHEDULE_PAYLOAD_BYTES_MAX;
use windlass_core::schedule::Definition;
use windlass_core::{Name, Payload};

use super::names::given;
use super::time::{time, timestamp};
use super::v1::{Fire, NewSchedule, NewTask, Reason, RetryPolicy, Schedule, Slot, TaskState};
use crate::rest::schedule::Rules;
use crate::rest::{
    FireBody, Invalid, ReasonBody, RetryBody, ScheduleBody, ScheduleCheck, Seconds, SlotBody, TemplateBody,
    Time,
};

impl NewSchedule {
    pub fn check(self, check: ScheduleCheck) -> Result<(Name, Definition), Invalid> {
        let moment = |field, at: Option<_>| at.map(|at| time(field, at)).transpose();
        let rules = Rules {
            id: given("id", &self.id)?,
            cron: self.cron,
            timezone: self.timezone,
            overlap: self.overlap,
            catch_up: self.catch_up,
            window: self.catch_up_window_seconds.map(Seconds),
            jitter: self.jitter_seconds.map(Seconds),
            starts_at: moment("starts_at", self.starts_at)?,
            ends_at: moment("ends_at", self.ends_at)?,
            paused: self.paused,
        };
        let task = self.task.ok_or_else(|| Invalid::malformed("task", "is missing"))?;
        let now = check.now;
        rules.check(check, || task.check(now, SCHEDULE_PAYLOAD_BYTES_MAX))
    }
}

impl From<ScheduleBody> for Schedule {
    fn from(schedule: ScheduleBody) -> Self {
        let moment = |at: Option<Time>| at.map(|at| timestamp(at.as_ms()));
        Self {
            id: schedule.id.as_str().to_owned(),
            cron: schedule.cron,
            timezone: schedule.timezone,
            task: Some(schedule.task.into()),
            overlap: schedule.overlap,
            catch_up: schedule.catch_up,
            catch_up_window_seconds: schedule.catch_up_window_seconds.0,
            jitter_seconds: schedule.jitter_seconds.0,
            starts_at: moment(schedule.starts_at),
            ends_at: moment(schedule.ends_at),
            paused: schedule.paused,
            created_at: moment(Some(schedule.created_at)),
            updated_at: moment(Some(schedule.updated_at)),
            next_at: moment(schedule.next_at),
            queued_at: moment(schedule.queued_at),
            last_at: moment(schedule.last_at),
            last_task_id: schedule.last_task_id.map(|id| id.as_str().to_owned()),
            fired: schedule.fired,
            skipped: schedule.skipped,
            standing: Some(schedule.standing.into()),
        }
    }
}

impl From<TemplateBody> for NewTask {
    fn from(task: TemplateBody) -> Self {
        let json = task.payload.map(|text| Payload::Json(text.0));
        let payload = json.or(task.payload_base64.map(|bytes| Payload::Binary(bytes.0)));
        Self {
            r#type: task.kind.as_str().to_owned(),
            queue: task.queue.as_str().to_owned(),
            key: task.key.map(|key| key.as_str().to_owned()),
            payload: payload.map(Into::into),
            priority: Some(task.priority.into()),
            max_retries: Some(task.max_retries),
            max_crashes: Some(task.max_crashes),
            timeout_seconds: Some(task.timeout_seconds.0),
            retention_seconds: Some(task.retention_seconds.0),
            retry: Some(task.retry.into()),
            metadata: task.metadata.0.into_iter().collect(),
            ..Self::default()
        }
    }
}

impl From<RetryBody> for RetryPolicy {
    fn from(retry: RetryBody) -> Self {
        Self {
            policy: retry.policy.map(|word| word.into_owned()),
            initial_ms: retry.initial_ms,
            factor: retry.factor,
            max_ms: retry.max_ms,
            jitter: retry.jitter,
        }
    }
}

impl From<ReasonBody> for Reason {
    fn from(reason: ReasonBody) -> Self {
        Self { code: reason.code, text: reason.text, until: reason.until.map(|at| timestamp(at.as_ms())) }
    }
}

impl From<SlotBody> for Slot {
    fn from(slot: SlotBody) -> Self {
        Self {
            scheduled_at: Some(timestamp(slot.scheduled_at.as_ms())),
            starts_at: Some(timestamp(slot.starts_at.as_ms())),
        }
    }
}

impl From<FireBody> for Fire {
    fn from(fire: FireBody) -> Self {
        let moment = |at: Option<Time>| at.map(|at| timestamp(at.as_ms()));
        Self {
            scheduled_at: moment(Some(fire.scheduled_at)),
            fired_at: moment(Some(fire.fired_at)),
            manual: fire.manual,
            task_id: fire.task_id.as_str().to_owned(),
            state: fire.state.map_or(TaskState::Unspecified, TaskState::from).into(),
            started_at: moment(fire.started_at),
            completed_at: moment(fire.completed_at),
            error: fire.error.map(Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::rest::{ScheduleInput, decode};

    fn check() -> ScheduleCheck {
        ScheduleCheck { id: None, now: 1_800_000_000_000, retention_ms: 1000 }
    }

    fn plain() -> NewSchedule {
        let task = NewTask { r#type: "t".into(), ..NewTask::default() };
        NewSchedule { id: "a".into(), cron: "@daily".into(), task: Some(task), ..NewSchedule::default() }
    }

    #[test]
    fn both_doors_see_the_same_schedule() {
        let rest = |text: &str| {
            let source = Bytes::copy_from_slice(text.as_bytes());
            decode::<ScheduleInput<'_>>(&source).unwrap().check(&source, check()).unwrap()
        };
        let least = r#"{"id":"a","cron":"@daily","task":{"type":"t"}}"#;
        assert_eq!(plain().check(check()), Ok(rest(least)));
        let full = NewSchedule {
            timezone: Some("Europe/Berlin".into()),
            overlap: Some("skip".into()),
            catch_up: Some("all".into()),
            catch_up_window_seconds: Some(60.0),
            jitter_seconds: Some(1.5),
            starts_at: Some(timestamp(1_800_000_000_000)),
            ends_at: Some(timestamp(1_800_000_001_000)),
            paused: true,
            ..plain()
        };
        let text = r#"{"id":"a","cron":"@daily","task":{"type":"t"},"timezone":"Europe/Berlin","overlap":"skip",
            "catch_up":"all","catch_up_window_seconds":60,"jitter_seconds":1.5,"paused":true,
            "starts_at":"2027-01-15T08:00:00Z","ends_at":"2027-01-15T08:00:01Z"}"#;
        assert_eq!(full.check(check()), Ok(rest(text)));
    }

    #[test]
    fn every_mistake_has_its_code_and_field() {
        let task =
            |task: NewTask| NewSchedule { task: Some(NewTask { r#type: "t".into(), ..task }), ..plain() };
        let table = [
            (NewSchedule { id: String::new(), ..plain() }, "malformed", "id"),
            (NewSchedule { cron: "61 * * * *".into(), ..plain() }, "out_of_range", "cron"),
            (NewSchedule { cron: String::new(), ..plain() }, "out_of_range", "cron"),
            (NewSchedule { timezone: Some("Mars/Base".into()), ..plain() }, "out_of_range", "timezone"),
            (NewSchedule { task: None, ..plain() }, "malformed", "task"),
            (NewSchedule { task: Some(NewTask::default()), ..plain() }, "malformed", "task.type"),
            (NewSchedule { overlap: Some("never".into()), ..plain() }, "out_of_range", "overlap"),
            (NewSchedule { jitter_seconds: Some(-1.0), ..plain() }, "out_of_range", "jitter_seconds"),
            (task(NewTask { id: "x".into(), ..NewTask::default() }), "not_supported", "task.id"),
            (
                task(NewTask { unique_key: Some("x".into()), ..NewTask::default() }),
                "not_supported",
                "task.unique_key",
            ),
        ];
        for (schedule, code, field) in table {
            let invalid = schedule.check(check()).expect_err(field);
            assert_eq!((invalid.fault.code(), invalid.field.as_deref()), (code, Some(field)));
        }
    }
}
