//! What a store says without being asked.

use std::sync::Arc;

use tokio::sync::Notify;
use windlass_core::{Change, Name, Progress, Record};

use super::exchange::Exchange;
use super::lapsed::Lapsed;
use super::observed::Observed;

/// Hints for the loops: something nearer than what they wait for was stored.
#[derive(Debug, Default)]
pub struct Signals {
    pub due: Notify,
    pub prunable: Notify,
    pub leases: Notify,
    pub schedules: Notify,
    pub operations: Notify,
    pub gates: Notify,
    /// A task ended that others wait for.
    pub dependents: Notify,
    /// Many names have no task any more.
    pub names: Notify,
    /// Not a hint: every change is told to an [`super::Observer`]. `None` if a store cannot, because others change it too.
    pub observed: Option<Arc<Observed>>,
    /// Of a store that others change too: a way to them, and from them.
    pub exchange: Option<Arc<Exchange>>,
    /// Not a hint but the thing itself: `due` is rung with it.
    pub lapsed: Lapsed,
}

impl Signals {
    /// Of a store that tells every change.
    pub(crate) fn observed() -> Self {
        Self { observed: Some(Arc::default()), ..Self::default() }
    }

    pub(crate) fn changed(&self, change: Option<&Change>, after: &Record) {
        if let Some(observed) = &self.observed {
            observed.tell(|observer| observer.changed(change, after));
        }
    }

    pub(crate) fn paused(&self, queue: &Name, paused: bool) {
        if let Some(observed) = &self.observed {
            observed.tell(|observer| observer.paused(queue, paused));
        }
    }

    pub(crate) fn progressed(&self, record: &Record, progress: &Progress, at: u64) {
        if let Some(observed) = &self.observed {
            observed.tell(|observer| observer.progressed(record, progress, at));
        }
    }
}
