//! What a task depends on, and what came of it.

use windlass_core::limits::{ANSWER_BYTES_MAX, BATCH_DEPENDENCIES_MAX, PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX};
use windlass_core::operation::{Action, Behind};
use windlass_core::workflow::node_name;
use windlass_core::{Payload, Record, StateName, Task, TaskId};

use crate::broker::Broker;
use crate::error::Error;

/// One task that another depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Dependency {
    pub id: TaskId,
    /// Of the node, if both are nodes of one workflow.
    pub name: Option<String>,
    /// `None` if it is forgotten.
    pub state: Option<StateName>,
    pub result: Option<Payload>,
}

/// Some of the dependencies of a task, in the order of its submit.
#[derive(Debug, Clone, PartialEq)]
pub struct Dependencies {
    pub items: Vec<Dependency>,
    /// All that it has.
    pub total: usize,
    /// Where to go on, if there are more.
    pub next: Option<usize>,
}

impl Broker {
    /// The dependencies of a task from the `from`-th on. A page ends early when its results are large.
    pub async fn dependencies(&self, id: &TaskId, from: usize, limit: usize) -> Result<Dependencies, Error> {
        let task = self.get(id).await?;
        let all = task.body.dependencies();
        let from = from.min(all.len());
        let page = &all[from..all.len().min(from + limit.clamp(1, PAGE_ROWS_MAX))];
        let records = self.inner.store.peek_all(page).await?;
        let mut items = Vec::with_capacity(page.len());
        let mut bytes = 0;
        for (id, record) in page.iter().zip(records) {
            if bytes >= ANSWER_BYTES_MAX {
                break;
            }
            let state = record.as_ref().map(|record| record.state_name());
            let result = record.and_then(|record| record.result);
            bytes += result.as_ref().map_or(0, |result| result.bytes().len());
            items.push(Dependency { id: id.clone(), name: named(&task, id), state, result });
        }
        let next = from + items.len();
        Ok(Dependencies { items, total: all.len(), next: (next < all.len()).then_some(next) })
    }
}

impl Broker {
    /// What a task depends on as it is now, as far as a decision needs it: without results, of which there may be many.
    pub(crate) async fn parents(&self, ids: &[TaskId]) -> Result<Vec<Record>, Error> {
        let mut parents = Vec::with_capacity(ids.len());
        for some in ids.chunks(PAGE_ROWS_DEFAULT) {
            let found = self.inner.store.peek_all(some).await?.into_iter().flatten();
            parents.extend(found.map(|it| Record {
                result: None,
                history: Vec::new(),
                checkpoint: None,
                ..it
            }));
        }
        Ok(parents)
    }

    /// What those of some tasks depend on that are to be retried and were cancelled. If that is very much it is only for the
    /// first of them; says for how many.
    pub(crate) async fn behind(&self, action: &Action, found: &[Record]) -> Result<(Behind, usize), Error> {
        let mut behind = Behind::new();
        if *action != Action::Retry {
            return Ok((behind, found.len()));
        }
        let (mut count, mut bytes) = (0, 0);
        for (i, record) in found.iter().enumerate() {
            if record.state_name() != StateName::Cancelled {
                continue;
            }
            let Some(task) = self.inner.store.get(&record.id).await? else { continue };
            let ids = task.body.dependencies();
            count += ids.len();
            bytes += task.bytes();
            if i > 0 && (count > BATCH_DEPENDENCIES_MAX || bytes > ANSWER_BYTES_MAX) {
                return Ok((behind, i));
            }
            if !ids.is_empty() {
                behind.insert(record.id.clone(), self.parents(ids).await?);
            }
        }
        Ok((behind, found.len()))
    }
}

/// What a task of the same workflow is called there.
fn named(task: &Task, id: &TaskId) -> Option<String> {
    node_name(task.body.links.as_ref()?.workflow.as_ref()?, id).map(str::to_owned)
}
