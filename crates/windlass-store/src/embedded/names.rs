//! Queues and types by number, with the counters of each queue, and the choice among its lanes, which is [`Flow`]'s.
//!
//! Lanes of ready tasks are numbered from [`READY_LANES`] on, those of keys from [`KEYED_LANES`] on. Numbers are used again: those of the former
//! when the queue and type were released (`release`), those of the latter when their key has no live task left there. So a number means
//! something only together with the state or the snapshot that it comes from. The log names queues and types in words.

mod release;
mod saved;

use std::collections::BTreeSet;

use foldhash::{HashMap, HashMapExt};
use windlass_core::flow::{First, Flow, Next};
use windlass_core::limits::{LANES_MAX, SHARES_MAX};
use windlass_core::{Name, Priority, Sparse, StateName};

use super::dirty::READY_LANES;
use super::index::Place;
use crate::usage::{Idle, Usage};
pub(super) use release::Dropped;
pub(super) use saved::Changed;

/// The first lane of ready tasks of a key.
pub(super) const KEYED_LANES: u32 = 1 << 31;

#[derive(Debug)]
pub(super) struct Names {
    pub(super) flow: Flow,
    queues: Sparse<Queue>,
    queue_numbers: HashMap<Name, u32>,
    lanes: Sparse<Lane>,
    /// How many lanes have tasks.
    used_lanes: usize,
    idle_lanes: Idle,
    idle_queues: Idle,
    /// Names became idle, and are many.
    crowded: bool,
    /// Queues whose counters or pause changed since the last checkpoint, and those that were released.
    changed: BTreeSet<u32>,
    /// Lanes whose count changed, and those that were released.
    changed_lanes: Vec<u32>,
    /// How many lanes may have tasks, and how many lanes of keys there may be.
    pub(super) bounds: (usize, usize),
}

impl Default for Names {
    fn default() -> Self {
        Self {
            flow: Flow::default(),
            queues: Sparse::default(),
            queue_numbers: HashMap::default(),
            lanes: Sparse::default(),
            used_lanes: 0,
            idle_lanes: Idle::default(),
            idle_queues: Idle::default(),
            crowded: false,
            changed: BTreeSet::new(),
            changed_lanes: Vec::new(),
            bounds: (LANES_MAX, SHARES_MAX),
        }
    }
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) name: Name,
    pub(super) paused: bool,
    pub(super) by_state: [u64; 8],
    pub(super) pending_by_class: [u64; 4],
    /// Its lanes by type.
    lanes: HashMap<Name, u32>,
    /// How many lanes it has.
    usage: Usage,
}

#[derive(Debug)]
struct Lane {
    queue: u32,
    kind: Name,
    /// How many tasks it has, finished ones too.
    usage: Usage,
    /// It is in the list of what changed.
    changed: bool,
}

impl Names {
    pub(super) fn queue_number(&self, name: &Name) -> Option<u32> {
        self.queue_numbers.get(name).copied()
    }

    pub(super) fn queue(&self, number: u32) -> &Queue {
        &self.queues[number as usize]
    }

    pub(super) fn queue_mut(&mut self, number: u32) -> &mut Queue {
        self.changed.insert(number);
        &mut self.queues[number as usize]
    }

    pub(super) fn find_queue(&self, number: u32) -> Option<&Queue> {
        self.queues.get(number)
    }

    pub(super) fn queues(&self) -> impl Iterator<Item = (u32, &Queue)> {
        self.queues.iter()
    }

    pub(super) fn lane_number(&self, queue: u32, kind: &Name) -> Option<u32> {
        self.queues[queue as usize].lanes.get(kind).copied()
    }

    /// Whether a queue and type have tasks. One without any does not count towards the limit, so it makes no difference to an answer
    /// whether it was released.
    pub(super) fn has_tasks(&self, queue: &Name, kind: &Name) -> bool {
        let lane = self.queue_number(queue).and_then(|queue| self.lane_number(queue, kind));
        lane.is_some_and(|lane| !self.lanes[(lane - READY_LANES) as usize].usage.is_idle())
    }

    pub(super) fn lane_numbers(&self) -> impl Iterator<Item = u32> {
        self.lanes.iter().map(|(number, _)| READY_LANES + number)
    }

    /// How many more lanes may have tasks, and how many more lanes of keys there may be.
    pub(super) fn room(&self) -> (usize, usize) {
        let (lanes, shares) = self.bounds;
        (lanes.saturating_sub(self.used_lanes), shares.saturating_sub(self.flow.share_count()))
    }

    /// Queue and type of a lane.
    pub(super) fn of_lane(&self, lane: u32) -> Option<(&Name, &Name)> {
        let lane = self.lanes.get(lane.checked_sub(READY_LANES)?)?;
        Some((&self.queues[lane.queue as usize].name, &lane.kind))
    }

    pub(super) fn queue_of_lane(&self, lane: u32) -> u32 {
        self.lanes[(lane - READY_LANES) as usize].queue
    }

    pub(super) fn add_queue(&mut self, name: &Name) -> u32 {
        if let Some(number) = self.queue_numbers.get(name) {
            return *number;
        }
        let number = self.queues.add(Queue::new(name));
        self.queue_added(number);
        self.changed.insert(number);
        number
    }

