//! The tables of a checkpoint: a tree in redb, and blocks of tasks that it points to.
//!
//! Rows are made for few large writes: neighbouring tasks share a block (`block`), which stands in a file beside the tree (`heap`),
//! and neighbouring entries of an order or a list share a row (`set`). Every value that a task is found or rebuilt from carries a checksum over key and value, because redb
//! verifies its pages only when it repairs: a flipped bit is found when it is read, and never served.

pub(super) mod block;
pub(super) mod heap;
pub(super) mod ids;
pub(super) mod named;
mod names;
mod open;
mod rewrite;
mod saved;
pub(super) mod seal;
pub(super) mod set;

use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message;
use redb::{
    Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTableMetadata, TableDefinition,
};

use self::block::{BLOCK_TASKS, entries};
use self::heap::{Files, Place, Pointer};
pub(super) use self::open::Tables;
use self::rewrite::Reader;
pub(super) use self::saved::{LaneMessage, MetaMessage, QueueMessage, Saved};
use self::set::{SPAN, Set};
use super::catalogue::View;
use super::edges::{self, EDGES};
use super::holders::KeyTable;
use super::workflows;
use crate::store::Error;

/// `(lane, a, b)`, see `index`.
pub(super) type OrderKey = (u32, u64, u64);
/// `(queue, state, seq)`: tasks by state for lists.
pub(super) type ListingKey = (u32, u8, u64);

/// Blocks of tasks by number: where they stand in the heap.
pub(super) const TASKS: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("tasks");
/// Large records and bodies, by `(seq, part)`: where they are in the heap. The heap has each with a checksum, as rows of this
/// table had it in earlier versions.
pub(super) const LARGE: TableDefinition<'static, (u64, u8), &[u8]> = TableDefinition::new("large");
/// Ids that carry their time, by time: see `ids`…
pub(super) const DATED_IDS: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("dated_ids");
/// …and the others one by one.
pub(super) const IDS: TableDefinition<'static, &[u8], u64> = TableDefinition::new("ids");
/// Sets of places `(lane, a, b / SPAN)` for the tasks whose `b` is their number…
pub(super) const ORDER: TableDefinition<'static, OrderKey, &[u8]> = TableDefinition::new("order");
/// …and the others one by one.
pub(super) const MOVED: TableDefinition<'static, OrderKey, u64> = TableDefinition::new("moved");
/// Sets of tasks `(queue, state, seq / SPAN)`.
pub(super) const LISTING: TableDefinition<'static, ListingKey, &[u8]> = TableDefinition::new("listing");
pub(super) const QUEUES: TableDefinition<'static, u32, &[u8]> = TableDefinition::new("queues");
pub(super) const LANES: TableDefinition<'static, u32, &[u8]> = TableDefinition::new("lanes");
pub(super) const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");

/// The parts of a task that may stand apart.
pub(super) const RECORD_PART: u8 = 0;
pub(super) const BODY_PART: u8 = 1;

/// The tables as of one checkpoint.
pub(super) struct Snapshot {
    tasks: ReadOnlyTable<u64, &'static [u8]>,
    large: ReadOnlyTable<(u64, u8), &'static [u8]>,
    dated_ids: ReadOnlyTable<u64, &'static [u8]>,
    ids: ReadOnlyTable<&'static [u8], u64>,
    order: ReadOnlyTable<OrderKey, &'static [u8]>,
    moved: ReadOnlyTable<OrderKey, u64>,
    listing: ReadOnlyTable<ListingKey, &'static [u8]>,
    queues: ReadOnlyTable<u32, &'static [u8]>,
    lanes: ReadOnlyTable<u32, &'static [u8]>,
    keys: KeyTable,
    edges: edges::Table,
    workflows: workflows::Tables,
    files: Files,
    read: ReadTransaction,
    latest: Mutex<Option<(u64, Bytes)>>,
    /// Tells the tables that somebody reads their file.
    _reader: Reader,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}

/// A task as it is kept.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) record: Bytes,
    /// `None` if it stands apart.
    pub(super) body: Option<Bytes>,
}

type Entries<'a, T> = Box<dyn Iterator<Item = Result<T, Error>> + 'a>;

impl Snapshot {
    fn take(database: &Database, files: Files, reader: Reader) -> Result<Snapshot, Error> {
        let read = database.begin_read().map_err(failed("read the index"))?;
        Ok(Snapshot {
            tasks: read.open_table(TASKS).map_err(failed("open a table"))?,
            large: read.open_table(LARGE).map_err(failed("open a table"))?,
            dated_ids: read.open_table(DATED_IDS).map_err(failed("open a table"))?,
            ids: read.open_table(IDS).map_err(failed("open a table"))?,
            order: read.open_table(ORDER).map_err(failed("open a table"))?,
            moved: read.open_table(MOVED).map_err(failed("open a table"))?,
            listing: read.open_table(LISTING).map_err(failed("open a table"))?,
            queues: read.open_table(QUEUES).map_err(failed("open a table"))?,
            lanes: read.open_table(LANES).map_err(failed("open a table"))?,
            keys: KeyTable::open(&read)?,
            edges: read.open_table(EDGES).map_err(failed("open a table"))?,
            workflows: workflows::Tables::open(&read)?,
            files,
            read,
            latest: Mutex::new(None),
            _reader: reader,
        })
    }

