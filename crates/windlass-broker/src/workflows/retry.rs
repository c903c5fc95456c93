//! Running a workflow again from where it failed.
//!
//! A cancelled task cancels its dependents a moment later, in steps: the cascade. A retry during the cascade sees some
//! dependents blocked that are cancelled by the time the task is retried. From then on nothing cancels them, because a
//! cascade commits only while its task is still cancelled. So the retry looks again at the dependents of every task that
//! still had dependents to notify.

use std::collections::HashMap;

use windlass_core::{
    CancelReason, Name, Record, State, StateName, Task, TaskId, Transition, Workflow, transition,
};
use windlass_store::{Committed, Span};

use super::WALK_NODES;
use crate::broker::Broker;
use crate::change;
use crate::error::Error;

/// Which tasks a walk over the workflow retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Walk {
    /// Dead letters and cancelled tasks.
    First,
    /// Tasks that a cascade cancelled during the first walk. One that failed or was cancelled since stays as it is.
    Again,
}

impl Walk {
    fn takes(self, record: &Record) -> bool {
        match (&record.state, self) {
            (State::Cancelled { reason: CancelReason::Dependency, .. }, _) => true,
            (State::Cancelled { .. } | State::DeadLetter { .. }, walk) => walk == Walk::First,
            _ => false,
        }
    }
}

/// The result of a walk.
#[derive(Debug, Default)]
struct Walked {
    retried: u64,
    /// The first task that was retried while it had dependents left to notify.
    cascading: Option<u64>,
}

impl Broker {
    /// Dead letters run again, and so do cancelled tasks, each behind what it depends on; says how many. What completed
    /// stays as it is.
    pub async fn retry_workflow(&self, id: &Name) -> Result<(Workflow, u64), Error> {
        let workflow = self.workflow(id).await?;
        let mut done = self.walk_retries(&workflow, workflow.first, Walk::First).await?;
        // A cascade only moves away from the retried tasks, so it ends before there are as many walks as tasks.
        for _ in 0..=workflow.size {
            let Some(from) = done.cascading else {
                let workflow = self.inner.store.workflow(id).await?.unwrap_or(workflow);
                return Ok((workflow, done.retried));
            };
            let more = self.walk_retries(&workflow, from, Walk::Again).await?;
            done = Walked { retried: done.retried + more.retried, ..more };
        }
        Err(Error::Busy)
    }

    async fn walk_retries(&self, workflow: &Workflow, from: u64, walk: Walk) -> Result<Walked, Error> {
        let mut walked = Walked::default();
        let mut from = Some(from);
        while let Some(next) = from {
            let page =
                self.inner.store.span(Span { from: next, end: workflow.end(), limit: WALK_NODES }).await?;
            from = page.next;
            let cascading = |task: &&Task| walk.takes(&task.record) && task.record.must_tell();
            let first = page.tasks.iter().find(cascading).map(|task| task.record.seq);
            let transitions = self.decide_retries(&page.tasks, walk).await?;
            let ids: Vec<TaskId> = transitions.iter().map(|transition| transition.id.clone()).collect();
            if !ids.is_empty() {
                walked.cascading = walked.cascading.or(first);
            }
            for (outcome, id) in self.commit(transitions).await?.into_iter().zip(&ids) {
                walked.retried += match outcome {
                    Committed::Done(_) => 1,
                    Committed::Conflict => u64::from(self.retry(id).await.is_ok()),
                    Committed::Missing | Committed::KeyHeld(_) => 0,
                };
            }
        }
        Ok(walked)
    }

    /// Decisions for a page of nodes, each of which counts on those before it.
    async fn decide_retries(&self, nodes: &[Task], walk: Walk) -> Result<Vec<Transition>, Error> {
        let now = self.now();
        let mut revived: HashMap<TaskId, Record> = HashMap::new();
        let mut transitions = Vec::new();
        for Task { record, body } in nodes.iter().filter(|task| walk.takes(&task.record)) {
            // A dead letter ran, so its dependencies had completed.
            let cancelled = record.state_name() == StateName::Cancelled;
            let ids = if cancelled { body.dependencies() } else { &[] };
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
