//! Names in the tables of a checkpoint.

use std::collections::HashMap;

use windlass_core::limits::NAMES_IDLE_MAX;
use windlass_core::{Name, StateName};

use super::{Lane, Names, Queue};
use crate::embedded::codec;
use crate::embedded::flow::Book;
use crate::embedded::tables::{LaneMessage, QueueMessage};
use crate::store::Error;
use crate::usage::Usage;

/// What the tables do not know yet; `None` for a name that was released.
#[derive(Debug)]
pub(in crate::embedded) struct Changed {
    pub(in crate::embedded) queues: Vec<(u32, Option<QueueMessage>)>,
    /// By their place in the list of lanes of ready tasks.
    pub(in crate::embedded) lanes: Vec<(u32, Option<LaneMessage>)>,
}

impl Names {
    /// `count` tells how many tasks each lane has. It is asked if the tables were written by a version that did not keep it.
    pub(in crate::embedded) fn load(
        queues: &[(u32, QueueMessage)],
        mut lanes: Vec<(u32, LaneMessage)>,
        flow: Book,
        count: impl FnOnce() -> Result<HashMap<u32, u64>, Error>,
    ) -> Result<Names, Error> {
        let mut names = Names::default();
        if lanes.iter().any(|(_, lane)| lane.tasks.is_none()) || !add_up(queues, &lanes) {
            let counts = count()?;
            for (number, lane) in &mut lanes {
                lane.tasks = Some(counts.get(number).copied().unwrap_or(0));
                names.changed_lanes.push(*number);
            }
            // A row that is lost shows by the tasks that it had.
            if !add_up(queues, &lanes) {
                return Err(Error::Damaged("the tasks of a queue are not those of its types".to_owned()));
            }
        }
        // Names without tasks that are many are not even loaded.
        let is_idle = |lane: &LaneMessage| lane.tasks == Some(0);
        let unused = |queue: &QueueMessage| !queue.paused && queue.by_state.iter().sum::<u64>() == 0;
        let idle_lanes = lanes.iter().filter(|(_, lane)| is_idle(lane)).count();
        let idle_queues = queues.iter().filter(|(_, queue)| unused(queue)).count();
        let crowded = idle_lanes.max(idle_queues) > NAMES_IDLE_MAX;
        let limited = flow.limited_queues();
        for (number, message) in queues {
            let name = codec::name(&message.name).map_err(damaged)?;
            if crowded && unused(message) && !limited.contains(&name) {
                names.changed.insert(*number);
            } else {
                names.load_queue(*number, &name, message);
            }
        }
        for (number, message) in &lanes {
            if crowded && is_idle(message) {
                names.changed_lanes.push(*number);
            } else {
                names.load_lane(*number, message)?;
            }
        }
        flow.restore(&mut names.flow)?;
        names.note_idle();
        Ok(names)
    }

    fn load_queue(&mut self, number: u32, name: &Name, message: &QueueMessage) {
        let mut queue = Queue { paused: message.paused, ..Queue::new(name) };
        for (slot, count) in queue.by_state.iter_mut().zip(&message.by_state) {
            *slot = *count;
        }
        for (slot, count) in queue.pending_by_class.iter_mut().zip(&message.pending_by_class) {
            *slot = *count;
        }
        let (waiting, running) = (queue.waiting(), queue.by_state[StateName::Running.index()]);
        self.queues.put(number, queue);
        self.queue_added(number);
        self.flow.restore_queue(number, waiting, running);
    }

    fn load_lane(&mut self, number: u32, message: &LaneMessage) -> Result<(), Error> {
        let LaneMessage { queue, kind, tasks } = message;
        if self.queues.get(*queue).is_none() {
            return Err(Error::Damaged("a lane of a queue that does not exist".to_owned()));
        }
        let usage = Usage::restore(tasks.unwrap_or(0));
        self.used_lanes += usize::from(!usage.is_idle());
        let kind = codec::name(kind).map_err(damaged)?;
        self.lanes.put(number, Lane { queue: *queue, kind, usage, changed: false });
        self.lane_added(number);
        Ok(())
    }

    fn note_idle(&mut self) {
        let idle = self.lanes.iter().filter(|(_, lane)| lane.usage.is_idle());
        for number in idle.map(|(number, _)| number).collect::<Vec<_>>() {
            self.crowded |= self.idle_lanes.note(number, &mut self.lanes[number as usize].usage);
        }
        for number in self.queues.iter().map(|(number, _)| number).collect::<Vec<_>>() {
            self.consider_queue(number);
        }
    }

    /// Takes what the tables do not know yet.
    pub(in crate::embedded) fn freeze(&mut self) -> Changed {
        let queue = |number: u32| {
            let message = self.queues.get(number).map(|queue| QueueMessage {
                name: queue.name.as_str().to_owned(),
                paused: queue.paused,
                by_state: queue.by_state.to_vec(),
                pending_by_class: queue.pending_by_class.to_vec(),
            });
            (number, message)
        };
        let queues = std::mem::take(&mut self.changed).into_iter().map(queue).collect();
        let mut numbers = std::mem::take(&mut self.changed_lanes);
        numbers.sort_unstable();
        numbers.dedup();
        let lanes = numbers.into_iter().map(|number| (number, self.freeze_lane(number))).collect();
        Changed { queues, lanes }
    }

    fn freeze_lane(&mut self, number: u32) -> Option<LaneMessage> {
        let lane = self.lanes.get_mut(number)?;
        lane.changed = false;
        let (kind, tasks) = (lane.kind.as_str().to_owned(), lane.usage.count());
        Some(LaneMessage { queue: lane.queue, kind, tasks: Some(tasks) })
    }
}

/// Whether the tasks of every queue are those of its lanes.
fn add_up(queues: &[(u32, QueueMessage)], lanes: &[(u32, LaneMessage)]) -> bool {
    let mut tasks: HashMap<u32, u64> = HashMap::new();
    for (_, lane) in lanes {
        *tasks.entry(lane.queue).or_default() += lane.tasks.unwrap_or(0);
    }
    let counted = |number: &u32| tasks.get(number).copied().unwrap_or(0);
    queues.iter().all(|(number, queue)| queue.by_state.iter().sum::<u64>() == counted(number))
}

fn damaged(error: codec::Undecodable) -> Error {
    Error::Damaged(error.to_string())
}
