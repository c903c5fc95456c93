//! What people do to tasks, queues and workers.
//!
//! Acts on many tasks walk the list page by page and commit each page: bounded in memory, and safe to abandon at any
//! point, because every page is complete in itself. Tasks that arrive meanwhile are newer than the walk and left alone.

use windlass_core::limits::{CONFLICT_TRIES_MAX, PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX};
use windlass_core::transition::Parents;
use windlass_core::{Name, Record, Refusal, Stamp, StateName, Task, TaskId, transition};
use windlass_store::backup::Source;
use windlass_store::{Committed, List, Observer};

use crate::broker::Broker;
use crate::change::{self, Decision};
use crate::error::Error;
use crate::events::EventKind;
use crate::query::QueueView;
use crate::workers::WorkerView;

/// Which dead letters are meant.
#[derive(Debug, Clone)]
pub enum Selection {
    Ids(Vec<TaskId>),
    /// All that match; states and limit of the filter do not matter.
    Filter(List),
}

/// Payloads that a page of a walk should bring along at most.
const PAGE_BYTES: usize = 1 << 20;

type Decide = fn(&Record, Stamp) -> Decision;

impl Broker {
    pub async fn cancel(&self, id: &TaskId) -> Result<Task, Error> {
        self.change_task(id, |task, now| transition::cancel(&task.record, now)).await
    }

    /// A task that was cancelled before its dependencies completed waits for them again.
    pub async fn retry(&self, id: &TaskId) -> Result<Task, Error> {
        for _ in 0..CONFLICT_TRIES_MAX {
            let task = self.get(id).await?;
            let parents = self.waited_for(&task).await?;
            let parents: Vec<(TaskId, &Record)> =
                parents.iter().map(|parent| (parent.id.clone(), parent)).collect();
            let change = match transition::retry_behind(&task.record, &parents, self.now()) {
                Ok(change) => change,
                Err(refusal) => return Err(refused_retry(refusal, &task.record, &parents)),
            };
            let Some(change) = change else { return Ok(task) };
            if let Some(record) = self.commit_one(change::transition(&task.record, change)).await? {
                return Ok(Task { record, body: task.body });
            }
        }
        Err(Error::Busy)
    }

    /// What a cancelled task depends on, as it is now. In any other state it does not matter.
    async fn waited_for(&self, task: &Task) -> Result<Vec<Record>, Error> {
        if task.record.state_name() != StateName::Cancelled {
            return Ok(Vec::new());
        }
        self.parents(task.body.dependencies()).await
    }

    /// Forgets a finished task before its time.
    pub async fn remove(&self, id: &TaskId) -> Result<(), Error> {
        let finished = |record: &Record, now: Stamp| match record.state.is_terminal() {
            true => transition::remove(record, now),
            false => Err(Refusal::WrongState(record.state_name())),
        };
        self.change(id, finished).await?;
        Ok(())
    }

    /// Begins a backup of the whole store. The caller reads it piece by piece.
    pub fn backup(&self) -> Result<Box<dyn Source>, Error> {
        Ok(self.inner.store.backup()?)
    }

    pub async fn pause_queue(&self, queue: &Name) -> Result<QueueView, Error> {
        self.set_queue_paused(queue, true).await
    }

    pub async fn resume_queue(&self, queue: &Name) -> Result<QueueView, Error> {
        self.set_queue_paused(queue, false).await
    }

    async fn set_queue_paused(&self, queue: &Name, paused: bool) -> Result<QueueView, Error> {
        self.progressed(self.inner.store.set_paused(queue, paused).await, self.now())?;
        if self.inner.events.wants_seen() {
            self.inner.events.paused(queue, paused);
        }
        self.queue(queue).await
    }

    pub async fn pause_worker(&self, id: &Name) -> Result<WorkerView, Error> {
        self.set_worker_paused(id, true).await
    }

    pub async fn resume_worker(&self, id: &Name) -> Result<WorkerView, Error> {
        self.set_worker_paused(id, false).await
    }

    async fn set_worker_paused(&self, id: &Name, paused: bool) -> Result<WorkerView, Error> {
        if !self.inner.workers.set_paused(id, paused) {
            return Err(Error::NotFound("worker"));
        }
        self.inner.gate.send_modify(|gate| gate.pauses += 1);
        let kind = if paused { EventKind::WorkerPaused } else { EventKind::WorkerResumed };
        self.inner.events.worker(kind, id, self.now().wall);
        self.worker(id).await
    }

    /// Forgets the pending tasks of a queue; says how many.
    pub async fn purge_queue(&self, queue: &Name) -> Result<u64, Error> {
        self.queue(queue).await?;
        let list = List { states: vec![StateName::Pending], queue: Some(queue.clone()), ..List::default() };
        self.change_all(list, transition::remove).await
    }

    /// Sends dead letters back to their queues; says how many.
    pub async fn retry_dead(&self, which: Selection) -> Result<u64, Error> {
        self.change_dead(which, transition::retry).await
    }

