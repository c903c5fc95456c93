//! Tokens, and when the gates without one have one again.

use super::Flow;
use super::control::{Opened, Target};
use super::pick::Next;

impl Flow {
    pub(super) fn take_tokens(&mut self, next: &Next, now: u64) {
        let lane = &self.lanes[next.lane as usize];
        let key = next.share.map(|share| Target::Key(self.share_at(share).key));
        for target in [Some(Target::Queue(lane.queue)), Some(Target::Kind(lane.kind)), key] {
            let Some(target) = target else { continue };
            let gate = self.control_mut(target).gate.as_mut();
            if let Some(gate) = gate.filter(|gate| gate.limit.rate.is_some()) {
                gate.start(now);
                self.set_alarm(target);
            }
        }
    }

    /// Opens the gates that have a token again. Called with the time of a claim before it chooses.
    pub fn advance(&mut self, now: u64) {
        let back = now < self.clock;
        self.clock = now;
        if back {
            // The clock was set back. No time has passed for the windows, and no alarm may wait for the old time to come again.
            let waiting: Vec<Target> = self.alarms.iter().map(|(_, target)| *target).collect();
            waiting.into_iter().for_each(|target| self.tick(target, now));
        }
        while let Some((_, target)) = self.alarms.first().copied().filter(|(at, _)| *at <= now) {
            self.tick(target, now);
        }
    }

    fn tick(&mut self, target: Target, now: u64) {
        let Some(gate) = &mut self.control_mut(target).gate else { return };
        let until = gate.drained_until;
        gate.tick(now);
        self.alarms.remove(&(until.unwrap_or_default(), target));
        self.set_alarm(target);
    }

    /// Whether [`Flow::advance`] has something to do.
    pub fn is_due(&self, now: u64) -> bool {
        self.alarms.first().is_some_and(|(at, _)| *at <= now || now < self.clock)
    }

    /// Where something is ready that [`Flow::advance`] would open; `None` if that takes more than `most` looks to find out.
    pub fn due(&self, now: u64, most: usize) -> Option<Vec<Opened>> {
        let back = now < self.clock;
        let mut found = Vec::new();
        let mut looks = 0;
        for (_, target) in self.alarms.iter().take_while(|(at, _)| back || *at <= now) {
            looks += 1 + match target {
                Target::Queue(_) | Target::Absent(_) => 0,
                Target::Kind(kind) => self.kinds[*kind as usize].lanes.len(),
                Target::Key(key) => self.key(*key).shares.len(),
            };
            if looks > most {
                return None;
            }
            match target {
                Target::Absent(_) => {}
                Target::Queue(queue) => {
                    let line = &self.lines[*queue as usize];
                    let ready = !line.heads.is_empty() || !line.tops.is_empty();
                    found.extend(ready.then_some(Opened::Queue(*queue)));
                }
                Target::Kind(kind) => {
                    let lanes = self.kinds[*kind as usize].lanes.iter();
                    let ready = lanes.filter(|lane| self.lanes[**lane as usize].is_ready());
                    found.extend(ready.map(|lane| Opened::Lane(*lane)));
                }
                Target::Key(key) => {
                    let shares = self.key(*key).shares.iter().map(|share| self.share_at(*share));
                    let ready = shares.filter(|share| !share.turns.is_empty());
                    found.extend(ready.map(|share| Opened::Lane(share.lane)));
                }
            }
        }
        Some(found)
    }

    /// The earliest alarm that was set since the last call.
    pub fn take_alarmed(&mut self) -> Option<u64> {
        self.alarmed.take()
    }

    pub fn has_alarms(&self) -> bool {
        !self.alarms.is_empty()
    }

    /// When the next gate has a token again, after `now`.
    pub fn next_alarm(&self, now: u64) -> Option<u64> {
        self.alarms.range((now + 1, Target::Queue(0))..).next().map(|(at, _)| *at)
    }

    pub(super) fn set_alarm(&mut self, target: Target) {
        if let Some(until) = self.control(target).gate.as_ref().and_then(|gate| gate.drained_until) {
            self.alarms.insert((until, target));
            self.alarmed = Some(self.alarmed.map_or(until, |at| at.min(until)));
        }
        if !self.transient {
            let name = self.name_of(target);
            self.changed.gates.insert(name);
        }
        self.settle(target);
    }
}
