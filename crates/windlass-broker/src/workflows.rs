//! Graphs of tasks: submitted as one, looked at as one, cancelled and retried as one.
//!
//! Submitting is one commit. Cancelling and retrying walk the tasks in their order, page by page: bounded in memory, safe to
//! abandon at any point and to ask for again.

mod retry;

use std::collections::HashSet;
use std::time::Instant;

use windlass_core::limits::{PAGE_ROWS_MAX, WORKFLOW_EDGES_MAX};
use windlass_core::workflow::{node_name, task_id};
use windlass_core::{Links, Name, NewTask, Stamp, StateName, Task, TaskId, Workflow, transition};
use windlass_store::{Committed, InsertWorkflow, Inserted, ListWorkflows, Span, WorkflowInserted};

use crate::broker::Broker;
use crate::change::{self, Happened};
use crate::error::Error;
use crate::submit::{Submit, bounded, new_id, resolve};

/// Nodes whose records and bodies a walk holds at once.
const WALK_NODES: usize = 200;

/// A graph as a client asks for it, checked: names are different, every `after` names a node that stands before.
#[derive(Debug, Clone)]
pub struct SubmitWorkflow {
    /// A UUID v7 is made when there is none.
    pub id: Option<Name>,
    pub nodes: Vec<Node>,
    /// Digest of the content; set exactly when the client chose the id.
    pub fingerprint: Option<[u8; 16]>,
}

#[derive(Debug, Clone)]
pub struct Node {
    pub name: Name,
    /// Without an id. It may depend on tasks outside of the graph.
    pub submit: Submit,
    pub after: Vec<Name>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SubmittedWorkflow {
    pub workflow: Workflow,
    /// The same submit came before, and nothing was added.
    pub existed: bool,
}

/// A workflow and some of its nodes, in an order in which each stands behind those that it depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkflowView {
    pub workflow: Workflow,
    pub nodes: Vec<NodeView>,
    /// Where to go on, if there are more.
    pub next: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NodeView {
    pub name: String,
    /// Names of the nodes that it depends on; tasks outside of the graph by their ids.
    pub after: Vec<String>,
    pub task: Task,
}

impl Broker {
    pub async fn submit_workflow(&self, submit: SubmitWorkflow) -> Result<SubmittedWorkflow, Error> {
        let now = self.now().stamp();
        let made = || Name::new(new_id(now.wall).as_str()).expect("an id is a valid name");
        let id = submit.id.unwrap_or_else(made);
        let fingerprint = submit.fingerprint.unwrap_or_else(rand::random);
        let names: Vec<Name> = submit.nodes.iter().map(|node| node.name.clone()).collect();
        let nodes = submit.nodes.into_iter().map(|node| new_task(&id, node, now));
        let tasks = nodes.collect::<Result<Vec<NewTask>, Error>>()?;
        bounded(tasks.iter().map(|task| task.body.dependencies().len()).sum(), WORKFLOW_EDGES_MAX)?;
        let max_depth = self.inner.settings.max_depth;
        let insert = InsertWorkflow { id, created_at: now.wall, fingerprint, tasks, max_depth };
        let began = Instant::now();
        let inserted = self.inner.store.insert_workflow(insert).await;
        let now = self.now();
        match self.progressed(inserted, now)? {
            WorkflowInserted::New(workflow, records) => {
                let happened = records.iter().map(|record| (Happened::Submitted, record));
                self.happened(happened, Some(began.elapsed()), now);
                Ok(SubmittedWorkflow { workflow: *workflow, existed: false })
            }
            WorkflowInserted::Same(workflow) => Ok(SubmittedWorkflow { workflow: *workflow, existed: true }),
            WorkflowInserted::Clash => Err(Error::WorkflowExists),
            WorkflowInserted::Refused(answers) => Err(refused(&names, answers)),
        }
    }

    pub async fn workflow(&self, id: &Name) -> Result<Workflow, Error> {
        self.inner.store.workflow(id).await?.ok_or(Error::NotFound("workflow"))
    }

    /// Newest first, and where to go on.
    pub async fn workflows(&self, list: ListWorkflows) -> Result<(Vec<Workflow>, Option<u64>), Error> {
        let limit = list.limit.clamp(1, PAGE_ROWS_MAX);
        let found = self.inner.store.workflows(ListWorkflows { limit, ..list }).await?;
        let next = found.last().map(|workflow| workflow.first).filter(|_| found.len() == limit);
        Ok((found, next))
    }

