//! The tables of a checkpoint, in redb.
//!
//! Every value that a task is rebuilt from carries a checksum over key and value, because redb verifies its pages only
//! when it repairs: a flipped bit is found when it is read, and never served.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use bytes::Bytes;
use prost::Message;
use redb::{Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, TableDefinition, WriteTransaction};

use crate::store::{Error, Ledger};

/// `(lane, a, b)`, see `index`.
pub(super) type OrderKey = (u32, u64, u64);
/// `(queue, state, seq)`: tasks by state for lists.
pub(super) type ListingKey = (u32, u8, u64);

pub(super) const TASKS: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("tasks");
pub(super) const BODIES: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("bodies");
pub(super) const IDS: TableDefinition<'static, &str, u64> = TableDefinition::new("ids");
pub(super) const ORDER: TableDefinition<'static, OrderKey, u64> = TableDefinition::new("order");
pub(super) const LISTING: TableDefinition<'static, ListingKey, ()> = TableDefinition::new("listing");
pub(super) const QUEUES: TableDefinition<'static, u32, &[u8]> = TableDefinition::new("queues");
pub(super) const LANES: TableDefinition<'static, u32, &[u8]> = TableDefinition::new("lanes");
pub(super) const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");

/// Opens or makes the index file. `cache_bytes` bounds what redb keeps in memory; a file of up to `verify_bytes` is
/// verified whole.
pub(super) fn open(path: &Path, cache_bytes: usize, verify_bytes: u64) -> Result<Database, Error> {
    if !path.exists() {
        make(path)?;
    }
    let mut database =
        Database::builder().set_cache_size(cache_bytes).create(path).map_err(failed("open the index"))?;
    if fs::metadata(path).is_ok_and(|file| file.len() <= verify_bytes) {
        verify(&mut database)?;
    }
    // A reader must find every table, also in a file that was just made.
    let write = begin_write(&database)?;
    for table in [TASKS, BODIES] {
        write.open_table(table).map_err(failed("make a table"))?;
    }
    write.open_table(IDS).map_err(failed("make a table"))?;
    write.open_table(ORDER).map_err(failed("make a table"))?;
    write.open_table(LISTING).map_err(failed("make a table"))?;
    for table in [QUEUES, LANES] {
        write.open_table(table).map_err(failed("make a table"))?;
    }
    write.open_table(META).map_err(failed("make a table"))?;
    write.commit().map_err(failed("make the tables"))?;
    Ok(database)
}

/// Checks every page, so that a flipped bit in a key or a branch cannot make a task invisible. If the last checkpoint is
/// damaged redb goes back to the one before; the log tells whether what is missing can be replayed.
fn verify(database: &mut Database) -> Result<(), Error> {
    let damaged = |error: redb::DatabaseError| Error::Damaged(format!("the index: {error}"));
    if !database.check_integrity().map_err(damaged)? {
        tracing::warn!("the index was damaged and has been repaired");
    }
    Ok(())
}

/// Makes the file under another name first: a crash half-way through must not leave one that cannot be opened.
fn make(path: &Path) -> Result<(), Error> {
    let unfinished = path.with_extension("new");
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("make the index")(error)),
        _ => {}
    }
    drop(Database::create(&unfinished).map_err(failed("make the index"))?);
    fs::rename(&unfinished, path).map_err(failed("make the index"))?;
    let dir = path.parent().unwrap_or_else(|| Path::new("."));
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed("make the index"))
}

/// A write that survives a crash without a repair at the next opening.
pub(super) fn begin_write(database: &Database) -> Result<WriteTransaction, Error> {
    let mut write = database.begin_write().map_err(failed("begin a checkpoint"))?;
    write.set_quick_repair(true);
    Ok(write)
}

/// The tables as of one checkpoint.
pub(super) struct Snapshot {
    tasks: ReadOnlyTable<u64, &'static [u8]>,
    bodies: ReadOnlyTable<u64, &'static [u8]>,
    ids: ReadOnlyTable<&'static str, u64>,
    order: ReadOnlyTable<OrderKey, u64>,
    listing: ReadOnlyTable<ListingKey, ()>,
    read: ReadTransaction,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}

