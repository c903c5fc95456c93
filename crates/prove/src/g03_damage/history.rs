//! What the tasks were after each entry of the log, recorded while the store was written.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use windlass_core::{State, Task, TaskId};

pub(super) type Tasks = BTreeMap<TaskId, Task>;

#[derive(Debug, Clone, Default)]
pub(super) struct History {
    /// How many entries the log has got.
    pub(super) entries: u64,
    /// After the last entry.
    pub(super) last: Tasks,
    digests: HashSet<u64>,
    versions: BTreeMap<TaskId, Vec<Version>>,
}

/// A task after an entry that changed it.
#[derive(Debug, Clone)]
struct Version {
    entry: u64,
    seen: String,
}

impl History {
    /// Records what there is after one more entry.
    pub(super) fn record(&mut self, now: Tasks) {
        self.entries += 1;
        self.digests.insert(digest(&now));
        for (id, task) in now.iter().filter(|(id, task)| self.last.get(*id) != Some(*task)) {
            let version = Version { entry: self.entries, seen: seen(task) };
            self.versions.entry(id.clone()).or_default().push(version);
        }
        self.last = now;
    }

    /// Whether these tasks are what there was after one of the entries.
    pub(super) fn has_been(&self, tasks: &Tasks) -> bool {
        self.digests.contains(&digest(tasks))
    }

    /// The entry that submitted a task.
    pub(super) fn submitted(&self, id: &TaskId) -> Option<u64> {
        self.versions.get(id)?.first().map(|version| version.entry)
    }

    /// Whether a salvaged task is as the last entry left it, or as it was before one of the entries in `lost`.
    pub(super) fn explains(&self, task: &Task, lost: impl Fn(u64) -> bool) -> bool {
        let Some(versions) = self.versions.get(&task.record.id) else { return false };
        let seen = seen(task);
        versions.iter().enumerate().any(|(nth, version)| {
            version.seen == seen && versions.get(nth + 1).is_none_or(|next| lost(next.entry))
        })
    }
}

/// A task as a salvage leaves it: the salvage gives running tasks back, which counts as a revision.
fn seen(task: &Task) -> String {
    let record = &task.record;
    match &record.state {
        State::Running(_) | State::Pending => "pending".to_owned(),
        state => format!("{state:?}, {} attempts, revision {}", record.attempts, record.revision),
    }
}

fn digest(tasks: &Tasks) -> u64 {
    let mut hasher = DefaultHasher::new();
    for task in tasks.values() {
        let Task { record, body } = task;
        (record.id.as_str(), record.revision, record.order, format!("{:?}", record.state)).hash(&mut hasher);
        (body.payload.bytes(), record.attempts, record.updated_at).hash(&mut hasher);
    }
    hasher.finish()
}
