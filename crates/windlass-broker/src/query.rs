//! Looking.

use std::time::Duration;

use tokio::time::Instant;
use windlass_core::flow::{Ageing, Scope};
use windlass_core::limits::{ANSWER_BYTES_MAX, PAGE_ROWS_MAX, WAIT_MS_MAX};
use windlass_core::{Name, Record, StateName, Task, TaskId};
use windlass_store::{Durability, Ledger, List, ListQueues, Page, QueueCounts};

use crate::broker::Broker;
use crate::error::Error;
use crate::rates::PerSecond;
use crate::workers::{ListWorkers, WorkerPage, WorkerView};

/// How long health waits for the store.
const HEALTH_WAIT: Duration = Duration::from_millis(900);
/// How often a waiter looks by itself: another broker on the same store may have finished the task.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Running tasks listed for one worker.
const WORKER_TASKS_MAX: usize = 100;

#[derive(Debug, Clone, PartialEq)]
pub struct QueueView {
    pub counts: QueueCounts,
    /// What waiting is worth there; told of one queue, not in lists.
    pub ageing: Option<Ageing>,
    /// Over the last minute, as the other rates.
    pub submitted_per_second: f64,
    pub completed_per_second: f64,
    pub failed_per_second: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    /// By [`StateName::index`].
    pub by_state: [u64; 8],
    /// By [`windlass_core::Class::ALL`].
    pub pending_by_class: [u64; 4],
    pub queues: usize,
    pub oldest_pending_at: Option<u64>,
    pub ledger: Ledger,
    pub submitted_per_second: f64,
    pub completed_per_second: f64,
    pub failed_per_second: f64,
    /// Of what was completed in the last minute.
    pub mean_duration_ms: Option<f64>,
    pub workers_active: usize,
    pub uptime_ms: u64,
}

impl Stats {
    pub fn count(&self, state: StateName) -> u64 {
        self.by_state[state.index()]
    }
}

/// Whether the broker gets its work done, not merely whether it answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    pub ok: bool,
    /// Why not, or what is wrong though it goes on.
    pub problem: Option<String>,
    pub store: &'static str,
    pub durability: Durability,
    /// Replicas that have what is answered.
    pub replicas: u32,
    pub persistent: bool,
    pub draining: bool,
    pub oldest_pending_age_ms: Option<u64>,
    /// Since the store last did something that was asked of it.
    pub last_commit_age_ms: Option<u64>,
    pub workers_active: usize,
    pub uptime_ms: u64,
    pub loops: Vec<LoopHealth>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopHealth {
    pub name: &'static str,
    /// Wall clock of the last step that went well.
    pub ok_at: Option<u64>,
    /// Steps in a row that did not.
    pub failures: u64,
}

impl Broker {
    pub async fn get(&self, id: &TaskId) -> Result<Task, Error> {
        let mut task = self.inner.store.get(id).await?.ok_or(Error::NotFound("task"))?;
        self.show(&mut task.record);
        Ok(task)
    }

    /// Answers when the task has ended or the wait is over, with the task as it is then.
    pub async fn wait(&self, id: &TaskId, wait_ms: u64) -> Result<Task, Error> {
        let until = Instant::now() + Duration::from_millis(wait_ms.min(WAIT_MS_MAX));
        if self.ended(id).await? || wait_ms == 0 {
            return self.get(id).await;
        }
        let watching = self.inner.watchers.watch(id).ok_or(Error::Busy)?;
        loop {
            // Listen first, look second: an end in between is noticed.
            let notified = watching.ended.notified();
            if self.ended(id).await? || Instant::now() >= until {
                return self.get(id).await;
            }
            tokio::select! {
                () = notified => {}
                () = tokio::time::sleep_until(until.min(Instant::now() + LOOK_AGAIN)) => {}
                () = self.inner.stopping.cancelled() => return self.get(id).await,
            }
        }
    }

    async fn ended(&self, id: &TaskId) -> Result<bool, Error> {
        let record = self.inner.store.peek(id).await?.ok_or(Error::NotFound("task"))?;
        Ok(record.state.is_terminal())
    }

    /// Tasks that match, newest first. A page may be short, even empty, and still have a next one.
    pub async fn list(&self, list: List) -> Result<Page, Error> {
        let mut page = match list.filter.as_ref().and_then(|filter| filter.ids()) {
            Some(ids) => self.list_named(list, ids).await?,
            None => self.inner.store.list(list).await?,
        };
        page.tasks.iter_mut().for_each(|task| self.show(&mut task.record));
        Ok(page)
    }

    /// Those of the named tasks that match, newest first.
    pub(crate) async fn named(&self, list: &List, ids: &[TaskId]) -> Result<Vec<Record>, Error> {
        let found = self.inner.store.peek_all(ids).await?.into_iter().flatten();
        let mut records: Vec<Record> = found.filter(|record| list.matches(record)).collect();
        records.sort_unstable_by_key(|record| std::cmp::Reverse(record.seq));
        records.dedup_by_key(|record| record.seq);
        Ok(records)
    }

