//! The rounds of a queue or a lane, one for each priority at which keys have tasks.

use std::collections::BTreeMap;

use super::{Flow, Next, Share, Turn};

/// What a task costs a key of weight 1. Large enough that dividing it by the largest weight loses less than a thousandth.
pub(super) const ROUND: u64 = 1 << 20;

pub(super) type Rounds = BTreeMap<u64, Round>;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Round {
    /// Shares whose head has this priority; without any the round is forgotten.
    pub(super) shares: u64,
    /// How far the claims have come that look at all of this.
    pub(super) level: u64,
    /// Of a queue: how far any claim has come.
    pub(super) front: u64,
    /// What the tasks without a key have paid.
    pub(super) plain: u64,
}

impl Flow {
    /// A share enters the rounds of a priority, at the end of the current one.
    pub(super) fn take_turn(&mut self, number: u32, priority: u64) {
        let Share { lane, key, .. } = *self.share_at(number);
        let queue = self.lanes[lane as usize].queue;
        for rounds in [&mut self.lines[queue as usize].rounds, &mut self.lanes[lane as usize].rounds] {
            rounds.entry(priority).or_default().shares += 1;
        }
        let pass = self.level(lane, priority) + self.cost(key);
        self.share_mut(number).turns.put(priority, Turn { pass, first: None, ranked: None });
        self.note_turn(number, queue, lane);
    }

    pub(super) fn leave_turn(&mut self, number: u32, priority: u64) {
        let share = self.share_mut(number);
        let lane = share.lane;
        share.turns.remove(priority);
        let queue = self.lanes[lane as usize].queue;
        for rounds in [&mut self.lines[queue as usize].rounds, &mut self.lanes[lane as usize].rounds] {
            let Some(round) = rounds.get_mut(&priority) else { continue };
            round.shares -= 1;
            if round.shares == 0 {
                rounds.remove(&priority);
            }
        }
        self.note_turn(number, queue, lane);
    }

    fn note_turn(&mut self, number: u32, queue: u32, lane: u32) {
        if !self.transient {
            self.changed.lines.insert(queue);
            self.changed.lanes.insert(lane);
        }
        self.note_share(number);
    }

    /// A task was chosen: its party pays, and the rounds that the claim looked at have come as far.
    pub(super) fn pay(&mut self, next: &Next, wanted: Option<&[u32]>) {
        let queue = self.lanes[next.lane as usize].queue;
        let priority = next.place.0;
        if !self.lines[queue as usize].rounds.contains_key(&priority) {
            // Only tasks without a key: there is nobody to take turns with.
            return;
        }
        let paid = match next.share {
            Some(share) => self.share_at(share).turns.get(priority).map_or(0, |turn| turn.pass),
            None => self.plain_pass(next, wanted),
        };
        let start = paid.max(self.reached(queue, wanted, priority));
        self.reach(queue, wanted, priority, start);
        match next.share {
            Some(share) => self.charge(share, next, wanted, start),
            None => self.charge_plain(queue, wanted, priority, start + ROUND),
        }
    }

    /// How far the claims of these lanes have come.
    fn reached(&self, queue: u32, wanted: Option<&[u32]>, priority: u64) -> u64 {
        match wanted {
            None => self.lines[queue as usize].rounds.get(&priority).map_or(0, |round| round.front),
            Some(lanes) => lanes.iter().map(|lane| self.level(*lane, priority)).max().unwrap_or(0),
        }
    }

    fn reach(&mut self, queue: u32, wanted: Option<&[u32]>, priority: u64, start: u64) {
        if let Some(round) = self.lines[queue as usize].rounds.get_mut(&priority) {
            round.front = round.front.max(start);
            if wanted.is_none() {
                round.level = round.level.max(start);
            }
        }
        self.changed.lines.insert(queue);
        for lane in wanted.into_iter().flatten() {
            if let Some(round) = self.lanes[*lane as usize].rounds.get_mut(&priority) {
                round.level = round.level.max(start);
                self.changed.lanes.insert(*lane);
            }
        }
    }

    /// The key pays in every lane that the claim could have served it from.
    fn charge(&mut self, served: u32, next: &Next, wanted: Option<&[u32]>, start: u64) {
        let (priority, _) = next.place;
        let queue = self.lanes[next.lane as usize].queue;
        let key = self.share_at(served).key;
        let pass = start + self.cost(key);
        for i in 0..self.key(key).shares.len() {
            let number = self.key(key).shares[i];
            let lane = self.share_at(number).lane;
            let concerned = number == served
                || (self.lanes[lane as usize].queue == queue
                    && wanted.is_none_or(|lanes| lanes.contains(&lane)));
            if !concerned {
                continue;
            }
            let Some(turn) = self.share_mut(number).turns.get_mut(priority) else { continue };
            turn.pass = turn.pass.max(pass);
            self.note_share(number);
            // The one that is served is about to get another head, and its rank with it.
            if number != served {
                self.unrank(number, priority);
                self.rank(number, priority);
                self.show_top(lane, priority);
            }
        }
    }

    /// The tasks without a key pay as a key does: in every lane that the claim could have served them from.
    fn charge_plain(&mut self, queue: u32, wanted: Option<&[u32]>, priority: u64, pass: u64) {
        let charge = |rounds: &mut Rounds| {
            if let Some(round) = rounds.get_mut(&priority) {
                round.plain = round.plain.max(pass);
            }
        };
        match wanted {
            None => charge(&mut self.lines[queue as usize].rounds),
            Some(lanes) => lanes.iter().for_each(|lane| charge(&mut self.lanes[*lane as usize].rounds)),
        }
    }

    /// What the tasks without a key have paid, as a claim sees it whose first one is `next`. Where no key has tasks in its lane,
    /// nobody wrote down what it paid: then the other lanes of the claim tell, since they were charged for it.
    pub(super) fn plain_pass(&self, next: &Next, wanted: Option<&[u32]>) -> u64 {
        let priority = next.place.0;
        let queue = self.lanes[next.lane as usize].queue;
        let paid = |round: &Round| round.plain.max(round.level);
        let of_lane = |lane: &u32| self.lanes[*lane as usize].rounds.get(&priority).map(paid);
        let of_others = || wanted.unwrap_or_default().iter().filter_map(of_lane).min();
        let own = of_lane(&next.lane).or_else(of_others).unwrap_or(0);
        own.max(self.lines[queue as usize].rounds.get(&priority).map_or(0, paid))
    }

    fn level(&self, lane: u32, priority: u64) -> u64 {
        let state = &self.lanes[lane as usize];
        let level = |round: Option<&Round>| round.map_or(0, |round| round.level);
        level(state.rounds.get(&priority)).max(level(self.lines[state.queue as usize].rounds.get(&priority)))
    }

    /// What a task costs its key.
    fn cost(&self, key: u32) -> u64 {
        let weight = self.key(key).control.gate.as_ref().map_or(1, |gate| gate.limit.weight);
        ROUND / u64::from(weight.max(1))
    }
}
