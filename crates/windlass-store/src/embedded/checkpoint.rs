//! Moving what changed in memory into the tables, off the hot path.
//!
//! The state is frozen for a moment to take the changes (`Machine::freeze`), then written in one large sorted transaction
//! together with the position of the log that it contains. The log before it is released. A crash at any point leaves the
//! tables at the previous checkpoint and the log that leads on from there.

mod write;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use redb::Database;

use super::engine::Shared;
use super::tables::Snapshot;
use crate::log::Reclaimer;
use crate::store::Error;

/// Tells the checkpointer that there is something to do.
#[derive(Debug, Default)]
pub(super) struct Bell {
    state: Mutex<BellState>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct BellState {
    wanted: bool,
    closing: bool,
    /// Since when something is unsaved.
    changed: Option<Instant>,
}

enum Reason {
    Work,
    Close,
}

impl Bell {
    /// Something changed: save it within the interval.
    pub(super) fn changed(&self) {
        let mut state = self.state.lock();
        if state.changed.is_none() {
            state.changed = Some(Instant::now());
            self.rung.notify_one();
        }
    }

    /// Memory or the log has grown enough: save now.
    pub(super) fn ring(&self) {
        let mut state = self.state.lock();
        if !state.wanted {
            state.wanted = true;
            self.rung.notify_one();
        }
    }

    pub(super) fn close(&self) {
        self.state.lock().closing = true;
        self.rung.notify_one();
    }

    fn wait(&self, interval: Duration) -> Reason {
        let mut state = self.state.lock();
        loop {
            let due = state.changed.map(|since| since + interval);
            if state.closing {
                return Reason::Close;
            }
            if state.wanted || due.is_some_and(|due| due <= Instant::now()) {
                state.wanted = false;
                state.changed = None;
                return Reason::Work;
            }
            match due {
                Some(due) => drop(self.rung.wait_until(&mut state, due)),
                None => self.rung.wait(&mut state),
            }
        }
    }
}

/// The body of the checkpointer's thread. Returns when the store closes, after everything is saved.
pub(super) fn run(
    shared: &Arc<Shared>,
    database: &Database,
    log: &Reclaimer,
    interval: Duration,
) -> Result<(), Error> {
    loop {
        let reason = shared.bell.wait(interval);
        // A disk without room would fail half-way through; the log goes on in the room that is kept for it.
        if !shared.space.is_exhausted() && shared.failed().is_none() {
            save(shared, database, Some(log))?;
        }
        if matches!(reason, Reason::Close) {
            return Ok(());
        }
    }
}

/// One checkpoint.
pub(super) fn save(shared: &Shared, database: &Database, log: Option<&Reclaimer>) -> Result<(), Error> {
    let frame = {
        let mut machine = shared.machine.lock();
        if !machine.can_be_saved() {
            return Ok(());
        }
        machine.freeze()
    };
    let began = Instant::now();
    write::write(database, &frame)?;
    let snapshot = Snapshot::take(database)?;
    let applied = frame.meta.applied;
    let tasks = frame.slots.len();
    drop(frame);
    let rest = {
        let mut machine = shared.machine.lock();
        let rest = machine.thaw(snapshot);
        shared.room.notify_all();
        rest
    };
    drop(rest);
    if let Some(log) = log {
        log.release(applied + 1);
    }
    tracing::debug!(tasks, applied, ms = began.elapsed().as_millis() as u64, "checkpoint");
    Ok(())
}
