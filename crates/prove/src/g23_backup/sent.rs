//! What the submitters know.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ids that were sent, and those of them that were acknowledged.
#[derive(Debug, Default)]
pub(super) struct Sent(Mutex<[HashSet<String>; 2]>);

impl Sent {
    pub(super) fn begin(&self, ids: &[String]) {
        self.lock()[0].extend(ids.iter().cloned());
    }

    pub(super) fn acknowledge(&self, ids: Vec<String>) {
        self.lock()[1].extend(ids);
    }

    pub(super) fn begun(&self) -> HashSet<String> {
        self.lock()[0].clone()
    }

    pub(super) fn acknowledged(&self) -> HashSet<String> {
        self.lock()[1].clone()
    }

    fn lock(&self) -> MutexGuard<'_, [HashSet<String>; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
