//! Waiting that counts as priority.

use super::limit::{Ageing, Scope};
use super::pick::Next;
use super::{Flow, Line};
use crate::ids::Name;

impl Ageing {
    /// Orders what waits: the task with the smallest is ahead. A step of priority that it lacks counts as if it had got ready later.
    pub fn ahead(self, lacking: u64, ready_at: u64) -> u64 {
        lacking.saturating_mul(self.every_ms).saturating_add(ready_at)
    }

    /// Steps of priority that a task has gained by waiting.
    pub fn gained(self, ready_at: u64, now: u64) -> u64 {
        now.saturating_sub(ready_at) / self.every_ms.max(1)
    }
}

impl Line {
    pub(super) fn ageing(&self) -> Option<Ageing> {
        self.control.gate.as_ref().and_then(|gate| gate.limit.ageing)
    }
}

impl Flow {
    /// The next task of a queue that ages: of the ones that are next at each priority the one that is ahead. Of equals it is that of the
    /// higher priority.
    pub(super) fn best_aged(&self, queue: u32, wanted: Option<&[u32]>, ageing: Ageing) -> Option<Next> {
        let mut best: Option<(u64, Next)> = None;
        let mut from = 0;
        loop {
            let (plain, keyed) = self.firsts(queue, wanted, from);
            let levels = [plain.map(|(place, _)| place.0), keyed.map(|(rank, _)| rank.0)];
            let Some(level) = levels.into_iter().flatten().min() else { break };
            let plain = plain.filter(|(place, _)| place.0 == level);
            let keyed = keyed.filter(|(rank, _)| rank.0 == level);
            if let Some(next) = self.choose(plain, keyed, wanted) {
                let ahead = ageing.ahead(level, self.ready_at(&next));
                if best.is_none_or(|(least, _)| ahead < least) {
                    best = Some((ahead, next));
                }
            }
            from = level + 1;
        }
        best.map(|(_, next)| next)
    }

    fn ready_at(&self, next: &Next) -> u64 {
        let (priority, _) = next.place;
        let first = match next.share {
            Some(share) => self.share_at(share).turns.get(priority).and_then(|turn| turn.first),
            None => self.lanes[next.lane as usize].heads.get(priority).copied(),
        };
        first.map_or(0, |first| first.ready_at)
    }

    /// Whether any queue ages: mostly none, and then nobody looks further.
    pub fn has_ageing(&self) -> bool {
        self.ageing_queues > 0
    }

    /// Whether the queue of a lane ages, so that the first task of each priority is wanted.
    pub fn ages(&self, lane: u32) -> bool {
        self.ageing_queues > 0 && self.lines[self.lanes[lane as usize].queue as usize].ageing().is_some()
    }

    /// The number in line of the first task without a key that is shown of a priority.
    pub fn first(&self, lane: u32, priority: u64) -> Option<u64> {
        self.lanes[lane as usize].heads.get(priority).map(|first| first.order)
    }

    /// The same of a share.
    pub fn share_first(&self, share: u32, priority: u64) -> Option<u64> {
        self.share_at(share).turns.get(priority)?.first.map(|first| first.order)
    }

    /// How a queue ages, by its limit.
    pub fn ageing(&self, queue: &Name) -> Option<Ageing> {
        let target = *self.limits.get(&(Scope::Queue, queue.clone()))?;
        self.control(target).gate.as_ref()?.limit.ageing
    }

    /// A queue ages no more: of every lane and share only the first of all counts again.
    pub(super) fn forget_levels(&mut self, queue: u32) {
        let of_queue = self.lanes.iter().filter(|(_, lane)| lane.queue == queue);
        for lane in of_queue.map(|(number, _)| number).collect::<Vec<_>>() {
            let heads = self.lanes[lane as usize].heads.all().iter();
            let left: Vec<u64> = heads.skip(1).map(|(level, _)| *level).collect();
            left.into_iter().for_each(|level| self.set_first(lane, level, None));
        }
        for number in self.share_numbers().collect::<Vec<_>>() {
            let share = self.share_at(number);
            if self.lanes[share.lane as usize].queue == queue {
                let left: Vec<u64> = share.turns.all().iter().skip(1).map(|(level, _)| *level).collect();
                left.into_iter().for_each(|level| self.set_share_first(number, level, None));
            }
        }
    }
}