    /// `from` is where the page before ended.
    pub async fn workflow_view(
        &self,
        id: &Name,
        from: Option<u64>,
        limit: usize,
    ) -> Result<WorkflowView, Error> {
        let workflow = self.workflow(id).await?;
        let from = from.unwrap_or(0).max(workflow.first);
        let page = self.inner.store.span(Span { from, end: workflow.end(), limit }).await?;
        let nodes = page.tasks.into_iter().map(|task| view(&workflow.id, task)).collect();
        Ok(WorkflowView { workflow, nodes, next: page.next })
    }

    /// Cancels every task that has not ended; says how many.
    pub async fn cancel_workflow(&self, id: &Name) -> Result<(Workflow, u64), Error> {
        let workflow = self.workflow(id).await?;
        let mut cancelled = 0;
        let mut from = Some(workflow.first);
        while let Some(next) = from {
            let page =
                self.inner.store.span(Span { from: next, end: workflow.end(), limit: WALK_NODES }).await?;
            from = page.next;
            let now = self.now();
            let decided = page.tasks.iter().filter_map(|task| {
                let change = transition::cancel(&task.record, now).ok().flatten()?;
                Some(change::transition(&task.record, change))
            });
            let transitions: Vec<_> = decided.collect();
            let ids: Vec<TaskId> = transitions.iter().map(|transition| transition.id.clone()).collect();
            for (outcome, id) in self.commit(transitions).await?.into_iter().zip(&ids) {
                cancelled += match outcome {
                    Committed::Done(_) => 1,
                    // One that was cancelled with what it depends on meanwhile counts too.
                    Committed::Conflict => match self.cancel(id).await {
                        Ok(_) | Err(Error::Terminal(StateName::Cancelled)) => 1,
                        Err(_) => 0,
                    },
                    Committed::Missing | Committed::KeyHeld(_) => 0,
                };
            }
        }
        Ok((self.inner.store.workflow(id).await?.unwrap_or(workflow), cancelled))
    }
}

fn new_task(workflow: &Name, node: Node, now: Stamp) -> Result<NewTask, Error> {
    let long =
        |name: &Name| Error::Invalid { field: "tasks", message: format!("{name}: the name is too long") };
    let id = |name: &Name| task_id(workflow, name).ok_or_else(|| long(name));
    let own = id(&node.name)?;
    if node.submit.unique.is_some() {
        let message = format!("{}: is not possible in a workflow, whose tasks are all new", node.name);
        return Err(Error::Invalid { field: "unique_key", message });
    }
    let mut dependencies = node.after.iter().map(id).collect::<Result<Vec<TaskId>, Error>>()?;
    dependencies.extend(node.submit.links.iter().flat_map(|links| links.dependencies.iter().cloned()));
    // A node of this graph may be named by its name and by its id.
    let mut named = HashSet::with_capacity(dependencies.len());
    dependencies.retain(|id| named.insert(id.clone()));
    let links = Links { dependencies, workflow: Some(workflow.clone()) };
    let submit = Submit { id: None, links: Some(Box::new(links)), ..node.submit };
    // The workflow tells a repeated submit, so its tasks need not.
    Ok(NewTask { id: own, ..resolve(submit, now) })
}

fn view(workflow: &Name, task: Task) -> NodeView {
    let name = |id: &TaskId| node_name(workflow, id).unwrap_or(id.as_str()).to_owned();
    NodeView { name: name(&task.record.id), after: task.body.dependencies().iter().map(name).collect(), task }
}

/// The first reason why nothing was added.
fn refused(names: &[Name], answers: Vec<Inserted>) -> Error {
    let reason = |(answer, name): (Inserted, &Name)| match answer {
        Inserted::Clash => Some(Error::NodeExists(name.clone())),
        Inserted::QueueFull => Some(Error::QueueFull),
        Inserted::LimitFull(full) => Some(Error::LimitFull(full)),
        Inserted::LimitApart(apart) => Some(Error::LimitApart(apart)),
        Inserted::Dependency { id, cancelled: false } => Some(Error::DependencyMissing(id)),
        Inserted::Dependency { id, cancelled: true } => Some(Error::DependencyCancelled(id)),
        Inserted::KeyHeld(holder) => Some(Error::UniqueConflict(holder)),
        _ => None,
    };
    answers.into_iter().zip(names).find_map(reason).unwrap_or(Error::Aborted)
}
