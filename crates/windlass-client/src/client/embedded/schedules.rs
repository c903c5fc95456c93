//! Schedules.

use windlass_core::Name;
use windlass_core::limits::{SCHEDULE_FIRES_KEPT_MAX, SCHEDULE_PREVIEW_MAX};
use windlass_core::schedule::Definition;
use windlass_proto::rest::{
    FireBody, FiresBody, Invalid, ScheduleBody, ScheduleCheck, ScheduleInput, SchedulePage, SlotsBody, decode,
};
use windlass_store::ListSchedules;

use super::{Embedded, now, place, rows, written};
use crate::client::{NewSchedule, Task};
use crate::error::Error;
use crate::show::schedule;

impl Embedded {
    pub(crate) async fn create_schedule(&self, new: &NewSchedule) -> Result<ScheduleBody, Error> {
        let (id, definition) = self.definition(new)?;
        Ok(schedule(self.0.create_schedule(id, definition).await?))
    }

    pub(crate) async fn put_schedule(&self, new: &NewSchedule) -> Result<ScheduleBody, Error> {
        let (id, definition) = self.definition(new)?;
        let (view, _) = self.0.put_schedule(id, definition).await?;
        Ok(schedule(view))
    }

    fn definition(&self, new: &NewSchedule) -> Result<(Name, Definition), Error> {
        let source = written(&new.body()?)?;
        let input: ScheduleInput<'_> = decode(&source)?;
        let retention_ms = self.0.settings().retention_ms;
        Ok(input.check(&source, ScheduleCheck { id: None, now: now(), retention_ms })?)
    }

    pub(crate) async fn schedule(&self, id: &Name) -> Result<ScheduleBody, Error> {
        Ok(schedule(self.0.schedule(id).await?))
    }

    pub(crate) async fn schedules(&self, limit: usize, cursor: Option<&str>) -> Result<SchedulePage, Error> {
        let limit = rows(limit)?;
        let views = self.0.schedules(ListSchedules { after: place(cursor)?, limit }).await?;
        let last = views.last().filter(|_| views.len() == limit);
        let next_cursor = last.map(|view| view.schedule.id.to_string());
        Ok(SchedulePage { items: views.into_iter().map(schedule).collect(), next_cursor })
    }

    pub(crate) async fn remove_schedule(&self, id: &Name) -> Result<(), Error> {
        Ok(self.0.remove_schedule(id).await?)
    }

    pub(crate) async fn run_schedule(&self, id: &Name) -> Result<Task, Error> {
        Ok(Task::from(self.0.run_schedule(id).await?))
    }

    pub(crate) async fn pause_schedule(&self, id: &Name) -> Result<ScheduleBody, Error> {
        Ok(schedule(self.0.pause_schedule(id).await?))
    }

    pub(crate) async fn resume_schedule(&self, id: &Name) -> Result<ScheduleBody, Error> {
        Ok(schedule(self.0.resume_schedule(id).await?))
    }

    pub(crate) async fn next_slots(&self, id: &Name, count: usize) -> Result<SlotsBody, Error> {
        if count == 0 {
            return Err(Invalid::out_of_range("count", "must be at least 1").into());
        }
        let slots = self.0.next_slots(id, count.min(SCHEDULE_PREVIEW_MAX)).await?;
        Ok(SlotsBody { items: slots.into_iter().map(Into::into).collect() })
    }

    pub(crate) async fn schedule_fires(&self, id: &Name, limit: usize) -> Result<FiresBody, Error> {
        let fires = self.0.schedule_fires(id, rows(limit)?.min(SCHEDULE_FIRES_KEPT_MAX)).await?;
        let items = fires.into_iter().map(|view| FireBody::new(view.fire, view.task)).collect();
        Ok(FiresBody { items })
    }
}
