//! What there is to move, and whether it can be.

use windlass_core::flow::Status;
use windlass_core::schedule::Schedule;
use windlass_core::{StateName, Task, Workflow};

use super::needs::check_features;
use super::numbers::Numbers;
use super::walk::{Named, Tasks};
use super::{Error, Job, Progress, Running, Watch, compare, kept, task_name};
use crate::store::{Ledger, QueueCounts};

/// What the source has.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// Queues that have tasks or are paused.
    pub queues: Vec<QueueCounts>,
    pub tasks: u64,
    pub running: u64,
    pub ledger: Ledger,
    /// Tasks that the destination has already: an earlier run ended before its time.
    pub there: u64,
    /// The size of the largest workflow, if its tasks have to come closer together (`numbers.rs`).
    pub(super) room: u64,
}

/// Looks at both stores, and refuses what cannot be done. Nothing is written.
pub async fn survey(job: &Job<'_>, watch: Watch<'_>) -> Result<Survey, Error> {
    let survey = look(job).await?;
    if survey.running > 0 && job.running == Running::Refuse {
        return Err(Error::Running(survey.running));
    }
    let numbers = Numbers::new(job, survey.room);
    if let Some(newest) = Tasks::new(job.from, &[]).next().await.map_err(Error::From)? {
        // Whether there are numbers for all of them.
        numbers.moved(newest).await?;
    }
    check_features(job, &numbers, &survey, watch).await?;
    check_names(job, &numbers).await?;
    let there = check_tasks(job, &numbers, watch).await?;
    Ok(Survey { there, ..survey })
}

/// Looks at the source alone.
pub async fn look(job: &Job<'_>) -> Result<Survey, Error> {
    let mut queues = job.from.queues(None).await.map_err(Error::From)?;
    queues.retain(|queue| queue.paused || queue.by_state.iter().any(|count| *count > 0));
    let count = |state: StateName| queues.iter().map(|queue| queue.by_state[state.index()]).sum::<u64>();
    Ok(Survey {
        tasks: StateName::ALL.into_iter().map(count).sum(),
        running: count(StateName::Running),
        ledger: job.from.ledger().await.map_err(Error::From)?,
        there: 0,
        room: room(job).await?,
        queues,
    })
}

/// Of a source whose numbers are apart, the size of its largest workflow.
async fn room(job: &Job<'_>) -> Result<u64, Error> {
    let (mut workflows, mut room) = (Named::<Workflow>::new(job.from), 1);
    while job.from.capabilities().parts > 1 {
        let page = workflows.next().await.map_err(Error::From)?;
        if page.is_empty() {
            break;
        }
        room = page.iter().map(|workflow| u64::from(workflow.size)).chain([room]).max().unwrap_or(1);
    }
    Ok(room)
}

/// Whether what has a name at the destination is of the source.
async fn check_names(job: &Job<'_>, numbers: &Numbers<'_>) -> Result<(), Error> {
    let foreign = |what: String| Err(Error::NotEmpty(format!("it has {what}, which the source has not")));
    let mut schedules = Named::<Schedule>::new(job.to);
    loop {
        let page = schedules.next().await.map_err(Error::To)?;
        for schedule in &page {
            if job.from.schedule(&schedule.id).await.map_err(Error::From)?.as_ref() != Some(schedule) {
                return foreign(format!("the schedule {}", schedule.id));
            }
        }
        if page.is_empty() {
            break;
        }
    }
    let mut limits = Named::<Status>::new(job.to);
    loop {
        let page = limits.next().await.map_err(Error::To)?;
        for Status { scope, name, limit, .. } in &page {
            let ours = job.from.limit(*scope, name).await.map_err(Error::From)?;
            if ours.map(|status| status.limit).as_ref() != Some(limit) {
                return foreign(format!("a limit on {} {name}", scope.as_str()));
            }
        }
        if page.is_empty() {
            break;
        }
    }
    let mut workflows = Named::<Workflow>::new(job.to);
    loop {
        let page = workflows.next().await.map_err(Error::To)?;
        for workflow in &page {
            let ours = job.from.workflow(&workflow.id).await.map_err(Error::From)?;
            match ours {
                Some(ours) if numbers.begin_alike(&ours, workflow)? => {}
                _ => return foreign(format!("the workflow {}", workflow.id)),
            }
        }
        if page.is_empty() {
            return Ok(());
        }
    }
}

/// Whether all tasks of the destination are of the source, and as they are there; how many there are.
async fn check_tasks(job: &Job<'_>, numbers: &Numbers<'_>, watch: Watch<'_>) -> Result<u64, Error> {
    let ledger = job.to.ledger().await.map_err(Error::To)?;
    if ledger.removed > 0 {
        return Err(Error::NotEmpty("it was in use before, and removed tasks".to_owned()));
    }
    let mut tasks = Tasks::new(job.to, &[]);
    let mut there = 0;
    loop {
        let batch = tasks.batch().await.map_err(Error::To)?;
        if batch.is_empty() {
            return Ok(there);
        }
        for task in batch {
            there += 1;
            let ours: Option<Task> = job.from.get(&task.record.id).await.map_err(Error::From)?;
            let what = task_name(&task.record.id);
            let Some(ours) = ours else {
                return Err(Error::NotEmpty(format!("it has {what}, which the source has not")));
            };
            let differing = compare::tasks(&kept(numbers.moved(ours).await?), &kept(task));
            if !differing.is_empty() {
                let fields = differing.join(", ");
                return Err(Error::NotEmpty(format!(
                    "its {what} differs from that of the source in {fields}"
                )));
            }
        }
        watch(Progress { step: "comparing", done: there, total: ledger.submitted });
    }
}
