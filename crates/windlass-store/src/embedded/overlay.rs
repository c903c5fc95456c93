//! Rows of a table that changed since the last checkpoint.
//!
//! Two generations, as with tasks (`dirty`): `active` takes the changes, `frozen` is what the checkpoint under way is
//! writing. A row is described by the newest generation that has it, else by the table.

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::Arc;

/// A row that is `None` was removed.
pub(super) type Rows<K, V> = BTreeMap<K, Option<V>>;

#[derive(Debug)]
pub(super) struct Overlay<K, V> {
    active: Rows<K, V>,
    frozen: Arc<Rows<K, V>>,
}

impl<K, V> Default for Overlay<K, V> {
    fn default() -> Self {
        Self { active: BTreeMap::new(), frozen: Arc::default() }
    }
}

impl<K: Ord + Clone, V: Clone> Overlay<K, V> {
    /// `None` if the table knows best.
    pub(super) fn get(&self, key: &K) -> Option<&Option<V>> {
        self.active.get(key).or_else(|| self.frozen.get(key))
    }

    /// The row of this generation; `None` if it has none and the one below is to be put first.
    pub(super) fn active_mut(&mut self, key: &K) -> Option<&mut Option<V>> {
        self.active.get_mut(key)
    }

    pub(super) fn put(&mut self, key: K, row: Option<V>) {
        self.active.insert(key, row);
    }

    /// The first row of a range that memory has.
    pub(super) fn first(&self, range: impl RangeBounds<K> + Clone) -> Option<(&K, &Option<V>)> {
        let active = self.active.range(range.clone()).next();
        let frozen = self.frozen.range(range).next();
        match (active, frozen) {
            (Some(active), Some(frozen)) if frozen.0 < active.0 => Some(frozen),
            (None, frozen) => frozen,
            (active, _) => active,
        }
    }

    /// The last row of a range that memory has.
    pub(super) fn last(&self, range: impl RangeBounds<K> + Clone) -> Option<(&K, &Option<V>)> {
        let active = self.active.range(range.clone()).next_back();
        let frozen = self.frozen.range(range).next_back();
        match (active, frozen) {
            (Some(active), Some(frozen)) if frozen.0 > active.0 => Some(frozen),
            (None, frozen) => frozen,
            (active, _) => active,
        }
    }

    pub(super) fn freeze(&mut self) -> Arc<Rows<K, V>> {
        self.frozen = Arc::new(std::mem::take(&mut self.active));
        Arc::clone(&self.frozen)
    }

    /// What is frozen is in the table. Returns it, for a thread with time to drop it.
    pub(super) fn thaw(&mut self) -> Arc<Rows<K, V>> {
        std::mem::take(&mut self.frozen)
    }
}
