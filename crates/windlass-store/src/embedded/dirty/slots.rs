//! Changed tasks by number, many of them in one piece of memory.
//!
//! Tasks that change together have neighbouring numbers, so the way to them is kept by runs of [`RUN_TASKS`], which are hashed
//! because a change looks for its task several times. The tasks stand one behind the other in pieces of [`PIECE_SLOTS`] in the order in which they came. A checkpoint gives back thousands at once, in
//! another thread than the one that made them: it frees a few pieces instead of every task.

use std::collections::BTreeSet;

use foldhash::HashMap;

use super::Slot;

/// Numbers that share a way.
const RUN_TASKS: u64 = 64;
/// Slots of one piece of memory.
const PIECE_SLOTS: usize = 32;

#[derive(Debug, Default)]
pub(in crate::embedded) struct Slots {
    runs: HashMap<u64, Run>,
    /// The keys of the runs.
    order: BTreeSet<u64>,
    /// All but the last are as long as they may be. A place that is free again is `None`.
    pieces: Vec<Vec<Option<Slot>>>,
    free: Vec<Place>,
    len: usize,
}

/// Where a slot is: its piece, and its place there.
type Place = u32;

/// The places of neighbouring numbers; in a box, because a table that grows moves what it has.
#[derive(Debug)]
struct Run {
    places: Box<[Option<Number>; RUN_TASKS as usize]>,
    taken: usize,
}

/// A place and one, so that none takes no room of its own.
type Number = std::num::NonZeroU32;

impl Slots {
    pub(in crate::embedded) fn len(&self) -> usize {
        self.len
    }

    pub(in crate::embedded) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn contains(&self, seq: u64) -> bool {
        self.place(seq).is_some()
    }

    pub(in crate::embedded) fn get(&self, seq: u64) -> Option<&Slot> {
        self.at(self.place(seq)?)
    }

    pub(super) fn get_mut(&mut self, seq: u64) -> Option<&mut Slot> {
        let place = self.place(seq)? as usize;
        self.pieces[place / PIECE_SLOTS][place % PIECE_SLOTS].as_mut()
    }

    /// Adds a task that is not there yet.
    pub(super) fn insert(&mut self, slot: Slot) {
        let seq = slot.record.seq;
        debug_assert!(!self.contains(seq), "a second task of one number");
        let place = match self.free.pop() {
            Some(place) => {
                self.pieces[place as usize / PIECE_SLOTS][place as usize % PIECE_SLOTS] = Some(slot);
                place
            }
            None => self.push(slot),
        };
        let run = self.runs.entry(seq / RUN_TASKS).or_insert_with(|| {
            self.order.insert(seq / RUN_TASKS);
            Run::default()
        });
        run.places[(seq % RUN_TASKS) as usize] = Number::new(place + 1);
        run.taken += 1;
        self.len += 1;
    }

    pub(super) fn remove(&mut self, seq: u64) -> Option<Slot> {
        let run = self.runs.get_mut(&(seq / RUN_TASKS))?;
        let place = run.places[(seq % RUN_TASKS) as usize].take()?.get() - 1;
        run.taken -= 1;
        if run.taken == 0 {
            self.runs.remove(&(seq / RUN_TASKS));
            self.order.remove(&(seq / RUN_TASKS));
        }
        self.len -= 1;
        self.free.push(place);
        self.pieces[place as usize / PIECE_SLOTS][place as usize % PIECE_SLOTS].take()
    }

    /// All of them, in order.
    pub(in crate::embedded) fn iter(&self) -> impl Iterator<Item = &Slot> {
        let runs = self.order.iter().filter_map(|key| self.runs.get(key));
        runs.flat_map(|run| run.places.iter().flatten()).filter_map(|number| self.of(*number))
    }

    /// Those with numbers below `before`, from the last to the first.
    pub(super) fn below(&self, before: u64) -> impl Iterator<Item = &Slot> {
        let runs = self.order.range(..=before / RUN_TASKS).rev().filter_map(|key| self.runs.get(key));
        let slots = runs.flat_map(|run| run.places.iter().rev().flatten());
        slots.filter_map(|number| self.of(*number)).skip_while(move |slot| slot.record.seq >= before)
    }

    fn push(&mut self, slot: Slot) -> Place {
        if self.pieces.last().is_none_or(|piece| piece.len() == PIECE_SLOTS) {
            self.pieces.push(Vec::with_capacity(PIECE_SLOTS));
        }
        let before = (self.pieces.len() - 1) * PIECE_SLOTS;
        let Some(last) = self.pieces.last_mut() else { unreachable!("a piece was just added") };
        last.push(Some(slot));
        (before + last.len() - 1) as Place
    }

    fn place(&self, seq: u64) -> Option<Place> {
        let run = self.runs.get(&(seq / RUN_TASKS))?;
        run.places[(seq % RUN_TASKS) as usize].map(|number| number.get() - 1)
    }

    fn of(&self, number: Number) -> Option<&Slot> {
        self.at(number.get() - 1)
    }

    fn at(&self, place: Place) -> Option<&Slot> {
        self.pieces[place as usize / PIECE_SLOTS][place as usize % PIECE_SLOTS].as_ref()
    }
}

impl Default for Run {
    fn default() -> Self {
        Run { places: Box::new([None; RUN_TASKS as usize]), taken: 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::tests::slot;
    use super::*;

    fn numbers<'a>(slots: impl Iterator<Item = &'a Slot>) -> Vec<u64> {
        slots.map(|slot| slot.record.seq).collect()
    }

    #[test]
    fn they_are_found_and_walked_in_order_however_they_came_and_went() {
        let mut slots = Slots::default();
        let mut model: BTreeMap<u64, ()> = BTreeMap::new();
        // Near each other, far apart, and at the edges of runs; some of them go and come again.
        for step in 0..2000_u64 {
            let seq = match step % 3 {
                0 => step * 7919 % 300,
                1 => step * 104_729 % 100_000,
                _ => step * 31 % 7 * RUN_TASKS + step % 2 * (RUN_TASKS - 1),
            };
            if model.remove(&seq).is_some() {
                assert_eq!(slots.remove(seq).map(|slot| slot.record.seq), Some(seq));
                assert!(slots.remove(seq).is_none());
            } else {
                model.insert(seq, ());
                slots.insert(slot(seq));
            }
            assert_eq!((slots.contains(seq), slots.len()), (model.contains_key(&seq), model.len()));
        }
        assert!(slots.free.len() < 300, "places are used again");
        assert_eq!(numbers(slots.iter()), model.keys().copied().collect::<Vec<_>>());
        for before in [0, 1, 63, 64, 65, 128, 299, 50_000, u64::MAX] {
            let expected: Vec<u64> = model.range(..before).rev().map(|(seq, ())| *seq).collect();
            assert_eq!(numbers(slots.below(before)), expected, "below {before}");
        }
        for seq in model.keys() {
            assert_eq!(slots.get(*seq).map(|slot| slot.record.seq), Some(*seq));
            slots.get_mut(*seq).unwrap().gone = true;
        }
        assert!(slots.iter().all(|slot| slot.gone));
        model.keys().for_each(|seq| drop(slots.remove(*seq)));
        assert!(slots.is_empty() && slots.runs.is_empty() && slots.order.is_empty());
    }
}