    fn queue_added(&mut self, number: u32) {
        let name = &self.queues[number as usize].name;
        self.queue_numbers.insert(name.clone(), number);
        self.flow.add_queue(number, name);
    }

    pub(super) fn add_lane(&mut self, queue: u32, kind: &Name) -> u32 {
        let lane = Lane { queue, kind: kind.clone(), usage: Usage::default(), changed: false };
        let number = self.lanes.add(lane);
        self.lane_added(number);
        READY_LANES + number
    }

    fn lane_added(&mut self, number: u32) {
        let Lane { queue, kind, .. } = &self.lanes[number as usize];
        let of_queue = &mut self.queues[*queue as usize];
        of_queue.lanes.insert(kind.clone(), READY_LANES + number);
        of_queue.usage.add();
        self.flow.add_lane(number, *queue, kind);
    }

    /// Moves a task of a lane from one state to another in the counters; `None` is outside.
    pub(super) fn count(
        &mut self,
        lane: u32,
        priority: Priority,
        from: Option<StateName>,
        to: Option<StateName>,
    ) {
        if from.is_none() || to.is_none() {
            self.count_task(lane - READY_LANES, to.is_some());
        }
        let queue = self.queue_of_lane(lane);
        let queue = self.queue_mut(queue);
        let class = priority.class() as usize;
        if let Some(state) = from {
            queue.by_state[state.index()] -= 1;
            queue.pending_by_class[class] -= u64::from(state == StateName::Pending);
        }
        if let Some(state) = to {
            queue.by_state[state.index()] += 1;
            queue.pending_by_class[class] += u64::from(state == StateName::Pending);
        }
    }

    pub(super) fn head(&self, lane: u32) -> Option<Place> {
        match share_of(lane) {
            Some(share) => self.flow.share_head(share),
            None => self.flow.head(lane - READY_LANES),
        }
    }

    /// The number in line of the first task of a priority; of the first of all, where the queue does not age and it has this priority.
    pub(super) fn first(&self, lane: u32, priority: u64) -> Option<u64> {
        match share_of(lane) {
            Some(share) => self.flow.share_first(share, priority),
            None => self.flow.first(lane - READY_LANES, priority),
        }
    }

    pub(super) fn set_first(&mut self, lane: u32, priority: u64, first: Option<First>) {
        match share_of(lane) {
            Some(share) => self.flow.set_share_first(share, priority, first),
            None => self.flow.set_first(lane - READY_LANES, priority, first),
        }
    }

    /// Whether the queue of a lane ages.
    pub(super) fn ages(&self, lane: u32) -> bool {
        self.flow.has_ageing() && self.flow.ages(self.whole_lane(lane) - READY_LANES)
    }

    /// The lanes of a queue, those of keys too.
    pub(super) fn lanes_of(&self, queue: u32) -> Vec<u32> {
        let of_queue = |share: &u32| self.lanes[self.flow.of_share(*share).0 as usize].queue == queue;
        let keyed = self.flow.share_numbers().filter(of_queue).map(|share| KEYED_LANES + share);
        let mut lanes: Vec<u32> = self.queues[queue as usize].lanes.values().copied().chain(keyed).collect();
        lanes.sort_unstable();
        lanes
    }

    pub(super) fn set_head(&mut self, lane: u32, head: Option<Place>) {
        match share_of(lane) {
            Some(share) => self.flow.set_share_head(share, head),
            None => self.flow.set_head(lane - READY_LANES, head),
        }
    }

    /// The lane of the queue and type of a lane, which may be that of a key.
    pub(super) fn whole_lane(&self, lane: u32) -> u32 {
        share_of(lane).map_or(lane, |share| READY_LANES + self.flow.of_share(share).0)
    }

    /// Whether a task of this queue and type could be claimed.
    pub(super) fn is_open(&self, lane: u32) -> bool {
        let Some(queue) = self.lanes.get(lane - READY_LANES).map(|lane| lane.queue) else { return false };
        !self.queue(queue).paused && self.flow.best(queue, Some(&[lane - READY_LANES])).is_some()
    }
}

impl Queue {
    fn new(name: &Name) -> Self {
        Self {
            name: name.clone(),
            paused: false,
            by_state: [0; 8],
            pending_by_class: [0; 4],
            lanes: HashMap::new(),
            usage: Usage::default(),
        }
    }

    /// Tasks that wait for whatever reason: what a depth counts.
    pub(super) fn waiting(&self) -> u64 {
        [StateName::Scheduled, StateName::Blocked, StateName::Pending, StateName::Retrying]
            .into_iter()
            .map(|state| self.by_state[state.index()])
            .sum()
    }
}

/// The share whose lane this is.
pub(super) fn share_of(lane: u32) -> Option<u32> {
    lane.checked_sub(KEYED_LANES)
}

/// Where the chosen task stands.
pub(super) fn lane_of(next: &Next) -> u32 {
    next.share.map_or(READY_LANES + next.lane, |share| KEYED_LANES + share)
}
