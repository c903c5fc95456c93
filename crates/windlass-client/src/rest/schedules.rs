//! Calls about schedules.

use reqwest::Method;
use windlass_core::Name;
use windlass_proto::rest::{FiresBody, ScheduleBody, ScheduleInput, SchedulePage, SlotsBody, TaskBody};

use super::{Client, json, read, repeat, send};
use crate::client::NewSchedule;
use crate::error::Error;

const SCHEDULES: [&str; 3] = ["api", "v1", "schedules"];

impl Client {
    /// Makes a schedule; one of the same id is refused.
    pub async fn create_schedule(&self, schedule: &NewSchedule) -> Result<ScheduleBody, Error> {
        self.create_schedule_of(&schedule.body()?).await
    }

    /// Makes a schedule or replaces its definition.
    pub async fn put_schedule(&self, schedule: &NewSchedule) -> Result<ScheduleBody, Error> {
        self.put_schedule_of(&schedule.name()?, &schedule.body()?).await
    }

    /// The same with a body as the interface takes it.
    pub async fn create_schedule_of(&self, body: &ScheduleInput<'_>) -> Result<ScheduleBody, Error> {
        self.post(&SCHEDULES, body).await
    }

    /// The same with a body as the interface takes it.
    pub async fn put_schedule_of(&self, id: &Name, body: &ScheduleInput<'_>) -> Result<ScheduleBody, Error> {
        read(repeat(json(self.request(Method::PUT, &of(id, None))?, body)?).await?).await
    }

    pub async fn schedule(&self, id: &Name) -> Result<ScheduleBody, Error> {
        self.get(&of(id, None), &[]).await
    }

    /// In order of id.
    pub async fn schedules(&self, limit: usize, cursor: Option<&str>) -> Result<SchedulePage, Error> {
        let mut query = vec![("limit", limit.to_string())];
        query.extend(cursor.map(|cursor| ("cursor", cursor.to_owned())));
        self.get(&SCHEDULES, &query).await
    }

    pub async fn remove_schedule(&self, id: &Name) -> Result<(), Error> {
        send(self.request(Method::DELETE, &of(id, None))?).await.map(drop)
    }

    /// Makes a task of it now.
    pub async fn run_schedule(&self, id: &Name) -> Result<TaskBody, Error> {
        self.act(Method::POST, &of(id, Some("run"))).await
    }

    pub async fn pause_schedule(&self, id: &Name) -> Result<ScheduleBody, Error> {
        self.act(Method::POST, &of(id, Some("pause"))).await
    }

    pub async fn resume_schedule(&self, id: &Name) -> Result<ScheduleBody, Error> {
        self.act(Method::POST, &of(id, Some("resume"))).await
    }

    pub async fn next_slots(&self, id: &Name, count: usize) -> Result<SlotsBody, Error> {
        self.get(&of(id, Some("next")), &[("count", count.to_string())]).await
    }

    pub async fn schedule_fires(&self, id: &Name, limit: usize) -> Result<FiresBody, Error> {
        self.get(&of(id, Some("fires")), &[("limit", limit.to_string())]).await
    }
}

fn of<'a>(id: &'a Name, act: Option<&'a str>) -> Vec<&'a str> {
    SCHEDULES.into_iter().chain([id.as_str()]).chain(act).collect()
}
