//! A schedule to be made.

use std::time::{Duration, SystemTime};

use windlass_core::Name;
use windlass_core::schedule::{CatchUp, Overlap};
use windlass_proto::rest::{ScheduleInput, Time};

use super::Submit;
use super::submit::{ms, name, seconds};
use crate::error::Error;

/// When, and what every task looks like. What is left out takes the broker's default.
#[derive(Debug, Clone)]
pub struct NewSchedule {
    pub(crate) id: String,
    pub(crate) cron: String,
    pub(crate) task: Submit,
    pub(crate) timezone: Option<String>,
    pub(crate) overlap: Option<Overlap>,
    pub(crate) catch_up: Option<CatchUp>,
    pub(crate) window: Option<Duration>,
    pub(crate) jitter: Option<Duration>,
    pub(crate) starts_at: Option<SystemTime>,
    pub(crate) ends_at: Option<SystemTime>,
    pub(crate) paused: bool,
}

impl NewSchedule {
    /// `cron` has five fields, or six with seconds first, or is `@daily` or `@every 90s` and the like. `{{scheduled_at}}` in a
    /// string of the task's payload becomes the slot.
    pub fn new(id: &str, cron: &str, task: Submit) -> Self {
        Self {
            id: id.to_owned(),
            cron: cron.to_owned(),
            task,
            timezone: None,
            overlap: None,
            catch_up: None,
            window: None,
            jitter: None,
            starts_at: None,
            ends_at: None,
            paused: false,
        }
    }

    /// An IANA name; UTC otherwise.
    pub fn timezone(mut self, zone: &str) -> Self {
        self.timezone = Some(zone.to_owned());
        self
    }

    /// What happens at a slot while the last fire is not finished.
    pub fn overlap(mut self, rule: Overlap) -> Self {
        self.overlap = Some(rule);
        self
    }

    /// What becomes of slots that were missed.
    pub fn catch_up(mut self, rule: CatchUp) -> Self {
        self.catch_up = Some(rule);
        self
    }

    /// How far back missed slots are caught up with.
    pub fn catch_up_window(mut self, window: Duration) -> Self {
        self.window = Some(window);
        self
    }

    /// A task starts up to this much after its slot.
    pub fn jitter(mut self, most: Duration) -> Self {
        self.jitter = Some(most);
        self
    }

    /// No slot before this moment.
    pub fn starts_at(mut self, at: SystemTime) -> Self {
        self.starts_at = Some(at);
        self
    }

    /// No slot after this moment.
    pub fn ends_at(mut self, at: SystemTime) -> Self {
        self.ends_at = Some(at);
        self
    }

    /// It fires only when it is resumed.
    pub fn paused(mut self) -> Self {
        self.paused = true;
        self
    }

    pub(crate) fn name(&self) -> Result<Name, Error> {
        name("id", &self.id)
    }

    /// As the REST interface wants it.
    pub(crate) fn body(&self) -> Result<ScheduleInput<'_>, Error> {
        let moment = |at: Option<SystemTime>| at.map(|at| Time::from_ms(ms(at)));
        Ok(ScheduleInput {
            id: Some(self.name()?),
            cron: self.cron.clone(),
            timezone: self.timezone.clone(),
            task: self.task.template()?,
            overlap: self.overlap.map(|rule| rule.as_str().to_owned()),
            catch_up: self.catch_up.map(|rule| rule.as_str().to_owned()),
            catch_up_window_seconds: self.window.map(seconds),
            jitter_seconds: self.jitter.map(seconds),
            starts_at: moment(self.starts_at),
            ends_at: moment(self.ends_at),
            paused: self.paused,
        })
    }
}
