//! The rows that a checkpoint changes, in order, so that neighbours share their page.

use std::collections::BTreeMap;

use prost::Message;
use redb::{Database, ReadableTable, Table, WriteTransaction};

use crate::embedded::codec::encode_record;
use crate::embedded::dirty::{Keys, PRUNE_LANE, Slot, WAKE_LANE};
use crate::embedded::machine::Frame;
use crate::embedded::schedules;
use crate::embedded::tables::block::{BLOCK_TASKS, Entry, INLINE_BYTES_MAX, entries};
use crate::embedded::tables::ids::{self, Dated};
use crate::embedded::tables::set::{SPAN, Set};
use crate::embedded::tables::{
    self, BODY_PART, DATED_IDS, IDS, LANES, LARGE, LISTING, ListingKey, META, MOVED, ORDER, OrderKey, QUEUES,
    RECORD_PART, TASKS, failed, seal,
};
use crate::store::Error;

pub(super) fn write(database: &Database, frame: &Frame) -> Result<(), Error> {
    let write = tables::begin_write(database)?;
    write_tasks(&write, &frame.slots)?;
    write_ids(&write, &frame.slots)?;
    write_order(&write, &frame.slots)?;
    write_listing(&write, &frame.slots)?;
    write_names(&write, frame)?;
    schedules::write(&write, &frame.schedules)?;
    write.commit().map_err(failed("commit a checkpoint"))
}

type LargeTable<'a> = Table<'a, (u64, u8), &'static [u8]>;

fn write_tasks(write: &WriteTransaction, slots: &BTreeMap<u64, Slot>) -> Result<(), Error> {
    let mut tasks = write.open_table(TASKS).map_err(failed("open a table"))?;
    let mut large = write.open_table(LARGE).map_err(failed("open a table"))?;
    let mut buffer = Vec::new();
    let mut slots = slots.iter().peekable();
    while let Some((seq, _)) = slots.peek() {
        let block = *seq / BLOCK_TASKS;
        let mut changed = Vec::with_capacity(BLOCK_TASKS as usize);
        while let Some((_, slot)) = slots.next_if(|(seq, _)| **seq / BLOCK_TASKS == block) {
            changed.push(slot);
        }
        buffer.clear();
        // A block of new tasks only is not in the table yet.
        let known = changed.iter().any(|slot| slot.base.is_some()) || changed.len() < BLOCK_TASKS as usize;
        let stored = if known { tasks.get(block).map_err(failed("read a task"))? } else { None };
        match &stored {
            Some(value) => {
                let stored = entries(block, seal::open(block, value.value())?)?;
                merge(&stored, &changed, &mut large, &mut buffer)?;
            }
            None => merge(&[], &changed, &mut large, &mut buffer)?,
        }
        drop(stored);
        if buffer.is_empty() {
            tasks.remove(block).map_err(failed("remove a task"))?;
        } else {
            tasks.insert(block, seal::close(block, &mut buffer)).map_err(failed("write a task"))?;
        }
    }
    Ok(())
}