    /// A list that names its tasks needs no search.
    async fn list_named(&self, list: List, ids: Vec<TaskId>) -> Result<Page, Error> {
        let records = self.named(&list, &ids).await?;
        let mut page = Page::default();
        let mut bytes = 0;
        for record in records {
            if page.tasks.len() >= list.limit || bytes >= ANSWER_BYTES_MAX {
                page.next = page.tasks.last().map(|task| task.record.seq);
                break;
            }
            if let Some(task) = self.inner.store.get(&record.id).await?.filter(|it| list.matches(&it.record))
            {
                bytes += task.bytes();
                page.tasks.push(task);
            }
        }
        Ok(page)
    }

    /// Some queues, in order of name.
    pub async fn queues(&self, list: ListQueues) -> Result<Vec<QueueView>, Error> {
        let list = ListQueues { limit: list.limit.min(PAGE_ROWS_MAX), ..list };
        Ok(self.queue_views(self.inner.store.queue_page(list).await?))
    }

    /// All of them, for those who must say something about each.
    pub async fn all_queues(&self) -> Result<Vec<QueueView>, Error> {
        Ok(self.queue_views(self.inner.store.queues(None).await?))
    }

    pub async fn queue(&self, name: &Name) -> Result<QueueView, Error> {
        let counts = self.inner.store.queues(Some(name)).await?.pop().ok_or(Error::NotFound("queue"))?;
        let limit = self.inner.store.limit(Scope::Queue, name).await?;
        let view = self.queue_views(vec![counts]).pop().ok_or(Error::NotFound("queue"))?;
        Ok(QueueView { ageing: limit.and_then(|status| status.limit.ageing), ..view })
    }

    fn queue_views(&self, counts: Vec<QueueCounts>) -> Vec<QueueView> {
        let names = counts.iter().map(|counts| &counts.name);
        let rates = self.inner.counters.per_second(names, self.now().mono);
        let view = |(counts, rates): (QueueCounts, PerSecond)| QueueView {
            counts,
            ageing: None,
            submitted_per_second: rates.submitted,
            completed_per_second: rates.completed,
            failed_per_second: rates.failed,
        };
        counts.into_iter().zip(rates).map(view).collect()
    }

    pub async fn stats(&self) -> Result<Stats, Error> {
        let now = self.now();
        let queues = self.inner.store.queues(None).await?;
        let ledger = self.inner.store.ledger().await?;
        let (rates, mean_duration_ms) = self.inner.counters.total(now.mono);
        let mut stats = Stats {
            by_state: [0; 8],
            pending_by_class: [0; 4],
            queues: queues.len(),
            oldest_pending_at: queues.iter().filter_map(|queue| queue.oldest_pending_at).min(),
            ledger,
            submitted_per_second: rates.submitted,
            completed_per_second: rates.completed,
            failed_per_second: rates.failed,
            mean_duration_ms,
            workers_active: self.inner.workers.active(now),
            uptime_ms: now.mono.saturating_sub(self.inner.started.mono),
        };
        for queue in &queues {
            add(&mut stats.by_state, &queue.by_state);
            add(&mut stats.pending_by_class, &queue.pending_by_class);
        }
        Ok(stats)
    }

    /// Some workers, in order of name.
    pub async fn workers(&self, list: ListWorkers) -> WorkerPage {
        self.inner.workers.page(list, self.now())
    }

    /// One worker with what it runs: as the store knows it, so it is true for workers without heartbeats too.
    pub async fn worker(&self, id: &Name) -> Result<WorkerView, Error> {
        let mut view = self.inner.workers.view(id, self.now()).ok_or(Error::NotFound("worker"))?;
        let list = List {
            states: vec![StateName::Running],
            worker: Some(id.clone()),
            limit: WORKER_TASKS_MAX,
            ..List::default()
        };
        let page = self.inner.store.list(list).await?;
        view.running = page.tasks.into_iter().map(|task| task.record.id).collect();
        Ok(view)
    }

    /// How the broker is. A store that does not answer soon makes it unhealthy: probes give up after seconds.
    pub async fn health(&self) -> Health {
        let now = self.now();
        let capabilities = self.inner.store.capabilities();
        let queues = match tokio::time::timeout(HEALTH_WAIT, self.inner.store.queues(None)).await {
            Ok(queues) => queues.map_err(|error| error.to_string()),
            Err(_) => Err(format!("the store did not answer within {} ms", HEALTH_WAIT.as_millis())),
        };
        let stopped = self.inner.failed.lock().clone();
        let unreadable = queues.as_ref().err().cloned();
        let fatal = stopped.or(unreadable);
        let oldest = queues.unwrap_or_default().iter().filter_map(|queue| queue.oldest_pending_at).min();
        Health {
            ok: fatal.is_none(),
            problem: fatal
                .or_else(|| self.inner.stuck.problem())
                .or_else(|| self.inner.progressing.error())
                .or_else(|| self.inner.store.problem())
                .or_else(|| self.inner.clock_watch.problem()),
            store: capabilities.name,
            durability: capabilities.durability,
            replicas: capabilities.replicas,
            persistent: capabilities.persistent,
            draining: self.is_draining(),
            oldest_pending_age_ms: oldest.map(|at| now.wall.saturating_sub(at)),
            last_commit_age_ms: self.inner.progressing.last_ok_at().map(|at| now.wall.saturating_sub(at)),
            workers_active: self.inner.workers.active(now),
            uptime_ms: now.mono.saturating_sub(self.inner.started.mono),
            loops: self.inner.loops.health(),
        }
    }
}

fn add<const N: usize>(to: &mut [u64; N], from: &[u64; N]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += from;
    }
}
