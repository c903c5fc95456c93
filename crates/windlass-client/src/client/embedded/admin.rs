//! Queues, workers, dead letters and the broker itself.

use windlass_broker::{ListWorkers, Selection};
use windlass_core::Name;
use windlass_core::limits::BATCH_TASKS_MAX;
use windlass_proto::rest::{
    Affected, DeadSelection, Fault, HealthBody, Invalid, QueueBody, QueuesBody, StatsBody, WorkerBody,
    WorkersBody,
};
use windlass_store::{List, ListQueues};

use super::tasks::given;
use super::{Embedded, now, place, rows};
use crate::error::Error;
use crate::show::{self, queue, worker};

impl Embedded {
    pub(crate) async fn queues(&self, limit: usize, cursor: Option<&str>) -> Result<QueuesBody, Error> {
        let limit = rows(limit)?;
        let views = self.0.queues(ListQueues { after: place(cursor)?, limit }).await?;
        let last = views.last().filter(|_| views.len() == limit);
        let next_cursor = last.map(|view| view.counts.name.to_string());
        let now = now();
        Ok(QueuesBody { items: views.into_iter().map(|view| queue(view, now)).collect(), next_cursor })
    }

    pub(crate) async fn queue(&self, name: &Name) -> Result<QueueBody, Error> {
        Ok(queue(self.0.queue(name).await?, now()))
    }

    pub(crate) async fn pause_queue(&self, name: &Name) -> Result<QueueBody, Error> {
        Ok(queue(self.0.pause_queue(name).await?, now()))
    }

    pub(crate) async fn resume_queue(&self, name: &Name) -> Result<QueueBody, Error> {
        Ok(queue(self.0.resume_queue(name).await?, now()))
    }

    pub(crate) async fn purge_queue(&self, name: &Name) -> Result<Affected, Error> {
        Ok(Affected { affected: self.0.purge_queue(name).await? })
    }

    pub(crate) async fn retry_dead(&self, which: &DeadSelection) -> Result<Affected, Error> {
        let selection = selection(which)?;
        let affected = match which.dry_run {
            true => self.0.count_dead(&selection).await?,
            false => self.0.retry_dead(selection).await?,
        };
        Ok(Affected { affected })
    }

    pub(crate) async fn clear_dead(&self, which: &DeadSelection) -> Result<Affected, Error> {
        let selection = selection(which)?;
        let affected = match which.dry_run {
            true => self.0.count_dead(&selection).await?,
            false => self.0.clear_dead(selection).await?,
        };
        Ok(Affected { affected })
    }

    pub(crate) async fn workers(&self, limit: usize, cursor: Option<&str>) -> Result<WorkersBody, Error> {
        let page = self.0.workers(ListWorkers { after: place(cursor)?, limit: rows(limit)? }).await;
        let next_cursor = page.next.map(|name| name.to_string());
        Ok(WorkersBody { items: page.workers.into_iter().map(worker).collect(), next_cursor })
    }

    pub(crate) async fn worker(&self, id: &Name) -> Result<WorkerBody, Error> {
        Ok(worker(self.0.worker(id).await?))
    }

    pub(crate) async fn pause_worker(&self, id: &Name) -> Result<WorkerBody, Error> {
        Ok(worker(self.0.pause_worker(id).await?))
    }

    pub(crate) async fn resume_worker(&self, id: &Name) -> Result<WorkerBody, Error> {
        Ok(worker(self.0.resume_worker(id).await?))
    }

    pub(crate) async fn stats(&self) -> Result<StatsBody, Error> {
        Ok(show::stats(self.0.stats().await?, now()))
    }

    pub(crate) async fn health(&self) -> Result<HealthBody, Error> {
        Ok(show::health(self.0.health().await))
    }
}

fn selection(which: &DeadSelection) -> Result<Selection, Invalid> {
    let DeadSelection { ids, all, queue, kind, q, filter, .. } = which.clone();
    let filtered = queue.is_some() || kind.is_some() || q.is_some() || filter.is_some();
    match (ids, all) {
        (Some(ids), false) if ids.len() > BATCH_TASKS_MAX => {
            let message = format!("has {} ids, {BATCH_TASKS_MAX} are allowed", ids.len());
            Err(Invalid::new(Fault::TooLarge, "ids", message))
        }
        (Some(ids), false) if !filtered => Ok(Selection::Ids(ids)),
        (Some(_), _) => Err(Invalid::malformed("ids", "is given besides all or a filter")),
        (None, true) => {
            let text = q.filter(|text| !text.is_empty());
            let list = List { queue, kind, text, ..List::default() };
            let filter = filter.as_deref().map(given).transpose()?;
            Ok(Selection::Filter(list.narrowed(filter.unwrap_or_default())))
        }
        (None, false) => Err(Invalid::malformed("all", "must be true unless ids are given")),
    }
}
