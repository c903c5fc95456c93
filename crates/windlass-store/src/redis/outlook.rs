//! What is in the store of all that some tasks look at, read before they are weighed (`plan.rs`).

use std::collections::{BTreeSet, HashMap};

use windlass_core::flow::Scope;
use windlass_core::{Name, NewTask, Record, Task, TaskId};

use super::Shared;
use super::limits::{self, Mark};
use super::read::By;
use crate::depth::Room;
use crate::store::Error;

/// Limits that are read by one call.
const BOUNDS_CHUNK: usize = 500;

/// What is in the store of all that some tasks look at.
#[derive(Debug, Default)]
pub(super) struct Outlook {
    /// Tasks whose ids are asked for, with their bodies.
    pub(super) ids: HashMap<TaskId, Task>,
    /// Who took each unique key last.
    pub(super) holders: HashMap<String, Task>,
    pub(super) parents: HashMap<TaskId, Record>,
    pub(super) waiting: HashMap<Name, u64>,
    /// The limits that bound how many wait, and how many do.
    pub(super) bounds: HashMap<(Scope, Name), Bound>,
    /// The limits have not changed while this is the mark of them.
    pub(super) limits: String,
    /// All of these tasks, by number.
    pub(super) records: HashMap<u64, Record>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) max: u64,
    pub(super) waiting: u64,
}

impl Outlook {
    pub(super) async fn read(shared: &Shared, tasks: &[NewTask], room: Room) -> Result<Outlook, Error> {
        let mut outlook = Outlook::default();
        let keys: Vec<&str> =
            tasks.iter().filter_map(|new| new.unique.as_ref()).map(|unique| unique.key.as_str()).collect();
        // One call: the less time passes until the commit, the fewer are faster.
        let ids = tasks.iter().map(|new| By::Id(&new.id));
        let mut rows = shared.look_up(ids.chain(keys.iter().map(|key| By::Key(key))), true).await?;
        let holders = rows.split_off(tasks.len().min(rows.len()));
        for row in rows.into_iter().flatten() {
            outlook.ids.insert(row.record.id.clone(), row.task()?);
        }
        for (key, row) in keys.iter().zip(holders) {
            if let Some(row) = row {
                outlook.holders.insert((*key).to_owned(), row.task()?);
            }
        }
        let parents: Vec<&TaskId> = tasks.iter().flat_map(|new| new.body.dependencies()).collect();
        for row in shared.look_up(parents.into_iter().map(By::Id), false).await?.into_iter().flatten() {
            outlook.parents.insert(row.record.id.clone(), row.record);
        }
        if let Room::Bounded { .. } = room {
            outlook.read_bounds(shared, tasks).await?;
        }
        if let Room::Bounded { max_depth: Some(_) } = room {
            for new in tasks {
                if !outlook.waiting.contains_key(&new.queue) {
                    let queue = shared.queues(Some(&new.queue)).await?.pop();
                    outlook.waiting.insert(new.queue.clone(), queue.map_or(0, |queue| queue.waiting()));
                }
            }
        }
        let tasks = outlook.holders.values().chain(outlook.ids.values()).map(|task| &task.record);
        let records = tasks.chain(outlook.parents.values());
        outlook.records = records.map(|record| (record.seq, record.clone())).collect();
        Ok(outlook)
    }

    /// Mostly no limit bounds how many wait, and then nothing is read. That it is still so is a guard.
    async fn read_bounds(&mut self, shared: &Shared, tasks: &[NewTask]) -> Result<(), Error> {
        let Mark { text, bounds } = shared.limits_mark.lock().clone();
        self.limits = text;
        if !bounds {
            return Ok(());
        }
        let names: BTreeSet<String> = tasks
            .iter()
            .flat_map(|new| limits::scopes(&new.queue, &new.kind, new.key.as_ref()))
            .map(|(scope, name)| limits::known_as(scope, name))
            .collect();
        let names: Vec<String> = names.into_iter().collect();
        for chunk in names.chunks(BOUNDS_CHUNK) {
            for status in shared.these_limits(chunk).await? {
                if let Some(max) = status.limit.max_depth {
                    let bound = Bound { max, waiting: status.waiting };
                    self.bounds.insert((status.scope, status.name), bound);
                }
            }
        }
        Ok(())
    }
}

impl Outlook {
    pub(super) fn is_taken(&self, id: &TaskId) -> bool {
        self.ids.contains_key(id)
    }
}
