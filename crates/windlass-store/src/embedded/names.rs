//! Queues and types by number, with the counters of each queue, and the choice among its lanes, which is [`Flow`]'s.
//!
//! Lanes of ready tasks are numbered from [`READY_LANES`] on, those of keys from [`KEYED_LANES`] on. The former stay for good, since
//! tasks name their queue and type by them; the latter are used again when their key has no live task left there.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use parking_lot::RwLock;
use windlass_core::flow::{First, Flow, Next};
use windlass_core::limits::{LANES_MAX, SHARES_MAX};
use windlass_core::{Name, Priority, StateName};

use super::codec;
use super::dirty::READY_LANES;
use super::flow::Book;
use super::index::Place;
use super::tables::{LaneMessage, QueueMessage};
use crate::store::Error;

/// The first lane of ready tasks of a key.
pub(super) const KEYED_LANES: u32 = 1 << 31;

#[derive(Debug)]
pub(super) struct Names {
    pub(super) flow: Flow,
    queues: Vec<Queue>,
    queue_numbers: HashMap<Name, u32>,
    lanes: Vec<Lane>,
    lane_names: LaneNames,
    /// Lanes of each queue by type.
    lane_numbers: Vec<HashMap<Name, u32>>,
    /// Queues whose counters or pause changed since the last checkpoint.
    changed: BTreeSet<u32>,
    /// How many lanes the tables know.
    saved_lanes: usize,
    /// How many lanes there may be, and how many of keys.
    pub(super) bounds: (usize, usize),
}

impl Default for Names {
    fn default() -> Self {
        Self {
            flow: Flow::default(),
            queues: Vec::new(),
            queue_numbers: HashMap::default(),
            lanes: Vec::new(),
            lane_names: LaneNames::default(),
            lane_numbers: Vec::new(),
            changed: BTreeSet::new(),
            saved_lanes: 0,
            bounds: (LANES_MAX, SHARES_MAX),
        }
    }
}

/// Queue and type of every lane of ready tasks. It only grows, so that records can be read beside the state.
#[derive(Debug, Clone, Default)]
pub(super) struct LaneNames(Arc<RwLock<Vec<(Name, Name)>>>);

impl LaneNames {
    pub(super) fn get(&self, lane: u32) -> Option<(Name, Name)> {
        self.0.read().get(lane.checked_sub(READY_LANES)? as usize).cloned()
    }
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) name: Name,
    pub(super) paused: bool,
    pub(super) by_state: [u64; 8],
    pub(super) pending_by_class: [u64; 4],
}

#[derive(Debug)]
struct Lane {
    queue: u32,
    kind: Name,
}

impl Names {
    pub(super) fn load(
        queues: Vec<QueueMessage>,
        lanes: Vec<LaneMessage>,
        flow: Book,
    ) -> Result<Names, Error> {
        let damaged = |error: codec::Undecodable| Error::Damaged(error.to_string());
        let mut names = Names::default();
        for message in &queues {
            let number = names.add_queue(&codec::name(&message.name).map_err(damaged)?);
            let queue = &mut names.queues[number as usize];
            queue.paused = message.paused;
            for (slot, count) in queue.by_state.iter_mut().zip(&message.by_state) {
                *slot = *count;
            }
            for (slot, count) in queue.pending_by_class.iter_mut().zip(&message.pending_by_class) {
                *slot = *count;
            }
            let (waiting, running) = (queue.waiting(), queue.by_state[StateName::Running.index()]);
            names.flow.restore_queue(number, waiting, running);
        }
        for message in &lanes {
            if message.queue as usize >= names.queues.len() {
                return Err(Error::Damaged("a lane of a queue that does not exist".to_owned()));
            }
            names.add_lane(message.queue, &codec::name(&message.kind).map_err(damaged)?);
        }
        flow.restore(&mut names.flow, lanes.len(), queues.len())?;
        names.changed.clear();
        names.saved_lanes = names.lanes.len();
        Ok(names)
    }

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

    pub(super) fn queues(&self) -> impl Iterator<Item = (u32, &Queue)> {
        (0..).zip(&self.queues)
    }

