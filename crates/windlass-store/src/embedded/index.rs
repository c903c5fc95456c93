//! Ordered indexes that are larger than memory.
//!
//! A *lane* is an ordered list of tasks: the ready tasks of one queue and type (and of one key, if they have one) by priority
//! and place in line, or the timers by time. All lanes live in one table of `(lane, a, b) → seq`. Of each, memory holds a *window*: every entry below
//! its `bound`, complete and current. What lies at or beyond the bound is in the table as of the last checkpoint, and in
//! `fresh` if its task changed since. So taking from the front costs no disk access, the memory does not grow with the
//! backlog, and an entry that comes and goes between two checkpoints never reaches the table.
//!
//! Which of the table's entries still count is known by the task: one that changed since the checkpoint (`dirty`) is
//! described by memory alone, and its entries in the table are skipped.
//!
//! Where the queue ages, a lane has a window for each priority (`levels`), so that the first of every one is as near.

mod fresh;
mod levels;

use std::collections::BTreeMap;

use windlass_core::Sparse;

pub(super) use self::fresh::Fresh;
use super::dirty::ELAPSED_LANE;
use super::names::KEYED_LANES;
use super::tables::{OrderKey, Snapshot};
use crate::store::Error;

/// Entries of all windows together, about 40 bytes each. Divided by the number of lanes it bounds the size of one.
const WINDOWS_ENTRIES_MAX: usize = 500_000;
const WINDOW_ENTRIES_MIN: usize = 16;

/// The position of an entry in its lane.
pub(super) type Place = (u64, u64);

#[derive(Debug)]
pub(super) struct Index {
    /// Entries of one window.
    window_entries: usize,
    lanes: Sparse<Lane>,
    elapsed: Lane,
    /// The lanes of keys, which come and go.
    keyed: Vec<Lane>,
    /// Entries beyond the windows whose tasks changed since the checkpoint that is under way began…
    fresh: Fresh,
    /// …and since the one before: in the table as soon as the checkpoint is done.
    freezing: Fresh,
}

#[derive(Debug, Default)]
struct Lane {
    window: BTreeMap<Place, u64>,
    /// The window holds everything below; `None`: everything.
    bound: Option<Place>,
    /// A lane for each priority instead of the window above; one that is not here has no entries anywhere.
    levels: Option<BTreeMap<u64, Lane>>,
}

impl Lane {
    fn new(on_disk: bool) -> Self {
        Self { bound: on_disk.then_some((0, 0)), ..Self::default() }
    }
}

/// Where the entries beyond memory are read from.
pub(super) struct Beyond<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// Whether a task is described by memory, so that the table's entries for it do not count.
    pub(super) dirty: &'a dyn Fn(u64) -> bool,
}

impl Index {
    pub(super) fn new(window_entries: usize) -> Self {
        Self {
            window_entries: window_entries.max(2),
            lanes: Sparse::default(),
            elapsed: Lane::new(true),
            keyed: Vec::new(),
            fresh: Fresh::default(),
            freezing: Fresh::default(),
        }
    }

    /// How many entries a window may have: fewer when there are many lanes.
    fn window_max(&self) -> usize {
        let share = (WINDOWS_ENTRIES_MAX / (1 + self.lanes.len() + self.keyed.len())).max(WINDOW_ENTRIES_MIN);
        self.window_entries.min(share)
    }

    /// Begins a lane, under a number that may have been in use before, like that of a key. `on_disk` lanes may have entries in
    /// the table already.
    pub(super) fn add_lane(&mut self, lane: u32, on_disk: bool) {
        self.lanes.put(lane, Lane::new(on_disk));
    }

    /// Drops a lane without entries.
    pub(super) fn drop_lane(&mut self, lane: u32) {
        self.lanes.remove(lane);
    }

    /// Begins the lane of a key, under a number that may have been in use before. Nothing of that time is left: every task
    /// that stood there changed since, so what the table has of it does not count.
    pub(super) fn begin_keyed(&mut self, lane: u32, on_disk: bool) {
        let number = (lane - KEYED_LANES) as usize;
        if self.keyed.len() <= number {
            self.keyed.resize_with(number + 1, Lane::default);
        }
        self.keyed[number] = Lane::new(on_disk);
    }

    fn lane(&self, lane: u32) -> &Lane {
        match lane.checked_sub(KEYED_LANES) {
            Some(number) => &self.keyed[number as usize],
            None if lane == ELAPSED_LANE => &self.elapsed,
            None => &self.lanes[lane as usize],
        }
    }

    fn lane_mut(&mut self, lane: u32) -> &mut Lane {
        match lane.checked_sub(KEYED_LANES) {
            Some(number) => &mut self.keyed[number as usize],
            None if lane == ELAPSED_LANE => &mut self.elapsed,
            None => &mut self.lanes[lane as usize],
        }
    }

