//! Taking tasks in.

use std::sync::Arc;
use std::time::Instant;
use std::vec;

use rand::Rng;
use windlass_core::limits::{BATCH_DEPENDENCIES_MAX, BATCH_TASKS_MAX};
use windlass_core::{
    Body, Counted, Links, Name, NewTask, Payload, Priority, Record, Stamp, Task, TaskId, Unique, retry,
};
use windlass_store::{Insert, Inserted};

use crate::broker::Broker;
use crate::change::Happened;
use crate::error::Error;
use crate::gather::{Look, Told};

/// A task as a client asks for it, every range already checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Submit {
    /// A UUID v7 is made when there is none.
    pub id: Option<TaskId>,
    pub queue: Name,
    pub kind: Name,
    /// Whose share of the queue it takes, and whose limit it counts towards.
    pub key: Option<Name>,
    pub payload: Payload,
    pub priority: Priority,
    pub start: Start,
    pub expires_at: Option<u64>,
    pub retry: retry::Policy,
    pub max_retries: u32,
    pub max_crashes: u32,
    pub timeout_ms: u64,
    pub retention_ms: u64,
    pub metadata: Vec<(String, String)>,
    pub unique: Option<Box<Unique>>,
    /// Digest of the content; set exactly when the client chose the id.
    pub fingerprint: Option<[u8; 16]>,
    /// `None` for a task that stands alone.
    pub links: Option<Box<Links>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    Now,
    /// Wall clock.
    At(u64),
    AfterMs(u64),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Submitted {
    pub task: Task,
    /// The same submit came before, or another live task has the unique key: nothing was added.
    pub existed: bool,
}

/// The answers to a batch in order. Each is put together when it is asked for, because a task is large.
#[derive(Debug, Default)]
pub struct Answers {
    outcomes: vec::IntoIter<Inserted>,
    bodies: vec::IntoIter<Body>,
}

impl Answers {
    /// The same, looked at where they are.
    pub fn looks(&self) -> impl ExactSizeIterator<Item = Look<'_>> {
        let pairs = self.outcomes.as_slice().iter().zip(self.bodies.as_slice());
        pairs.map(|(outcome, body)| look(outcome, body))
    }

    /// The size of the payloads of tasks that were there before. A submit does not bound them.
    pub fn found_bytes(&self) -> usize {
        let found = |outcome: &Inserted| match outcome {
            Inserted::Same(task) | Inserted::Live(task) => task.body.payload.bytes().len(),
            _ => 0,
        };
        self.outcomes.as_slice().iter().map(found).sum()
    }
}

pub(crate) fn look<'a>(outcome: &'a Inserted, body: &'a Body) -> Look<'a> {
    match outcome {
        Inserted::New(record) => Ok((record, body)),
        Inserted::Replaced { new, .. } => Ok((&**new, body)),
        Inserted::Same(task) | Inserted::Live(task) => Ok((&task.record, &task.body)),
        refused => Err(refusal(refused.clone())),
    }
}

impl Iterator for Answers {
    type Item = Result<Submitted, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(answer(self.outcomes.next()?, self.bodies.next()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.outcomes.size_hint()
    }
}

impl ExactSizeIterator for Answers {}

impl Broker {
    pub async fn submit(&self, submit: Submit) -> Result<Submitted, Error> {
        let task = resolve(submit, self.now().stamp());
        let body = task.body.clone();
        match self.insert_gathered(vec![task]).await?.pop() {
            Some(outcome) => answer(outcome, body),
            None => Err(Error::Aborted),
        }
    }

    /// The i-th answer belongs to the i-th task. With `atomic`, one that cannot be added keeps out all others.
    pub async fn submit_batch(&self, batch: Vec<Submit>, atomic: bool) -> Result<Answers, Error> {
        if batch.is_empty() {
            return Ok(Answers::default());
        }
        let tasks = self.resolve_all(batch)?;
        let bodies: Vec<Body> = tasks.iter().map(|task| task.body.clone()).collect();
        let inserted = match atomic {
            true => self.insert(tasks.into(), true, Instant::now()).await?,
            false => self.insert_gathered(tasks).await?,
        };
        Ok(Answers { outcomes: inserted.into_iter(), bodies: bodies.into_iter() })
    }

    /// As [`Broker::submit_batch`] without `atomic`, for somebody who does not wait: it is `told` where what was gathered is handed in, so a
    /// broker of a thread tells in that thread. Nobody is told of what is refused here.
    pub fn submit_told(&self, batch: Vec<Submit>, told: Arc<dyn Told>) -> Result<(), Error> {
        let tasks = self.resolve_all(batch)?;
        self.insert_and_tell(tasks, told);
        Ok(())
    }

    fn resolve_all(&self, batch: Vec<Submit>) -> Result<Vec<NewTask>, Error> {
        if batch.len() > BATCH_TASKS_MAX {
            let message = format!("at most {BATCH_TASKS_MAX} at once");
            return Err(Error::Invalid { field: "tasks", message });
        }
        let count = |submit: &Submit| submit.links.as_ref().map_or(0, |links| links.dependencies.len());
        bounded(batch.iter().map(count).sum(), BATCH_DEPENDENCIES_MAX)?;
        let now = self.now().stamp();
        Ok(batch.into_iter().map(|submit| resolve(submit, now)).collect())
    }

