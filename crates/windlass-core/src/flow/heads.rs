//! The first tasks of lanes and shares, and where they stand in the ordered sets.

use super::{First, Flow, Place};

impl Flow {
    /// The first of all tasks without a key.
    pub fn head(&self, lane: u32) -> Option<Place> {
        self.lanes[lane as usize].heads.first().map(|(priority, first)| (*priority, first.order))
    }

    pub fn share_head(&self, share: u32) -> Option<Place> {
        let (priority, turn) = self.share_at(share).turns.first()?;
        Some((*priority, turn.first?.order))
    }

    /// The head of the tasks without a key changed, in a queue that does not age.
    pub fn set_head(&mut self, lane: u32, head: Option<Place>) {
        let left = self.lanes[lane as usize].heads.first().map(|(priority, _)| *priority);
        if let Some(left) = left.filter(|left| head.is_none_or(|(entered, _)| entered != *left)) {
            self.set_first(lane, left, None);
        }
        if let Some((priority, order)) = head {
            self.set_first(lane, priority, Some(First { order, ready_at: 0 }));
        }
    }

    /// The first of the tasks without a key of one priority changed.
    pub fn set_first(&mut self, lane: u32, priority: u64, first: Option<First>) {
        let state = &mut self.lanes[lane as usize];
        let open = !self.kinds[state.kind as usize].control.closed;
        let heads = &mut self.lines[state.queue as usize].heads;
        let old = match first {
            Some(first) => state.heads.put(priority, first),
            None => state.heads.remove(priority),
        };
        if let Some(old) = old {
            heads.remove(&(priority, old.order));
        }
        let Some(new) = first else { return };
        if open {
            heads.insert((priority, new.order), lane);
        }
        self.list_lane(lane);
    }

    /// Tells the type of a lane that something is ready there. It is forgotten when the type's gate next turns and nothing is.
    fn list_lane(&mut self, number: u32) {
        let lane = &mut self.lanes[number as usize];
        if !std::mem::replace(&mut lane.listed, true) {
            self.kinds[lane.kind as usize].lanes.insert(number);
        }
    }

    /// The head of a share changed, in a queue that does not age.
    pub fn set_share_head(&mut self, number: u32, head: Option<Place>) {
        let left = self.share_at(number).turns.first().map(|(priority, _)| *priority);
        if let Some(left) = left.filter(|left| head.is_none_or(|(entered, _)| entered != *left)) {
            self.set_share_first(number, left, None);
        }
        if let Some((priority, order)) = head {
            self.set_share_first(number, priority, Some(First { order, ready_at: 0 }));
        }
    }

    /// The first task of one priority of a share changed.
    pub fn set_share_first(&mut self, number: u32, priority: u64, first: Option<First>) {
        let share = self.share_at(number);
        let (lane, has_turn) = (share.lane, share.turns.get(priority).is_some());
        self.unrank(number, priority);
        match first {
            Some(first) => {
                if !has_turn {
                    self.take_turn(number, priority);
                }
                if let Some(turn) = self.share_mut(number).turns.get_mut(priority) {
                    turn.first = Some(first);
                }
                self.rank(number, priority);
            }
            None if has_turn => self.leave_turn(number, priority),
            None => {}
        }
        self.show_top(lane, priority);
    }

    /// Puts a share into the order of its lane if it can be served.
    pub(super) fn rank(&mut self, number: u32, priority: u64) {
        let share = self.share_at(number);
        let (lane, closed) = (share.lane, self.key(share.key).control.closed);
        let Some(turn) = self.share_mut(number).turns.get_mut(priority) else { return };
        let Some(first) = turn.first.filter(|_| !closed && turn.ranked.is_none()) else { return };
        turn.ranked = Some(turn.pass);
        let rank = (priority, turn.pass, first.order);
        self.lanes[lane as usize].ranks.insert(rank, number);
        self.list_lane(lane);
    }

    pub(super) fn unrank(&mut self, number: u32, priority: u64) {
        let share = self.share_mut(number);
        let lane = share.lane;
        let Some(turn) = share.turns.get_mut(priority) else { return };
        if let (Some(pass), Some(first)) = (turn.ranked.take(), turn.first) {
            self.lanes[lane as usize].ranks.remove(&(priority, pass, first.order));
        }
    }

    /// Shows the first rank of a lane at a priority to its queue.
    pub(super) fn show_top(&mut self, number: u32, priority: u64) {
        let lane = &mut self.lanes[number as usize];
        let open = !self.kinds[lane.kind as usize].control.closed;
        let of_level = (priority, 0, 0)..=(priority, u64::MAX, u64::MAX);
        let top = lane.ranks.range(of_level).next().map(|(rank, _)| *rank).filter(|_| open);
        let old = match top {
            Some(new) => lane.tops.put(priority, new),
            None => lane.tops.remove(priority),
        };
        if old == top {
            return;
        }
        let tops = &mut self.lines[lane.queue as usize].tops;
        if let Some(old) = old {
            tops.remove(&old);
        }
        if let Some(new) = top {
            tops.insert(new, number);
        }
    }
}
