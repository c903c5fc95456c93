//! Schedules, workflows and operations.
//!
//! A schedule is in the part of the queue that it fires into, so a fire is one commit, as ever. A workflow is in the part of its
//! queues. An operation is in the first part while its steps reach over all of them, so a step is no single commit: whoever
//! takes one says so first (`intent/<operation>`, which ends by itself), changes the tasks, each under its revision, and
//! then counts them. If it dies in between, the step is taken again by another: no task is changed twice, for the tasks
//! that were changed are at another revision, but those are counted as left out.

use std::time::Duration;

use futures_util::future::try_join_all;
use windlass_core::limits::PAGE_ROWS_MAX;
use windlass_core::operation::{Action, Operation, Step};
use windlass_core::{Filter, Name, Transition, Workflow};

use super::super::operations::keep;
use super::super::reply;
use super::super::transact::Transaction;
use super::homes::{Asked, of_id, of_schedule, of_workflow};
use super::{Spread, apart};
use crate::operations::tally;
use crate::store::{
    Committed, DueSchedules, Error, InsertWorkflow, Inserted, ListSchedules, ListWorkflows, OperationChange,
    OperationWritten, Page, ScheduleChange, ScheduleWritten, Span, WorkflowInserted, WriteOperation,
    WriteSchedule,
};
use windlass_core::schedule::Schedule;

/// How long a step of an operation may take before somebody else takes it.
const STEP: Duration = Duration::from_secs(60);
/// Where the place in a workflow stands in what a span says to go on with; see [`Spread::span`].
const PLACE_BITS: u32 = 48;

impl Spread {
    pub(super) async fn schedule(&self, id: &Name) -> Result<Option<Schedule>, Error> {
        self.check_open()?;
        match self.home(of_schedule(id)).await? {
            Some(shard) => self.part(shard).schedule(id).await,
            None => Ok(None),
        }
    }

    pub(super) async fn schedules(&self, list: &ListSchedules) -> Result<Vec<Schedule>, Error> {
        let pages = try_join_all(self.parts.iter().map(|part| part.shared.schedules(list))).await?;
        let mut all: Vec<Schedule> = pages.into_iter().flatten().collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all.truncate(list.limit.min(PAGE_ROWS_MAX));
        Ok(all)
    }

    pub(super) async fn due_schedules(&self, limit: usize) -> Result<DueSchedules, Error> {
        let parts = try_join_all(self.parts.iter().map(|part| part.shared.due_schedules(limit))).await?;
        let next = parts.iter().filter_map(|due| due.next).min();
        let schedules = parts.into_iter().flat_map(|due| due.schedules).collect();
        Ok(DueSchedules { schedules, next }.first(limit, self.clock.now().stamp()))
    }

    pub(super) async fn write_schedule(&self, mut write: WriteSchedule) -> Result<ScheduleWritten, Error> {
        self.check_open()?;
        let name = of_schedule(&write.id);
        match &mut write.change {
            ScheduleChange::Put { schedule, .. } => {
                let shard = self.shard_of(&schedule.definition.template.queue);
                let fence = self.fence(shard).await?;
                let place = self.homes(&[Asked::want(name.clone(), shard)]).await?.pop().flatten();
                if let Some(place) = place.filter(|place| place.shard != shard) {
                    if self.part(place.shard).schedule(&write.id).await?.is_some() {
                        // It would have to leave one part and come into another.
                        return Err(apart());
                    }
                    if !self.take_over(name, shard, &place).await? {
                        return Err(Error::Busy);
                    }
                }
                self.part(shard).write_schedule(write, fence).await
            }
            ScheduleChange::Remove { .. } => {
                let Some(shard) = self.home(name.clone()).await? else { return Ok(ScheduleWritten::Missing) };
                let written = self.part(shard).write_schedule(write, None).await?;
                if matches!(written, ScheduleWritten::Done(_)) {
                    self.let_go_of(vec![name]).await;
                }
                Ok(written)
            }
            ScheduleChange::Fire { tasks, .. } => {
                let Some(shard) = self.home(name).await? else { return Ok(ScheduleWritten::Missing) };
                // The queue of a template cannot leave its part, so these are of the same one.
                if tasks.iter().any(|task| self.shard_of(&task.queue) != shard) {
                    return Err(apart());
                }
                let fence = self.fence(shard).await?;
                let asked: Vec<Asked> =
                    tasks.iter().map(|task| Asked::want(of_id(&task.id), shard)).collect();
                let places = self.homes(&asked).await?;
                let mut refused: Vec<Option<Inserted>> = places
                    .iter()
                    .map(|place| place.as_ref().filter(|place| place.shard != shard).map(|_| Inserted::Clash))
                    .collect();
                for (i, apart) in self.uncounted(shard, tasks.iter()).await? {
                    refused[i].get_or_insert(Inserted::LimitApart(Box::new(apart)));
                }
                let mut free = refused.iter().map(Option::is_none);
                tasks.retain(|_| free.next().unwrap_or(true));
                let written = self.part(shard).write_schedule(write, fence).await?;
                Ok(self.fired(written, refused))
            }
        }
    }

