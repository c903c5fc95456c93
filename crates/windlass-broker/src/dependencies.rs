//! What a task depends on, and what came of it.

use windlass_core::limits::{ANSWER_BYTES_MAX, PAGE_ROWS_MAX};
use windlass_core::workflow::node_name;
use windlass_core::{Payload, StateName, Task, TaskId};

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

/// What a task of the same workflow is called there.
fn named(task: &Task, id: &TaskId) -> Option<String> {
    node_name(task.body.links.as_ref()?.workflow.as_ref()?, id).map(str::to_owned)
}
