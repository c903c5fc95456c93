//! Whoever wants to know of every change as it happens.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use windlass_core::{Change, Name, Progress, Record};

/// Is told of every change of every task, in the order of commits: also of those that a store makes by itself (an expired task
/// that a claim came across, tasks of a caller that went away) and of those whose caller never got its answer.
pub trait Observer: Debug + Send + Sync {
    /// A task was added (`change` is `None`) or changed; for a removal, `after` is the record before it. Called once the change
    /// is durable and while nothing else can change: it must be quick, must not wait and must not call the store.
    fn changed(&self, change: Option<&Change>, after: &Record);

    /// A queue was paused or resumed; what that starts is told after it.
    fn paused(&self, queue: &Name, paused: bool);

    /// The worker of a running task said how far it is. Called like `changed`.
    fn progressed(&self, record: &Record, progress: &Progress, at: u64);
}

/// A store's end of it. While nobody listens, a change costs one load.
#[derive(Debug, Default)]
pub struct Observed {
    on: AtomicBool,
    observer: Mutex<Option<Weak<dyn Observer>>>,
}

impl Observed {
    /// Takes the place of an earlier observer. Nothing is told before [`Observed::listen`].
    pub fn observe(&self, observer: Weak<dyn Observer>) {
        *self.observer.lock() = Some(observer);
    }

    /// Whether the observer wants to be told from here on.
    pub fn listen(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// Tells the observer, if it wants to know.
    pub(crate) fn tell(&self, news: impl FnOnce(&dyn Observer)) {
        if self.on.load(Ordering::Relaxed)
            && let Some(observer) = self.observer()
        {
            news(&*observer);
        }
    }

    #[cold]
    fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.observer.lock().as_ref().and_then(Weak::upgrade)
    }
}
