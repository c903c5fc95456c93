//! The tables as a backup has them: by name, in a fixed order, with rows of plain bytes.
//!
//! Keys are encoded so that their byte order is their order in the table. Values are copied as they are stored, with their
//! checksums. The exception are blocks and large parts of tasks: the backup has these themselves instead of their places in files. From `meta` a
//! backup takes only the state, because the rest belongs to the directory and not to its contents.

mod column;
mod contents;

use std::ops::Bound;

use bytes::Bytes;
use prost::Message;
use redb::{Key, ReadTransaction, ReadableTableMetadata, TableDefinition, Value, WriteTransaction};

use self::column::{Cell, Column};
use self::contents::{Blocks, Large};
use super::identity::FORMAT;
use super::tables::heap::{Files, Heap};
use super::tables::{DATED_IDS, IDS, LANES, LISTING, META, MOVED, MetaMessage, ORDER, QUEUES, failed, seal};
use super::{edges, flow, holders, operations, schedules, shares, workflows};
use crate::backup::{self, Opening, Row};
use crate::store::Error;

/// The oldest store format whose rows this version can restore.
const OLDEST_FORMAT: u32 = 5;

/// All tables, in the order of a stream.
static TABLES: [&(dyn Table + Sync); 18] = [
    &Meta,
    &Plain("queues", QUEUES),
    &Plain("lanes", LANES),
    &Plain("flow", flow::FLOW),
    &Plain("share_blocks", shares::SHARES),
    &Plain("schedules", schedules::SCHEDULES),
    &Plain("operations", operations::OPERATIONS),
    &Plain("unique_keys", holders::KEYS),
    &Plain("workflows", workflows::WORKFLOWS),
    &Plain("workflow_ids", workflows::WORKFLOW_IDS),
    &Plain("edges", edges::EDGES),
    &Plain("ids", IDS),
    &Plain("dated_ids", DATED_IDS),
    &Plain("order", ORDER),
    &Plain("moved", MOVED),
    &Plain("listing", LISTING),
    &Large,
    &Blocks,
];

/// A table, with its rows as bytes.
pub(super) trait Table {
    fn name(&self) -> &'static str;

    fn count(&self, read: &ReadTransaction) -> Result<u64, Error>;

    /// Visits the rows after a key, unchecked, until `visit` has enough.
    fn scan(
        &self,
        view: View<'_>,
        after: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Enough,
    ) -> Result<(), Error>;

    /// Checks that a row is a valid row of this table. Returns how many tasks it holds.
    fn check(&self, row: Row<'_>) -> Result<u64, Error>;

    /// Inserts rows that were checked.
    fn insert(&self, write: &WriteTransaction, heap: &mut Heap, rows: &[Row<'_>]) -> Result<(), Error>;

    /// Visits the sizes of the rows as they are stored, until `visit` has enough.
    fn sizes(&self, read: &ReadTransaction, visit: &mut dyn FnMut(usize) -> Enough) -> Result<(), Error>;

    /// Copies the rows as they are stored into another index of the same store.
    fn copy(&self, read: &ReadTransaction, write: &WriteTransaction) -> Result<(), Error>;
}

/// The tables as of one checkpoint.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) read: &'a ReadTransaction,
    pub(super) files: &'a Files,
}

/// Whether a scan has read enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Enough {
    Yes,
    No,
}

pub(super) fn tables() -> impl ExactSizeIterator<Item = &'static (dyn Table + Sync)> {
    TABLES.iter().copied()
}

pub(super) fn table(place: usize) -> Option<&'static (dyn Table + Sync)> {
    TABLES.get(place).copied()
}

/// The static name of a table, or `None` if this program does not know it.
pub(crate) fn name(name: &str) -> Option<&'static str> {
    tables().map(Table::name).find(|known| *known == name)
}

/// The position of a table in the order of a stream.
pub(crate) fn place(name: &str) -> Option<usize> {
    tables().position(|table| table.name() == name)
}

pub(super) fn named(name: &str) -> Option<&'static (dyn Table + Sync)> {
    tables().find(|table| table.name() == name)
}

