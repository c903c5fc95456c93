//! Keeping the orders, the heads of the lanes and the loops' deadlines in step with a task.

use windlass_core::Wakes;
use windlass_core::flow::First;

use super::Machine;
use crate::embedded::dirty::{ELAPSED_LANE, Keys, PRUNE_LANE, TELL_LANE, WAKE_LANE, tell_place};
use crate::embedded::index::{Beyond, Place};
use crate::store::Error;

impl Machine {
    /// Moves the index entries of a task; `None` is outside.
    pub(super) fn reindex(
        &mut self,
        seq: u64,
        before: Option<Keys>,
        after: Option<Keys>,
    ) -> Result<(), Error> {
        let old = |key: fn(&Keys) -> Option<Place>| before.as_ref().and_then(key);
        let new = |key: fn(&Keys) -> Option<Place>| after.as_ref().and_then(key);
        let stood = before.as_ref().and_then(|keys| keys.ready);
        let stands = after.as_ref().and_then(|keys| keys.ready);
        if stood != stands {
            self.move_ready(seq, stood, stands)?;
        }
        type Entry = (u32, fn(&Keys) -> Option<Place>);
        let entries: [Entry; 3] = [
            (WAKE_LANE, |keys| keys.wake),
            (ELAPSED_LANE, |keys| keys.elapsed),
            (PRUNE_LANE, |keys| keys.prune),
        ];
        for (lane, key) in entries {
            let (old, new) = (old(key), new(key));
            if old == new {
                continue;
            }
            if let Some(place) = old {
                self.index.remove(lane, place);
            }
            if let Some(place) = new {
                self.index.insert(lane, place, seq);
            }
        }
        match (before.is_some_and(|keys| keys.tells), after.is_some_and(|keys| keys.tells)) {
            (false, true) => {
                self.index.insert(TELL_LANE, tell_place(seq), seq);
                self.signals.dependents.notify_one();
            }
            (true, false) => self.index.remove(TELL_LANE, tell_place(seq)),
            _ => {}
        }
        let at = |key| new(key).map(|(at, _)| at);
        let wakes = Wakes { wall: at(|keys| keys.wake), elapsed: at(|keys| keys.elapsed) };
        self.nearer(wakes, at(|keys| keys.prune));
        Ok(())
    }

    fn move_ready(
        &mut self,
        seq: u64,
        old: Option<(u32, Place)>,
        new: Option<(u32, Place)>,
    ) -> Result<(), Error> {
        if let Some((lane, place)) = old {
            self.index.remove(lane, place);
            if self.names.first(lane, place.0) == Some(place.1) {
                if self.names.ages(lane) {
                    self.refresh_first(lane, place.0)?;
                } else {
                    self.refresh_head(lane)?;
                }
            }
        }
        if let Some((lane, place)) = new {
            self.index.insert(lane, place, seq);
            self.gained.push(self.names.whole_lane(lane));
            if self.names.ages(lane) {
                if self.names.first(lane, place.0).is_none_or(|first| place.1 < first) {
                    let first = First { order: place.1, ready_at: self.ready_at(seq)? };
                    self.names.set_first(lane, place.0, Some(first));
                }
            } else if self.names.head(lane).is_none_or(|head| place < head) {
                self.names.set_head(lane, Some(place));
            }
        }
        Ok(())
    }

    pub(super) fn refresh_head(&mut self, lane: u32) -> Result<(), Error> {
        let dirty = |seq| self.dirty.contains(seq);
        let head = self.index.first(lane, &Beyond { snapshot: &self.snapshot, dirty: &dirty })?;
        self.names.set_head(lane, head.map(|(place, _)| place));
        Ok(())
    }

    /// Wakes the loop that waits for something later than what was just stored.
    fn nearer(&mut self, wakes: Wakes, prune: Option<u64>) {
        let earlier = |at: Option<u64>, awaited: &mut Option<u64>| match (at, *awaited) {
            (Some(at), awaited_at) if awaited_at.is_none_or(|awaited_at| at < awaited_at) => {
                *awaited = Some(at);
                true
            }
            _ => false,
        };
        let wall = earlier(wakes.wall, &mut self.awaited_wakes.wall);
        if earlier(wakes.elapsed, &mut self.awaited_wakes.elapsed) || wall {
            self.signals.due.notify_one();
        }
        if earlier(prune, &mut self.awaited_prune) {
            self.signals.prunable.notify_one();
        }
    }
}
