//! Which live task has which unique key.
//!
//! A table holds the keys as of the last checkpoint, memory what changed since, in two generations like the tasks: a key
//! whose task came and one whose task went. A key changes only together with its task, so this grows no faster than the
//! changed tasks do, and is emptied with them. Tasks without a key never come here.

use std::sync::Arc;

use foldhash::HashMap;
use redb::{ReadOnlyTable, ReadTransaction, TableDefinition, WriteTransaction};
use windlass_core::UniqueKey;

use super::tables::failed;
use crate::store::Error;

pub(super) const KEYS: TableDefinition<'static, &str, u64> = TableDefinition::new("unique_keys");

/// What became of keys: the number of the task that took it, or `None` for one that is free again.
type Changes = HashMap<UniqueKey, Option<u64>>;

#[derive(Debug, Default)]
pub(super) struct Holders {
    active: Changes,
    frozen: Arc<Changes>,
}

impl Holders {
    /// The task that took a key last and still lives.
    pub(super) fn get(&self, key: &UniqueKey, table: &KeyTable) -> Result<Option<u64>, Error> {
        match self.active.get(key).or_else(|| self.frozen.get(key)) {
            Some(changed) => Ok(*changed),
            None => table.get(key),
        }
    }

    /// Returns about how much memory this takes.
    pub(super) fn set(&mut self, key: &UniqueKey, seq: Option<u64>) -> usize {
        const NODE_BYTES: usize = 64;
        self.active.insert(key.clone(), seq);
        NODE_BYTES + key.as_str().len()
    }

    pub(super) fn freeze(&mut self) -> Arc<Changes> {
        self.frozen = Arc::new(std::mem::take(&mut self.active));
        Arc::clone(&self.frozen)
    }

    pub(super) fn thaw(&mut self) -> Arc<Changes> {
        std::mem::take(&mut self.frozen)
    }
}

/// What a checkpoint writes.
pub(super) type Changed = Arc<Changes>;

/// The keys as of one checkpoint.
pub(super) struct KeyTable(ReadOnlyTable<&'static str, u64>);

impl KeyTable {
    pub(super) fn open(read: &ReadTransaction) -> Result<KeyTable, Error> {
        read.open_table(KEYS).map(KeyTable).map_err(failed("open a table"))
    }

    fn get(&self, key: &UniqueKey) -> Result<Option<u64>, Error> {
        let found = self.0.get(key.as_str()).map_err(failed("look up a unique key"))?;
        Ok(found.map(|value| value.value()))
    }
}

/// Writes what changed; with nothing to write it only sees to it that there is a table.
pub(super) fn write(write: &WriteTransaction, changed: &Changes) -> Result<(), Error> {
    let mut table = write.open_table(KEYS).map_err(failed("open a table"))?;
    let mut changed: Vec<_> = changed.iter().collect();
    changed.sort_unstable();
    for (key, seq) in changed {
        match seq {
            Some(seq) => drop(table.insert(key.as_str(), seq).map_err(failed("write a unique key"))?),
            None => drop(table.remove(key.as_str()).map_err(failed("remove a unique key"))?),
        }
    }
    Ok(())
}
