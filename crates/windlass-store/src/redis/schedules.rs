//! Schedules, and the tasks that they fire.

use bytes::Bytes;
use windlass_core::limits::{CONFLICT_TRIES_MAX, PAGE_ROWS_MAX, SCHEDULES_MAX};
use windlass_core::schedule::Schedule;
use windlass_core::{Name, Wakes};

use super::Shared;
use super::hints::Loop;
use super::link::{Args, Fence};
use super::named::pairs;
use super::plan::Plan;
use super::{reply, script};
use crate::depth::Room;
use crate::embedded::schedules as codec;
use crate::schedules::Schedules;
use crate::store::{DueSchedules, Error, ListSchedules, ScheduleChange, ScheduleWritten, WriteSchedule};

const KIND: &str = "schedules";

impl Shared {
    pub(super) async fn schedule(&self, id: &Name) -> Result<Option<Schedule>, Error> {
        self.named(KIND, id).await?.map(|value| decode(id, value)).transpose()
    }

    pub(super) async fn schedules(&self, list: &ListSchedules) -> Result<Vec<Schedule>, Error> {
        let rows = self.page_of_named(KIND, true, list.after.as_ref(), list.limit).await?;
        rows.into_iter().map(|(id, value)| decode(&id, value)).collect()
    }

    pub(super) async fn due_schedules(&self, limit: usize) -> Result<DueSchedules, Error> {
        self.check_open()?;
        let Some(mark) = self.leading().await? else { return Ok(DueSchedules::default()) };
        let mut args = Args::new("");
        let now = self.clock.now();
        args.text(&mark).number(now.wall).number(now.elapsed()).number(limit.min(PAGE_ROWS_MAX) as u64);
        let answer = self.link.run(&script::SLOTS, &args).await?;
        if reply::is_text(&answer, "stranger") {
            self.leader.lose();
            return Ok(DueSchedules::default());
        }
        let [on_wall, wall, counted, elapsed] = reply::fixed(answer)?;
        let next = Wakes { wall: reply::maybe_number(wall)?, elapsed: reply::maybe_number(elapsed)? };
        let rows = pairs(on_wall)?.into_iter().chain(pairs(counted)?);
        let schedules = rows.map(|(id, value)| decode(&id, value)).collect::<Result<_, _>>()?;
        Ok(DueSchedules { schedules, next: next.first(now.stamp()) }.first(limit, now.stamp()))
    }

    pub(super) async fn write_schedule(
        &self,
        write: WriteSchedule,
        fence: Fence,
    ) -> Result<ScheduleWritten, Error> {
        self.check_open()?;
        self.waits.settled().await;
        let tasks = match &write.change {
            ScheduleChange::Fire { tasks, .. } => &tasks[..],
            _ => &[],
        };
        for _ in 0..CONFLICT_TRIES_MAX {
            let stored = self.schedule(&write.id).await?;
            let seen = stored.as_ref().map(|schedule| schedule.revision);
            if stored.is_none() && self.count_named(KIND).await? >= SCHEDULES_MAX {
                return Ok(ScheduleWritten::TooMany);
            }
            let mut book = Schedules::default();
            if let Some(schedule) = stored {
                book.add(schedule);
            }
            if let Some(refusal) = book.refusal(&write) {
                return Ok(refusal);
            }
            // A slot is not lost to a busy hour, so its tasks are added whatever the depth.
            let room = Room::Unbounded;
            let mut plan = Plan::new(self.outlook(tasks, room).await?, room);
            tasks.iter().for_each(|new| plan.weigh(new));
            let (mut transaction, drafts) = plan.finish();
            transaction.fence = fence;
            transaction.guard_named(KIND, &write.id, seen);
            book.carry_out(&write);
            match book.get(&write.id) {
                None => transaction.take_named(KIND, &write.id),
                Some(schedule) => {
                    transaction.put_named(KIND, &write.id, schedule.revision, codec::encode(schedule));
                }
            }
            let wakes = book.get(&write.id).map(Schedule::wakes).unwrap_or_default();
            for (order, at) in [("schedule_wakes", wakes.wall), ("schedule_elapses", wakes.elapsed)] {
                match at {
                    None => transaction.act("unrank", &[order, write.id.as_str()]),
                    Some(at) => {
                        transaction.act("rank", &[order, &at.to_string(), write.id.as_str()]);
                        transaction.hint.loops.insert(Loop::Schedules);
                    }
                }
            }
            if let Some(done) = self.transact(transaction).await? {
                let inserted = drafts.into_iter().map(|draft| draft.resolve(&done.added));
                return Ok(ScheduleWritten::Done(inserted.collect::<Result<_, _>>()?));
            }
        }
        Err(Error::Busy)
    }
}

fn decode(id: &Name, value: Bytes) -> Result<Schedule, Error> {
    codec::decode(id, value).map_err(|error| reply::wrong(&format!("a schedule in which {error}")))
}
