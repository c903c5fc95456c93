//! Whether the destination has what the source has.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};
use windlass_core::flow::Status;
use windlass_core::operation::Operation;
use windlass_core::schedule::Schedule;
use windlass_core::{Name, Record, State, StateName, Task, Workflow};

use super::numbers::{InOrder, Numbers};
use super::walk::{Named, Tasks};
use super::{
    DIFFERENCES_MAX, Difference, Error, Job, Progress, Running, Survey, Watch, compare, kept, keys, task_name,
};
use crate::embedded::codec;

/// Unique keys that are asked for at once.
const KEYS_MAX: usize = 250;

/// What was found the same.
#[derive(Debug, Clone, Default)]
pub struct Verified {
    pub tasks: u64,
    pub workflows: u64,
    /// Tasks by state, of each queue.
    pub queues: BTreeMap<Name, [u64; 8]>,
    /// SHA-256 over all tasks of either store in the order of their numbers, as they are written on disk but for these.
    pub digest: String,
}

/// Reads both stores again, from the first task to the last.
pub async fn verify(job: &Job<'_>, survey: &Survey, watch: Watch<'_>) -> Result<Verified, Error> {
    let mut found = Found::default();
    let numbers = Numbers::new(job, survey.room);
    let mut verified = tasks(job, &numbers, survey, &mut found, watch).await?;
    queues(job, survey, &verified, &mut found).await?;
    verified.workflows = workflows(job, &numbers, &mut found).await?;
    others(job, &numbers, &mut found).await?;
    if job.from.ledger().await.map_err(Error::From)? != survey.ledger {
        return Err(Error::Changed);
    }
    match found.count {
        0 => Ok(verified),
        count => Err(Error::Different { count, some: found.some }),
    }
}

#[derive(Debug, Default)]
struct Found {
    count: u64,
    some: Vec<Difference>,
}

impl Found {
    fn note(&mut self, what: String, how: impl Into<String>) {
        self.count += 1;
        if self.some.len() < DIFFERENCES_MAX {
            self.some.push(Difference { what, how: how.into() });
        }
    }
}

/// Both are in the same order, so one walk through each is enough.
async fn tasks(
    job: &Job<'_>,
    numbers: &Numbers<'_>,
    survey: &Survey,
    found: &mut Found,
    watch: Watch<'_>,
) -> Result<Verified, Error> {
    let (mut ours, mut theirs) = (InOrder::new(numbers), Tasks::new(job.to, &[]));
    let (mut our_digest, mut their_digest) = (Sha256::new(), Sha256::new());
    let mut verified = Verified::default();
    let mut holders: Vec<Record> = Vec::new();
    let mut next_ours = ours.next().await?;
    let mut next_theirs = theirs.next().await.map_err(Error::To)?;
    loop {
        let (our_seq, their_seq) = (number(&next_ours), number(&next_theirs));
        let (mut left, mut right) = (None, None);
        if our_seq >= their_seq {
            left = std::mem::replace(&mut next_ours, ours.next().await?);
        }
        if their_seq >= our_seq {
            right = std::mem::replace(&mut next_theirs, theirs.next().await.map_err(Error::To)?);
        }
        if let Some(right) = &right {
            check_pairs(job, right, found).await?;
            holders.extend(Some(&right.record).filter(|record| keys::holds(job, record)).cloned());
        }
        if holders.len() >= KEYS_MAX || right.is_none() {
            check_keys(job, &std::mem::take(&mut holders), found).await?;
        }
        let (left, right) = (left.map(kept), right.map(kept));
        add(&mut our_digest, left.as_ref());
        add(&mut their_digest, right.as_ref());
        match (&left, &right) {
            (None, None) => break,
            (Some(left), Some(right)) => {
                let fields = compare::tasks(left, right);
                if !fields.is_empty() {
                    found.note(task_name(&left.record.id), format!("differs in {}", fields.join(", ")));
                }
            }
            (Some(left), None) => found.note(task_name(&left.record.id), "is missing"),
            (None, Some(right)) => found.note(task_name(&right.record.id), "is not in the source"),
        }
        if let Some(Task { record, .. }) = &left {
            verified.tasks += 1;
            verified.queues.entry(record.queue.clone()).or_default()[record.state_name().index()] += 1;
            watch(Progress { step: "verifying", done: verified.tasks, total: survey.tasks });
        }
    }
    let (ours, theirs) = (hex(our_digest), hex(their_digest));
    if ours != theirs && found.count == 0 {
        found.note("the digest".to_owned(), format!("is {theirs} and not {ours}"));
    }
    verified.digest = ours;
    Ok(verified)
}

/// The order of a walk; behind the last one there is nothing.
fn number(task: &Option<Task>) -> Option<u64> {
    task.as_ref().map(|task| task.record.seq)
}

fn add(digest: &mut Sha256, task: Option<&Task>) {
    let Some(Task { record, body }) = task else { return };
    let record = &Record { seq: 0, order: 0, ..record.clone() };
    for name in [&record.queue, &record.kind] {
        digest.update(name.as_str());
        digest.update([0]);
    }
    for bytes in [codec::encode_record(record, 0).as_slice(), &codec::encode_body(body)] {
        digest.update((bytes.len() as u64).to_be_bytes());
        digest.update(bytes);
    }
}

