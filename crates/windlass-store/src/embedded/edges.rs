//! Who waits for whom: pairs of a task and one that waits for its end, by their numbers.
//!
//! The dependents of a task are sets, a row for each [`SPAN`] of them: a fan-out of thousands that were submitted together is
//! a handful of rows. Rows that changed since the last checkpoint are in memory, all others in the table `edges`.

use std::collections::BTreeMap;
use std::sync::Arc;

use redb::{ReadOnlyTable, TableDefinition, WriteTransaction};

use super::overlay::{Overlay, Rows};
use super::tables::set::{SPAN, Set};
use super::tables::{failed, seal};
use crate::store::Error;

/// `(parent, child / SPAN)`.
type Key = (u64, u64);

pub(super) const EDGES: TableDefinition<'static, Key, &[u8]> = TableDefinition::new("edges");
pub(super) type Table = ReadOnlyTable<Key, &'static [u8]>;

/// What a checkpoint writes. A set stands for the whole row, an empty one for none.
pub(super) type Changed = Arc<Rows<Key, Set>>;

/// What a row in memory takes, about.
const ROW_BYTES: usize = size_of::<Set>() + 64;

#[derive(Debug, Default)]
pub(super) struct Edges(Overlay<Key, Set>);

impl Edges {
    /// Returns how many bytes memory grew by.
    pub(super) fn put(&mut self, table: &Table, edge: (u64, u64), present: bool) -> Result<usize, Error> {
        let (parent, child) = edge;
        let key = (parent, child / SPAN);
        let mut grown = 0;
        if self.0.active_mut(&key).is_none() {
            let below = self.row(table, key)?;
            self.0.put(key, Some(below));
            grown = ROW_BYTES;
        }
        if let Some(Some(set)) = self.0.active_mut(&key) {
            set.put(child, present);
        }
        Ok(grown)
    }

    pub(super) fn contains(&self, table: &Table, (parent, child): (u64, u64)) -> Result<bool, Error> {
        Ok(self.row(table, (parent, child / SPAN))?.contains(child))
    }

    /// Those who wait for a task, in order of number, at most `limit`.
    pub(super) fn children(&self, table: &Table, parent: u64, limit: usize) -> Result<Vec<u64>, Error> {
        let mut found = Vec::new();
        let mut from = 0;
        while found.len() < limit {
            let range = (parent, from)..=(parent, u64::MAX);
            let stored = table.range(range.clone()).map_err(failed("read who waits"))?.next();
            let stored = stored.transpose().map_err(failed("read who waits"))?.map(|(key, _)| key.value());
            let Some(key) = self.0.first(range).map(|(key, _)| *key).into_iter().chain(stored).min() else {
                break;
            };
            found.extend(self.row(table, key)?.numbers(key.1 * SPAN));
            from = key.1 + 1;
        }
        found.truncate(limit);
        Ok(found)
    }

    fn row(&self, table: &Table, key: Key) -> Result<Set, Error> {
        if let Some(row) = self.0.get(&key) {
            return Ok(row.clone().unwrap_or_default());
        }
        match table.get(key).map_err(failed("read who waits"))? {
            Some(value) => Set::decode(seal::open(key, value.value())?),
            None => Ok(Set::default()),
        }
    }

    pub(super) fn freeze(&mut self) -> Changed {
        self.0.freeze()
    }

    pub(super) fn thaw(&mut self) -> Changed {
        self.0.thaw()
    }
}

/// Writes what changed; with nothing to write it only sees to it that there is a table.
pub(super) fn write(write: &WriteTransaction, changed: &BTreeMap<Key, Option<Set>>) -> Result<(), Error> {
    let mut table = write.open_table(EDGES).map_err(failed("open a table"))?;
    let mut buffer = Vec::new();
    for (key, row) in changed {
        let Some(set) = row.as_ref().filter(|set| !set.is_empty()) else {
            table.remove(key).map_err(failed("remove who waits"))?;
            continue;
        };
        buffer.clear();
        set.encode(&mut buffer);
        table.insert(key, seal::close(*key, &mut buffer)).map_err(failed("write who waits"))?;
    }
    Ok(())
}
