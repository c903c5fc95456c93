//! The tables whose rows point to files. A backup has what they point to.

use std::ops::Bound;

use redb::{ReadTransaction, ReadableTableMetadata, WriteTransaction};

use super::column::Column;
use super::{Enough, Table, View, copy_rows, row_sizes, unreadable};
use crate::backup::Row;
use crate::embedded::tables::block::entries;
use crate::embedded::tables::heap::Heap;
use crate::embedded::tables::{self, LARGE, TASKS, failed, seal};
use crate::store::Error;

const BLOCKS: &str = "blocks";

/// Large records and bodies, each with its contents and checksum.
pub(super) struct Large;

const LARGE_NAME: &str = "large";

impl Table for Large {
    fn name(&self) -> &'static str {
        LARGE_NAME
    }

    fn count(&self, read: &ReadTransaction) -> Result<u64, Error> {
        let table = read.open_table(LARGE).map_err(failed("open a table"))?;
        table.len().map_err(failed("count rows"))
    }

    fn scan(
        &self,
        view: View<'_>,
        after: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Enough,
    ) -> Result<(), Error> {
        let table = view.read.open_table(LARGE).map_err(failed("open a table"))?;
        let from = match after {
            Some(key) => {
                Bound::Excluded(<(u64, u8) as Column>::decode(key).ok_or_else(|| unreadable(LARGE_NAME))?)
            }
            None => Bound::Unbounded,
        };
        let mut key_bytes = Vec::new();
        for entry in table.range::<(u64, u8)>((from, Bound::Unbounded)).map_err(failed("read rows"))? {
            let (key, value) = entry.map_err(failed("read rows"))?;
            let sealed = tables::sealed_part_at(view.files, key.value(), value.value())?;
            key_bytes.clear();
            <(u64, u8) as Column>::encode(&key.value(), &mut key_bytes);
            if visit(&key_bytes, &sealed) == Enough::Yes {
                break;
            }
        }
        Ok(())
    }

    fn check(&self, row: Row<'_>) -> Result<u64, Error> {
        let key = <(u64, u8) as Column>::decode(row.key).ok_or_else(|| unreadable(LARGE_NAME))?;
        seal::open(key, row.value)?;
        Ok(0)
    }

    fn insert(&self, write: &WriteTransaction, heap: &mut Heap, rows: &[Row<'_>]) -> Result<(), Error> {
        let mut table = write.open_table(LARGE).map_err(failed("open a table"))?;
        for row in rows {
            let key = <(u64, u8) as Column>::decode(row.key).ok_or_else(|| unreadable(LARGE_NAME))?;
            heap.put(&mut table, key, row.value)?;
        }
        Ok(())
    }

    fn sizes(&self, read: &ReadTransaction, visit: &mut dyn FnMut(usize) -> Enough) -> Result<(), Error> {
        row_sizes(LARGE, read, visit)
    }

    fn copy(&self, read: &ReadTransaction, write: &WriteTransaction) -> Result<(), Error> {
        copy_rows(LARGE, read, write)
    }
}

/// Blocks of tasks by number, each with its contents.
pub(super) struct Blocks;

impl Table for Blocks {
    fn name(&self) -> &'static str {
        BLOCKS
    }

    fn count(&self, read: &ReadTransaction) -> Result<u64, Error> {
        let table = read.open_table(TASKS).map_err(failed("open a table"))?;
        table.len().map_err(failed("count rows"))
    }

    fn scan(
        &self,
        view: View<'_>,
        after: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Enough,
    ) -> Result<(), Error> {
        let table = view.read.open_table(TASKS).map_err(failed("open a table"))?;
        let from = match after {
            Some(key) => Bound::Excluded(<u64 as Column>::decode(key).ok_or_else(|| unreadable(BLOCKS))?),
            None => Bound::Unbounded,
        };
        for entry in table.range::<u64>((from, Bound::Unbounded)).map_err(failed("read blocks"))? {
            let (number, value) = entry.map_err(failed("read blocks"))?;
            let block = tables::block_at(view.files, number.value(), value.value())?;
            if visit(&number.value().to_be_bytes(), &block) == Enough::Yes {
                break;
            }
        }
        Ok(())
    }

    fn check(&self, row: Row<'_>) -> Result<u64, Error> {
        let number = <u64 as Column>::decode(row.key).ok_or_else(|| unreadable(BLOCKS))?;
        Ok(entries(number, row.value)?.len() as u64)
    }

    fn insert(&self, write: &WriteTransaction, heap: &mut Heap, rows: &[Row<'_>]) -> Result<(), Error> {
        let mut table = write.open_table(TASKS).map_err(failed("open a table"))?;
        for row in rows {
            let number = <u64 as Column>::decode(row.key).ok_or_else(|| unreadable(BLOCKS))?;
            heap.put(&mut table, number, row.value)?;
        }
        Ok(())
    }

    fn sizes(&self, read: &ReadTransaction, visit: &mut dyn FnMut(usize) -> Enough) -> Result<(), Error> {
        row_sizes(TASKS, read, visit)
    }

    fn copy(&self, read: &ReadTransaction, write: &WriteTransaction) -> Result<(), Error> {
        copy_rows(TASKS, read, write)
    }
}
