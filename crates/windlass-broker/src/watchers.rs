//! Those who wait for the end of a task.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use windlass_core::TaskId;
use windlass_core::limits::WAITERS_MAX;

#[derive(Debug, Default)]
pub(crate) struct Watchers {
    by_task: Mutex<HashMap<TaskId, Watched>>,
    /// How many wait in all: lets the usual case, nobody, cost one load.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Watched {
    ended: Arc<Notify>,
    watchers: usize,
}

impl Watchers {
    /// Registers a watcher until the guard is dropped; `None` when too many wait.
    pub(crate) fn watch(&self, id: &TaskId) -> Option<Watching<'_>> {
        let mut by_task = self.by_task.lock();
        if self.count.load(Ordering::Relaxed) >= WAITERS_MAX {
            return None;
        }
        let watched = by_task.entry(id.clone()).or_default();
        watched.watchers += 1;
        let ended = watched.ended.clone();
        self.count.fetch_add(1, Ordering::SeqCst);
        Some(Watching { watchers: self, id: id.clone(), ended })
    }

    pub(crate) fn ended(&self, id: &TaskId) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some(watched) = self.by_task.lock().get(id) {
            watched.ended.notify_waiters();
        }
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

#[derive(Debug)]
pub(crate) struct Watching<'a> {
    watchers: &'a Watchers,
    id: TaskId,
    pub(crate) ended: Arc<Notify>,
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        let mut by_task = self.watchers.by_task.lock();
        self.watchers.count.fetch_sub(1, Ordering::SeqCst);
        if let Some(watched) = by_task.get_mut(&self.id) {
            watched.watchers -= 1;
            if watched.watchers == 0 {
                by_task.remove(&self.id);
            }
        }
    }
}
