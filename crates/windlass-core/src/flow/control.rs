//! Counting what waits and runs, and opening and closing gates.

use std::collections::BTreeSet;

use super::gate::{Closed, Gate};
use super::limit::{Limit, Scope};
use super::{Flow, Load, Share};
use crate::ids::Name;

/// What counts towards a queue, a type or a key, and its limit if it has one.
#[derive(Debug, Default)]
pub(super) struct Control {
    pub(super) waiting: u64,
    pub(super) running: u64,
    pub(super) gate: Option<Box<Gate>>,
    /// As the ordered sets have it.
    pub(super) closed: bool,
}

/// A type.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: Name,
    pub(super) control: Control,
    /// Its lanes where something is ready, and some where something was.
    pub(super) lanes: BTreeSet<u32>,
    /// Lanes of this type. It is dropped with the last one unless it has a limit.
    pub(super) lane_count: usize,
    /// It is in the list of what is to be written down.
    pub(super) changed: bool,
}

/// A key with live tasks or a limit.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: Name,
    pub(super) control: Control,
    pub(super) shares: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Queue(u32),
    Kind(u32),
    Key(u32),
    /// A queue that is not there yet.
    Absent(u32),
}

/// What can be served again: those who wait there want to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    Queue(u32),
    Lane(u32),
}

/// A limit as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub scope: Scope,
    pub name: Name,
    pub limit: Limit,
    pub waiting: u64,
    pub running: u64,
    pub closed: Option<Closed>,
}

/// The limit of depth that refuses a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Full {
    pub scope: Scope,
    pub name: Name,
    pub max: u64,
}

impl Control {
    fn count(&mut self, from: Option<Load>, to: Option<Load>) {
        *self.slot(from) -= u64::from(from.is_some());
        *self.slot(to) += u64::from(to.is_some());
    }

    fn slot(&mut self, load: Option<Load>) -> &mut u64 {
        match load {
            Some(Load::Running) => &mut self.running,
            _ => &mut self.waiting,
        }
    }
}

impl Flow {
    /// A task of a lane moves from one load to another; `None` is outside. A share without tasks is forgotten, so this comes
    /// after its head was taken away.
    pub fn count(&mut self, lane: u32, share: Option<u32>, from: Option<Load>, to: Option<Load>) {
        if from == to {
            return;
        }
        let state = &self.lanes[lane as usize];
        let (queue, kind) = (state.queue, state.kind);
        let line = &mut self.lines[queue as usize].control;
        line.count(from, to);
        let limited = line.gate.is_some();
        if limited {
            self.settle(Target::Queue(queue));
        }
        let state = &mut self.kinds[kind as usize];
        state.control.count(from, to);
        if !std::mem::replace(&mut state.changed, true) && !self.transient {
            self.changed.kinds.push(kind);
        }
        if state.control.gate.is_some() {
            self.settle(Target::Kind(kind));
        }
        if let Some(number) = share {
            self.count_share(number, from, to);
        }
    }

    fn count_share(&mut self, number: u32, from: Option<Load>, to: Option<Load>) {
        let share = self.share_mut(number);
        for (load, up) in [(from, false), (to, true)] {
            let slot = match load {
                Some(Load::Waiting) => &mut share.waiting,
                Some(Load::Running) => &mut share.running,
                None => continue,
            };
            *slot = if up { *slot + 1 } else { *slot - 1 };
        }
        let (key, unused) = (share.key, share.waiting + share.running == 0);
        self.note_share(number);
        let control = &mut self.key_mut(key).control;
        control.count(from, to);
        let limited = control.gate.is_some();
        if unused {
            debug_assert!(self.share_at(number).turns.is_empty(), "a share with a head has tasks");
            self.shares[number as usize] = None;
            self.free_shares.insert(number);
            self.key_mut(key).shares.retain(|share| *share != number);
            self.forget_key(key);
        }
        if limited {
            self.settle(Target::Key(key));
        }
    }

    /// Sets, changes or (with `None`) removes a limit. Returns whether there was one.
    pub fn set_limit(&mut self, scope: Scope, name: &Name, limit: Option<Limit>, now: u64) -> bool {
        let target = self.target(scope, name);
        let old = self.control_mut(target).gate.take();
        let bounded = |limit: Option<&Limit>| usize::from(limit.is_some_and(|it| it.max_depth.is_some()));
        self.depth_limits -= bounded(old.as_deref().map(|gate| &gate.limit));
        self.depth_limits += bounded(limit.as_ref());
        let aged = old.as_ref().is_some_and(|gate| gate.limit.ageing.is_some());
        let ages = limit.is_some_and(|limit| limit.ageing.is_some());
        self.ageing_queues += usize::from(ages);
        self.ageing_queues -= usize::from(aged);
        if let Some(until) = old.as_ref().and_then(|gate| gate.drained_until) {
            self.alarms.remove(&(until, target));
        }
        let existed = old.is_some();
        match limit {
            Some(limit) => {
                let mut gate = old.unwrap_or_default();
                gate.limit = limit;
                if limit.rate.is_none() {
                    gate.window = Default::default();
                }
                gate.tick(now);
                self.control_mut(target).gate = Some(gate);
                self.limits.insert((scope, name.clone()), target);
                self.set_alarm(target);
            }
            None => {
                self.limits.remove(&(scope, name.clone()));
                self.set_alarm(target);
                match target {
                    Target::Queue(_) => {}
                    Target::Kind(kind) => self.forget_kind(kind),
                    Target::Key(key) => self.forget_key(key),
                    Target::Absent(absent) => self.forget_absent(absent),
                }
            }
        }
        if let (Target::Queue(queue), true, false) = (target, aged, ages) {
            self.forget_levels(queue);
        }
        existed
    }

