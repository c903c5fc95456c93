//! Schedules: the verbs. What fires by itself is in `loops::cron`; both go through [`Broker::fire`].

mod awaited;
mod fire;
mod standing;
mod stuck;

use windlass_core::limits::{CONFLICT_TRIES_MAX, SCHEDULE_PREVIEW_MAX};
use windlass_core::schedule::{Definition, Fire, Planned, Schedule};
use windlass_core::{Name, Record, Stamp, Task, TaskId};
use windlass_store::{ListSchedules, ScheduleChange, ScheduleWritten, WriteSchedule};

use crate::broker::Broker;
use crate::error::Error;
use crate::explain::Reason;

pub(crate) use awaited::Awaited;
pub(crate) use stuck::{Stuck, is_refusal};

/// A schedule, and what it is about to do.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleView {
    /// The schedule, with its next slot converted to the present wall clock.
    pub schedule: Schedule,
    /// One of the codes `scheduled`, `late`, `queued`, `paused`, `ended`, `clock_set_back` and `cannot_fire`, with a text.
    pub standing: Reason,
}

/// A fire, and its task unless that is forgotten already.
#[derive(Debug, Clone, PartialEq)]
pub struct FireView {
    pub fire: Fire,
    pub task: Option<Record>,
}

impl Broker {
    /// A schedule with an id that is free.
    pub async fn create_schedule(&self, id: Name, definition: Definition) -> Result<ScheduleView, Error> {
        let now = self.now().stamp();
        check(&definition, now)?;
        let schedule = Schedule::new(id, definition, now);
        match self.put(schedule.clone(), None).await? {
            ScheduleWritten::Done(_) => Ok(self.view(schedule)),
            ScheduleWritten::TooMany => Err(Error::TooManySchedules),
            ScheduleWritten::Conflict | ScheduleWritten::Missing => Err(Error::ScheduleExists),
        }
    }

    /// Makes a schedule or gives it another definition; says whether it is new.
    pub async fn put_schedule(
        &self,
        id: Name,
        definition: Definition,
    ) -> Result<(ScheduleView, bool), Error> {
        check(&definition, self.now().stamp())?;
        for _ in 0..CONFLICT_TRIES_MAX {
            if self.inner.store.schedule(&id).await?.is_some() {
                match self.redefine(&id, |_| definition.clone()).await {
                    // It went away just now, so it is a new one.
                    Err(Error::NotFound(_)) => {}
                    changed => return changed.map(|view| (view, false)),
                }
            }
            match self.create_schedule(id.clone(), definition.clone()).await {
                Err(Error::ScheduleExists) => {}
                made => return made.map(|view| (view, true)),
            }
        }
        Err(Error::Busy)
    }

    pub async fn schedule(&self, id: &Name) -> Result<ScheduleView, Error> {
        Ok(self.view(self.find_schedule(id).await?))
    }

    /// In order of id.
    pub async fn schedules(&self, list: ListSchedules) -> Result<Vec<ScheduleView>, Error> {
        let schedules = self.inner.store.schedules(list).await?;
        Ok(schedules.into_iter().map(|schedule| self.view(schedule)).collect())
    }

    /// Forgets a schedule; tasks that it made stay.
    pub async fn remove_schedule(&self, id: &Name) -> Result<(), Error> {
        for _ in 0..CONFLICT_TRIES_MAX {
            let seen = self.find_schedule(id).await?.revision;
            let write = WriteSchedule { id: id.clone(), change: ScheduleChange::Remove { seen } };
            match self.progressed(self.inner.store.write_schedule(write).await, self.now())? {
                ScheduleWritten::Conflict => {}
                ScheduleWritten::Missing => return Err(Error::NotFound("schedule")),
                ScheduleWritten::Done(_) | ScheduleWritten::TooMany => {
                    self.inner.stuck.forget(id);
                    return Ok(());
                }
            }
        }
        Err(Error::Busy)
    }

    pub async fn pause_schedule(&self, id: &Name) -> Result<ScheduleView, Error> {
        self.redefine(id, |definition| Definition { paused: true, ..definition }).await
    }