fn hex(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whoever a task at the destination waits for must know of it.
async fn check_pairs(job: &Job<'_>, task: &Task, found: &mut Found) -> Result<(), Error> {
    let State::Blocked { open } = task.record.state else { return Ok(()) };
    let parents = job.to.peek_all(task.body.dependencies()).await.map_err(Error::To)?;
    let mut telling: Vec<u64> =
        parents.into_iter().flatten().filter(|parent| parent.awaited).map(|parent| parent.seq).collect();
    telling.sort_unstable();
    telling.dedup();
    if telling.len() < open as usize {
        let how = format!("waits for {open} tasks, of which {} would tell it their end", telling.len());
        found.note(task_name(&task.record.id), how);
    }
    Ok(())
}

/// Whoever has a unique key must be known to have it. Keys are asked for together in queues that are together.
async fn check_keys(job: &Job<'_>, records: &[Record], found: &mut Found) -> Result<(), Error> {
    let mut places: BTreeMap<u64, Vec<Record>> = BTreeMap::new();
    for record in records {
        places.entry(job.to.capabilities().part_of(&record.queue)).or_default().push(record.clone());
    }
    for records in places.into_values() {
        let holders = keys::holders(job, &records).await.map_err(Error::To)?;
        for (record, holder) in records.iter().zip(holders) {
            let what = task_name(&record.id);
            match holder {
                Some(holder) if holder == record.id => {}
                Some(holder) => found.note(what, format!("has lost its unique key to {holder}")),
                None => found.note(what, "does not hold its unique key"),
            }
        }
    }
    Ok(())
}

/// The counters of the destination, against the tasks of the source.
async fn queues(job: &Job<'_>, survey: &Survey, verified: &Verified, found: &mut Found) -> Result<(), Error> {
    let mut expected: BTreeMap<Name, (bool, [u64; 8])> = BTreeMap::new();
    for (name, counts) in &verified.queues {
        expected.insert(name.clone(), (false, *counts));
    }
    for queue in survey.queues.iter().filter(|queue| queue.paused) {
        expected.entry(queue.name.clone()).or_default().0 = true;
    }
    for queue in job.to.queues(None).await.map_err(Error::To)? {
        let (paused, counts) = expected.remove(&queue.name).unwrap_or_default();
        if paused != queue.paused {
            found.note(format!("queue {}", queue.name), if paused { "is not paused" } else { "is paused" });
        }
        if counts != queue.by_state {
            let differs = |state: &StateName| counts[state.index()] != queue.by_state[state.index()];
            let states: Vec<&str> =
                StateName::ALL.into_iter().filter(differs).map(StateName::as_str).collect();
            found.note(format!("queue {}", queue.name), format!("counts other tasks: {}", states.join(", ")));
        }
    }
    for name in expected.into_keys() {
        found.note(format!("queue {name}"), "is missing");
    }
    Ok(())
}

async fn workflows(job: &Job<'_>, numbers: &Numbers<'_>, found: &mut Found) -> Result<u64, Error> {
    let mut ours = Named::<Workflow>::new(job.from);
    let mut count = 0;
    loop {
        let page = ours.next().await.map_err(Error::From)?;
        if page.is_empty() {
            break;
        }
        count += page.len() as u64;
        for workflow in page {
            let theirs = job.to.workflow(&workflow.id).await.map_err(Error::To)?;
            // Tasks that were given back are counted in another state.
            let theirs =
                theirs.map(|it| match job.running == Running::Release && it.kept() == workflow.kept() {
                    true => Workflow { by_state: workflow.by_state, ..it },
                    false => it,
                });
            let same = match &theirs {
                Some(theirs) => {
                    numbers.begin_alike(&workflow, theirs)?
                        && Workflow { first: workflow.first, ..theirs.clone() } == workflow
                }
                None => false,
            };
            if !same {
                found.note(format!("workflow {}", workflow.id), "differs or is missing");
            }
        }
    }
    let mut theirs = Named::<Workflow>::new(job.to);
    let mut all = 0;
    loop {
        let page = theirs.next().await.map_err(Error::To)?;
        if page.is_empty() {
            break;
        }
        all += page.len() as u64;
    }
    if all > count {
        found.note(format!("{} workflows", all - count), "are not in the source");
    }
    Ok(count)
}

/// Schedules, limits and operations: few, so each is asked for by name.
async fn others(job: &Job<'_>, numbers: &Numbers<'_>, found: &mut Found) -> Result<(), Error> {
    let mut schedules = Named::<Schedule>::new(job.from);
    loop {
        let page = schedules.next().await.map_err(Error::From)?;
        for schedule in &page {
            if job.to.schedule(&schedule.id).await.map_err(Error::To)?.as_ref() != Some(schedule) {
                found.note(format!("schedule {}", schedule.id), "differs or is missing");
            }
        }
        if page.is_empty() {
            break;
        }
    }
    let mut operations = Named::<Operation>::new(job.from);
    loop {
        let page = operations.next().await.map_err(Error::From)?;
        for operation in &page {
            let theirs = job.to.operation(&operation.id).await.map_err(Error::To)?;
            if theirs != Some(numbers.operation(operation.clone())?) {
                found.note(format!("operation {}", operation.id), "differs or is missing");
            }
        }
        if page.is_empty() {
            break;
        }
    }
    let mut limits = Named::<Status>::new(job.from);
    loop {
        let page = limits.next().await.map_err(Error::From)?;
        for status in &page {
            let theirs = job.to.limit(status.scope, &status.name).await.map_err(Error::To)?;
            if theirs.map(|theirs| theirs.limit).as_ref() != Some(&status.limit) {
                let what = format!("limit on {} {}", status.scope.as_str(), status.name);
                found.note(what, "differs or is missing");
            }
        }
        if page.is_empty() {
            return Ok(());
        }
    }
}