    pub(super) fn insert(&mut self, lane: u32, place: Place, seq: u64) {
        let mut max = self.window_max();
        let mut state = match lane.checked_sub(KEYED_LANES) {
            Some(number) => &mut self.keyed[number as usize],
            None if lane == ELAPSED_LANE => &mut self.elapsed,
            None => &mut self.lanes[lane as usize],
        };
        if let Some(levels) = &mut state.levels {
            max = levels::window_max(max, levels.len());
            state = levels.entry(place.0).or_default();
        }
        if state.bound.is_some_and(|bound| place >= bound) {
            self.fresh.insert((lane, place.0, place.1), seq);
            return;
        }
        state.window.insert(place, seq);
        if state.window.len() > max {
            // Half goes, so that the next insert does not have to do it again.
            let keep =
                *state.window.keys().nth(max / 2).expect("the window is longer than half of its maximum");
            let tail = state.window.split_off(&keep);
            state.bound = Some(keep);
            // Whether these are in the table already does not matter: an entry found twice counts once.
            self.fresh.extend(tail.into_iter().map(|(place, seq)| ((lane, place.0, place.1), seq)));
        }
    }

    pub(super) fn remove(&mut self, lane: u32, place: Place) {
        let state = self.lane_mut(lane);
        let removed = match &mut state.levels {
            None => state.window.remove(&place),
            Some(levels) => levels::remove(levels, place),
        };
        if removed.is_none() {
            let key = (lane, place.0, place.1);
            self.fresh.remove(&key);
            self.freezing.remove(&key);
        }
    }

    /// The first entry of a lane.
    pub(super) fn first(&mut self, lane: u32, beyond: &Beyond<'_>) -> Result<Option<(Place, u64)>, Error> {
        if self.lane(lane).window.is_empty() {
            self.refill(lane, None, beyond)?;
        }
        Ok(self.lane(lane).window.first_key_value().map(|(place, seq)| (*place, *seq)))
    }

    /// The first entries of a lane that stand before `end`, at most `limit`, and the place of the one that follows.
    pub(super) fn range(
        &mut self,
        lane: u32,
        end: Place,
        limit: usize,
        beyond: &Beyond<'_>,
    ) -> Result<(Vec<u64>, Option<Place>), Error> {
        while self.lane(lane).window.len() < limit && self.lane(lane).bound.is_some_and(|bound| bound < end) {
            self.refill(lane, None, beyond)?;
        }
        let state = self.lane(lane);
        let found: Vec<u64> = state.window.range(..end).take(limit).map(|(_, seq)| *seq).collect();
        let next = state.window.iter().nth(found.len()).map(|(place, _)| *place).or(state.bound);
        Ok((found, next))
    }

    /// How many entries stand before `place`; `None` if it lies beyond the window.
    pub(super) fn rank(&self, lane: u32, place: Place) -> Option<u64> {
        let state = self.lane(lane);
        let window = match &state.levels {
            None => &state.window,
            Some(levels) => &levels.get(&place.0)?.window,
        };
        window.contains_key(&place).then(|| window.range(..place).count() as u64)
    }

    /// A checkpoint begins: what is fresh now will be in the table when it is done.
    pub(super) fn freeze(&mut self) {
        debug_assert!(self.freezing.is_empty(), "one checkpoint at a time");
        self.freezing = std::mem::take(&mut self.fresh);
    }

    /// The checkpoint is done. Returns what is to be dropped, for a thread with time to do it.
    pub(super) fn thaw(&mut self) -> Fresh {
        std::mem::take(&mut self.freezing)
    }

    /// Moves the next entries beyond the bound into the window: those of the table whose tasks have not changed,
    /// and the fresh ones, in order. Of one priority only, if the lane is kept by priority.
    fn refill(&mut self, lane: u32, level: Option<u64>, beyond: &Beyond<'_>) -> Result<(), Error> {
        let Some(state) = self.part(lane, level) else { return Ok(()) };
        let Some(bound) = state.bound else { return Ok(()) };
        let levels = self.lane(lane).levels.as_ref().map_or(1, |levels| levels.len());
        let max = levels::window_max(self.window_max(), levels).div_ceil(2);
        let keys = (lane, bound.0, bound.1)..=(lane, level.unwrap_or(u64::MAX), u64::MAX);
        let mut found: BTreeMap<Place, u64> = BTreeMap::new();
        for fresh in [&self.fresh, &self.freezing] {
            found.extend(fresh.first(keys.clone(), max + 1).map(|(key, seq)| ((key.1, key.2), seq)));
        }
        let mut from_table = 0;
        for entry in beyond.snapshot.order(keys)? {
            let (key, seq) = entry?;
            if (beyond.dirty)(seq) {
                continue;
            }
            found.insert((key.1, key.2), seq);
            from_table += 1;
            if from_table > max {
                break;
            }
        }
        let bound = found.keys().nth(max).copied();
        if let Some(bound) = bound {
            found.split_off(&bound);
        }
        for place in found.keys() {
            self.fresh.remove(&(lane, place.0, place.1));
            self.freezing.remove(&(lane, place.0, place.1));
        }
        if let Some(state) = self.part_mut(lane, level) {
            state.bound = bound;
            state.window.append(&mut found);
        }
        Ok(())
    }

    /// The lane, or the part of it that holds a priority.
    fn part(&self, lane: u32, level: Option<u64>) -> Option<&Lane> {
        match level {
            None => Some(self.lane(lane)),
            Some(level) => self.lane(lane).levels.as_ref()?.get(&level),
        }
    }

    fn part_mut(&mut self, lane: u32, level: Option<u64>) -> Option<&mut Lane> {
        match level {
            None => Some(self.lane_mut(lane)),
            Some(level) => self.lane_mut(lane).levels.as_mut()?.get_mut(&level),
        }
    }
}
