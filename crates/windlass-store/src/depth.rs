//! Whether there is room for a new task: how many may wait, in all queues alike or by the limits of flow.

use std::collections::HashMap;

use windlass_core::flow::{Flow, Scope};
use windlass_core::{Name, NewTask, Record};

use crate::store::Inserted;

/// Which bounds count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// Those of limits, and this one for every queue.
    Bounded { max_depth: Option<u64> },
    /// None: a slot of a schedule is not lost to a busy hour.
    Unbounded,
}

/// By how much more or fewer tasks would wait, if what was looked at were done.
#[derive(Debug, Default)]
pub(crate) struct Depths(HashMap<(Scope, Name), i64>);

impl Depths {
    pub(crate) fn come(&mut self, new: &NewTask) {
        self.count([&new.queue, &new.kind], new.key.as_ref(), 1);
    }

    /// Only a task that waits makes room.
    pub(crate) fn go(&mut self, record: &Record) {
        if record.waits() {
            self.count([&record.queue, &record.kind], record.key.as_ref(), -1);
        }
    }

    /// It does not go after all.
    pub(crate) fn stay(&mut self, record: &Record) {
        if record.waits() {
            self.count([&record.queue, &record.kind], record.key.as_ref(), 1);
        }
    }

    fn count(&mut self, [queue, kind]: [&Name; 2], key: Option<&Name>, by: i64) {
        let names = [(Scope::Queue, Some(queue)), (Scope::Type, Some(kind)), (Scope::Key, key)];
        for (scope, name) in names {
            if let Some(name) = name {
                *self.0.entry((scope, name.clone())).or_default() += by;
            }
        }
    }

    #[cfg(feature = "redis")]
    pub(crate) fn all(&self) -> impl Iterator<Item = (&(Scope, Name), i64)> {
        self.0.iter().map(|(whose, more)| (whose, *more))
    }

    pub(crate) fn of(&self, scope: Scope, name: &Name) -> i64 {
        self.0.get(&(scope, name.clone())).copied().unwrap_or(0)
    }
}

/// The answer to a task for which there is no room. `waiting` counts those of its queue.
pub(crate) fn refusal(
    flow: &Flow,
    room: Room,
    new: &NewTask,
    depths: Option<&Depths>,
    waiting: impl FnOnce() -> u64,
) -> Option<Inserted> {
    let Room::Bounded { max_depth } = room else { return None };
    let more = |scope: Scope, name: &Name| depths.map_or(0, |depths| depths.of(scope, name));
    if let Some(max) = max_depth
        && waiting() as i64 + more(Scope::Queue, &new.queue) >= i64::try_from(max).unwrap_or(i64::MAX)
    {
        return Some(Inserted::QueueFull);
    }
    let full = flow.full(&new.queue, &new.kind, new.key.as_ref(), more)?;
    Some(Inserted::LimitFull(Box::new(full)))
}

/// Whether anything is bounded at all.
pub(crate) fn matters(flow: &Flow, room: Room) -> bool {
    match room {
        Room::Bounded { max_depth } => max_depth.is_some() || flow.bounds_depth(),
        Room::Unbounded => false,
    }
}
