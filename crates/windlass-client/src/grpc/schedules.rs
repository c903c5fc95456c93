//! Calls about schedules.

use windlass_core::{Name, Payload};
use windlass_proto::grpc::timestamp;
use windlass_proto::grpc::v1::{
    self, CreateScheduleRequest, GetScheduleRequest, ListFiresRequest, ListNextSlotsRequest,
    ListSchedulesRequest, PauseScheduleRequest, PutScheduleRequest, RemoveScheduleRequest,
    ResumeScheduleRequest, RunScheduleRequest,
};
use windlass_proto::rest::{
    FireBody, FiresBody, Metadata, ScheduleBody, SchedulePage, Seconds, SlotBody, SlotsBody, TemplateBody,
};

use super::new_task::template;
use super::read::{self, optional, parsed, part, since, small, split, time};
use super::tasks::rows;
use super::{Grpc, said, soon};
use crate::client::{NewSchedule, Task, moment_ms};
use crate::error::Error;

impl Grpc {
    pub(crate) async fn create_schedule(&self, schedule: &NewSchedule) -> Result<ScheduleBody, Error> {
        let request = soon(CreateScheduleRequest { schedule: Some(schedule.into()) });
        shown(said(self.admin.clone().create_schedule(request).await)?)
    }

    pub(crate) async fn put_schedule(&self, schedule: &NewSchedule) -> Result<ScheduleBody, Error> {
        let request = soon(PutScheduleRequest { schedule: Some(schedule.into()) });
        shown(said(self.admin.clone().put_schedule(request).await)?)
    }

    pub(crate) async fn schedule(&self, id: &Name) -> Result<ScheduleBody, Error> {
        let request = soon(GetScheduleRequest { id: id.to_string() });
        shown(said(self.admin.clone().get_schedule(request).await)?)
    }

    pub(crate) async fn schedules(&self, limit: usize, cursor: Option<&str>) -> Result<SchedulePage, Error> {
        let request = ListSchedulesRequest { limit: Some(rows(limit)), cursor: cursor.map(str::to_owned) };
        let answer = said(self.admin.clone().list_schedules(soon(request)).await)?;
        let items = answer.schedules.into_iter().map(shown).collect::<Result<_, _>>()?;
        Ok(SchedulePage { items, next_cursor: answer.next_cursor })
    }

    pub(crate) async fn remove_schedule(&self, id: &Name) -> Result<(), Error> {
        let request = soon(RemoveScheduleRequest { id: id.to_string() });
        said(self.admin.clone().remove_schedule(request).await).map(drop)
    }

    pub(crate) async fn run_schedule(&self, id: &Name) -> Result<Task, Error> {
        let request = soon(RunScheduleRequest { id: id.to_string() });
        read::task(said(self.admin.clone().run_schedule(request).await)?)
    }

    pub(crate) async fn pause_schedule(&self, id: &Name) -> Result<ScheduleBody, Error> {
        let request = soon(PauseScheduleRequest { id: id.to_string() });
        shown(said(self.admin.clone().pause_schedule(request).await)?)
    }

    pub(crate) async fn resume_schedule(&self, id: &Name) -> Result<ScheduleBody, Error> {
        let request = soon(ResumeScheduleRequest { id: id.to_string() });
        shown(said(self.admin.clone().resume_schedule(request).await)?)
    }

    pub(crate) async fn next_slots(&self, id: &Name, count: usize) -> Result<SlotsBody, Error> {
        let request = soon(ListNextSlotsRequest { id: id.to_string(), count: Some(rows(count)) });
        let slot = |slot: v1::Slot| SlotBody {
            scheduled_at: since(slot.scheduled_at),
            starts_at: since(slot.starts_at),
        };
        let answer = said(self.admin.clone().list_next_slots(request).await)?;
        Ok(SlotsBody { items: answer.slots.into_iter().map(slot).collect() })
    }

    pub(crate) async fn schedule_fires(&self, id: &Name, limit: usize) -> Result<FiresBody, Error> {
        let request = soon(ListFiresRequest { id: id.to_string(), limit: Some(rows(limit)) });
        let answer = said(self.admin.clone().list_fires(request).await)?;
        Ok(FiresBody { items: answer.fires.into_iter().map(fire).collect::<Result<_, _>>()? })
    }
}

impl From<&NewSchedule> for v1::NewSchedule {
    fn from(schedule: &NewSchedule) -> Self {
        let moment = |at| timestamp(moment_ms(at));
        Self {
            id: schedule.id.clone(),
            cron: schedule.cron.clone(),
            timezone: schedule.timezone.clone(),
            task: Some(template(&schedule.task)),
            overlap: schedule.overlap.map(|rule| rule.as_str().to_owned()),
            catch_up: schedule.catch_up.map(|rule| rule.as_str().to_owned()),
            catch_up_window_seconds: schedule.window.map(|span| span.as_secs_f64()),
            jitter_seconds: schedule.jitter.map(|span| span.as_secs_f64()),
            starts_at: schedule.starts_at.map(moment),
            ends_at: schedule.ends_at.map(moment),
            paused: schedule.paused,
        }
    }
}

fn shown(schedule: v1::Schedule) -> Result<ScheduleBody, Error> {
    Ok(ScheduleBody {
        id: parsed("id", &schedule.id)?,
        cron: schedule.cron,
        timezone: schedule.timezone,
        task: made(part("task", schedule.task)?)?,
        overlap: schedule.overlap,
        catch_up: schedule.catch_up,
        catch_up_window_seconds: Seconds(schedule.catch_up_window_seconds),
        jitter_seconds: Seconds(schedule.jitter_seconds),
        starts_at: time(schedule.starts_at),
        ends_at: time(schedule.ends_at),
        paused: schedule.paused,
        created_at: since(schedule.created_at),
        updated_at: since(schedule.updated_at),
        next_at: time(schedule.next_at),
        queued_at: time(schedule.queued_at),
        last_at: time(schedule.last_at),
        last_task_id: optional("last_task_id", schedule.last_task_id)?,
        fired: schedule.fired,
        skipped: schedule.skipped,
        standing: read::reason(part("standing", schedule.standing)?),
    })
}

fn made(task: v1::NewTask) -> Result<TemplateBody, Error> {
    let (payload, payload_base64) = split(task.payload.map(Payload::from));
    let mut metadata: Vec<(String, String)> = task.metadata.into_iter().collect();
    metadata.sort_unstable();
    Ok(TemplateBody {
        kind: parsed("type", &task.r#type)?,
        queue: parsed("queue", &task.queue)?,
        key: optional("key", task.key)?,
        payload,
        payload_base64,
        priority: small("priority", part("priority", task.priority)?)?,
        max_retries: part("max_retries", task.max_retries)?,
        max_crashes: part("max_crashes", task.max_crashes)?,
        timeout_seconds: Seconds(part("timeout_seconds", task.timeout_seconds)?),
        retention_seconds: Seconds(part("retention_seconds", task.retention_seconds)?),
        retry: part("retry", task.retry)?.into(),
        metadata: Metadata(metadata),
    })
}

fn fire(fire: v1::Fire) -> Result<FireBody, Error> {
    Ok(FireBody {
        scheduled_at: since(fire.scheduled_at),
        fired_at: since(fire.fired_at),
        manual: fire.manual,
        task_id: parsed("task_id", &fire.task_id)?,
        state: read::state_or_none(fire.state),
        started_at: time(fire.started_at),
        completed_at: time(fire.completed_at),
        error: fire.error.map(Into::into),
    })
}