    pub async fn resume_schedule(&self, id: &Name) -> Result<ScheduleView, Error> {
        self.redefine(id, |definition| Definition { paused: false, ..definition }).await
    }

    /// Makes a task now, whatever the slots and the overlap rule say.
    pub async fn run_schedule(&self, id: &Name) -> Result<Task, Error> {
        for _ in 0..CONFLICT_TRIES_MAX {
            let schedule = self.find_schedule(id).await?;
            let now = self.now().stamp();
            let task = format!("{id}:run:{}", crate::submit::new_id(now.wall));
            let task = TaskId::new(&task).expect("the id of a schedule leaves room for a run");
            let tick = schedule.run(task, now);
            let bodies: Vec<_> = tick.tasks.iter().map(|task| task.body.clone()).collect();
            if let Some(records) = self.fire(&schedule, tick).await? {
                let made = records.into_iter().zip(bodies).next();
                return made.map(|(record, body)| Task { record, body }).ok_or(Error::TaskExists);
            }
        }
        Err(Error::Busy)
    }

    /// The next slots of a schedule, as if it were not paused.
    pub async fn next_slots(&self, id: &Name, count: usize) -> Result<Vec<Planned>, Error> {
        let schedule = self.find_schedule(id).await?;
        Ok(schedule.preview(self.now(), count.min(SCHEDULE_PREVIEW_MAX)))
    }

    /// The last fires, newest first, with what became of them.
    pub async fn schedule_fires(&self, id: &Name, limit: usize) -> Result<Vec<FireView>, Error> {
        let schedule = self.find_schedule(id).await?;
        let mut views = Vec::new();
        for fire in schedule.fires.into_iter().rev().take(limit) {
            let task = self.inner.store.peek(&fire.task).await?;
            views.push(FireView { fire, task });
        }
        Ok(views)
    }

    async fn find_schedule(&self, id: &Name) -> Result<Schedule, Error> {
        self.inner.store.schedule(id).await?.ok_or(Error::NotFound("schedule"))
    }

    async fn redefine(
        &self,
        id: &Name,
        change: impl Fn(Definition) -> Definition + Send,
    ) -> Result<ScheduleView, Error> {
        for _ in 0..CONFLICT_TRIES_MAX {
            let seen = self.find_schedule(id).await?;
            let definition = change(seen.definition.clone());
            if definition == seen.definition {
                return Ok(self.view(seen));
            }
            let next = seen.redefined(definition, self.now());
            match self.put(next.clone(), Some(seen.revision)).await? {
                ScheduleWritten::Conflict => {}
                ScheduleWritten::Missing => return Err(Error::NotFound("schedule")),
                ScheduleWritten::Done(_) | ScheduleWritten::TooMany => return Ok(self.view(next)),
            }
        }
        Err(Error::Busy)
    }

    async fn put(&self, schedule: Schedule, seen: Option<u64>) -> Result<ScheduleWritten, Error> {
        let id = schedule.id.clone();
        let change = ScheduleChange::Put { schedule: Box::new(schedule), seen };
        let write = WriteSchedule { id: id.clone(), change };
        let written = self.progressed(self.inner.store.write_schedule(write).await, self.now())?;
        // With another definition it may be able to fire.
        self.inner.stuck.forget(&id);
        Ok(written)
    }

    fn view(&self, mut schedule: Schedule) -> ScheduleView {
        let now = self.now().stamp();
        let stuck = self.inner.stuck.reason(&schedule.id);
        let standing = standing::of(&schedule, stuck.as_deref(), now);
        schedule.progress.wake_at = schedule.progress.wake_at.map(|at| schedule.definition.shown(at, now));
        ScheduleView { schedule, standing }
    }
}

/// A schedule that would never fire is a mistake.
fn check(definition: &Definition, now: Stamp) -> Result<(), Error> {
    let now = definition.clock(now);
    if definition.next_slot(now).is_some() {
        return Ok(());
    }
    let unbounded = Definition { ends_at: None, ..definition.clone() };
    let (field, message) = match unbounded.next_slot(now) {
        Some(_) => ("ends_at", "is before the next time that the pattern names"),
        None => ("cron", "names a time that never comes"),
    };
    Err(Error::Invalid { field, message: message.to_owned() })
}
