//! Looking at limits, one of each though every part may know it, and at the counters of queues.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::Instant;
use windlass_core::Name;
use windlass_core::flow::{Scope, Status};
use windlass_core::limits::PAGE_ROWS_MAX;

use super::super::limits::known_as;
use super::Spread;
use super::limits::is_shut;
use crate::store::{Error, ListLimits, QueueCounts};

/// How long a part without queues is taken to have none when nothing is heard of it.
const CALM: Duration = Duration::from_secs(30);

impl Spread {
    pub(super) async fn limit(&self, scope: Scope, name: &Name) -> Result<Option<Status>, Error> {
        if scope == Scope::Queue {
            return self.part(self.shard_of(name)).limit(scope, name).await;
        }
        let parts = try_join_all(self.parts.iter().map(|part| part.shared.limit(scope, name))).await?;
        Ok(self.together(parts.into_iter().flatten().collect()).await?.pop())
    }

    pub(super) async fn limits(&self, list: &ListLimits) -> Result<Vec<Status>, Error> {
        let parts = try_join_all(self.parts.iter().map(|part| part.shared.limits(list))).await?;
        let mut all = self.together(parts.into_iter().flatten().collect()).await?;
        all.truncate(list.limit.min(PAGE_ROWS_MAX));
        Ok(all)
    }

    /// One of each limit, in order: as it is at its home, with what is counted in all parts.
    async fn together(&self, statuses: Vec<Status>) -> Result<Vec<Status>, Error> {
        let mut all: BTreeMap<(Scope, Name), Status> = BTreeMap::new();
        for status in statuses {
            let (waiting, running) = (status.waiting, status.running);
            let place = (status.scope, status.name.clone());
            let known =
                all.entry(place).or_insert_with(|| Status { waiting: 0, running: 0, ..status.clone() });
            known.waiting += waiting;
            known.running += running;
            if is_shut(&known.limit) && !is_shut(&status.limit) {
                (known.limit, known.closed) = (status.limit, status.closed);
            }
        }
        let mut all: Vec<Status> = all.into_values().collect();
        for status in all.iter_mut().filter(|status| is_shut(&status.limit)) {
            // It is being settled.
            if let Some(limit) = self.far_limit(&known_as(status.scope, &status.name)).await? {
                status.limit = limit;
            }
        }
        Ok(all)
    }

    /// The counters of all queues, for figures. A part without any is asked again when something was heard of it, or after a while.
    pub(super) async fn depths(&self) -> Result<Vec<QueueCounts>, Error> {
        let asked: Vec<usize> = (0..self.count()).filter(|shard| !self.is_calm(*shard)).collect();
        let ask = |shard: &usize| {
            let part = self.part(*shard);
            part.stirred.store(false, Ordering::Relaxed);
            part.queues(None)
        };
        let parts = try_join_all(asked.iter().map(ask)).await?;
        for (shard, queues) in asked.iter().zip(&parts) {
            let mut calm = self.calm.lock();
            calm.remove(shard);
            if queues.is_empty() {
                calm.insert(*shard, Instant::now());
            }
        }
        let mut queues: Vec<QueueCounts> = parts.into_iter().flatten().collect();
        queues.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(queues)
    }

    fn is_calm(&self, shard: usize) -> bool {
        let since = self.calm.lock().get(&shard).copied();
        since.is_some_and(|since| since.elapsed() < CALM) && !self.part(shard).stirred.load(Ordering::Relaxed)
    }

    pub(super) async fn open_gates(&self) -> Result<Option<u64>, Error> {
        let parts = try_join_all(self.parts.iter().map(|part| part.shared.open_gates())).await?;
        Ok(parts.into_iter().flatten().min())
    }
}
