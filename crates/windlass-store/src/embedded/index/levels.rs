//! A lane that is kept by priority.

use std::collections::BTreeMap;

use super::{Beyond, Fresh, Index, Lane, Place, WINDOW_ENTRIES_MIN};
use crate::store::Error;

/// Entries of the window of one priority, where the lane alone might have `max`.
pub(super) fn window_max(max: usize, levels: usize) -> usize {
    (max / levels.max(1)).max(WINDOW_ENTRIES_MIN.min(max))
}

pub(super) fn remove(levels: &mut BTreeMap<u64, Lane>, place: Place) -> Option<u64> {
    let level = levels.get_mut(&place.0)?;
    let removed = level.window.remove(&place);
    if level.window.is_empty() && level.bound.is_none() {
        levels.remove(&place.0);
    }
    removed
}

impl Index {
    /// From now on the lane is kept by priority.
    pub(in crate::embedded) fn split(&mut self, lane: u32, beyond: &Beyond<'_>) -> Result<(), Error> {
        if self.lane(lane).levels.is_some() {
            return Ok(());
        }
        let Lane { window, bound, .. } = std::mem::take(self.lane_mut(lane));
        let mut levels: BTreeMap<u64, Lane> = BTreeMap::new();
        for (place, seq) in window {
            levels.entry(place.0).or_default().window.insert(place, seq);
        }
        // Nothing is known of what lies beyond but that the window is complete below.
        let mut from = bound;
        while let Some(place) = from {
            let Some(level) = self.next_level(lane, place, beyond)? else { break };
            let bound = place.max((level, 0));
            levels.entry(level).or_default().bound = Some(bound);
            from = level.checked_add(1).map(|next| (next, 0));
        }
        self.lane_mut(lane).levels = Some(levels);
        Ok(())
    }

    /// The priority of the first entry at or beyond a place that is not in a window.
    fn next_level(&self, lane: u32, from: Place, beyond: &Beyond<'_>) -> Result<Option<u64>, Error> {
        let keys = (lane, from.0, from.1)..=(lane, u64::MAX, u64::MAX);
        let in_memory = |fresh: &Fresh| fresh.first(keys.clone(), 1).map(|((_, level, _), _)| level).min();
        let mut found = in_memory(&self.fresh).into_iter().chain(in_memory(&self.freezing)).min();
        for entry in beyond.snapshot.order(keys)? {
            let ((_, level, _), seq) = entry?;
            if found.is_some_and(|found| found <= level) {
                break;
            }
            if !(beyond.dirty)(seq) {
                found = Some(level);
                break;
            }
        }
        Ok(found)
    }

    /// The lane is one again: a window up to where the first of its parts is incomplete, and what memory has beyond that is fresh.
    pub(in crate::embedded) fn join(&mut self, lane: u32) {
        let Some(levels) = self.lane_mut(lane).levels.take() else { return };
        let mut joined = Lane::default();
        for (_, Lane { window, bound, .. }) in levels {
            if joined.bound.is_none() {
                joined.window.extend(window);
                joined.bound = bound;
            } else {
                self.fresh.extend(window.into_iter().map(|(place, seq)| ((lane, place.0, place.1), seq)));
            }
        }
        *self.lane_mut(lane) = joined;
    }

    /// The priorities that may have entries.
    pub(in crate::embedded) fn levels(&self, lane: u32) -> Vec<u64> {
        self.lane(lane).levels.iter().flat_map(|levels| levels.keys().copied()).collect()
    }

    /// The first entry of a priority.
    pub(in crate::embedded) fn first_at(
        &mut self,
        lane: u32,
        level: u64,
        beyond: &Beyond<'_>,
    ) -> Result<Option<(Place, u64)>, Error> {
        if self.part(lane, Some(level)).is_some_and(|part| part.window.is_empty()) {
            self.refill(lane, Some(level), beyond)?;
        }
        let part = self.part(lane, Some(level));
        let first = part.and_then(|part| part.window.first_key_value()).map(|(place, seq)| (*place, *seq));
        if first.is_none()
            && let Some(levels) = &mut self.lane_mut(lane).levels
        {
            levels.remove(&level);
        }
        Ok(first)
    }
}
