//! What a store writes down so that a restart makes the same choices, and how it comes back.
//!
//! Coming back goes in this order: queues and lanes are added, then what is here is restored, then the heads are set.

use super::gate::Gate;
use super::levels::Levels;
use super::limit::Scope;
use super::rounds::{Round, Rounds};
use super::{Flow, Turn};
use crate::ids::Name;

/// What changed since the last one was taken.
#[derive(Debug, Default)]
pub struct Delta {
    /// `None` for a share that is gone.
    pub shares: Vec<(u32, Option<ShareState>)>,
    pub queues: Vec<(u32, Vec<RoundState>)>,
    pub lanes: Vec<(u32, Vec<RoundState>)>,
    /// Types, with what waits and what runs.
    pub kinds: Vec<(Name, u64, u64)>,
    /// `None` for a limit that is gone.
    pub gates: Vec<(Scope, Name, Option<Gate>)>,
    pub clock: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareState {
    pub lane: u32,
    pub key: Name,
    pub waiting: u64,
    pub running: u64,
    /// What was paid, at each priority at which a head is.
    pub turns: Levels<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundState {
    pub priority: u64,
    pub level: u64,
    pub front: u64,
    pub plain: u64,
}

impl Flow {
    pub fn take_changed(&mut self) -> Delta {
        let mut changed = std::mem::take(&mut self.changed);
        // One that went and came again is there twice.
        changed.shares.sort_unstable();
        changed.shares.dedup();
        let share = |number: u32| {
            let share = self.shares.get(number as usize)?.as_ref()?;
            Some(ShareState {
                lane: share.lane,
                key: self.key(share.key).name.clone(),
                waiting: share.waiting,
                running: share.running,
                turns: share.turns.all().iter().map(|(priority, turn)| (*priority, turn.pass)).collect(),
            })
        };
        let counted = |number: &u32| {
            let kind = self.kinds.get(*number)?;
            Some((kind.name.clone(), kind.control.waiting, kind.control.running))
        };
        // One that was dropped and added again comes last, with its new counts.
        let dropped = std::mem::take(&mut changed.dropped_kinds).into_iter().map(|name| (name, 0, 0));
        let kinds = dropped.chain(changed.kinds.iter().filter_map(counted));
        let delta = Delta {
            shares: changed.shares.iter().map(|number| (*number, share(*number))).collect(),
            queues: changed
                .lines
                .iter()
                .map(|n| (*n, rounds(self.lines.get(*n).map(|it| &it.rounds))))
                .collect(),
            lanes: changed
                .lanes
                .iter()
                .map(|n| (*n, rounds(self.lanes.get(*n).map(|it| &it.rounds))))
                .collect(),
            kinds: kinds.collect(),
            gates: changed.gates.into_iter().map(|(scope, name)| self.gate_state(scope, name)).collect(),
            clock: self.clock,
        };
        for number in changed.kinds {
            if let Some(kind) = self.kinds.get_mut(number) {
                kind.changed = false;
            }
        }
        for number in changed.shares {
            if let Some(share) = &mut self.shares[number as usize] {
                share.changed = false;
            }
        }
        delta
    }

    fn gate_state(&self, scope: Scope, name: Name) -> (Scope, Name, Option<Gate>) {
        let target = self.limits.get(&(scope, name.clone()));
        let gate = target.and_then(|target| self.control(*target).gate.as_deref().cloned());
        (scope, name, gate)
    }

    pub fn restore_clock(&mut self, clock: u64) {
        self.clock = clock;
    }

    /// What waits and runs in a queue.
    pub fn restore_queue(&mut self, queue: u32, waiting: u64, running: u64) {
        let control = &mut self.lines[queue as usize].control;
        (control.waiting, control.running) = (waiting, running);
    }

    pub fn restore_kind(&mut self, name: &Name, waiting: u64, running: u64) {
        let number = self.add_kind(name);
        let control = &mut self.kinds[number as usize].control;
        (control.waiting, control.running) = (waiting, running);
    }

    pub fn restore_queue_rounds(&mut self, queue: u32, states: &[RoundState]) {
        restore_rounds(&mut self.lines[queue as usize].rounds, states);
    }

    pub fn restore_lane_rounds(&mut self, lane: u32, states: &[RoundState]) {
        restore_rounds(&mut self.lanes[lane as usize].rounds, states);
    }

    /// Comes after the rounds.
    pub fn restore_share(&mut self, number: u32, state: &ShareState) {
        let key = self.add_key(&state.key);
        self.put_share(number, state.lane, key);
        let share = self.share_mut(number);
        (share.waiting, share.running) = (state.waiting, state.running);
        let paid =
            |(priority, pass): &(u64, u64)| (*priority, Turn { pass: *pass, first: None, ranked: None });
        share.turns = state.turns.all().iter().map(paid).collect();
        let control = &mut self.key_mut(key).control;
        control.waiting += state.waiting;
        control.running += state.running;
        let queue = self.lanes[state.lane as usize].queue;
        for (priority, _) in state.turns.all() {
            self.lines[queue as usize].rounds.entry(*priority).or_default().shares += 1;
            self.lanes[state.lane as usize].rounds.entry(*priority).or_default().shares += 1;
        }
    }

    /// Comes after the shares.
    pub fn restore_gate(&mut self, scope: Scope, name: &Name, gate: Gate) {
        let target = self.target(scope, name);
        self.depth_limits += usize::from(gate.limit.max_depth.is_some());
        self.ageing_queues += usize::from(gate.limit.ageing.is_some());
        self.control_mut(target).gate = Some(Box::new(gate));
        self.limits.insert((scope, name.clone()), target);
        self.set_alarm(target);
    }

    /// Everything is back: nothing is left to write down.
    pub fn restored(&mut self) {
        let used = |number: &u32| self.shares[*number as usize].is_some();
        self.free_shares = (0..self.shares.len() as u32).filter(|number| !used(number)).collect();
        drop(self.take_changed());
        self.opened.clear();
    }

    /// Numbers of the shares that exist.
    pub fn share_numbers(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.shares).filter(|(_, share)| share.is_some()).map(|(number, _)| number)
    }
}

/// Nothing is left of the rounds of what was dropped.
fn rounds(rounds: Option<&Rounds>) -> Vec<RoundState> {
    let state = |(priority, round): (&u64, &Round)| RoundState {
        priority: *priority,
        level: round.level,
        front: round.front,
        plain: round.plain,
    };
    rounds.into_iter().flatten().map(state).collect()
}

fn restore_rounds(rounds: &mut Rounds, states: &[RoundState]) {
    for RoundState { priority, level, front, plain } in states.iter().copied() {
        rounds.insert(priority, Round { shares: 0, level, front, plain });
    }
}