    /// Brings the ordered sets in step with a gate.
    pub(super) fn settle(&mut self, target: Target) {
        let control = self.control_mut(target);
        let running = control.running;
        let closed = control.gate.as_ref().is_some_and(|gate| gate.closed(running).is_some());
        if std::mem::replace(&mut control.closed, closed) == closed {
            return;
        }
        self.turns_of_gates += 1;
        match target {
            Target::Absent(_) => {}
            Target::Queue(queue) => self.opened.extend((!closed).then_some(Opened::Queue(queue))),
            Target::Kind(kind) => self.settle_kind(kind, closed),
            Target::Key(key) => {
                for i in 0..self.key(key).shares.len() {
                    self.settle_share(self.key(key).shares[i], closed);
                }
            }
        }
    }

    fn settle_share(&mut self, number: u32, closed: bool) {
        let Share { lane, ref turns, .. } = *self.share_at(number);
        let levels = turns.all().len();
        for i in 0..levels {
            let (priority, _) = self.share_at(number).turns.all()[i];
            if closed {
                self.unrank(number, priority);
            } else {
                self.rank(number, priority);
            }
            self.show_top(lane, priority);
        }
        self.opened.extend((!closed && levels > 0).then_some(Opened::Lane(lane)));
    }

    /// Looks at the lanes where something is ready, and forgets the others.
    fn settle_kind(&mut self, kind: u32, closed: bool) {
        let mut lanes = std::mem::take(&mut self.kinds[kind as usize].lanes);
        lanes.retain(|lane| {
            let state = &mut self.lanes[*lane as usize];
            state.listed = state.is_ready();
            if !state.listed {
                return false;
            }
            self.show_lane(*lane);
            self.opened.extend((!closed).then_some(Opened::Lane(*lane)));
            true
        });
        self.kinds[kind as usize].lanes = lanes;
    }

    /// Shows everything of a lane to its queue, or takes it away, as its type is open or closed.
    fn show_lane(&mut self, lane: u32) {
        for i in 0..self.lanes[lane as usize].heads.all().len() {
            let (priority, first) = self.lanes[lane as usize].heads.all()[i];
            self.set_first(lane, priority, Some(first));
        }
        let mut from = 0;
        while let Some((priority, _)) = self.lanes[lane as usize].rounds.range(from..).next() {
            let priority = *priority;
            self.show_top(lane, priority);
            from = priority + 1;
        }
    }

    /// Changes whenever a gate opens or closes.
    pub fn turns_of_gates(&self) -> u64 {
        self.turns_of_gates
    }

    /// What can be served again since the last call.
    pub fn take_opened(&mut self) -> Vec<Opened> {
        std::mem::take(&mut self.opened)
    }

    /// How many more tasks the limit of an open queue lets start now; `None` for any number.
    pub fn room(&self, queue: u32) -> Option<u64> {
        let control = &self.lines[queue as usize].control;
        control.gate.as_ref().filter(|_| !control.closed)?.room(control.running)
    }

    /// The limit of depth that a new task would break, where `more` than those counted wait already.
    pub fn full(
        &self,
        queue: &Name,
        kind: &Name,
        key: Option<&Name>,
        more: impl Fn(Scope, &Name) -> i64,
    ) -> Option<Full> {
        if self.depth_limits == 0 {
            return None;
        }
        let names = [(Scope::Queue, Some(queue)), (Scope::Type, Some(kind)), (Scope::Key, key)];
        names.into_iter().find_map(|(scope, name)| {
            let name = name?;
            let control = self.control(*self.limits.get(&(scope, name.clone()))?);
            let max = control.gate.as_ref()?.limit.max_depth?;
            let room = i64::try_from(max).unwrap_or(i64::MAX);
            (control.waiting as i64 + more(scope, name) >= room).then(|| Full {
                scope,
                name: name.clone(),
                max,
            })
        })
    }

    /// Whether any limit bounds the depth.
    pub fn bounds_depth(&self) -> bool {
        self.depth_limits > 0
    }

    pub fn limit_count(&self) -> usize {
        self.limits.len()
    }

    pub fn status(&self, scope: Scope, name: &Name) -> Option<Status> {
        let target = *self.limits.get(&(scope, name.clone()))?;
        let control = self.control(target);
        let gate = control.gate.as_ref()?;
        Some(Status {
            scope,
            name: name.clone(),
            limit: gate.limit,
            waiting: control.waiting,
            running: control.running,
            closed: gate.closed(control.running),
        })
    }

    /// Limits in order of scope and name, behind this one.
    pub fn statuses(
        &self,
        scope: Option<Scope>,
        after: Option<&(Scope, Name)>,
    ) -> impl Iterator<Item = Status> {
        use std::ops::Bound;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.limits.range((from, Bound::Unbounded));
        // Scopes stand together, the many keys behind the few queues and types.
        let behind = behind
            .skip_while(move |((found, _), _)| scope.is_some_and(|scope| *found < scope))
            .take_while(move |((found, _), _)| scope.is_none_or(|scope| *found == scope));
        behind.filter_map(|((scope, name), _)| self.status(*scope, name))
    }

    pub(super) fn control(&self, target: Target) -> &Control {
        match target {
            Target::Queue(number) => &self.lines[number as usize].control,
            Target::Kind(number) => &self.kinds[number as usize].control,
            Target::Key(number) => &self.key(number).control,
            Target::Absent(number) => &self.absent(number).1,
        }
    }

    pub(super) fn control_mut(&mut self, target: Target) -> &mut Control {
        match target {
            Target::Queue(number) => &mut self.lines[number as usize].control,
            Target::Kind(number) => &mut self.kinds[number as usize].control,
            Target::Key(number) => &mut self.key_mut(number).control,
            Target::Absent(number) => &mut self.absent_mut(number).1,
        }
    }
}