    /// Everything in the snapshot, table by table.
    pub(super) fn view(&self) -> View<'_> {
        View { read: &self.read, files: &self.files }
    }

    pub(super) fn workflows(&self) -> &workflows::Tables {
        &self.workflows
    }

    pub(super) fn edges(&self) -> &edges::Table {
        &self.edges
    }

    pub(super) fn task(&self, seq: u64) -> Result<Option<Row>, Error> {
        let block = seq / BLOCK_TASKS;
        let Some(bytes) = self.block(block)? else { return Ok(None) };
        let Some(entry) = block::find(block, &bytes, seq)? else { return Ok(None) };
        let record = match entry.record {
            Some(record) => bytes.slice_ref(record),
            None => self.apart(seq, RECORD_PART)?,
        };
        Ok(Some(Row { record, body: entry.body.map(|body| bytes.slice_ref(body)) }))
    }

    /// A block, verified. Neighbours are asked for one after the other, so the last one is kept.
    fn block(&self, number: u64) -> Result<Option<Bytes>, Error> {
        let mut latest = self.latest.lock();
        if let Some((found, bytes)) = &*latest
            && *found == number
        {
            return Ok(Some(bytes.clone()));
        }
        let Some(value) = self.tasks.get(number).map_err(failed("read a task"))? else { return Ok(None) };
        let bytes = block_at(&self.files, number, value.value())?;
        *latest = Some((number, bytes.clone()));
        Ok(Some(bytes))
    }

    /// The stored size of a block; 0 if there is none.
    pub(super) fn stored_bytes(&self, block: u64) -> Result<u64, Error> {
        let Some(value) = self.tasks.get(block).map_err(failed("look up a block"))? else { return Ok(0) };
        let place = Place::read(block, value.value())?;
        Ok(place.map_or(value.value().len() as u64, Place::block_bytes))
    }

    /// The size of the row of ids that were made in this moment.
    pub(super) fn moment_bytes(&self, row: u64) -> Result<u64, Error> {
        let stored = self.dated_ids.get(row).map_err(failed("look up ids"))?;
        Ok(stored.map_or(0, |value| value.value().len() as u64))
    }

    /// The number of ids in the table where each id has a row.
    pub(super) fn ids_len(&self) -> Result<u64, Error> {
        self.ids.len().map_err(failed("count ids"))
    }

    pub(super) fn body(&self, seq: u64) -> Result<Option<Bytes>, Error> {
        match self.task(seq)? {
            Some(Row { body: Some(body), .. }) => Ok(Some(body)),
            Some(Row { body: None, .. }) => self.apart(seq, BODY_PART).map(Some),
            None => Ok(None),
        }
    }

    fn apart(&self, seq: u64, part: u8) -> Result<Bytes, Error> {
        let value = self.large.get((seq, part)).map_err(failed("read a task"))?;
        let value = value.ok_or_else(|| Error::Damaged(format!("a part of task {seq} is missing")))?;
        part_at(&self.files, (seq, part), value.value())
    }

    pub(super) fn seq_of(&self, id: &str) -> Result<Option<u64>, Error> {
        if let Some(dated) = ids::Dated::parse(id)
            && let Some(value) = self.dated_ids.get(dated.row()).map_err(failed("look up an id"))?
            && let Some(seq) = ids::find(seal::open(dated.row(), value.value())?, &dated)
        {
            return Ok(Some(seq));
        }
        Ok(self.ids.get(id.as_bytes()).map_err(failed("look up an id"))?.map(|value| value.value()))
    }

    pub(super) fn keys(&self) -> &KeyTable {
        &self.keys
    }

    pub(super) fn order(
        &self,
        keys: std::ops::RangeInclusive<OrderKey>,
    ) -> Result<Entries<'_, (OrderKey, u64)>, Error> {
        let row = |(lane, a, b): OrderKey| (lane, a, b / SPAN);
        let rows =
            self.order.range(row(*keys.start())..=row(*keys.end())).map_err(failed("read an order"))?;
        let within = keys.clone();
        let mut in_place = rows
            .flat_map(|entry| {
                let row = entry.map_err(failed("read an order")).and_then(|(key, value)| {
                    let (lane, a, span) = key.value();
                    let set = Set::decode(seal::open(key.value(), value.value())?)?;
                    Ok(set.numbers(span * SPAN).into_iter().map(|b| Ok(((lane, a, b), b))).collect())
                });
                row.unwrap_or_else(|error| vec![Err(error)])
            })
            .filter(move |entry| entry.as_ref().map_or(true, |(key, _)| within.contains(key)))
            .peekable();
        let moved = self.moved.range(keys).map_err(failed("read an order"))?;
        let mut moved = moved
            .map(|entry| {
                let (key, seq) = entry.map_err(failed("read an order"))?;
                Ok((key.value(), seq.value()))
            })
            .peekable();
        Ok(Box::new(std::iter::from_fn(move || match (in_place.peek(), moved.peek()) {
            (Some(Ok((a, _))), Some(Ok((b, _)))) if b < a => moved.next(),
            (None, _) | (Some(Ok(_)), Some(Err(_))) => moved.next(),
            _ => in_place.next(),
        })))
    }

    /// The records of all tasks below `before`, newest first.
    pub(super) fn tasks_below(&self, before: u64) -> Result<Entries<'_, (u64, Bytes)>, Error> {
        let range = self.tasks.range(..=before / BLOCK_TASKS).map_err(failed("list tasks"))?;
        type Records = Vec<Result<(u64, Bytes), Error>>;
        let read = move |block: u64, value: &[u8]| -> Result<Records, Error> {
            let bytes = block_at(&self.files, block, value)?;
            let found = entries(block, &bytes)?.into_iter().rev();
            let record = |entry: block::Entry<'_>| match entry.record {
                Some(record) => Ok((entry.seq, Bytes::copy_from_slice(record))),
                None => Ok((entry.seq, self.apart(entry.seq, RECORD_PART)?)),
            };
            Ok(found.filter(|entry| entry.seq < before).map(record).collect())
        };
        Ok(Box::new(range.rev().flat_map(move |entry| {
            let block = entry.map_err(failed("list tasks"));
            let records = block.and_then(|(number, value)| read(number.value(), value.value()));
            records.unwrap_or_else(|error| vec![Err(error)])
        })))
    }

    /// The tasks of one queue and state below `before`, newest first.
    pub(super) fn listing_below(
        &self,
        queue: u32,
        state: u8,
        before: u64,
    ) -> Result<Entries<'_, u64>, Error> {
        let rows = (queue, state, 0)..=(queue, state, before / SPAN);
        let range = self.listing.range(rows).map_err(failed("list tasks"))?;
        Ok(Box::new(
            range
                .rev()
                .flat_map(listed(true))
                .filter(move |entry| entry.as_ref().map_or(true, |seq| *seq < before)),
        ))
    }

    /// The same, oldest first.
    pub(super) fn listing(&self, queue: u32, state: u8) -> Result<Entries<'_, u64>, Error> {
        let rows = (queue, state, 0)..=(queue, state, u64::MAX);
        let range = self.listing.range(rows).map_err(failed("list tasks"))?;
        Ok(Box::new(range.flat_map(listed(false))))
    }
}

