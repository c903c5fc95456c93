//! Writing what the source has into the destination.

use std::collections::HashMap;

use windlass_core::flow::Status;
use windlass_core::operation::Operation;
use windlass_core::schedule::Schedule;
use windlass_core::{Name, StateName, Task, Workflow};

use super::numbers::Numbers;
use super::pairs::waits_for;
use super::walk::{Named, Tasks};
use super::{Error, Job, Progress, Survey, Watch, task_name};
use crate::store::{
    LimitWritten, Moved, Restore, Restored, ScheduleChange, ScheduleWritten, SetLimit, WriteSchedule,
};

/// How much was written, and how much an earlier run had written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copied {
    pub added: u64,
    pub there: u64,
    pub schedules: u64,
    pub limits: u64,
    pub operations: u64,
}

pub async fn copy(job: &Job<'_>, survey: &Survey, watch: Watch<'_>) -> Result<Copied, Error> {
    let mut copied = Copied::default();
    for queue in survey.queues.iter().filter(|queue| queue.paused) {
        job.to.set_paused(&queue.name, true).await.map_err(Error::To)?;
    }
    copied.limits = limits(job).await?;
    copied.schedules = schedules(job).await?;
    let numbers = Numbers::new(job, survey.room);
    copied.operations = operations(job, &numbers).await?;
    let mut tasks = Tasks::new(job.from, &[]);
    loop {
        let batch = tasks.batch().await.map_err(Error::From)?;
        if batch.is_empty() {
            break;
        }
        let workflows = workflows_of(job, &numbers, &batch).await?;
        let mut moved = Vec::with_capacity(batch.len());
        for task in batch {
            moved.push(Moved { task: numbers.moved(task).await?, waits_for: Vec::new() });
        }
        put(job, workflows, moved, &mut copied).await?;
        watch(Progress { step: "copying", done: copied.added + copied.there, total: survey.tasks });
    }
    // Now everybody is there who may be waited for.
    let mut blocked = Tasks::new(job.from, &[StateName::Blocked]);
    loop {
        let mut waiting = Vec::new();
        for task in blocked.batch().await.map_err(Error::From)? {
            let waits_for = waits_for(job.from, &numbers, &task).await?;
            waiting.push(Moved { task: numbers.moved(task).await?, waits_for });
        }
        if waiting.is_empty() {
            return Ok(copied);
        }
        put(job, Vec::new(), waiting, &mut Copied::default()).await?;
    }
}

async fn put(
    job: &Job<'_>,
    workflows: Vec<Workflow>,
    tasks: Vec<Moved>,
    copied: &mut Copied,
) -> Result<(), Error> {
    let ids: Vec<_> = tasks.iter().map(|moved| moved.task.record.id.clone()).collect();
    let restore = Restore { at: job.at, workflows, operations: Vec::new(), tasks };
    let answers = job.to.restore(restore).await.map_err(Error::To)?;
    for (id, answer) in ids.iter().zip(answers) {
        match answer {
            Restored::Added => copied.added += 1,
            Restored::There => copied.there += 1,
            Restored::Clash => return Err(Error::Clash(task_name(id))),
        }
    }
    Ok(())
}

async fn workflows_of(job: &Job<'_>, numbers: &Numbers<'_>, tasks: &[Task]) -> Result<Vec<Workflow>, Error> {
    let of = |task: &'_ Task| Some((task.body.links.as_ref()?.workflow.clone()?, task.record.queue.clone()));
    let queues: HashMap<Name, Name> = tasks.iter().filter_map(of).collect();
    let mut workflows = Vec::with_capacity(queues.len());
    for (id, queue) in queues {
        let found = job.from.workflow(&id).await.map_err(Error::From)?;
        let found = found.ok_or_else(|| Error::Damaged(format!("the workflow {id} is not there")))?;
        workflows.push(numbers.workflow(&queue, found)?);
    }
    Ok(workflows)
}

async fn limits(job: &Job<'_>) -> Result<u64, Error> {
    let mut limits = Named::<Status>::new(job.from);
    let mut count = 0;
    loop {
        let page = limits.next().await.map_err(Error::From)?;
        if page.is_empty() {
            return Ok(count);
        }
        count += page.len() as u64;
        for Status { scope, name, limit, .. } in page {
            let what = format!("the limit on {} {name}", scope.as_str());
            let set = SetLimit { scope, name, limit: Some(limit) };
            if job.to.set_limit(set).await.map_err(Error::To)? == LimitWritten::TooMany {
                return Err(Error::Clash(what));
            }
        }
    }
}

async fn schedules(job: &Job<'_>) -> Result<u64, Error> {
    let mut schedules = Named::<Schedule>::new(job.from);
    let mut count = 0;
    loop {
        let page = schedules.next().await.map_err(Error::From)?;
        if page.is_empty() {
            return Ok(count);
        }
        count += page.len() as u64;
        for schedule in page {
            let id = schedule.id.clone();
            let change = ScheduleChange::Put { schedule: Box::new(schedule), seen: None };
            let write = WriteSchedule { id: id.clone(), change };
            match job.to.write_schedule(write).await.map_err(Error::To)? {
                // One that an earlier run has put in was compared before.
                ScheduleWritten::Done(_) | ScheduleWritten::Conflict => {}
                ScheduleWritten::Missing | ScheduleWritten::TooMany => {
                    return Err(Error::Clash(format!("the schedule {id}")));
                }
            }
        }
    }
}

async fn operations(job: &Job<'_>, numbers: &Numbers<'_>) -> Result<u64, Error> {
    let mut operations = Named::<Operation>::new(job.from);
    let mut count = 0;
    loop {
        let page = operations.next().await.map_err(Error::From)?;
        if page.is_empty() {
            return Ok(count);
        }
        count += page.len() as u64;
        let operations =
            page.into_iter().map(|operation| numbers.operation(operation)).collect::<Result<_, _>>()?;
        let restore = Restore { at: job.at, operations, ..Restore::default() };
        job.to.restore(restore).await.map_err(Error::To)?;
    }
}
