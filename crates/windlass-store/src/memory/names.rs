//! Queues and types by number, and releasing those without tasks.

use std::collections::HashMap;

use windlass_core::flow::Flow;
use windlass_core::limits::NAMES_RELEASED_MAX;
use windlass_core::sparse::shrink;
use windlass_core::{Name, Sparse};

use super::tables::Tables;
use crate::store::Released;
use crate::usage::{Idle, Usage};

#[derive(Debug, Default)]
pub(super) struct Names {
    queues: Sparse<Queue>,
    queue_numbers: HashMap<Name, u32>,
    lanes: Sparse<Lane>,
    lane_numbers: HashMap<(u32, Name), u32>,
    idle_queues: Idle,
    idle_lanes: Idle,
    /// Names became idle, and are many.
    crowded: bool,
}

#[derive(Debug)]
struct Queue {
    name: Name,
    /// How many lanes it has.
    usage: Usage,
}

/// A queue and type.
#[derive(Debug)]
struct Lane {
    queue: u32,
    kind: Name,
    /// How many tasks it has, finished ones too.
    usage: Usage,
}

impl Names {
    pub(super) fn add_queue(&mut self, name: &Name, flow: &mut Flow) {
        let number = self.queues.add(Queue { name: name.clone(), usage: Usage::default() });
        self.queue_numbers.insert(name.clone(), number);
        flow.add_queue(number, name);
    }

    pub(super) fn queue(&self, name: &Name) -> Option<u32> {
        self.queue_numbers.get(name).copied()
    }

    pub(super) fn find_lane(&self, queue: u32, kind: &Name) -> Option<u32> {
        self.lane_numbers.get(&(queue, kind.clone())).copied()
    }

    /// The lane of a queue that is there, made if it is new.
    pub(super) fn lane(&mut self, queue: &Name, kind: &Name, flow: &mut Flow) -> u32 {
        let queue = self.queue_numbers[queue];
        if let Some(number) = self.find_lane(queue, kind) {
            return number;
        }
        let number = self.lanes.add(Lane { queue, kind: kind.clone(), usage: Usage::default() });
        self.lane_numbers.insert((queue, kind.clone()), number);
        self.queues[queue as usize].usage.add();
        flow.add_lane(number, queue, kind);
        number
    }

    /// Queue and type of a lane.
    pub(super) fn of_lane(&self, lane: u32) -> Option<(Name, Name)> {
        let lane = self.lanes.get(lane)?;
        Some((self.queues[lane.queue as usize].name.clone(), lane.kind.clone()))
    }

    /// Every lane of a queue, by queue and type.
    pub(super) fn lanes_of(&self, queue: u32) -> Vec<(Name, Name)> {
        let of_queue = self.lanes.iter().filter(|(_, lane)| lane.queue == queue);
        of_queue.filter_map(|(number, _)| self.of_lane(number)).collect()
    }

    pub(super) fn task_came(&mut self, lane: u32) {
        self.lanes[lane as usize].usage.add();
    }

    pub(super) fn task_left(&mut self, lane: u32) {
        let usage = &mut self.lanes[lane as usize].usage;
        if usage.remove() {
            self.crowded |= self.idle_lanes.note(lane, usage);
        }
    }

    /// Looks whether a queue can be released from now on, because it is no longer paused or limited.
    pub(super) fn consider_queue(&mut self, name: &Name) {
        let Some(number) = self.queue(name) else { return };
        let usage = &mut self.queues[number as usize].usage;
        if usage.is_idle() {
            self.crowded |= self.idle_queues.note(number, usage);
        }
    }

    /// Releases types without tasks. Returns how many, and the queues that may be released too.
    fn release(&mut self, flow: &mut Flow) -> (usize, Vec<(u32, Name)>) {
        let lanes = self.idle_lanes.sweep(&mut self.lanes);
        for number in &lanes {
            let Some(lane) = self.lanes.remove(*number) else { continue };
            flow.drop_lane(*number);
            self.lane_numbers.remove(&(lane.queue, lane.kind));
            let usage = &mut self.queues[lane.queue as usize].usage;
            if usage.remove() {
                usage.release_soon();
                self.idle_queues.note(lane.queue, usage);
            }
        }
        let queues = self.idle_queues.sweep(&mut self.queues);
        shrink(&mut self.lane_numbers);
        let named = |number: u32| (number, self.queues[number as usize].name.clone());
        (lanes.len(), queues.into_iter().map(named).collect())
    }
}

impl Tables {
    /// Releases names that have had no tasks since the call before.
    pub(super) fn release_names(&mut self) -> Released {
        let ready = &mut self.ready;
        let (mut names, idle) = ready.names.release(&mut ready.flow);
        let more = names.max(idle.len()) >= NAMES_RELEASED_MAX;
        for (number, name) in idle {
            // One that is paused or limited is considered again when it no longer is.
            let paused = self.queues.get(&name).is_some_and(|queue| queue.counts.paused);
            if paused || !ready.flow.drop_queue(number) {
                continue;
            }
            ready.names.queues.remove(number);
            ready.names.queue_numbers.remove(&name);
            self.queues.remove(&name);
            names += 1;
        }
        shrink(&mut ready.names.queue_numbers);
        ready.flow.shrink();
        Released { names, more }
    }

    /// Wakes the loop that releases names if many have no tasks any more.
    pub(super) fn tell_names(&mut self) {
        if std::mem::take(&mut self.ready.names.crowded) {
            self.signals.names.notify_one();
        }
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
