//! Moving what changed in memory into the tables, off the hot path.
//!
//! The state is frozen for a moment to take the changes (`Machine::freeze`), then written in one large sorted transaction
//! together with the position of the log that it contains. The log before it is released. A crash at any point leaves the
//! tables at the previous checkpoint and the log that leads on from there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use prost::Message;
use redb::{Database, ReadableTable};

use super::codec::encode_record;
use super::dirty::{Keys, PRUNE_LANE, Slot, WAKE_LANE};
use super::engine::Shared;
use super::machine::Frame;
use super::tables::{self, BODIES, IDS, LANES, LISTING, META, ORDER, QUEUES, Snapshot, TASKS, failed, seal};
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
    write(database, &frame)?;
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

fn write(database: &Database, frame: &Frame) -> Result<(), Error> {
    let write = tables::begin_write(database)?;
    write_tasks(&write, &frame.slots)?;
    write_order(&write, &frame.slots)?;
    write_listing(&write, &frame.slots)?;
    let mut buffer = Vec::new();
    {
        let mut queues = write.open_table(QUEUES).map_err(failed("open a table"))?;
        for (number, message) in &frame.names.queues {
            let value = seal(u64::from(*number), &message.encode_to_vec(), &mut buffer);
            queues.insert(number, value).map_err(failed("write a queue"))?;
        }
        let mut lanes = write.open_table(LANES).map_err(failed("open a table"))?;
        for (number, message) in &frame.names.lanes {
            let value = seal(u64::from(*number), &message.encode_to_vec(), &mut buffer);
            lanes.insert(number, value).map_err(failed("write a lane"))?;
        }
        let mut meta = write.open_table(META).map_err(failed("open a table"))?;
        let value = seal(0, &frame.meta.encode_to_vec(), &mut buffer);
        meta.insert("state", value).map_err(failed("write the state"))?;
    }
    write.commit().map_err(failed("commit a checkpoint"))
}

fn write_tasks(write: &redb::WriteTransaction, slots: &BTreeMap<u64, Slot>) -> Result<(), Error> {
    let mut buffer = Vec::new();
    let mut ids: Vec<(&str, u64, bool)> = Vec::new();
    let mut tasks = write.open_table(TASKS).map_err(failed("open a table"))?;
    let mut bodies = write.open_table(BODIES).map_err(failed("open a table"))?;
    for (seq, slot) in slots {
        if slot.gone {
            tasks.remove(seq).map_err(failed("remove a task"))?;
            bodies.remove(seq).map_err(failed("remove a body"))?;
            ids.push((slot.record.id.as_str(), *seq, false));
            continue;
        }
        let value = encode_record(&slot.record, slot.lane);
        tasks.insert(seq, seal(*seq, &value, &mut buffer)).map_err(failed("write a task"))?;
        // A body never changes: it is written with its task's first checkpoint only.
        if slot.base.is_none()
            && let Some(body) = &slot.body
        {
            bodies.insert(seq, seal(*seq, body, &mut buffer)).map_err(failed("write a body"))?;
            ids.push((slot.record.id.as_str(), *seq, true));
        }
    }
    // Sorted, neighbours share their page. An id that was removed and given anew must end up present.
    ids.sort_unstable();
    let mut table = write.open_table(IDS).map_err(failed("open a table"))?;
    for (id, seq, present) in ids {
        if present {
            table.insert(id, seq).map_err(failed("write an id"))?;
        } else if table.get(id).map_err(failed("read an id"))?.is_some_and(|found| found.value() == seq) {
            table.remove(id).map_err(failed("remove an id"))?;
        }
    }
    Ok(())
}

fn write_order(write: &redb::WriteTransaction, slots: &BTreeMap<u64, Slot>) -> Result<(), Error> {
    let mut changes: BTreeMap<tables::OrderKey, Option<u64>> = BTreeMap::new();
    for (seq, slot) in slots {
        let entries =
            |keys: &Keys| [(slot.lane, keys.ready), (WAKE_LANE, keys.wake), (PRUNE_LANE, keys.prune)];
        for (lane, place) in slot.base.iter().flat_map(entries) {
            if let Some((a, b)) = place {
                changes.insert((lane, a, b), None);
            }
        }
        let now = (!slot.gone).then(|| Keys::of(&slot.record));
        for (lane, place) in now.iter().flat_map(entries) {
            if let Some((a, b)) = place {
                changes.insert((lane, a, b), Some(*seq));
            }
        }
    }
    let mut table = write.open_table(ORDER).map_err(failed("open a table"))?;
    for (key, seq) in changes {
        match seq {
            Some(seq) => drop(table.insert(key, seq).map_err(failed("write an order"))?),
            None => drop(table.remove(key).map_err(failed("remove an order"))?),
        }
    }
    Ok(())
}

fn write_listing(write: &redb::WriteTransaction, slots: &BTreeMap<u64, Slot>) -> Result<(), Error> {
    let mut changes: BTreeMap<tables::ListingKey, bool> = BTreeMap::new();
    for (seq, slot) in slots {
        if let Some(keys) = &slot.base {
            changes.insert((slot.queue, keys.state, *seq), false);
        }
        if !slot.gone {
            changes.insert((slot.queue, Keys::of(&slot.record).state, *seq), true);
        }
    }
    let mut table = write.open_table(LISTING).map_err(failed("open a table"))?;
    for (key, present) in changes {
        if present {
            table.insert(key, ()).map_err(failed("write a listing"))?;
        } else {
            table.remove(key).map_err(failed("remove a listing"))?;
        }
    }
    Ok(())
}
