//! Who waits for whom: pairs of a task and one that waits for its end, by their numbers.
//!
//! The dependents of a task are sets, a row for each [`SPAN`] of them: a fan-out of thousands that were submitted together is
//! a handful of rows. Rows that changed since the last checkpoint are in memory, all others in the table `edges`.

use std::collections::{BTreeMap, HashMap};
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
pub(super) struct Edges {
    rows: Overlay<Key, Set>,
    /// Rows of a task below this one are known to be empty. While the dependents of a task are told, one row after the other
    /// is emptied and stays in the way until the next checkpoint; each of them is passed once and not for every look.
    /// It only saves time: without it the same rows are found.
    passed: HashMap<u64, u64>,
}

impl Edges {
    /// Returns how many bytes memory grew by.
    pub(super) fn put(&mut self, table: &Table, edge: (u64, u64), present: bool) -> Result<usize, Error> {
        let (parent, child) = edge;
        let key = (parent, child / SPAN);
        let mut grown = 0;
        if self.rows.active_mut(&key).is_none() {
            let below = self.row(table, key)?;
            self.rows.put(key, Some(below));
            grown = ROW_BYTES;
        }
        if let Some(Some(set)) = self.rows.active_mut(&key) {
            set.put(child, present);
        }
        if present && let Some(passed) = self.passed.get_mut(&parent) {
            *passed = key.1.min(*passed);
        }
        Ok(grown)
    }

    pub(super) fn contains(&self, table: &Table, (parent, child): (u64, u64)) -> Result<bool, Error> {
        Ok(self.row(table, (parent, child / SPAN))?.contains(child))
    }

    /// Those who wait for a task, in order of number, at most `limit`.
    pub(super) fn children(&mut self, table: &Table, parent: u64, limit: usize) -> Result<Vec<u64>, Error> {
        let mut found = Vec::new();
        let mut from = self.passed.get(&parent).copied().unwrap_or(0);
        while found.len() < limit {
            let range = (parent, from)..=(parent, u64::MAX);
            let stored = table.range(range.clone()).map_err(failed("read who waits"))?.next();
            let stored = stored.transpose().map_err(failed("read who waits"))?.map(|(key, _)| key.value());
            let Some(key) = self.rows.first(range).map(|(key, _)| *key).into_iter().chain(stored).min()
            else {
                break;
            };
            if found.is_empty() {
                self.passed.insert(parent, key.1);
            }
            found.extend(self.row(table, key)?.numbers(key.1 * SPAN));
            from = key.1 + 1;
        }
        if found.is_empty() && limit > 0 {
            self.passed.remove(&parent);
        }
        found.truncate(limit);
        Ok(found)
    }

    fn row(&self, table: &Table, key: Key) -> Result<Set, Error> {
        if let Some(row) = self.rows.get(&key) {
            return Ok(row.clone().unwrap_or_default());
        }
        match table.get(key).map_err(failed("read who waits"))? {
            Some(value) => Set::decode(seal::open(key, value.value())?),
            None => Ok(Set::default()),
        }
    }

    pub(super) fn freeze(&mut self) -> Changed {
        self.rows.freeze()
    }

    pub(super) fn thaw(&mut self) -> Changed {
        self.rows.thaw()
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

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;
    use redb::{Database, ReadableDatabase};

    use super::*;

    /// Dependents of task 1, each in a row of its own.
    const SCATTERED: [u64; 4] = [3 * SPAN, 4 * SPAN, 7 * SPAN, 9 * SPAN];

    fn table(edges: &mut Edges) -> Table {
        let database = Database::builder().create_with_backend(InMemoryBackend::new()).unwrap();
        let begun = database.begin_write().unwrap();
        write(&begun, &edges.freeze()).unwrap();
        begun.commit().unwrap();
        edges.thaw();
        database.begin_read().unwrap().open_table(EDGES).unwrap()
    }

    fn put(edges: &mut Edges, table: &Table, child: u64, present: bool) {
        edges.put(table, (1, child), present).unwrap();
    }

    #[test]
    fn emptied_rows_are_passed_once() {
        for saved in [false, true] {
            let mut edges = Edges::default();
            let mut below = table(&mut edges);
            SCATTERED.iter().for_each(|child| put(&mut edges, &below, *child, true));
            if saved {
                below = table(&mut edges);
            }
            for (i, child) in SCATTERED.iter().enumerate() {
                assert_eq!(edges.children(&below, 1, 9).unwrap(), SCATTERED[i..]);
                assert_eq!(
                    edges.passed[&1],
                    child / SPAN,
                    "a look begins at the first row that is not empty"
                );
                put(&mut edges, &below, *child, false);
            }
            assert!(edges.children(&below, 1, 1).unwrap().is_empty());
            assert!(edges.passed.is_empty(), "nothing is kept of a task that told all");
        }
    }

    #[test]
    fn who_waits_again_is_found_behind_what_was_passed() {
        let mut edges = Edges::default();
        let below = table(&mut edges);
        SCATTERED.iter().for_each(|child| put(&mut edges, &below, *child, true));
        SCATTERED[..2].iter().for_each(|child| put(&mut edges, &below, *child, false));
        assert_eq!(edges.children(&below, 1, 1).unwrap(), SCATTERED[2..3]);
        put(&mut edges, &below, SCATTERED[1] + 5, true);
        assert_eq!(edges.children(&below, 1, 2).unwrap(), [SCATTERED[1] + 5, SCATTERED[2]]);
    }
}