type Entries<'a, T> = Box<dyn Iterator<Item = Result<T, Error>> + 'a>;

impl Snapshot {
    pub(super) fn take(database: &Database) -> Result<Snapshot, Error> {
        let read = database.begin_read().map_err(failed("read the index"))?;
        Ok(Snapshot {
            tasks: read.open_table(TASKS).map_err(failed("open a table"))?,
            bodies: read.open_table(BODIES).map_err(failed("open a table"))?,
            ids: read.open_table(IDS).map_err(failed("open a table"))?,
            order: read.open_table(ORDER).map_err(failed("open a table"))?,
            listing: read.open_table(LISTING).map_err(failed("open a table"))?,
            read,
        })
    }

    pub(super) fn task(&self, seq: u64) -> Result<Option<Bytes>, Error> {
        let value = self.tasks.get(seq).map_err(failed("read a task"))?;
        value.map(|value| open_value(seq, value.value())).transpose()
    }

    pub(super) fn body(&self, seq: u64) -> Result<Option<Bytes>, Error> {
        let value = self.bodies.get(seq).map_err(failed("read a body"))?;
        value.map(|value| open_value(seq, value.value())).transpose()
    }

    pub(super) fn seq_of(&self, id: &str) -> Result<Option<u64>, Error> {
        Ok(self.ids.get(id).map_err(failed("look up an id"))?.map(|value| value.value()))
    }

    pub(super) fn order(
        &self,
        keys: std::ops::RangeInclusive<OrderKey>,
    ) -> Result<Entries<'_, (OrderKey, u64)>, Error> {
        let range = self.order.range(keys).map_err(failed("read an order"))?;
        Ok(Box::new(range.map(|entry| {
            let (key, seq) = entry.map_err(failed("read an order"))?;
            Ok((key.value(), seq.value()))
        })))
    }

    /// All tasks below `before`, newest first.
    pub(super) fn tasks_below(&self, before: u64) -> Result<Entries<'_, (u64, Bytes)>, Error> {
        let range = self.tasks.range(..before).map_err(failed("list tasks"))?;
        Ok(Box::new(range.rev().map(|entry| {
            let (seq, value) = entry.map_err(failed("list tasks"))?;
            Ok((seq.value(), open_value(seq.value(), value.value())?))
        })))
    }

    /// The tasks of one queue and state below `before`, newest first.
    pub(super) fn listing_below(
        &self,
        queue: u32,
        state: u8,
        before: u64,
    ) -> Result<Entries<'_, u64>, Error> {
        let range =
            self.listing.range((queue, state, 0)..(queue, state, before)).map_err(failed("list tasks"))?;
        Ok(Box::new(range.rev().map(|entry| Ok(entry.map_err(failed("list tasks"))?.0.value().2))))
    }

    /// The same, oldest first.
    pub(super) fn listing(&self, queue: u32, state: u8) -> Result<Entries<'_, u64>, Error> {
        let range =
            self.listing.range((queue, state, 0)..=(queue, state, u64::MAX)).map_err(failed("list tasks"))?;
        Ok(Box::new(range.map(|entry| Ok(entry.map_err(failed("list tasks"))?.0.value().2))))
    }

    /// What memory is rebuilt from at the start.
    pub(super) fn saved(&self) -> Result<Saved, Error> {
        let meta = self.read.open_table(META).map_err(failed("open a table"))?;
        let queues = self.read.open_table(QUEUES).map_err(failed("open a table"))?;
        let lanes = self.read.open_table(LANES).map_err(failed("open a table"))?;
        let state = match meta.get("state").map_err(failed("read the state"))? {
            Some(value) => decode(open_value(0, value.value())?)?,
            None => MetaMessage::first(),
        };
        let read_all = |table: &ReadOnlyTable<u32, &'static [u8]>| -> Result<Vec<Bytes>, Error> {
            let mut all = Vec::new();
            for entry in table.range::<u32>(..).map_err(failed("read names"))? {
                let (number, value) = entry.map_err(failed("read names"))?;
                if number.value() as usize != all.len() {
                    return Err(Error::Damaged(format!("name {} is missing", all.len())));
                }
                all.push(open_value(u64::from(number.value()), value.value())?);
            }
            Ok(all)
        };
        Ok(Saved {
            state,
            queues: read_all(&queues)?.into_iter().map(decode).collect::<Result<_, _>>()?,
            lanes: read_all(&lanes)?.into_iter().map(decode).collect::<Result<_, _>>()?,
        })
    }
}

