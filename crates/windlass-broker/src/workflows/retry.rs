//! Running a workflow again from where it failed.

use std::collections::HashMap;

use windlass_core::{Name, Record, StateName, Task, TaskId, Transition, Workflow, transition};
use windlass_store::{Committed, Span};

use super::WALK_NODES;
use crate::broker::Broker;
use crate::change;
use crate::error::Error;

impl Broker {
    /// Dead letters run again, and so do cancelled tasks, each behind what it depends on; says how many. What completed
    /// stays as it is.
    pub async fn retry_workflow(&self, id: &Name) -> Result<(Workflow, u64), Error> {
        let workflow = self.workflow(id).await?;
        let mut retried = 0;
        let mut from = Some(workflow.first);
        while let Some(next) = from {
            let page =
                self.inner.store.span(Span { from: next, end: workflow.end(), limit: WALK_NODES }).await?;
            from = page.next;
            let transitions = self.decide_retries(&page.tasks).await?;
            let ids: Vec<TaskId> = transitions.iter().map(|transition| transition.id.clone()).collect();
            for (outcome, id) in self.commit(transitions).await?.into_iter().zip(&ids) {
                retried += match outcome {
                    Committed::Done(_) => 1,
                    Committed::Conflict => u64::from(self.retry(id).await.is_ok()),
                    Committed::Missing | Committed::KeyHeld(_) => 0,
                };
            }
        }
        Ok((self.inner.store.workflow(id).await?.unwrap_or(workflow), retried))
    }

    /// Decisions for a page of nodes, each of which counts on those before it.
    async fn decide_retries(&self, nodes: &[Task]) -> Result<Vec<Transition>, Error> {
        let now = self.now();
        let mut revived: HashMap<TaskId, Record> = HashMap::new();
        let mut transitions = Vec::new();
        for Task { record, body } in nodes {
            let ids = match record.state_name() {
                StateName::Cancelled => body.dependencies(),
                StateName::DeadLetter => &[],
                _ => continue,
            };
            let stored = self.inner.store.peek_all(ids).await?;
            let mut parents: Vec<(TaskId, &Record)> = Vec::with_capacity(ids.len());
            for (id, stored) in ids.iter().zip(&stored) {
                let current = revived.get(id).or(stored.as_ref());
                parents.extend(current.map(|record| (id.clone(), record)));
            }
            // One that depends on a cancelled task outside of the graph has to stay as it is.
            let Ok(Some(change)) = transition::retry_behind(record, &parents, now) else { continue };
            let mut after = record.clone();
            after.evolve(&change, 0);
            transitions.push(change::transition(record, change));
            revived.insert(record.id.clone(), after);
        }
        Ok(transitions)
    }
}
