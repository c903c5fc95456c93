//! Moving what changed in memory into the tables, off the hot path.
//!
//! The state is frozen for a moment to take the changes (`Machine::freeze`), then written in one large sorted transaction
//! together with the position of the log that it contains. The log before it is released. A crash at any point leaves the
//! tables at the previous checkpoint and the log that leads on from there.

mod need;
mod write;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

pub(super) use self::need::{Touched, TouchedBlock, note_index};
use super::elapsed;
use super::engine::Shared;
use super::space::{Need, SHORT_INTERVAL};
use super::tables::Tables;
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
    /// When what is unsaved has to be saved at the latest.
    due: Option<Instant>,
    /// When to try whether a checkpoint frees space on a disk that is short.
    short_due: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Work,
    /// The disk was short of room.
    Short,
    Close,
}

impl Bell {
    /// Something changed: save it within this time.
    pub(super) fn save_within(&self, time: Duration) {
        let due = Instant::now() + time;
        let mut state = self.state.lock();
        if state.due.is_none_or(|before| due < before) {
            state.due = Some(due);
            self.rung.notify_one();
        }
    }

    /// Requests a checkpoint soon because the disk is short: it may free space.
    pub(super) fn free_soon(&self) {
        let mut state = self.state.lock();
        if state.short_due.is_none() {
            state.short_due = Some(Instant::now() + SHORT_INTERVAL);
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

    /// Everything that changed so far is being saved.
    fn taken(&self) {
        self.state.lock().due = None;
    }

    pub(super) fn close(&self) {
        self.state.lock().closing = true;
        self.rung.notify_one();
    }

    fn wait(&self) -> Reason {
        let mut state = self.state.lock();
        loop {
            if state.closing {
                return Reason::Close;
            }
            if state.wanted || state.due.is_some_and(|due| due <= Instant::now()) {
                state.wanted = false;
                state.due = None;
                return Reason::Work;
            }
            if state.short_due.is_some_and(|due| due <= Instant::now()) {
                state.short_due = None;
                return Reason::Short;
            }
            match state.due.into_iter().chain(state.short_due).min() {
                Some(due) => drop(self.rung.wait_until(&mut state, due)),
                None => self.rung.wait(&mut state),
            }
        }
    }
}

/// The body of the checkpointer's thread. Returns when the store closes, after everything is saved.
pub(super) fn run(shared: &Arc<Shared>, tables: &mut Tables, log: &Reclaimer) -> Result<(), Error> {
    // The disk may have been full when the store was last used.
    if shared.space.is_short() {
        shared.bell.free_soon();
    }
    need::note_index(shared, tables)?;
    loop {
        shared.space.advise_log();
        let reason = shared.bell.wait();
        // If the disk has room again, nothing is urgent, and it is cheaper to save later changes together.
        let needless = reason == Reason::Short && !shared.space.is_short();
        if shared.failed().is_none() && !needless {
            match save(shared, tables, Some(log))? {
                Saved::Whole if tables.has_waste(shared.space.room(Need::default()))? => {
                    shared.bell.free_soon();
                }
                Saved::Whole => {}
                Saved::NoRoom => {
                    shared.bell.free_soon();
                    shared.bell.save_within(shared.limits.interval);
                }
            }
        }
        if matches!(reason, Reason::Close) {
            return Ok(());
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Saved {
    /// Everything was saved.
    Whole,
    /// Nothing was saved, because the disk has no room for all of it or no file can be opened. The log continues in the space reserved for it.
    NoRoom,
}

/// Writes one checkpoint. While the disk is short it may run without changes, to free space that files of blocks waste.
pub(super) fn save(shared: &Shared, tables: &mut Tables, log: Option<&Reclaimer>) -> Result<Saved, Error> {
    shared.backups.expire();
    let need = need::need(shared)?;
    let room = shared.space.room(need);
    if !shared.space.has_room_for(need) || !can_open_files(shared.space.dir()) {
        tracing::debug!(?need, "no room for a checkpoint");
        shared.saved.notify_waiters();
        return Ok(Saved::NoRoom);
    }
    let frame = {
        let mut machine = shared.machine.lock();
        let tidies = machine.is_whole() && tables.has_waste(room)?;
        if !machine.can_be_saved() && !tidies {
            return Ok(Saved::Whole);
        }
        shared.bell.taken();
        machine.freeze()
    };
    let began = Instant::now();
    if let Some(log) = log.filter(|_| shared.log_lags) {
        // The tables must never be ahead of the log.
        log.sync().map_err(|error| Error::Failed(error.to_string()))?;
    }
    write::write(tables, &frame, room)?;
    tables.rewrite(shared.space.room(Need::default()))?;
    let snapshot = tables.snapshot()?;
    let applied = frame.meta.applied;
    let tasks = frame.slots.len();
    drop(frame);
    let rest = {
        let mut machine = shared.machine.lock();
        let rest = machine.thaw(snapshot);
        shared.space.note_unsaved(machine.unsaved());
        shared.room.notify_all();
        rest
    };
    drop(rest);
    tables.close_replaced();
    if let Some(log) = log {
        log.release(applied + 1);
    }
    need::note_index(shared, tables)?;
    shared.saved.notify_waiters();
    elapsed::keep(shared);
    tracing::debug!(tasks, applied, ms = began.elapsed().as_millis() as u64, "checkpoint");
    Ok(Saved::Whole)
}

/// Whether the process has descriptors left for the files that a checkpoint creates. Without them it would fail half-way through.
fn can_open_files(dir: &Path) -> bool {
    const WANTED: usize = 4;
    let opened: Result<Vec<File>, _> = (0..WANTED).map(|_| File::open(dir)).collect();
    if let Err(error) = &opened {
        tracing::warn!(%error, "a checkpoint waits, because no file can be opened");
    }
    opened.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_time_counts_until_what_it_was_for_is_taken() {
        let bell = Bell::default();
        let due = || bell.state.lock().due;
        bell.save_within(Duration::from_secs(60));
        let first = due();
        bell.save_within(Duration::from_secs(90));
        assert_eq!(due(), first, "what came first has to be saved first");
        bell.save_within(Duration::from_secs(2));
        assert!(due() < first);
        bell.taken();
        assert_eq!(due(), None);
        bell.save_within(Duration::ZERO);
        assert!(matches!(bell.wait(), Reason::Work));
        assert_eq!(due(), None);
        bell.close();
        assert!(matches!(bell.wait(), Reason::Close));
    }
}
