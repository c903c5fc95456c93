//! What a store is asked about tasks that wait for others.

use windlass_core::{Change, Ended, NewTask, Record};

use super::Inserted;

/// A task that ended, and some of those who wait for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    /// The number of the task that ended.
    pub parent: u64,
    pub ended: Ended,
    pub children: Vec<Waiting>,
}

/// One who waits, as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    pub seq: u64,
    /// `None` if it is forgotten.
    pub record: Option<Record>,
}

/// What the ends of some tasks mean for one that waits for them. It is one commit: the pairs are taken away and the change
/// is made, or neither.
#[derive(Debug, Clone, PartialEq)]
pub struct Settle {
    /// The number of the task that waits.
    pub child: u64,
    /// Its revision as it was seen; `None` if it is forgotten.
    pub seen: Option<u64>,
    /// Numbers of those that ended, each once, and how. They must still have ended like that, and must not have been counted
    /// before.
    pub parents: Vec<(u64, Ended)>,
    /// `None` if it waits no more.
    pub change: Option<Change>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Settled {
    /// The record after the change.
    Changed(Box<Record>),
    /// It waited no more, and nothing but the pairs is gone.
    Dropped,
    /// Something is not as it was seen; nothing was done.
    Conflict,
}

/// The answer to a task that depends on the one that would give way for it: its own submit would cancel what it waits for.
pub(crate) fn depends_on(new: &NewTask, holder: &Record) -> Option<Inserted> {
    let waits = new.body.dependencies().contains(&holder.id);
    waits.then(|| Inserted::Dependency { id: holder.id.clone(), cancelled: true })
}
