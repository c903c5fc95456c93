//! Firing: the one way from a decision to tasks.

use std::time::Instant;

use windlass_core::schedule::{Schedule, Tick};
use windlass_core::{Name, Record, TaskId};
use windlass_store::{Inserted, ScheduleChange, ScheduleWritten, WriteSchedule};

use crate::broker::Broker;
use crate::change::Happened;
use crate::error::Error;

impl Broker {
    /// Decides about a schedule and carries that out; whether anything came of it.
    pub(crate) async fn tick_schedule(&self, schedule: &Schedule) -> Result<bool, Error> {
        let live = match schedule.minds_overlap() {
            true => self.live_fires(schedule).await?,
            false => Vec::new(),
        };
        let Some(tick) = schedule.tick(self.now(), !live.is_empty()) else {
            if schedule.progress.queued.is_some() {
                self.await_end(&schedule.id, &live).await?;
            }
            return Ok(false);
        };
        let (queued, cancel) = (tick.advance.progress.queued.is_some(), tick.cancel);
        let fired: Vec<TaskId> = tick.tasks.iter().map(|task| task.id.clone()).collect();
        // Somebody else changed the schedule meanwhile: that is for the next look.
        let Some(_) = self.fire(schedule, tick).await? else { return Ok(true) };
        // After the fire is durable: nothing is cancelled for a fire that does not come.
        if cancel {
            self.cancel_fires(&live).await?;
        }
        if queued {
            let awaited = if fired.is_empty() { live } else { fired };
            self.await_end(&schedule.id, &awaited).await?;
        }
        Ok(true)
    }

    /// Commits a decision; the records of the tasks that it added, or `None` if the schedule changed meanwhile.
    pub(crate) async fn fire(&self, schedule: &Schedule, tick: Tick) -> Result<Option<Vec<Record>>, Error> {
        let change = ScheduleChange::Fire { advance: tick.advance, tasks: tick.tasks };
        let write = WriteSchedule { id: schedule.id.clone(), change };
        let began = Instant::now();
        let written = self.inner.store.write_schedule(write).await;
        let (took, now) = (began.elapsed(), self.now());
        let ScheduleWritten::Done(inserted) = self.progressed(written, now)? else { return Ok(None) };
        let mut records = Vec::with_capacity(inserted.len());
        for answer in inserted {
            match answer {
                Inserted::New(record) => records.push(record),
                // The slot was fired before, or somebody took its id.
                answer => tracing::warn!(schedule = %schedule.id, ?answer, "a slot's task was there already"),
            }
        }
        if let Some(tracer) = &self.inner.settings.tracer {
            records.iter().for_each(|record| tracer.fired(&schedule.id, record, now.wall));
        }
        self.happened(records.iter().map(|record| (Happened::Submitted, record)), Some(took), now);
        Ok(Some(records))
    }

    /// The fires that are not finished, of those that the schedule remembers.
    async fn live_fires(&self, schedule: &Schedule) -> Result<Vec<TaskId>, Error> {
        let fires: Vec<TaskId> = schedule.fires.iter().rev().map(|fire| fire.task.clone()).collect();
        let seen = self.inner.store.peek_all(&fires).await?;
        let is_live = |seen: Option<Record>| seen.is_some_and(|record| !record.state.is_terminal());
        Ok(fires.into_iter().zip(seen).filter_map(|(task, seen)| is_live(seen).then_some(task)).collect())
    }

    pub(crate) async fn is_live(&self, task: &TaskId) -> Result<bool, Error> {
        let record = self.inner.store.peek(task).await?;
        Ok(record.is_some_and(|record| !record.state.is_terminal()))
    }

    async fn cancel_fires(&self, live: &[TaskId]) -> Result<(), Error> {
        let mut failed = Ok(());
        for task in live {
            match self.cancel(task).await {
                // It ended by itself, which is as good.
                Ok(_) | Err(Error::Terminal(_) | Error::NotFound(_)) => {}
                // The others are cancelled all the same; this one is live still at the next slot.
                Err(error) => failed = Err(error),
            }
        }
        failed
    }

    /// Has the loop look at a schedule when one of these tasks ends, also if it just did.
    async fn await_end(&self, schedule: &Name, tasks: &[TaskId]) -> Result<(), Error> {
        for task in tasks {
            self.inner.awaited.enter(task, schedule);
            if !self.is_live(task).await? {
                self.fire_ended(task);
            }
        }
        Ok(())
    }

    /// A task ended: if a slot waits for that, the loop is woken.
    pub(crate) fn fire_ended(&self, task: &TaskId) {
        if self.inner.awaited.ended(task) {
            self.inner.store.signals().schedules.notify_one();
        }
    }
}