    /// The answers to a fire, with those that were not asked because another part has a task of that id, or counts such tasks.
    fn fired(&self, written: ScheduleWritten, refused: Vec<Option<Inserted>>) -> ScheduleWritten {
        let ScheduleWritten::Done(inserted) = written else { return written };
        for answer in &inserted {
            if let Inserted::New(record) = answer {
                self.saw([record]);
            }
        }
        let mut inserted = inserted.into_iter();
        let answer = |refused: Option<Inserted>| refused.or_else(|| inserted.next());
        ScheduleWritten::Done(refused.into_iter().filter_map(answer).collect())
    }

    pub(super) async fn insert_workflow(&self, insert: InsertWorkflow) -> Result<WorkflowInserted, Error> {
        self.check_open()?;
        let Some(first) = insert.tasks.first() else {
            return self.part(0).insert_workflow(insert, None).await;
        };
        let shard = self.shard_of(&first.queue);
        if insert.tasks.iter().any(|task| self.shard_of(&task.queue) != shard) {
            return Err(apart());
        }
        let fence = self.fence(shard).await?;
        let name = of_workflow(insert.id.as_str());
        let place = self.homes(&[Asked::want(name.clone(), shard)]).await?.pop().flatten();
        if let Some(place) = place.filter(|place| place.shard != shard) {
            if let Some(stored) = self.part(place.shard).workflow(&insert.id).await? {
                return Ok(match stored.fingerprint == insert.fingerprint {
                    true => WorkflowInserted::Same(Box::new(stored)),
                    false => WorkflowInserted::Clash,
                });
            }
            if !self.take_over(name, shard, &place).await? {
                return Err(Error::Busy);
            }
        }
        let asked: Vec<Asked> = insert.tasks.iter().map(|task| Asked::want(of_id(&task.id), shard)).collect();
        let mut refused = vec![Inserted::Aborted; insert.tasks.len()];
        for (i, place) in self.homes(&asked).await?.into_iter().enumerate() {
            let Some(place) = place.filter(|place| place.shard != shard) else { continue };
            let new = &insert.tasks[i];
            if self.taken(new, place.shard).await?.is_some() {
                refused[i] = Inserted::Clash;
            } else if !self.take_over(of_id(&new.id), shard, &place).await? {
                return Err(Error::Busy);
            }
        }
        for (i, apart) in self.uncounted(shard, &insert.tasks).await? {
            if refused[i] == Inserted::Aborted {
                refused[i] = Inserted::LimitApart(Box::new(apart));
            }
        }
        if refused.iter().any(|answer| *answer != Inserted::Aborted) {
            return Ok(WorkflowInserted::Refused(refused));
        }
        let inserted = self.part(shard).insert_workflow(insert, fence).await?;
        if let WorkflowInserted::New(_, records) = &inserted {
            self.saw(records);
        }
        Ok(inserted)
    }

    pub(super) async fn workflow(&self, id: &Name) -> Result<Option<Workflow>, Error> {
        self.check_open()?;
        match self.home(of_workflow(id.as_str())).await? {
            Some(shard) => self.part(shard).workflow(id).await,
            None => Ok(None),
        }
    }

    pub(super) async fn workflows(&self, list: &ListWorkflows) -> Result<Vec<Workflow>, Error> {
        let pages = try_join_all(self.parts.iter().map(|part| part.shared.workflows(list))).await?;
        let mut all: Vec<Workflow> = pages.into_iter().flatten().collect();
        all.sort_by_key(|workflow| std::cmp::Reverse(workflow.first));
        all.truncate(list.limit.min(PAGE_ROWS_MAX));
        Ok(all)
    }

