//! Putting a task into another queue, or at another priority.

use std::collections::HashSet;

use windlass_core::flow::load;
use windlass_core::{Change, Name, Priority, Record, Transition};

use super::Machine;
use crate::embedded::dirty::{Keys, READY_LANES};
use crate::embedded::names::share_of;
use crate::store::Error;

/// Where a task was before.
#[derive(Debug)]
pub(super) struct Located {
    pub(super) lane: u32,
    pub(super) home: u32,
    pub(super) queue: u32,
    pub(super) priority: Priority,
    pub(super) keys: Keys,
}

impl Machine {
    /// Whether there is a lane for every task that moves or comes back, or room to make it.
    pub(super) fn has_lanes_for(&self, transitions: &[Transition]) -> Result<bool, Error> {
        let placed = |change: &Change| matches!(change, Change::Moved { .. } | Change::Requeued { .. });
        let (lanes, shares) = self.names.room();
        if transitions.len() <= lanes.min(shares) || !transitions.iter().any(|it| placed(&it.change)) {
            return Ok(true);
        }
        let (mut new_lanes, mut new_shares) = (HashSet::new(), HashSet::new());
        for transition in transitions.iter().filter(|it| placed(&it.change)) {
            let Some(record) = self.record(transition.seq)? else { continue };
            let queue = match &transition.change {
                Change::Moved { queue, .. } => queue.clone(),
                _ => record.queue,
            };
            let number = self.names.queue_number(&queue);
            let lane = number.and_then(|number| self.names.lane_number(number, &record.kind));
            if !self.names.has_tasks(&queue, &record.kind) {
                new_lanes.insert((queue.clone(), record.kind.clone()));
            }
            let Some(key) = record.key else { continue };
            if lane.is_none_or(|lane| self.names.flow.find_share(lane - READY_LANES, &key).is_none()) {
                new_shares.insert((queue, record.kind, key));
            }
        }
        Ok(new_lanes.len() <= lanes && new_shares.len() <= shares)
    }

    /// Takes a task out where it was and puts it in where its record says that it is now, in the counters too.
    pub(super) fn relocate(&mut self, record: &Record, was: Located) -> Result<(), Error> {
        let (seq, state) = (record.seq, record.state_name());
        let lane = self.lane_of(&record.queue, &record.kind)?;
        let queue = self.names.queue_of_lane(lane);
        let shared = self.names.of_lane(lane).map(|(queue, _)| queue.clone());
        if let Some(slot) = self.dirty.active_mut(seq) {
            // Long names are shared with the queue, as at submit.
            slot.record.queue = shared.unwrap_or_else(|| record.queue.clone());
            if lane != was.lane {
                slot.moved_from.get_or_insert_with(|| Box::new((was.lane, was.queue)));
            }
            (slot.lane, slot.queue) = (lane, queue);
        }
        self.names.count(was.lane, was.priority, Some(state), None);
        self.names.count(lane, record.priority, None, Some(state));
        self.reindex(seq, Some(was.keys), None)?;
        let home = if lane == was.lane { was.home } else { self.move_house(record, lane, &was)? };
        if let Some(slot) = self.dirty.active_mut(seq) {
            slot.home = home;
        }
        self.reindex(seq, None, Some(Keys::of(record, home)))
    }

    /// Counts a task in another lane than before, and says where it stands there.
    fn move_house(&mut self, record: &Record, lane: u32, was: &Located) -> Result<u32, Error> {
        let Some(load) = load(record.state_name()) else { return Ok(lane) };
        let share = |home: u32| record.key.as_ref().and_then(|_| share_of(home));
        self.names.flow.count(was.lane - READY_LANES, share(was.home), Some(load), None);
        let home = match &record.key {
            Some(key) => self.keyed_lane(lane, key)?,
            None => lane,
        };
        self.names.flow.count(lane - READY_LANES, share(home), None, Some(load));
        Ok(home)
    }

    /// The lane of a queue and type, made if it is new.
    pub(super) fn lane_of(&mut self, queue: &Name, kind: &Name) -> Result<u32, Error> {
        let queue = self.names.add_queue(queue);
        if let Some(lane) = self.names.lane_number(queue, kind) {
            return Ok(lane);
        }
        let lane = self.names.add_lane(queue, kind);
        self.index.add_lane(lane, false);
        self.split_lane(lane)?;
        Ok(lane)
    }
}