/// Checks a row of a table. Returns how many tasks it holds.
pub(crate) fn check_row(table: &'static str, row: Row<'_>) -> Result<u64, Error> {
    named(table).map_or(Ok(0), |table| table.check(row))
}

/// Refuses a backup whose store format or tables this program does not know.
pub(crate) fn check_opening(opening: &Opening) -> Result<(), backup::Error> {
    let found = opening.store_format;
    if !(OLDEST_FORMAT..=FORMAT).contains(&found) {
        return Err(backup::Error::StoreFormat { found, known: FORMAT });
    }
    match opening.rows.keys().find(|table| name(table).is_none()) {
        Some(unknown) => Err(backup::Error::UnknownTable(unknown.clone())),
        None => Ok(()),
    }
}

struct Plain<K: Column, V: Cell>(&'static str, TableDefinition<'static, K, V>);

impl<K: Column, V: Cell> Table for Plain<K, V> {
    fn name(&self) -> &'static str {
        self.0
    }

    fn count(&self, read: &ReadTransaction) -> Result<u64, Error> {
        let table = read.open_table(self.1).map_err(failed("open a table"))?;
        table.len().map_err(failed("count rows"))
    }

    fn scan(
        &self,
        view: View<'_>,
        after: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Enough,
    ) -> Result<(), Error> {
        let table = view.read.open_table(self.1).map_err(failed("open a table"))?;
        let from = match after {
            Some(key) => Bound::Excluded(K::decode(key).ok_or_else(|| unreadable(self.0))?),
            None => Bound::Unbounded,
        };
        let range = table.range::<K::SelfType<'_>>((from, Bound::Unbounded)).map_err(failed("read rows"))?;
        let (mut key_bytes, mut value_bytes) = (Vec::new(), Vec::new());
        for entry in range {
            let (key, value) = entry.map_err(failed("read rows"))?;
            key_bytes.clear();
            value_bytes.clear();
            K::encode(&key.value(), &mut key_bytes);
            V::encode(&value.value(), &mut value_bytes);
            if visit(&key_bytes, &value_bytes) == Enough::Yes {
                break;
            }
        }
        Ok(())
    }

    fn check(&self, row: Row<'_>) -> Result<u64, Error> {
        let key = K::decode(row.key).ok_or_else(|| unreadable(self.0))?;
        let value = V::decode(row.value).ok_or_else(|| unreadable(self.0))?;
        if let Some(sealed) = V::sealed(&value) {
            K::open(&key, sealed)?;
        }
        Ok(0)
    }

    fn insert(&self, write: &WriteTransaction, _: &mut Heap, rows: &[Row<'_>]) -> Result<(), Error> {
        let mut table = write.open_table(self.1).map_err(failed("open a table"))?;
        for row in rows {
            let key = K::decode(row.key).ok_or_else(|| unreadable(self.0))?;
            let value = V::decode(row.value).ok_or_else(|| unreadable(self.0))?;
            table.insert(key, value).map_err(failed("write a row"))?;
        }
        Ok(())
    }

    fn sizes(&self, read: &ReadTransaction, visit: &mut dyn FnMut(usize) -> Enough) -> Result<(), Error> {
        row_sizes(self.1, read, visit)
    }

    fn copy(&self, read: &ReadTransaction, write: &WriteTransaction) -> Result<(), Error> {
        copy_rows(self.1, read, write)
    }
}

fn row_sizes<K: Key + 'static, V: Value + 'static>(
    table: TableDefinition<'static, K, V>,
    read: &ReadTransaction,
    visit: &mut dyn FnMut(usize) -> Enough,
) -> Result<(), Error> {
    let table = read.open_table(table).map_err(failed("open a table"))?;
    for entry in table.range::<K::SelfType<'_>>(..).map_err(failed("read rows"))? {
        let (key, value) = entry.map_err(failed("read rows"))?;
        let (key, value) = (key.value(), value.value());
        let bytes = K::as_bytes(&key).as_ref().len() + V::as_bytes(&value).as_ref().len();
        if visit(bytes) == Enough::Yes {
            break;
        }
    }
    Ok(())
}