    /// The tasks of a workflow were added by one call, so their numbers are a part's next ones: as far apart as there are parts.
    /// Callers count them one by one from the first, so what they are told to go on with is the place of the next one beside
    /// the number of the first.
    pub(super) async fn span(&self, span: Span) -> Result<Page, Error> {
        let (place, first) = (span.from >> PLACE_BITS, span.from & ((1 << PLACE_BITS) - 1));
        let step = self.count() as u64;
        let size = span.end.saturating_sub(first);
        let apart = Span { from: first + place * step, end: first + size * step, limit: span.limit };
        let mut page = self.part(self.shard_at(first)).span(&apart).await?;
        page.next = page.next.map(|next| (next.saturating_sub(first) / step) << PLACE_BITS | first);
        Ok(page)
    }

    pub(super) async fn write_operation(&self, write: WriteOperation) -> Result<OperationWritten, Error> {
        match &write.change {
            OperationChange::Start { operation } => {
                if let Action::Move(queue) = &operation.order.action {
                    let filter = Filter::parse(&operation.order.filter, operation.created_at);
                    let from = filter.ok().and_then(|filter| filter.queue());
                    if from.is_some_and(|from| self.shard_of(&from) != self.shard_of(queue)) {
                        return Err(apart());
                    }
                }
                self.news().read().await?;
                self.part(0).write_operation(write).await
            }
            OperationChange::Step { step, transitions } => {
                self.take_step(&write.id, step, transitions.clone()).await
            }
            _ => self.part(0).write_operation(write).await,
        }
    }

    async fn take_step(
        &self,
        id: &Name,
        step: &Step,
        transitions: Vec<Transition>,
    ) -> Result<OperationWritten, Error> {
        let fits = |stored: &Operation| stored.is_running() && stored.revision == step.revision;
        let first = self.part(0);
        let Some(stored) = first.operation(id).await? else { return Ok(OperationWritten::Missing) };
        if !fits(&stored) {
            return Ok(OperationWritten::Conflict);
        }
        let (key, mine) = (first.key(&format!("intent/{id}")), format!("{:016x}", rand::random::<u64>()));
        let mut intend = redis::cmd("SET");
        intend.arg(&key).arg(&mine).arg("NX").arg("PX").arg(STEP.as_millis() as u64);
        if matches!(first.link.ask(&intend).await?, redis::Value::Nil) {
            let holder = first.link.ask(redis::cmd("GET").arg(&key)).await?;
            // It may be this very call, whose answer was lost.
            if !reply::is_text(&holder, &mine) {
                return Ok(OperationWritten::Conflict);
            }
        }
        let counted = self.count_step(id, step, transitions, &mine, &key).await;
        if let Err(error) = &counted {
            tracing::warn!(%error, operation = %id, "a step of an operation is taken again");
        }
        let holder = first.link.ask(redis::cmd("GET").arg(&key)).await?;
        if reply::is_text(&holder, &mine) {
            first.link.ask(redis::cmd("DEL").arg(&key)).await?;
        }
        counted
    }

    /// The intent is held: nobody else takes the step as long as it does not end by itself.
    async fn count_step(
        &self,
        id: &Name,
        step: &Step,
        transitions: Vec<Transition>,
        mine: &str,
        key: &str,
    ) -> Result<OperationWritten, Error> {
        let first = self.part(0);
        // Somebody may have taken it before the intent was written down.
        let Some(stored) = first.operation(id).await? else { return Ok(OperationWritten::Missing) };
        if !stored.is_running() || stored.revision != step.revision {
            return Ok(OperationWritten::Conflict);
        }
        let committed: Vec<Committed> = self.commit(transitions.clone()).await?;
        let holder = first.link.ask(redis::cmd("GET").arg(key)).await?;
        if !reply::is_text(&holder, mine) {
            return Ok(OperationWritten::Conflict);
        }
        let mut operation = stored.clone();
        operation.advance(step, tally(&transitions, &committed));
        let mut transaction = Transaction::default();
        transaction.guard_named("operations", id, Some(stored.revision));
        keep(&mut transaction, &operation, false);
        match first.transact(transaction).await? {
            Some(_) => Ok(OperationWritten::Done { operation: Box::new(operation), committed }),
            None => Ok(OperationWritten::Conflict),
        }
    }
}