    pub(super) fn lane_number(&self, queue: u32, kind: &Name) -> Option<u32> {
        self.lane_numbers[queue as usize].get(kind).copied()
    }

    pub(super) fn lane_count(&self) -> usize {
        self.lanes.len()
    }

    /// How many more lanes, and how many more lanes of keys, there may be.
    pub(super) fn room(&self) -> (usize, usize) {
        let (lanes, shares) = self.bounds;
        (lanes.saturating_sub(self.lanes.len()), shares.saturating_sub(self.flow.share_count()))
    }

    /// Queue and type of a lane.
    pub(super) fn of_lane(&self, lane: u32) -> Option<(&Name, &Name)> {
        let lane = self.lanes.get(lane.checked_sub(READY_LANES)? as usize)?;
        Some((&self.queues[lane.queue as usize].name, &lane.kind))
    }

    pub(super) fn lane_names(&self) -> LaneNames {
        self.lane_names.clone()
    }

    pub(super) fn queue_of_lane(&self, lane: u32) -> u32 {
        self.lanes[(lane - READY_LANES) as usize].queue
    }

    pub(super) fn add_queue(&mut self, name: &Name) -> u32 {
        if let Some(number) = self.queue_numbers.get(name) {
            return *number;
        }
        let number = self.queues.len() as u32;
        self.queue_numbers.insert(name.clone(), number);
        self.queues.push(Queue {
            name: name.clone(),
            paused: false,
            by_state: [0; 8],
            pending_by_class: [0; 4],
        });
        self.flow.add_queue(name);
        self.lane_numbers.push(HashMap::new());
        self.changed.insert(number);
        number
    }

    pub(super) fn add_lane(&mut self, queue: u32, kind: &Name) -> u32 {
        let number = READY_LANES + self.lanes.len() as u32;
        self.lanes.push(Lane { queue, kind: kind.clone() });
        self.flow.add_lane(queue, kind);
        self.lane_names.0.write().push((self.queues[queue as usize].name.clone(), kind.clone()));
        self.lane_numbers[queue as usize].insert(kind.clone(), number);
        number
    }

    /// Moves a task from one state to another in the counters; `None` is outside.
    pub(super) fn count(
        &mut self,
        queue: u32,
        priority: Priority,
        from: Option<StateName>,
        to: Option<StateName>,
    ) {
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
        let whole = (READY_LANES..).zip(&self.lanes).filter(|(_, lane)| lane.queue == queue);
        let of_queue = |share: &u32| self.lanes[self.flow.of_share(*share).0 as usize].queue == queue;
        let keyed = self.flow.share_numbers().filter(of_queue).map(|share| KEYED_LANES + share);
        whole.map(|(number, _)| number).chain(keyed).collect()
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
        let queue = self.queue_of_lane(lane);
        !self.queue(queue).paused && self.flow.best(queue, Some(&[lane - READY_LANES])).is_some()
    }

    /// What the tables do not know yet.
    pub(super) fn freeze(&mut self) -> Changed {
        let queue = |number: u32| {
            let queue = &self.queues[number as usize];
            let message = QueueMessage {
                name: queue.name.as_str().to_owned(),
                paused: queue.paused,
                by_state: queue.by_state.to_vec(),
                pending_by_class: queue.pending_by_class.to_vec(),
            };
            (number, message)
        };
        let lane = |(number, lane): (u32, &Lane)| {
            (number, LaneMessage { queue: lane.queue, kind: lane.kind.as_str().to_owned() })
        };
        let queues = std::mem::take(&mut self.changed).into_iter().map(queue).collect();
        let first = self.saved_lanes;
        let lanes = (first as u32..).zip(&self.lanes[first..]).map(lane).collect();
        self.saved_lanes = self.lanes.len();
        Changed { queues, lanes }
    }
}

impl Queue {
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

#[derive(Debug)]
pub(super) struct Changed {
    pub(super) queues: Vec<(u32, QueueMessage)>,
    /// By their place in the list of lanes of ready tasks.
    pub(super) lanes: Vec<(u32, LaneMessage)>,
}
