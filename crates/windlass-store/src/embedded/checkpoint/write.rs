//! The rows that a checkpoint changes, in order, so that neighbours share their page.

use prost::Message;
use redb::{ReadableTable, Table, WriteTransaction};
use windlass_core::TaskId;

use crate::embedded::codec::write_record;
use crate::embedded::dirty::{ELAPSED_LANE, Keys, PRUNE_LANE, Slot, Slots, TELL_LANE, WAKE_LANE, tell_place};
use crate::embedded::index::Place;
use crate::embedded::machine::Frame;
use crate::embedded::names::KEYED_LANES;
use crate::embedded::tables::block::{BLOCK_TASKS, Entry, INLINE_BYTES_MAX, entries};
use crate::embedded::tables::heap::{Heap, Room, Trees, Writing};
use crate::embedded::tables::ids::{self, Dated};
use crate::embedded::tables::set::{SPAN, Set};
use crate::embedded::tables::{
    BODY_PART, DATED_IDS, IDS, LANES, LARGE, LISTING, ListingKey, META, MOVED, ORDER, OrderKey, QUEUES,
    RECORD_PART, TASKS, Tables, failed, seal,
};
use crate::embedded::{edges, flow, holders, operations, schedules, workflows};
use crate::store::Error;

pub(super) fn write(tables: &mut Tables, frame: &Frame, room: Room) -> Result<(), Error> {
    let write = tables.begin_write()?;
    let found = write_tasks(&write, &mut tables.heap, &frame.slots, room)?;
    write_ids(&write, found.dated, found.others, &frame.slots)?;
    write_order(&write, found.in_place, found.moved)?;
    write_listing(&write, found.listing)?;
    write_names(&write, frame)?;
    schedules::write(&write, &frame.schedules)?;
    holders::write(&write, &frame.keys)?;
    operations::write(&write, &frame.operations)?;
    flow::write(&write, &frame.flow)?;
    edges::write(&write, &frame.edges)?;
    workflows::write(&write, &frame.workflows)?;
    tables.heap.save(&write)?;
    write.commit().map_err(failed("commit a checkpoint"))?;
    tables.committed()
}

fn write_tasks<'a>(
    write: &WriteTransaction,
    heap: &mut Heap,
    slots: &'a Slots,
    room: Room,
) -> Result<Found<'a>, Error> {
    let mut found = Found::default();
    let mut trees: Writing<'_> = Trees {
        tasks: write.open_table(TASKS).map_err(failed("open a table"))?,
        large: write.open_table(LARGE).map_err(failed("open a table"))?,
    };
    let mut buffer = Vec::new();
    let mut slots = slots.iter().peekable();
    while let Some(slot) = slots.peek() {
        let block = slot.record.seq / BLOCK_TASKS;
        let mut changed: Vec<&Slot> = Vec::with_capacity(BLOCK_TASKS as usize);
        while let Some(slot) = slots.next_if(|slot| slot.record.seq / BLOCK_TASKS == block) {
            found.note(slot);
            changed.push(slot);
        }
        buffer.clear();
        // A block of new tasks only is not in the table yet.
        let known = changed.iter().any(|slot| slot.base.is_some()) || changed.len() < BLOCK_TASKS as usize;
        let stored = if known { trees.tasks.get(block).map_err(failed("read a task"))? } else { None };
        let stored = stored.map(|value| heap.block(block, value.value())).transpose()?.unwrap_or_default();
        let mut large = Large { heap: &mut *heap, tree: &mut trees.large };
        merge(&entries(block, &stored)?, &changed, &mut large, &mut buffer)?;
        if buffer.is_empty() {
            heap.remove(&mut trees.tasks, block)?;
        } else {
            heap.put(&mut trees.tasks, block, &buffer)?;
        }
    }
    heap.tidy(&mut trees, room)?;
    Ok(found)
}

/// Records and bodies that are too large for the block of their task.
struct Large<'a, 'txn> {
    heap: &'a mut Heap,
    tree: &'a mut Table<'txn, (u64, u8), &'static [u8]>,
}

impl Large<'_, '_> {
    fn put(&mut self, key: (u64, u8), value: &[u8]) -> Result<(), Error> {
        let mut sealed = value.to_vec();
        self.heap.put(self.tree, key, seal::close(key, &mut sealed))
    }

    fn remove(&mut self, key: (u64, u8)) -> Result<(), Error> {
        self.heap.remove(self.tree, key)
    }
}