    /// `began` is when the first of the callers asked for it.
    pub(crate) async fn insert(
        &self,
        tasks: Arc<Vec<NewTask>>,
        atomic: bool,
        began: Instant,
    ) -> Result<Vec<Inserted>, Error> {
        let inserted = self.inner.store.insert(self.batch(tasks, atomic)).await;
        self.inserted(inserted, began)
    }

    pub(crate) fn batch(&self, tasks: Arc<Vec<NewTask>>, atomic: bool) -> Insert {
        Insert { tasks, atomic, max_depth: self.inner.settings.max_depth }
    }

    /// What follows from what the store has answered.
    pub(crate) fn inserted(
        &self,
        inserted: Result<Vec<Inserted>, windlass_store::Error>,
        began: Instant,
    ) -> Result<Vec<Inserted>, Error> {
        let now = self.now();
        let mut inserted = self.progressed(inserted, now)?;
        if now.ahead != 0 {
            inserted.iter_mut().filter_map(record_of).for_each(|record| self.show(record));
        }
        let happened = inserted.iter().flat_map(|outcome| match outcome {
            Inserted::New(record) => [Some((Happened::Submitted, record)), None],
            Inserted::Replaced { new, old } => {
                [Some((Happened::Cancelled, &**old)), Some((Happened::Submitted, &**new))]
            }
            _ => [None, None],
        });
        self.happened(happened.flatten(), Some(began.elapsed()), now);
        Ok(inserted)
    }
}

/// The record that answers a submit.
fn record_of(outcome: &mut Inserted) -> Option<&mut Record> {
    match outcome {
        Inserted::New(record) => Some(record),
        Inserted::Replaced { new, .. } => Some(new),
        Inserted::Same(task) | Inserted::Live(task) => Some(&mut task.record),
        _ => None,
    }
}

/// Refuses more dependencies in all than one commit may have.
pub(crate) fn bounded(dependencies: usize, max: usize) -> Result<(), Error> {
    if dependencies <= max {
        return Ok(());
    }
    let message = format!("have {dependencies} dependencies in all, {max} are allowed");
    Err(Error::Invalid { field: "tasks", message })
}

fn answer(outcome: Inserted, body: Body) -> Result<Submitted, Error> {
    match outcome {
        Inserted::New(record) => Ok(Submitted { task: Task { record, body }, existed: false }),
        Inserted::Replaced { new, .. } => Ok(Submitted { task: Task { record: *new, body }, existed: false }),
        Inserted::Same(task) | Inserted::Live(task) => Ok(Submitted { task: *task, existed: true }),
        refused => Err(refusal(refused)),
    }
}

/// Why nothing was added; of what was added nobody asks.
fn refusal(outcome: Inserted) -> Error {
    match outcome {
        Inserted::KeyHeld(holder) => Error::UniqueConflict(holder),
        Inserted::Clash => Error::TaskExists,
        Inserted::QueueFull => Error::QueueFull,
        Inserted::LimitFull(full) => Error::LimitFull(full),
        Inserted::LimitApart(apart) => Error::LimitApart(apart),
        Inserted::Dependency { id, cancelled: false } => Error::DependencyMissing(id),
        Inserted::Dependency { id, cancelled: true } => Error::DependencyCancelled(id),
        Inserted::Aborted
        | Inserted::New(_)
        | Inserted::Replaced { .. }
        | Inserted::Same(_)
        | Inserted::Live(_) => Error::Aborted,
    }
}

pub(crate) fn resolve(submit: Submit, now: Stamp) -> NewTask {
    let (id, fingerprint) = match submit.id {
        // Without a fingerprint nothing can repeat this submit: a taken id is a clash.
        Some(id) => (id, submit.fingerprint.or_else(|| Some(rand::random()))),
        None => (new_id(now.wall), None),
    };
    NewTask {
        id,
        queue: submit.queue,
        kind: submit.kind,
        priority: submit.priority,
        created_at: now.wall,
        scheduled_at: match submit.start {
            Start::Now => None,
            Start::At(at) => Some(at),
            Start::AfterMs(ms) => Some(now.wall.saturating_add(ms)),
        },
        expires_at: submit.expires_at,
        retention_ms: submit.retention_ms,
        counted: Counted { ahead: now.ahead, delayed: matches!(submit.start, Start::AfterMs(_)) },
        unique: submit.unique,
        key: submit.key,
        body: Body {
            payload: submit.payload,
            metadata: submit.metadata,
            timeout_ms: submit.timeout_ms,
            max_retries: submit.max_retries,
            max_crashes: submit.max_crashes,
            retry: submit.retry,
            fingerprint,
            links: submit.links,
        },
    }
}

/// A UUID v7 of the broker's own clock; the thread's generator saves a system call per task.
pub(crate) fn new_id(now: u64) -> TaskId {
    // Drawn as one number: an array would be drawn byte by byte.
    let random = rand::rng().random::<u128>().to_le_bytes();
    let random = random.first_chunk().expect("sixteen bytes are more than ten");
    let uuid = uuid::Builder::from_unix_timestamp_millis(now, random).into_uuid();
    let mut text = uuid::Uuid::encode_buffer();
    TaskId::new(uuid.hyphenated().encode_lower(&mut text)).expect("a UUID is a valid id")
}
