//! Which lanes got ready tasks, for those who wait for one.

use std::collections::HashMap;

use windlass_core::Name;

use super::Machine;
use crate::embedded::dirty::READY_LANES;

/// What those who wait may hope for.
#[derive(Debug, Default)]
pub(in crate::embedded) struct Gained {
    /// Queues and types that got ready tasks, with how many.
    pub(in crate::embedded) lanes: Vec<(Name, Name, usize)>,
    /// How many may start in a queue, where its limit says so. Who is served looks again for those behind it, so to wake more
    /// would only fill the log with claims that get nothing.
    pub(in crate::embedded) rooms: HashMap<Name, usize>,
}

impl Machine {
    /// Lanes that got ready tasks since the last call and still have some.
    pub(in crate::embedded) fn take_gained(&mut self) -> Gained {
        let mut lanes = std::mem::take(&mut self.gained);
        lanes.sort_unstable();
        let flow = &self.names.flow;
        // A token has come that no claim has seen yet. The first one will, and those behind it are told what opened.
        let due = flow.has_alarms() && flow.is_due(self.clock.now().wall);
        let mut gained = Gained::default();
        for group in lanes.chunk_by(|a, b| a == b) {
            let count = if self.names.is_open(group[0]) { group.len() } else { usize::from(due) };
            let Some((queue, kind)) = self.names.of_lane(group[0]).filter(|_| count > 0) else { continue };
            if let Some(room) = flow.room(self.names.queue_of_lane(group[0])) {
                gained.rooms.insert(queue.clone(), usize::try_from(room).unwrap_or(usize::MAX));
            }
            gained.lanes.push((queue.clone(), kind.clone(), count));
        }
        gained
    }

    /// The same when nobody waits.
    pub(in crate::embedded) fn forget_gained(&mut self) -> Gained {
        self.gained.clear();
        self.resumed.clear();
        drop(self.names.flow.take_opened());
        Gained::default()
    }

    /// Looks once more at a queue for those who wait there: a claim that was woken for a task may have been served with
    /// another one. `kind` of `None` stands for whoever takes any type.
    pub(in crate::embedded) fn look_again(&mut self, queue: &Name, kind: Option<&Name>) {
        let Some(number) = self.names.queue_number(queue) else { return };
        match kind {
            None => {
                let next = self.names.flow.best(number, None);
                self.gained.extend(next.map(|next| READY_LANES + next.lane));
            }
            Some(kind) => self.gained.extend(self.names.lane_number(number, kind)),
        }
    }
}
