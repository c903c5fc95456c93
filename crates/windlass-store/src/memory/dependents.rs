//! Who waits for whom.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::{Body, Ended, NewTask, Now, Record, TaskId};

use super::insert::Batch;
use super::tables::Tables;
use crate::store::{Ending, Settle, Settled, Waiting};

#[derive(Debug, Default)]
pub(super) struct Dependents {
    /// By the number of the task that is waited for; one that nobody waits for is not kept.
    children: BTreeMap<u64, BTreeSet<u64>>,
    /// Tasks that ended and have yet to tell some.
    pub(super) ended: BTreeSet<u64>,
}

impl Tables {
    /// The first dependency that a task cannot wait for, in this batch or before it, and whether it was cancelled.
    pub(super) fn broken_dependency(
        &self,
        new: &NewTask,
        batch: Option<&Batch<'_>>,
    ) -> Option<(TaskId, bool)> {
        let evicted = |id: &TaskId| batch.is_some_and(|batch| batch.evicted.contains(id));
        let added = |id: &TaskId| batch.is_some_and(|batch| batch.ids.contains_key(id));
        let cancelled = |record: &Record| Ended::of(record) == Some(Ended::Cancelled);
        let broken = |id: &TaskId| match self.find(id) {
            _ if evicted(id) => Some(true),
            Some(task) => cancelled(&task.record).then_some(true),
            None => (!added(id)).then_some(false),
        };
        new.body.dependencies().iter().find_map(|id| Some((id.clone(), broken(id)?)))
    }

    /// The dependencies that have not completed, each once.
    pub(super) fn open_dependencies(&self, body: &Body) -> Vec<u64> {
        let records = body.dependencies().iter().filter_map(|id| self.find(id)).map(|task| &task.record);
        let open: BTreeSet<u64> =
            records.filter(|record| Ended::of(record).is_none()).map(|record| record.seq).collect();
        open.into_iter().collect()
    }

    pub(super) fn wait_for(&mut self, child: u64, parents: &[u64]) {
        for parent in parents {
            self.dependents.children.entry(*parent).or_default().insert(child);
            self.set_awaited(*parent, true);
        }
    }

    /// Nothing but when the task may be forgotten depends on this, so it stays where it is: a running one keeps its lease.
    fn set_awaited(&mut self, seq: u64, awaited: bool) {
        let task = self.tasks.get_mut(&seq).expect("only tasks that are there are waited for");
        if task.record.awaited == awaited {
            return;
        }
        self.leave_ends(seq);
        if let Some(task) = self.tasks.get_mut(&seq) {
            task.record.awaited = awaited;
        }
        self.enter_ends(seq);
    }

    pub(super) fn endings(&self, limit: usize) -> Vec<Ending> {
        let mut left = limit;
        let mut endings = Vec::new();
        for parent in &self.dependents.ended {
            if left == 0 {
                break;
            }
            let record = |seq: &u64| self.tasks.get(seq).map(|task| task.record.clone());
            let waiting = |seq: &u64| Waiting { seq: *seq, record: record(seq) };
            let children: Vec<Waiting> =
                self.dependents.children[parent].iter().take(left).map(waiting).collect();
            left -= children.len();
            let ended = Ended::of(&self.tasks[parent].record).expect("only ended tasks are listed");
            endings.push(Ending { parent: *parent, ended, children });
        }
        endings
    }

    pub(super) fn settle(&mut self, settle: &Settle, now: Now) -> Settled {
        let as_seen = self.tasks.get(&settle.child).map(|task| task.record.revision) == settle.seen;
        let waits = |(parent, ended): &(u64, Ended)| {
            self.tasks.get(parent).is_some_and(|task| Ended::of(&task.record) == Some(*ended))
                && self.dependents.children.get(parent).is_some_and(|all| all.contains(&settle.child))
        };
        if !as_seen || !settle.parents.iter().all(waits) {
            return Settled::Conflict;
        }
        for (parent, _) in &settle.parents {
            let children = self.dependents.children.get_mut(parent).expect("checked above");
            children.remove(&settle.child);
            if children.is_empty() {
                self.dependents.children.remove(parent);
                self.set_awaited(*parent, false);
            }
        }
        match &settle.change {
            Some(change) => Settled::Changed(Box::new(self.change(settle.child, change, now))),
            None => Settled::Dropped,
        }
    }
}