    /// Forgets dead letters; says how many.
    pub async fn clear_dead(&self, which: Selection) -> Result<u64, Error> {
        self.change_dead(which, transition::remove).await
    }

    /// How many dead letters are meant right now.
    pub async fn count_dead(&self, which: &Selection) -> Result<u64, Error> {
        let mut count = 0;
        match which {
            Selection::Ids(ids) => {
                for id in ids {
                    let record = self.inner.store.peek(id).await?;
                    count += u64::from(record.is_some_and(|it| it.state_name() == StateName::DeadLetter));
                }
            }
            Selection::Filter(list) => {
                let mut list = dead(list.clone());
                if let Some(count) = self.counted_dead(&list).await? {
                    return Ok(count);
                }
                loop {
                    let page = self.inner.store.list(list.clone()).await?;
                    count += page.tasks.len() as u64;
                    list.before = page.next;
                    if page.next.is_none() {
                        break;
                    }
                }
            }
        }
        Ok(count)
    }

    /// The store keeps this number when nothing but the queue is asked for.
    async fn counted_dead(&self, list: &List) -> Result<Option<u64>, Error> {
        let List { states: _, queue, kind: None, worker: None, text: None, filter: None, .. } = list else {
            return Ok(None);
        };
        if list.created_after.or(list.created_before).or(list.before).is_some() {
            return Ok(None);
        }
        let queues = self.inner.store.queues(queue.as_ref()).await?;
        Ok(Some(queues.iter().map(|queue| queue.by_state[StateName::DeadLetter.index()]).sum()))
    }

    async fn change_dead(&self, which: Selection, decide: Decide) -> Result<u64, Error> {
        let ids = match which {
            Selection::Filter(list) => return self.change_all(dead(list), decide).await,
            Selection::Ids(ids) => ids,
        };
        let list = dead(List::default());
        let mut changed = 0;
        for id in ids {
            changed += u64::from(self.change_if(&list, &id, decide).await?);
        }
        Ok(changed)
    }

    async fn change_all(&self, mut list: List, decide: Decide) -> Result<u64, Error> {
        list.limit = PAGE_ROWS_DEFAULT;
        let mut changed = 0;
        loop {
            let page = self.inner.store.list(list.clone()).await?;
            let bytes: usize = page.tasks.iter().map(|task| task.body.payload.bytes().len()).sum();
            let records: Vec<Record> = page.tasks.into_iter().map(|task| task.record).collect();
            // Pages bring the payloads along: large ones make small pages.
            list.limit = if bytes < PAGE_BYTES { list.limit * 2 } else { list.limit / 2 };
            list.limit = list.limit.clamp(1, PAGE_ROWS_MAX);
            changed += self.change_page(&list, &records, decide).await?;
            match page.next {
                Some(_) => list.before = page.next,
                None => return Ok(changed),
            }
        }
    }

    async fn change_page(&self, list: &List, records: &[Record], decide: Decide) -> Result<u64, Error> {
        let now = self.now().stamp();
        let decided = records.iter().filter_map(|record| {
            let change = decide(record, now).ok().flatten()?;
            Some(change::transition(record, change))
        });
        let transitions: Vec<_> = decided.collect();
        let ids: Vec<TaskId> = transitions.iter().map(|transition| transition.id.clone()).collect();
        let mut changed = 0;
        for (outcome, id) in self.commit(transitions).await?.into_iter().zip(&ids) {
            changed += match outcome {
                Committed::Done(_) => 1,
                Committed::Conflict => u64::from(self.change_if(list, id, decide).await?),
                // A dead letter whose unique key another task has now is left where it is.
                Committed::Missing | Committed::KeyHeld(_) => 0,
            };
        }
        Ok(changed)
    }

    /// Changes a task if it is there and matches; says whether it did.
    async fn change_if(&self, list: &List, id: &TaskId, decide: Decide) -> Result<bool, Error> {
        for _ in 0..CONFLICT_TRIES_MAX {
            let Some(record) = self.inner.store.peek(id).await? else { return Ok(false) };
            if !list.matches(&record) {
                return Ok(false);
            }
            let Ok(Some(change)) = decide(&record, self.now().stamp()) else { return Ok(false) };
            match self.commit(vec![change::transition(&record, change)]).await?.pop() {
                Some(Committed::Done(_)) => return Ok(true),
                Some(Committed::Conflict) => {}
                Some(Committed::Missing | Committed::KeyHeld(_)) | None => return Ok(false),
            }
        }
        Err(Error::Busy)
    }
}

/// Names the dependency that stands in the way.
fn refused_retry(refusal: Refusal, record: &Record, parents: Parents<'_>) -> Error {
    let cancelled = |parent: &Record| parent.state_name() == StateName::Cancelled;
    match (refusal, parents.iter().find(|(_, parent)| cancelled(parent))) {
        (Refusal::DependencyCancelled, Some((id, _))) => Error::DependencyCancelled(id.clone()),
        _ => Error::refused(refusal, record),
    }
}

fn dead(list: List) -> List {
    List { states: vec![StateName::DeadLetter], limit: PAGE_ROWS_DEFAULT, ..list }
}
