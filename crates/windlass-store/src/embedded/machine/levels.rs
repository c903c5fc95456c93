//! Lanes of queues that age: what is shown of them is the first task of each priority.

use windlass_core::flow::First;

use super::{Machine, missing};
use crate::embedded::index::Beyond;
use crate::store::Error;

impl Machine {
    /// Keeps a lane by priority if its queue ages, and shows the first task of each.
    pub(super) fn split_lane(&mut self, lane: u32) -> Result<(), Error> {
        if !self.names.ages(lane) {
            return Ok(());
        }
        let dirty = |seq| self.dirty.contains(seq);
        self.index.split(lane, &Beyond { snapshot: &self.snapshot, dirty: &dirty })?;
        for level in self.index.levels(lane) {
            self.refresh_first(lane, level)?;
        }
        Ok(())
    }

    /// A queue begins or ceases to age.
    pub(super) fn set_ageing(&mut self, queue: u32, ages: bool) -> Result<(), Error> {
        for lane in self.names.lanes_of(queue) {
            if ages {
                self.split_lane(lane)?;
            } else {
                self.index.join(lane);
            }
        }
        Ok(())
    }

    pub(super) fn refresh_first(&mut self, lane: u32, level: u64) -> Result<(), Error> {
        let dirty = |seq| self.dirty.contains(seq);
        let first = self.index.first_at(lane, level, &Beyond { snapshot: &self.snapshot, dirty: &dirty })?;
        let first = match first {
            Some(((_, order), seq)) => Some(First { order, ready_at: self.ready_at(seq)? }),
            None => None,
        };
        self.names.set_first(lane, level, first);
        Ok(())
    }

    pub(super) fn ready_at(&self, seq: u64) -> Result<u64, Error> {
        match self.dirty.get(seq) {
            Some(slot) => Ok(slot.record.ready_at),
            None => self.stored(seq)?.map(|loaded| loaded.record.ready_at).ok_or_else(|| missing(seq)),
        }
    }
}
