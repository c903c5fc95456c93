//! Which number a changed task has, by its id.
//!
//! What is kept of an id is a hash of it; the slot has the id itself. So thousands of them are given back at once, without
//! a look at each. Two ids with one hash are told apart by their slots, and the second of them is kept as it is.

use foldhash::fast::RandomState;
use foldhash::{HashMap, HashMapExt};
use std::hash::BuildHasher;
use windlass_core::TaskId;

use super::slots::Slots;

#[derive(Debug)]
pub(super) struct Ids {
    hasher: RandomState,
    by_hash: HashMap<u64, u64>,
    others: HashMap<TaskId, u64>,
}

impl Default for Ids {
    fn default() -> Self {
        Self { hasher: RandomState::default(), by_hash: HashMap::new(), others: HashMap::new() }
    }
}

impl Ids {
    /// The last task that was added under an id. `slots` has the tasks of all numbers.
    pub(super) fn find(&self, id: &TaskId, slots: &Slots) -> Option<u64> {
        self.find_hashed(self.hasher.hash_one(id), id, slots)
    }

    /// Adds a task, in place of one that had its id before.
    pub(super) fn add(&mut self, id: &TaskId, seq: u64, slots: &Slots) {
        self.add_hashed(self.hasher.hash_one(id), id, seq, slots);
    }

    pub(super) fn remove(&mut self, id: &TaskId, seq: u64) {
        self.remove_hashed(self.hasher.hash_one(id), id, seq);
    }

    fn find_hashed(&self, hash: u64, id: &TaskId, slots: &Slots) -> Option<u64> {
        let first = self.by_hash.get(&hash).copied().filter(|seq| is_of(slots, *seq, id));
        first.or_else(|| self.others.get(id).copied())
    }

    fn add_hashed(&mut self, hash: u64, id: &TaskId, seq: u64, slots: &Slots) {
        let first = self.by_hash.entry(hash).or_insert(seq);
        if *first == seq || is_of(slots, *first, id) {
            *first = seq;
            self.others.remove(id);
        } else {
            self.others.insert(id.clone(), seq);
        }
    }

    fn remove_hashed(&mut self, hash: u64, id: &TaskId, seq: u64) {
        if self.by_hash.get(&hash) != Some(&seq) {
            self.others.remove(id);
            return;
        }
        self.by_hash.remove(&hash);
    }
}

fn is_of(slots: &Slots, seq: u64, id: &TaskId) -> bool {
    slots.get(seq).is_some_and(|slot| slot.record.id == *id)
}

#[cfg(test)]
mod tests {
    use super::super::tests::slot;
    use super::*;

    #[test]
    fn ids_with_one_hash_are_told_apart() {
        let mut slots = Slots::default();
        let mut ids = Ids::default();
        for seq in 1..=3 {
            slots.insert(slot(seq));
        }
        let id = |seq: u64| slot(seq).record.id;
        for seq in 1..=3 {
            ids.add_hashed(7, &id(seq), seq, &slots);
        }
        let found = |ids: &Ids, slots: &Slots| [1, 2, 3].map(|seq| ids.find_hashed(7, &id(seq), slots));
        assert_eq!(found(&ids, &slots), [Some(1), Some(2), Some(3)]);
        // The one that stands for the hash goes, the others stay.
        ids.remove_hashed(7, &id(1), 1);
        slots.remove(1);
        assert_eq!(found(&ids, &slots), [None, Some(2), Some(3)]);
        // One of them comes again, under another number, and goes for good.
        slots.insert(super::super::Slot {
            record: windlass_core::Record { seq: 9, ..slot(2).record },
            ..slot(2)
        });
        ids.add_hashed(7, &id(2), 9, &slots);
        assert_eq!(found(&ids, &slots), [None, Some(9), Some(3)]);
        ids.remove_hashed(7, &id(2), 9);
        slots.remove(9);
        ids.remove_hashed(7, &id(3), 3);
        assert_eq!(found(&ids, &slots), [None; 3]);
    }

    #[test]
    fn the_last_task_of_an_id_is_found() {
        let mut slots = Slots::default();
        let mut ids = Ids::default();
        let first = slot(1);
        let id = first.record.id.clone();
        slots.insert(first);
        ids.add(&id, 1, &slots);
        // Removed, but the tables still have it: its slot stays.
        slots.get_mut(1).unwrap().gone = true;
        slots.insert(super::super::Slot {
            record: windlass_core::Record { seq: 2, ..slot(1).record },
            ..slot(1)
        });
        ids.add(&id, 2, &slots);
        assert_eq!(ids.find(&id, &slots), Some(2));
        assert_eq!(ids.find(&slot(3).record.id, &slots), None);
        ids.remove(&id, 2);
        assert_eq!(ids.find(&id, &slots), None);
    }
}