/// Writes what a block holds from now on into `buffer`.
fn merge(
    stored: &[Entry<'_>],
    changed: &[&Slot],
    large: &mut LargeTable<'_>,
    buffer: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut stored = stored.iter().peekable();
    for slot in changed {
        let seq = slot.record.seq;
        while let Some(entry) = stored.next_if(|entry| entry.seq < seq) {
            entry.encode(buffer);
        }
        let before = stored.next_if(|entry| entry.seq == seq);
        if slot.gone {
            for (part, apart) in [
                (RECORD_PART, before.is_some_and(|entry| entry.record.is_none())),
                (BODY_PART, before.is_some_and(|entry| entry.body.is_none())),
            ] {
                if apart {
                    large.remove((seq, part)).map_err(failed("remove a task"))?;
                }
            }
            continue;
        }
        let record = encode_record(&slot.record, slot.lane);
        if record.len() > INLINE_BYTES_MAX {
            write_apart(large, (seq, RECORD_PART), &record)?;
        } else if before.is_some_and(|entry| entry.record.is_none()) {
            large.remove((seq, RECORD_PART)).map_err(failed("remove a task"))?;
        }
        // A body never changes: it is written with its task's first checkpoint only.
        let body = match (before, &slot.body) {
            (Some(entry), _) => entry.body,
            (None, Some(body)) if body.len() > INLINE_BYTES_MAX => {
                write_apart(large, (seq, BODY_PART), body)?;
                None
            }
            (None, Some(body)) => Some(&body[..]),
            (None, None) => return Err(Error::Damaged(format!("the body of task {seq} is missing"))),
        };
        let record = (record.len() <= INLINE_BYTES_MAX).then_some(&record[..]);
        Entry { seq, record, body }.encode(buffer);
    }
    stored.for_each(|entry| entry.encode(buffer));
    Ok(())
}

fn write_apart(large: &mut LargeTable<'_>, key: (u64, u8), value: &[u8]) -> Result<(), Error> {
    let mut sealed = value.to_vec();
    large.insert(key, seal::close(key, &mut sealed)).map_err(failed("write a task"))?;
    Ok(())
}

/// An id that was removed and given anew must end up present, so what goes is named with its task.
fn write_ids(write: &WriteTransaction, slots: &BTreeMap<u64, Slot>) -> Result<(), Error> {
    let is_new = |slot: &Slot| !slot.gone && slot.base.is_none();
    let mut dated: Vec<(Dated, &Slot)> = Vec::new();
    let mut others: Vec<&Slot> = Vec::new();
    for slot in slots.values().filter(|slot| slot.gone || is_new(slot)) {
        match Dated::parse(slot.record.id.as_str()) {
            Some(id) => dated.push((id, slot)),
            None => others.push(slot),
        }
    }
    // By row, and within it what goes first: it makes room.
    dated.sort_unstable_by_key(|(id, slot)| (id.row(), !slot.gone, slot.record.seq));
    let mut table = write.open_table(DATED_IDS).map_err(failed("open a table"))?;
    let mut buffer = Vec::new();
    for changes in dated.chunk_by(|(a, _), (b, _)| a.row() == b.row()) {
        let row = changes[0].0.row();
        buffer.clear();
        if let Some(stored) = table.get(row).map_err(failed("read an id"))? {
            buffer.extend_from_slice(seal::open(row, stored.value())?);
        }
        for (id, slot) in changes {
            let seq = slot.record.seq;
            let done =
                if slot.gone { ids::remove(&mut buffer, id, seq) } else { ids::add(&mut buffer, id, seq) };
            if !done {
                others.push(slot);
            }
        }
        if buffer.is_empty() {
            table.remove(row).map_err(failed("remove an id"))?;
        } else {
            table.insert(row, seal::close(row, &mut buffer)).map_err(failed("write an id"))?;
        }
    }
    others.sort_unstable_by_key(|slot| (&slot.record.id, !slot.gone));
    let mut table = write.open_table(IDS).map_err(failed("open a table"))?;
    for slot in others {
        let (id, seq) = (slot.record.id.as_str().as_bytes(), slot.record.seq);
        if !slot.gone {
            table.insert(id, seq).map_err(failed("write an id"))?;
        } else if table.get(id).map_err(failed("read an id"))?.is_some_and(|found| found.value() == seq) {
            table.remove(id).map_err(failed("remove an id"))?;
        }
    }
    Ok(())
}

fn write_order(write: &WriteTransaction, slots: &BTreeMap<u64, Slot>) -> Result<(), Error> {
    let mut in_place: Vec<(OrderKey, bool)> = Vec::new();
    let mut moved: Vec<(OrderKey, u64, bool)> = Vec::new();
    for (seq, slot) in slots {
        let now = (!slot.gone).then(|| Keys::of(&slot.record));
        let places = |keys: Option<&Keys>| match keys {
            Some(keys) => [(slot.lane, keys.ready), (WAKE_LANE, keys.wake), (PRUNE_LANE, keys.prune)],
            None => [(slot.lane, None), (WAKE_LANE, None), (PRUNE_LANE, None)],
        };
        for ((lane, old), (_, new)) in places(slot.base.as_ref()).into_iter().zip(places(now.as_ref())) {
            if old == new {
                continue;
            }
            for (place, present) in [(old, false), (new, true)] {
                let Some((a, b)) = place else { continue };
                if b == *seq {
                    in_place.push(((lane, a, b), present));
                } else {
                    moved.push(((lane, a, b), *seq, present));
                }
            }
        }
    }
    in_place.sort_unstable();
    let mut table = write.open_table(ORDER).map_err(failed("open a table"))?;
    let row = |(lane, a, b): OrderKey| (lane, a, b / SPAN);
    for changes in in_place.chunk_by(|(x, _), (y, _)| row(*x) == row(*y)) {
        let members = changes.iter().map(|((_, _, b), present)| (*b, *present));
        write_set(&mut table, row(changes[0].0), members)?;
    }
    moved.sort_unstable();
    let mut table = write.open_table(MOVED).map_err(failed("open a table"))?;
    for (key, seq, present) in moved {
        if present {
            table.insert(key, seq).map_err(failed("write an order"))?;
        } else {
            table.remove(key).map_err(failed("remove an order"))?;
        }
    }
    Ok(())
}

fn write_listing(write: &WriteTransaction, slots: &BTreeMap<u64, Slot>) -> Result<(), Error> {
    let mut changes: Vec<(ListingKey, bool)> = Vec::new();
    for (seq, slot) in slots {
        let old = slot.base.as_ref().map(|keys| keys.state);
        let new = (!slot.gone).then(|| Keys::of(&slot.record).state);
        if old == new {
            continue;
        }
        changes.extend(old.map(|state| ((slot.queue, state, *seq), false)));
        changes.extend(new.map(|state| ((slot.queue, state, *seq), true)));
    }
    changes.sort_unstable();
    let mut table = write.open_table(LISTING).map_err(failed("open a table"))?;
    let row = |(queue, state, seq): ListingKey| (queue, state, seq / SPAN);
    for changes in changes.chunk_by(|(x, _), (y, _)| row(*x) == row(*y)) {
        let members = changes.iter().map(|((_, _, seq), present)| (*seq, *present));
        write_set(&mut table, row(changes[0].0), members)?;
    }
    Ok(())
}

fn write_set<'a, K>(
    table: &mut Table<'_, K, &'static [u8]>,
    key: K,
    members: impl Iterator<Item = (u64, bool)>,
) -> Result<(), Error>
where
    K: redb::Key + seal::Key + std::borrow::Borrow<K::SelfType<'a>>,
{
    let stored = table.get(key).map_err(failed("read an order"))?;
    let mut set = match &stored {
        Some(value) => Set::decode(seal::open(key, value.value())?)?,
        None => Set::default(),
    };
    drop(stored);
    members.for_each(|(number, present)| set.put(number, present));
    if set.is_empty() {
        table.remove(key).map_err(failed("remove an order"))?;
    } else {
        let mut buffer = Vec::with_capacity(160);
        set.encode(&mut buffer);
        table.insert(key, seal::close(key, &mut buffer)).map_err(failed("write an order"))?;
    }
    Ok(())
}

fn write_names(write: &WriteTransaction, frame: &Frame) -> Result<(), Error> {
    let mut queues = write.open_table(QUEUES).map_err(failed("open a table"))?;
    for (number, message) in &frame.names.queues {
        let mut value = message.encode_to_vec();
        let sealed = seal::close(u64::from(*number), &mut value);
        queues.insert(number, sealed).map_err(failed("write a queue"))?;
    }
    let mut lanes = write.open_table(LANES).map_err(failed("open a table"))?;
    for (number, message) in &frame.names.lanes {
        let mut value = message.encode_to_vec();
        let sealed = seal::close(u64::from(*number), &mut value);
        lanes.insert(number, sealed).map_err(failed("write a lane"))?;
    }
    let mut meta = write.open_table(META).map_err(failed("open a table"))?;
    let mut value = frame.meta.encode_to_vec();
    meta.insert("state", seal::close(0, &mut value)).map_err(failed("write the state"))?;
    Ok(())
}
