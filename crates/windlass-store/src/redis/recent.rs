//! Records that were just read or given out: whoever decides on one has mostly just looked at it or been given it, so it need not
//! be read again. A record of a revision never changes but for what scripts keep beside it, and the commit is conditional on the
//! revision, so one that is out of date is a conflict like any other.

use std::collections::HashMap;

use parking_lot::Mutex;
use windlass_core::{Change, Record, State, TaskId, Token, Transition};

/// Beyond this all are forgotten: it costs one more call for each, once.
const RECENT_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<HashMap<TaskId, Record>>);

impl Recent {
    pub(super) fn remember<'a>(&self, records: impl IntoIterator<Item = &'a Record>) {
        let mut recent = self.0.lock();
        // Only what a worker holds is soon decided on again, and a checkpoint is too large to be kept here.
        let held =
            |record: &&Record| matches!(record.state, State::Running(_)) && record.checkpoint.is_none();
        for record in records.into_iter().filter(held) {
            if recent.len() >= RECENT_MAX {
                recent.clear();
            }
            recent.insert(record.id.clone(), record.clone());
        }
    }

    /// The record of a task that ran under this very token when it was last seen.
    pub(super) fn held(&self, id: &TaskId, token: Token) -> Option<Record> {
        let recent = self.0.lock();
        let record = recent.get(id)?;
        matches!(&record.state, State::Running(lease) if lease.token == token).then(|| record.clone())
    }

    /// The record that a transition was decided on. Only for the ends of an attempt: they depend on nothing beside it.
    pub(super) fn take(&self, transition: &Transition) -> Option<Record> {
        use Change::{Completed, Failed, LeaseLost, Released};
        if !matches!(transition.change, Completed { .. } | Failed { .. } | LeaseLost { .. } | Released { .. })
        {
            return None;
        }
        let record = self.0.lock().remove(&transition.id)?;
        (record.revision == transition.revision && record.seq == transition.seq).then_some(record)
    }
}
