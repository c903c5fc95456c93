//! The contents of a store, for comparing two stores.

use windlass_core::flow::Status;
use windlass_core::operation::Operation;
use windlass_core::schedule::Schedule;
use windlass_core::{State, Task, Workflow};

use super::walk::{Named, Tasks};
use crate::store::{Error, Ledger, QueueCounts, Store};

/// The durable contents of a store. Lease deadlines and progress are not included: a restart drops them.
#[derive(Debug, Clone, PartialEq)]
pub struct Contents {
    /// All tasks, newest first.
    pub tasks: Vec<Task>,
    pub queues: Vec<QueueCounts>,
    pub ledger: Ledger,
    pub schedules: Vec<Schedule>,
    pub operations: Vec<Operation>,
    pub limits: Vec<Status>,
    pub workflows: Vec<Workflow>,
    /// Ended tasks, each with the dependents that have yet to be notified, by number.
    pub endings: Vec<(u64, Vec<u64>)>,
}

/// Collects all pages of a walk.
macro_rules! all {
    ($walk:expr) => {{
        let (mut walk, mut all) = ($walk, Vec::new());
        loop {
            let page = walk.next().await?;
            if page.is_empty() {
                break all;
            }
            all.extend(page);
        }
    }};
}

impl Contents {
    pub async fn read(store: &dyn Store) -> Result<Contents, Error> {
        let endings = store.endings(usize::MAX).await?.into_iter();
        let endings = endings
            .map(|ending| (ending.parent, ending.children.iter().map(|child| child.seq).collect()))
            .collect();
        Ok(Contents {
            tasks: tasks(store).await?,
            queues: store.queues(None).await?,
            ledger: store.ledger().await?,
            schedules: all!(Named::<Schedule>::new(store)),
            operations: all!(Named::<Operation>::new(store)),
            limits: all!(Named::<Status>::new(store)),
            workflows: all!(Named::<Workflow>::new(store)),
            endings,
        })
    }

    /// Describes the first difference of each kind; empty if both are equal.
    pub fn differences(&self, other: &Contents) -> Vec<String> {
        let mut found = Vec::new();
        let (ours, theirs) = (self.tasks.iter(), other.tasks.iter());
        if let Some((a, b)) = ours.zip(theirs).find(|(a, b)| a != b) {
            found.push(format!("{:?} is not {:?}", a.record, b.record));
        }
        if self.tasks.len() != other.tasks.len() {
            found.push(format!("{} tasks are not {}", self.tasks.len(), other.tasks.len()));
        }
        let mut compare = |what: &str, same: bool, words: String| {
            if !same {
                found.push(format!("{what}: {words}"));
            }
        };
        let both = |a: &dyn std::fmt::Debug, b: &dyn std::fmt::Debug| format!("{a:?} is not {b:?}");
        compare("queues", self.queues == other.queues, both(&self.queues, &other.queues));
        compare("ledger", self.ledger == other.ledger, both(&self.ledger, &other.ledger));
        compare("schedules", self.schedules == other.schedules, both(&self.schedules, &other.schedules));
        compare("operations", self.operations == other.operations, both(&self.operations, &other.operations));
        compare("limits", self.limits == other.limits, both(&self.limits, &other.limits));
        compare("workflows", self.workflows == other.workflows, both(&self.workflows, &other.workflows));
        compare("endings", self.endings == other.endings, both(&self.endings, &other.endings));
        found
    }
}

async fn tasks(store: &dyn Store) -> Result<Vec<Task>, Error> {
    let (mut walk, mut all) = (Tasks::new(store, &[]), Vec::new());
    while let Some(mut task) = walk.next().await? {
        if let State::Running(lease) = &mut task.record.state {
            lease.expires_at = 0;
        }
        task.record.progress = None;
        all.push(task);
    }
    Ok(all)
}
