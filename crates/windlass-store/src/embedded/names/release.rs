//! Releasing queues and types that have no tasks.
//!
//! A queue and type without tasks hold nothing that `apply` looks at: their lane is empty, and so are the rounds of its keys, which end with
//! their last ready task. What outlives tasks is kept by name: limits and their windows, in the flow. The limit of names counts those with tasks. So it
//! makes no difference to any command whether a name was released before it, and a release needs no entry in the log: a
//! store that is opened again may have names that this one released, and releases them in its turn.

use windlass_core::sparse::shrink;

use super::{Lane, Names, Queue};
use crate::embedded::EmbeddedStore;
use crate::embedded::dirty::READY_LANES;
use crate::store::{Error, Released};
use crate::usage::Usage;

/// What was released.
#[derive(Debug, Default)]
pub(in crate::embedded) struct Dropped {
    pub(in crate::embedded) lanes: Vec<u32>,
    pub(in crate::embedded) queues: usize,
}

impl Names {
    /// A task came to a lane, or left it.
    pub(super) fn count_task(&mut self, number: u32, came: bool) {
        let lane = &mut self.lanes[number as usize];
        if came {
            self.used_lanes += usize::from(lane.usage.add());
        } else if lane.usage.remove() {
            self.used_lanes -= 1;
            self.crowded |= self.idle_lanes.note(number, &mut lane.usage);
        }
        self.note_lane(number);
    }

    /// A lane is to be written down.
    pub(super) fn note_lane(&mut self, number: u32) {
        if !std::mem::replace(&mut self.lanes[number as usize].changed, true) {
            self.changed_lanes.push(number);
        }
    }

    /// Looks whether a queue can be released from now on, because it is no longer paused or limited.
    pub(in crate::embedded) fn consider_queue(&mut self, number: u32) {
        let Some(queue) = self.queues.get_mut(number) else { return };
        if queue.usage.is_idle() {
            self.crowded |= self.idle_queues.note(number, &mut queue.usage);
        }
    }

    /// Whether so many names are idle since the last call that they should be released.
    pub(in crate::embedded) fn take_crowded(&mut self) -> bool {
        std::mem::take(&mut self.crowded)
    }

    /// Releases names that have had no tasks since the call before, or all of these if they are many.
    pub(in crate::embedded) fn release(&mut self) -> Dropped {
        let mut released = Dropped::default();
        for number in self.idle_lanes.sweep(&mut self.lanes) {
            self.drop_lane(number);
            released.lanes.push(READY_LANES + number);
        }
        for number in self.idle_queues.sweep(&mut self.queues) {
            let queue = &self.queues[number as usize];
            // One that is paused or limited is considered again when it no longer is.
            if queue.paused || !self.flow.drop_queue(number) {
                continue;
            }
            if let Some(queue) = self.queues.remove(number) {
                self.queue_numbers.remove(&queue.name);
                self.changed.insert(number);
                released.queues += 1;
            }
        }
        shrink(&mut self.queue_numbers);
        self.flow.shrink();
        released
    }

    fn drop_lane(&mut self, number: u32) {
        let Some(lane) = self.lanes.remove(number) else { return };
        self.flow.drop_lane(number);
        if !lane.changed {
            self.changed_lanes.push(number);
        }
        let queue = &mut self.queues[lane.queue as usize];
        queue.lanes.remove(&lane.kind);
        if queue.usage.remove() {
            queue.usage.release_soon();
            self.idle_queues.note(lane.queue, &mut queue.usage);
        }
        shrink(&mut queue.lanes);
    }

    /// How many names the next checkpoint writes or removes.
    pub(in crate::embedded) fn changed(&self) -> usize {
        self.changed.len() + self.changed_lanes.len()
    }
}

impl EmbeddedStore {
    /// Releases names without tasks from memory, and soon from the tables.
    pub(in crate::embedded) fn release_idle(&self) -> Result<Released, Error> {
        let released = self.with(|machine| Ok(machine.release_names()))?;
        if released.names > 0 {
            self.shared.bell.save_within(self.shared.limits.interval);
        }
        Ok(released)
    }
}

impl AsMut<Usage> for Lane {
    fn as_mut(&mut self) -> &mut Usage {
        &mut self.usage
    }
}

impl AsMut<Usage> for Queue {
    fn as_mut(&mut self) -> &mut Usage {
        &mut self.usage
    }
}