/// The block that a value of [`TASKS`] stands for.
pub(super) fn block_at(files: &Files, number: u64, value: &[u8]) -> Result<Bytes, Error> {
    match Place::read(number, value)? {
        Some(place) => heap::read(files, number, place),
        None => Ok(Bytes::copy_from_slice(seal::open(number, value)?)),
    }
}

/// The record or body that a value of [`LARGE`] stands for.
pub(super) fn part_at(files: &Files, key: (u64, u8), value: &[u8]) -> Result<Bytes, Error> {
    let sealed = sealed_part_at(files, key, value)?;
    let bytes = seal::open(key, &sealed)?.len();
    Ok(sealed.slice(..bytes))
}

/// The record or body that a value of [`LARGE`] stands for, with its checksum, which is not verified.
pub(super) fn sealed_part_at(files: &Files, key: (u64, u8), value: &[u8]) -> Result<Bytes, Error> {
    match Place::read(key, value)? {
        Some(place) => heap::read(files, key.number(), place),
        None => Ok(Bytes::copy_from_slice(value)),
    }
}

fn decode<M: Message + Default>(bytes: Bytes) -> Result<M, Error> {
    M::decode(bytes).map_err(|error| Error::Damaged(error.to_string()))
}

type ListingRow = Result<
    (redb::AccessGuard<'static, ListingKey>, redb::AccessGuard<'static, &'static [u8]>),
    redb::StorageError,
>;

/// The tasks of a row of the listing.
fn listed(newest_first: bool) -> impl Fn(ListingRow) -> Vec<Result<u64, Error>> {
    move |entry| {
        let row = entry.map_err(failed("list tasks")).and_then(|(key, value)| {
            let set = Set::decode(seal::open(key.value(), value.value())?)?;
            let mut numbers = set.numbers(key.value().2 * SPAN);
            if newest_first {
                numbers.reverse();
            }
            Ok(numbers.into_iter().map(Ok).collect())
        });
        row.unwrap_or_else(|error| vec![Err(error)])
    }
}

pub(super) fn failed<E: std::fmt::Display>(context: &'static str) -> impl Fn(E) -> Error {
    move |error| Error::Io { context: context.to_owned(), error: error.to_string() }
}