/// Copies a table as it is stored into another index of the same store.
pub(super) fn copy_rows<K: Key + 'static, V: Value + 'static>(
    table: TableDefinition<'static, K, V>,
    read: &ReadTransaction,
    write: &WriteTransaction,
) -> Result<(), Error> {
    let from = read.open_table(table).map_err(failed("open a table"))?;
    let mut to = write.open_table(table).map_err(failed("make a table"))?;
    for entry in from.range::<K::SelfType<'_>>(..).map_err(failed("read rows"))? {
        let (key, value) = entry.map_err(failed("read rows"))?;
        to.insert(key.value(), value.value()).map_err(failed("write a row"))?;
    }
    Ok(())
}

/// The state of the whole store: its position in the log and its counters.
struct Meta;

/// The one row of [`META`] that is part of a backup, and the key that its checksum includes.
const STATE: &str = "state";
const STATE_SEAL: u64 = 0;

impl Table for Meta {
    fn name(&self) -> &'static str {
        "meta"
    }

    fn count(&self, read: &ReadTransaction) -> Result<u64, Error> {
        Ok(u64::from(stored_state(read)?.is_some()))
    }

    fn scan(
        &self,
        view: View<'_>,
        after: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Enough,
    ) -> Result<(), Error> {
        if let Some(value) = stored_state(view.read)?.filter(|_| after.is_none()) {
            visit(STATE.as_bytes(), &value);
        }
        Ok(())
    }

    fn check(&self, row: Row<'_>) -> Result<u64, Error> {
        if row.key != STATE.as_bytes() {
            return Err(unreadable("meta"));
        }
        decode_state(row.value)?;
        Ok(0)
    }

    fn insert(&self, write: &WriteTransaction, _: &mut Heap, rows: &[Row<'_>]) -> Result<(), Error> {
        rows.iter().try_for_each(|row| write_state(write, &decode_state(row.value)?))
    }

    fn sizes(&self, read: &ReadTransaction, visit: &mut dyn FnMut(usize) -> Enough) -> Result<(), Error> {
        row_sizes(META, read, visit)
    }

    fn copy(&self, read: &ReadTransaction, write: &WriteTransaction) -> Result<(), Error> {
        copy_rows(META, read, write)
    }
}

fn stored_state(read: &ReadTransaction) -> Result<Option<Bytes>, Error> {
    let table = read.open_table(META).map_err(failed("open a table"))?;
    let value = table.get(STATE).map_err(failed("read the state"))?;
    Ok(value.map(|value| Bytes::copy_from_slice(value.value())))
}

fn decode_state(value: &[u8]) -> Result<MetaMessage, Error> {
    MetaMessage::decode(seal::open(STATE_SEAL, value)?).map_err(|_| unreadable("meta"))
}

/// Reads the state from a read transaction.
pub(super) fn state(read: &ReadTransaction) -> Result<MetaMessage, Error> {
    stored_state(read)?.map_or_else(|| Ok(MetaMessage::first()), |value| decode_state(&value))
}

/// Reads the state that was written earlier, in this transaction or before it.
pub(super) fn written_state(write: &WriteTransaction) -> Result<MetaMessage, Error> {
    use redb::ReadableTable;
    let table = write.open_table(META).map_err(failed("open a table"))?;
    let value = table.get(STATE).map_err(failed("read the state"))?;
    value.map_or_else(|| Ok(MetaMessage::first()), |value| decode_state(value.value()))
}

pub(super) fn write_state(write: &WriteTransaction, state: &MetaMessage) -> Result<(), Error> {
    let mut table = write.open_table(META).map_err(failed("open a table"))?;
    let mut value = state.encode_to_vec();
    table.insert(STATE, seal::close(STATE_SEAL, &mut value)).map_err(failed("write the state"))?;
    Ok(())
}

fn unreadable(table: &str) -> Error {
    Error::Damaged(format!("a row of the table {table} cannot be read"))
}
