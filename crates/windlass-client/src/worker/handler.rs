//! Handlers and the registry that finds them by task type.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use windlass_core::Name;

use super::job::{Context, Job};
use super::outcome::{IntoOutcome, Outcome};

/// Runs the tasks of one type. Plain async functions of `(Context, Job)` are handlers.
pub trait Handler: Send + Sync + 'static {
    fn run(&self, context: Context, job: Job) -> Pin<Box<dyn Future<Output = Outcome> + Send>>;
}

impl<F, R> Handler for F
where
    F: Fn(Context, Job) -> R + Send + Sync + 'static,
    R: Future<Output: IntoOutcome> + Send + 'static,
{
    fn run(&self, context: Context, job: Job) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        let running = self(context, job);
        Box::pin(async move { running.await.into_outcome() })
    }
}

/// What may be set for one type.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Shortens the task's own time limit.
    pub timeout: Option<Duration>,
    /// At most this many of the worker's slots.
    pub concurrency: Option<u32>,
}

#[derive(Clone)]
pub(super) struct Entry {
    pub(super) handler: Arc<dyn Handler>,
    pub(super) timeout: Option<Duration>,
    /// Free slots of a type with a limit of its own.
    pub(super) slots: Option<Arc<Semaphore>>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("timeout", &self.timeout)
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
pub(super) struct Registry {
    entries: BTreeMap<Name, Entry>,
}

impl Registry {
    pub(super) fn add(&mut self, kind: Name, handler: Arc<dyn Handler>, options: Options) {
        let slots = options.concurrency.map(|n| Arc::new(Semaphore::new(n.max(1) as usize)));
        self.entries.insert(kind, Entry { handler, timeout: options.timeout, slots });
    }

    pub(super) fn get(&self, kind: &Name) -> Option<&Entry> {
        self.entries.get(kind)
    }

    pub(super) fn types(&self) -> Vec<Name> {
        self.entries.keys().cloned().collect()
    }

    /// The types but those `asked` for already that have room now, and how many tasks may be asked for so that none of
    /// them gets more than it has room for, whichever they turn out to be.
    pub(super) fn room(&self, free: u32, asked: &[Name]) -> (Vec<Name>, u32) {
        let mut max = free;
        let mut types = Vec::new();
        for (kind, entry) in self.entries.iter().filter(|(kind, _)| !asked.contains(kind)) {
            match entry.slots.as_ref().map(|slots| slots.available_permits() as u32) {
                Some(0) => continue,
                Some(room) => max = max.min(room),
                None => {}
            }
            types.push(kind.clone());
        }
        if types.is_empty() { (types, 0) } else { (types, max) }
    }
}
