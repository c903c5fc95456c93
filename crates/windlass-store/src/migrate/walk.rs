//! Reading all of a store, a page at a time.

use std::collections::VecDeque;

use windlass_core::flow::Status;
use windlass_core::operation::Operation;
use windlass_core::schedule::Schedule;
use windlass_core::{StateName, Task, Workflow};

use crate::store::{Error, List, ListLimits, ListOperations, ListSchedules, ListWorkflows, Store};

/// Tasks that are read and written at once, and bytes after which a write is large enough: what a store does in some
/// milliseconds, and what fits into one entry of a log.
const PAGE: usize = 250;
const BATCH_BYTES: usize = 2 << 20;

/// Tasks, newest first.
#[derive(Debug)]
pub(super) struct Tasks<'a> {
    store: &'a dyn Store,
    states: Vec<StateName>,
    before: Option<u64>,
    ended: bool,
    page: VecDeque<Task>,
}

impl<'a> Tasks<'a> {
    /// Those in some states; none for all.
    pub(super) fn new(store: &'a dyn Store, states: &[StateName]) -> Self {
        Self { store, states: states.to_vec(), before: None, ended: false, page: VecDeque::new() }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Task>, Error> {
        while self.page.is_empty() && !self.ended {
            let list =
                List { states: self.states.clone(), before: self.before, limit: PAGE, ..List::default() };
            let page = self.store.list(list).await?;
            self.page = page.tasks.into();
            self.before = page.next;
            self.ended = page.next.is_none();
        }
        Ok(self.page.pop_front())
    }

    /// Some that are enough for one write; none at the end.
    pub(super) async fn batch(&mut self) -> Result<Vec<Task>, Error> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < PAGE && bytes < BATCH_BYTES {
            let Some(task) = self.next().await? else { break };
            bytes += task.bytes();
            batch.push(task);
        }
        Ok(batch)
    }
}

/// Everything that is named, in order; each look gives a page, and none at the end.
#[derive(Debug)]
pub(super) struct Named<'a, T> {
    store: &'a dyn Store,
    last: Option<T>,
}

impl<'a, T: Clone> Named<'a, T> {
    pub(super) fn new(store: &'a dyn Store) -> Self {
        Self { store, last: None }
    }

    fn page(&mut self, page: Vec<T>) -> Vec<T> {
        if let Some(last) = page.last() {
            self.last = Some(last.clone());
        }
        page
    }
}

impl Named<'_, Schedule> {
    pub(super) async fn next(&mut self) -> Result<Vec<Schedule>, Error> {
        let list = ListSchedules { after: self.last.as_ref().map(|last| last.id.clone()), limit: PAGE };
        let page = self.store.schedules(list).await?;
        Ok(self.page(page))
    }
}

impl Named<'_, Operation> {
    pub(super) async fn next(&mut self) -> Result<Vec<Operation>, Error> {
        let before = self.last.as_ref().map(|last| last.id.clone());
        let list = ListOperations { before, running: false, limit: PAGE };
        let page = self.store.operations(list).await?;
        Ok(self.page(page))
    }
}

impl Named<'_, Workflow> {
    pub(super) async fn next(&mut self) -> Result<Vec<Workflow>, Error> {
        let list = ListWorkflows { before: self.last.as_ref().map(|last| last.first), limit: PAGE };
        let page = self.store.workflows(list).await?;
        Ok(self.page(page))
    }
}

impl Named<'_, Status> {
    pub(super) async fn next(&mut self) -> Result<Vec<Status>, Error> {
        let after = self.last.as_ref().map(|last| (last.scope, last.name.clone()));
        let page = self.store.limits(ListLimits { scope: None, after, limit: PAGE }).await?;
        Ok(self.page(page))
    }
}
