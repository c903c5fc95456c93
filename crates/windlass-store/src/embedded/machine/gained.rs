//! Which lanes got ready tasks, for those who wait for one.

use windlass_core::Name;

use super::Machine;
use crate::embedded::dirty::READY_LANES;

impl Machine {
    /// Lanes that got ready tasks since the last call and still have some, with how many they got.
    pub(in crate::embedded) fn take_gained(&mut self) -> Vec<(Name, Name, usize)> {
        let mut lanes = std::mem::take(&mut self.gained);
        lanes.sort_unstable();
        let flow = &self.names.flow;
        // A token has come that no claim has seen yet. The first one will, and those behind it are told what opened.
        let due = flow.has_alarms() && flow.is_due(self.clock.now().wall);
        let named = |group: &[u32]| {
            let count = if self.names.is_open(group[0]) { group.len() } else { usize::from(due) };
            let (queue, kind) = self.names.of_lane(group[0]).filter(|_| count > 0)?;
            Some((queue.clone(), kind.clone(), count))
        };
        lanes.chunk_by(|a, b| a == b).filter_map(named).collect()
    }

    /// The same when nobody waits.
    pub(in crate::embedded) fn forget_gained(&mut self) -> Vec<(Name, Name, usize)> {
        self.gained.clear();
        self.resumed.clear();
        drop(self.names.flow.take_opened());
        Vec::new()
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