#[derive(Debug)]
pub(super) struct Saved {
    pub(super) state: MetaMessage,
    pub(super) queues: Vec<QueueMessage>,
    pub(super) lanes: Vec<LaneMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MetaMessage {
    /// The last log entry that the tables contain.
    #[prost(uint64, tag = "1")]
    pub(super) applied: u64,
    #[prost(uint64, tag = "2")]
    pub(super) next_number: u64,
    #[prost(uint64, tag = "3")]
    pub(super) next_claim: u64,
    /// The fields of [`Ledger`] in order.
    #[prost(uint64, repeated, tag = "4")]
    ledger: Vec<u64>,
}

impl MetaMessage {
    fn first() -> Self {
        Self { applied: 0, next_number: 1, next_claim: 1, ledger: Vec::new() }
    }

    pub(super) fn new(applied: u64, next_number: u64, next_claim: u64, ledger: &Ledger) -> Self {
        let Ledger { submitted, completed, failed, crashed, dead_lettered, cancelled, expired, removed } =
            *ledger;
        let ledger = vec![submitted, completed, failed, crashed, dead_lettered, cancelled, expired, removed];
        Self { applied, next_number, next_claim, ledger }
    }

    pub(super) fn ledger(&self) -> Ledger {
        let at = |i: usize| self.ledger.get(i).copied().unwrap_or(0);
        Ledger {
            submitted: at(0),
            completed: at(1),
            failed: at(2),
            crashed: at(3),
            dead_lettered: at(4),
            cancelled: at(5),
            expired: at(6),
            removed: at(7),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct QueueMessage {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(bool, tag = "2")]
    pub(super) paused: bool,
    #[prost(uint64, repeated, tag = "3")]
    pub(super) by_state: Vec<u64>,
    #[prost(uint64, repeated, tag = "4")]
    pub(super) pending_by_class: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LaneMessage {
    #[prost(uint32, tag = "1")]
    pub(super) queue: u32,
    #[prost(string, tag = "2")]
    pub(super) kind: String,
}

fn decode<M: Message + Default>(bytes: Bytes) -> Result<M, Error> {
    M::decode(bytes).map_err(|error| Error::Damaged(error.to_string()))
}

const CHECKSUM_BYTES: usize = 4;

/// A value with its checksum behind it, written into `buffer`.
pub(super) fn seal<'a>(key: u64, value: &[u8], buffer: &'a mut Vec<u8>) -> &'a [u8] {
    buffer.clear();
    buffer.extend_from_slice(value);
    buffer.extend_from_slice(&checksum(key, value).to_le_bytes());
    buffer
}

fn open_value(key: u64, sealed: &[u8]) -> Result<Bytes, Error> {
    let damaged = || Error::Damaged(format!("the checksum of value {key} in the index is wrong"));
    let (value, sum) =
        sealed.split_at_checked(sealed.len().wrapping_sub(CHECKSUM_BYTES)).ok_or_else(damaged)?;
    if checksum(key, value).to_le_bytes() != sum {
        return Err(damaged());
    }
    Ok(Bytes::copy_from_slice(value))
}

fn checksum(key: u64, value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&key.to_le_bytes());
    hasher.update(value);
    hasher.finalize()
}

pub(super) fn failed<E: std::fmt::Display>(context: &'static str) -> impl Fn(E) -> Error {
    move |error| Error::Io { context: context.to_owned(), error: error.to_string() }
}