/// Writes what a block holds from now on into `buffer`.
fn merge(
    stored: &[Entry<'_>],
    changed: &[&Slot],
    large: &mut Large<'_, '_>,
    buffer: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut stored = stored.iter().peekable();
    let mut record = Vec::new();
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
                    large.remove((seq, part))?;
                }
            }
            continue;
        }
        record.clear();
        write_record(&slot.record, slot.lane, &mut record);
        if record.len() > INLINE_BYTES_MAX {
            large.put((seq, RECORD_PART), &record)?;
        } else if before.is_some_and(|entry| entry.record.is_none()) {
            large.remove((seq, RECORD_PART))?;
        }
        // A body never changes: it is written with its task's first checkpoint only.
        let body = match (before, &slot.body) {
            (Some(entry), _) => entry.body,
            (None, Some(body)) if body.len() > INLINE_BYTES_MAX => {
                large.put((seq, BODY_PART), body)?;
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

/// What follows for the indexes from the tasks that changed, found while they are at hand: they are many, and lie far apart.
#[derive(Default)]
struct Found<'a> {
    /// Ids that carry their time, each with its row, whether it is new, and its task…
    dated: Vec<(u64, bool, u64, Dated)>,
    /// …and the others.
    others: Vec<(&'a TaskId, bool, u64)>,
    in_place: [Changes<OrderKey>; 5],
    moved: Changes<(OrderKey, u64)>,
    listing: Changes<ListingKey>,
}

impl<'a> Found<'a> {
    fn note(&mut self, slot: &'a Slot) {
        let seq = slot.record.seq;
        if slot.gone || slot.base.is_none() {
            match Dated::parse(slot.record.id.as_str()) {
                Some(id) => self.dated.push((id.row(), !slot.gone, seq, id)),
                None => self.others.push((&slot.record.id, !slot.gone, seq)),
            }
        }
        let now = (!slot.gone).then(|| Keys::of(&slot.record, slot.home));
        let places = |keys: Option<&Keys>| order_keys(keys, seq);
        let kinds = places(slot.base.as_deref()).into_iter().zip(places(now.as_ref()));
        for ((old, new), changes) in kinds.zip(&mut self.in_place) {
            if old == new {
                continue;
            }
            let own = |key: &OrderKey| key.2 == seq;
            changes.note(old.filter(own), new.filter(own));
            let other = |key: OrderKey| (!own(&key)).then_some((key, seq));
            self.moved.note(old.and_then(other), new.and_then(other));
        }
        let old = slot.base.as_ref().map(|keys| (slot.base_queue(), keys.state, seq));
        let new = now.map(|keys| (slot.queue, keys.state, seq));
        if old != new {
            self.listing.note(old, new);
        }
    }
}

/// An id that was removed and given anew must end up present, so what goes is named with its task.
fn write_ids<'a>(
    write: &WriteTransaction,
    mut dated: Vec<(u64, bool, u64, Dated)>,
    mut others: Vec<(&'a TaskId, bool, u64)>,
    slots: &'a Slots,
) -> Result<(), Error> {
    // By row, and within it what goes first: it makes room.
    dated.sort_by_key(|(row, new, seq, _)| (*row, *new, *seq));
    let mut table = write.open_table(DATED_IDS).map_err(failed("open a table"))?;
    let mut buffer = Vec::new();
    for changes in dated.chunk_by(|a, b| a.0 == b.0) {
        let row = changes[0].0;
        buffer.clear();
        if let Some(stored) = table.get(row).map_err(failed("read an id"))? {
            buffer.extend_from_slice(seal::open(row, stored.value())?);
        }
        for (_, new, seq, id) in changes {
            let done =
                if *new { ids::add(&mut buffer, id, *seq) } else { ids::remove(&mut buffer, id, *seq) };
            // It stands alone, like an id without a time.
            if !done && let Some(slot) = slots.get(*seq) {
                others.push((&slot.record.id, *new, *seq));
            }
        }
        if buffer.is_empty() {
            table.remove(row).map_err(failed("remove an id"))?;
        } else {
            table.insert(row, seal::close(row, &mut buffer)).map_err(failed("write an id"))?;
        }
    }
    others.sort_unstable();
    let mut table = write.open_table(IDS).map_err(failed("open a table"))?;
    for (id, new, seq) in others {
        let id = id.as_str().as_bytes();
        if new {
            table.insert(id, seq).map_err(failed("write an id"))?;
        } else if table.get(id).map_err(failed("read an id"))?.is_some_and(|found| found.value() == seq) {
            table.remove(id).map_err(failed("remove an id"))?;
        }
    }
    Ok(())
}

/// Changes of one kind. Tasks come in order of their number, so each list is nearly sorted, and sorting it costs little
/// as long as the kinds are not mixed.
struct Changes<K> {
    gone: Vec<K>,
    added: Vec<K>,
}

impl<K> Default for Changes<K> {
    fn default() -> Self {
        Self { gone: Vec::new(), added: Vec::new() }
    }
}

impl<K: Ord> Changes<K> {
    fn note(&mut self, gone: Option<K>, added: Option<K>) {
        self.gone.extend(gone);
        self.added.extend(added);
    }

    /// What goes comes first.
    fn sorted(mut self) -> [(Vec<K>, bool); 2] {
        self.gone.sort();
        self.added.sort();
        [(self.gone, false), (self.added, true)]
    }
}

/// Where a task stands in each of the orders.
fn order_keys(keys: Option<&Keys>, seq: u64) -> [Option<OrderKey>; 5] {
    let Some(keys) = keys else { return [None; 5] };
    let at = |lane: u32, place: Option<Place>| place.map(|(a, b)| (lane, a, b));
    let ready = keys.ready.map(|(lane, (a, b))| (lane, a, b));
    let tell = keys.tells.then(|| tell_place(seq));
    let (wake, elapsed) = (at(WAKE_LANE, keys.wake), at(ELAPSED_LANE, keys.elapsed));
    [wake, elapsed, at(PRUNE_LANE, keys.prune), at(TELL_LANE, tell), ready]
}

fn write_order(
    write: &WriteTransaction,
    in_place: [Changes<OrderKey>; 5],
    moved: Changes<(OrderKey, u64)>,
) -> Result<(), Error> {
    let mut table = write.open_table(ORDER).map_err(failed("open a table"))?;
    let row = |(lane, a, b): OrderKey| (lane, a, b / SPAN);
    for (keys, present) in in_place.into_iter().flat_map(Changes::sorted) {
        for keys in keys.chunk_by(|x, y| row(*x) == row(*y)) {
            let (row, members) = (row(keys[0]), keys.iter().map(|key| key.2));
            // A key mostly has few tasks, so that its row is new or goes whole.
            if row.0 >= KEYED_LANES {
                replace_set(&mut table, row, members, present)?;
            } else {
                write_set(&mut table, row, members, present)?;
            }
        }
    }
    let mut table = write.open_table(MOVED).map_err(failed("open a table"))?;
    for (keys, present) in moved.sorted() {
        for (key, seq) in keys {
            if present {
                table.insert(key, seq).map_err(failed("write an order"))?;
            } else {
                table.remove(key).map_err(failed("remove an order"))?;
            }
        }
    }
    Ok(())
}

fn write_listing(write: &WriteTransaction, changes: Changes<ListingKey>) -> Result<(), Error> {
    let mut table = write.open_table(LISTING).map_err(failed("open a table"))?;
    let row = |(queue, state, seq): ListingKey| (queue, state, seq / SPAN);
    for (keys, present) in changes.sorted() {
        for keys in keys.chunk_by(|x, y| row(*x) == row(*y)) {
            write_set(&mut table, row(keys[0]), keys.iter().map(|key| key.2), present)?;
        }
    }
    Ok(())
}

fn write_set<'a, K>(
    table: &mut Table<'_, K, &'static [u8]>,
    key: K,
    members: impl Iterator<Item = u64>,
    present: bool,
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
    members.for_each(|number| set.put(number, present));
    if set.is_empty() {
        table.remove(key).map_err(failed("remove an order"))?;
    } else {
        let mut buffer = Vec::with_capacity(160);
        set.encode(&mut buffer);
        table.insert(key, seal::close(key, &mut buffer)).map_err(failed("write an order"))?;
    }
    Ok(())
}

/// The same where the row is mostly not there before or not there after: it is looked for once.
fn replace_set(
    table: &mut Table<'_, OrderKey, &'static [u8]>,
    key: OrderKey,
    members: impl Iterator<Item = u64>,
    present: bool,
) -> Result<(), Error> {
    let members: Vec<u64> = members.collect();
    let with = |mut set: Set| {
        members.iter().for_each(|number| set.put(*number, present));
        let mut buffer = Vec::with_capacity(16);
        set.encode(&mut buffer);
        buffer
    };
    let stored = if present {
        let mut alone = with(Set::default());
        let old = table.insert(key, seal::close(key, &mut alone)).map_err(failed("write an order"))?;
        old.map(|old| Set::decode(seal::open(key, old.value())?)).transpose()?
    } else {
        let old = table.remove(key).map_err(failed("remove an order"))?;
        old.map(|old| Set::decode(seal::open(key, old.value())?)).transpose()?
    };
    let mut rest = stored.map(with).unwrap_or_default();
    if !rest.is_empty() {
        table.insert(key, seal::close(key, &mut rest)).map_err(failed("write an order"))?;
    }
    Ok(())
}

fn write_names(write: &WriteTransaction, frame: &Frame) -> Result<(), Error> {
    let mut queues = write.open_table(QUEUES).map_err(failed("open a table"))?;
    for (number, message) in &frame.names.queues {
        write_name(&mut queues, *number, message.as_ref())?;
    }
    let mut lanes = write.open_table(LANES).map_err(failed("open a table"))?;
    for (number, message) in &frame.names.lanes {
        write_name(&mut lanes, *number, message.as_ref())?;
    }
    let mut meta = write.open_table(META).map_err(failed("open a table"))?;
    let mut value = frame.meta.encode_to_vec();
    meta.insert("state", seal::close(0, &mut value)).map_err(failed("write the state"))?;
    Ok(())
}

/// Writes a queue or a lane, or removes it if it was released.
fn write_name<M: Message>(
    table: &mut Table<'_, u32, &'static [u8]>,
    number: u32,
    message: Option<&M>,
) -> Result<(), Error> {
    let Some(message) = message else {
        return table.remove(number).map(drop).map_err(failed("remove a name"));
    };
    let mut value = message.encode_to_vec();
    let sealed = seal::close(u64::from(number), &mut value);
    table.insert(number, sealed).map(drop).map_err(failed("write a name"))
}
