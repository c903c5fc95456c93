//! Which ready task is next, under limits and with a fair share for everybody.
//!
//! **Lanes.** Ready tasks stand in lanes: one for every queue and type, and one for every queue, type and key that has live
//! tasks (a *share*). A store keeps the tasks of a lane in order of priority and place in line; here is known only the *head*
//! of each. Tasks without a key keep the order of submit within a priority, whatever their type.
//!
//! **Limits.** A [`Limit`] belongs to a queue, a type or a key. Its [`Gate`] counts what runs and the starts of the last
//! window. While a gate is closed, its lanes are in no ordered set at all: a key with a million waiting tasks at its limit
//! costs nobody a look. A closed gate opens when a running task ends, when its next token is due ([`Flow::advance`], with the time of
//! a claim), or when its limit changes.
//!
//! **Fair share.** Inside a queue and priority the keys take turns by deficit round robin, kept as virtual time: a task costs its key
//! one round divided by the key's weight, and the key that has paid the least is next. All tasks without a key are one
//! more party, of weight 1. A key that comes with its first task stands at the end of the current round; one
//! that runs empty is forgotten. A key that could not be served keeps no credit from that time.
//! A claim for some types looks at the rounds of these types, so workers for one type do not push back others.
//!
//! **Ageing.** In a queue that ages, a step of priority is worth a stretch of waiting, so of two tasks the same one is ahead at any time:
//! the one with the earlier sum of when it got ready and the stretch of each step that its priority lacks. No clock is asked and
//! nothing is sorted anew. A store shows the first task of every priority of a lane instead of the first of all; each
//! priority chooses as ever, and of these few the one that is ahead is next. Nobody is overtaken for ever: what gets ready later than
//! the steps that a task lacks are worth is behind it.
//!
//! Invariants: a share's rank stands in its lane exactly while it has a head and its key is open; a lane's first rank
//! and its head stand in its queue exactly while its type is open. Everything that the next choice depends on can be taken out and put back
//! (`state`), because a log that is replayed must make the same choices.

mod ageing;
mod alarms;
mod control;
mod gate;
mod heads;
mod levels;
mod limit;
mod names;
mod pick;
mod rounds;
mod state;
#[cfg(test)]
mod tests;
mod window;

use std::collections::{BTreeMap, BTreeSet};

use foldhash::HashMap;

use crate::ids::Name;
use crate::sparse::Sparse;
use crate::state::StateName;

use control::{Control, Key, Kind, Target};
pub use control::{Full, Opened, Status};
pub use gate::{Closed, Gate};
pub use levels::Levels;
pub use limit::{Ageing, Limit, Rate, Scope};
pub use pick::Next;
use rounds::Rounds;
pub use state::{Delta, RoundState, ShareState};
pub use window::Window;

/// Where a task stands in its lane: priority counted downwards, then its number in line.
pub type Place = (u64, u64);

/// The first of the tasks of one priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct First {
    /// Its number in line.
    pub order: u64,
    /// When it took that place; only a queue that ages asks for it.
    pub ready_at: u64,
}

/// How a live task weighs on its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    Waiting,
    Running,
}

/// `None` for a finished task.
pub fn load(state: StateName) -> Option<Load> {
    match state {
        StateName::Scheduled | StateName::Blocked | StateName::Pending | StateName::Retrying => {
            Some(Load::Waiting)
        }
        StateName::Running => Some(Load::Running),
        StateName::Completed | StateName::DeadLetter | StateName::Cancelled => None,
    }
}

#[derive(Debug, Default)]
pub struct Flow {
    lines: Sparse<Line>,
    queue_numbers: HashMap<Name, u32>,
    lanes: Sparse<Lane>,
    kinds: Sparse<Kind>,
    kind_numbers: HashMap<Name, u32>,
    shares: Vec<Option<Share>>,
    /// Numbers of shares that can be used again, the smallest first: a replay must give the same numbers.
    free_shares: BTreeSet<u32>,
    keys: Vec<Option<Key>>,
    free_keys: Vec<u32>,
    key_numbers: HashMap<Name, u32>,
    limits: BTreeMap<(Scope, Name), Target>,
    /// Limits of queues that are not there yet.
    absents: BTreeMap<u32, (Name, Control)>,
    /// How many of them bound the depth: mostly none, and then nobody looks.
    depth_limits: usize,
    /// Queues that age.
    ageing_queues: usize,
    /// When the gates without a token have one again.
    alarms: BTreeSet<(u64, Target)>,
    /// What opened since [`Flow::take_opened`].
    opened: Vec<Opened>,
    /// The time of the last claim: one before it means that the wall clock was set back.
    clock: u64,
    changed: Changed,
    /// Nobody will ask what changed.
    transient: bool,
    /// How often a gate opened or closed.
    turns_of_gates: u64,
    /// The earliest alarm that was set since [`Flow::take_alarmed`].
    alarmed: Option<u64>,
}

/// One queue.
#[derive(Debug)]
struct Line {
    name: Name,
    control: Control,
    /// Heads of the tasks without a key, of the types that are open.
    heads: BTreeMap<Place, u32>,
    /// The first rank of each lane and priority, of the types that are open.
    tops: BTreeMap<Rank, u32>,
    rounds: Rounds,
}

/// One queue and type.
#[derive(Debug)]
struct Lane {
    queue: u32,
    kind: u32,
    /// Its type knows that it may have something ready.
    listed: bool,
    /// The first of the tasks without a key; of every priority if the queue ages.
    heads: Levels<First>,
    /// The shares that can be served.
    ranks: BTreeMap<Rank, u32>,
    /// What of them stands in the queue: the first of each priority.
    tops: Levels<Rank>,
    rounds: Rounds,
}

/// One queue, type and key with live tasks.
#[derive(Debug)]
struct Share {
    lane: u32,
    key: u32,
    waiting: u64,
    running: u64,
    /// Where its first task is; where the first of every priority is if the queue ages.
    turns: Levels<Turn>,
    /// It is in the list of what is to be written down.
    changed: bool,
}

/// What a share has paid in the rounds of a priority, and its first task there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Turn {
    pass: u64,
    /// `None` only while a store is opened: what was paid is known before the tasks are.
    first: Option<First>,
    /// It stands in its lane, as one who has paid this.
    ranked: Option<u64>,
}

/// Priority, what was paid, the place in line of the head: the smallest is next.
type Rank = (u64, u64, u64);

/// Numbers of what is to be written down, see `state`.
#[derive(Debug, Default)]
struct Changed {
    lines: BTreeSet<u32>,
    lanes: BTreeSet<u32>,
    kinds: Vec<u32>,
    /// Types that were dropped after they changed.
    dropped_kinds: BTreeSet<Name>,
    /// Once each, but for those that went.
    shares: Vec<u32>,
    gates: BTreeSet<(Scope, Name)>,
}

impl Lane {
    fn is_ready(&self) -> bool {
        !self.heads.is_empty() || !self.ranks.is_empty()
    }
}

impl Flow {
    /// For a store that keeps nothing: what is to be written down is not noted.
    pub fn transient() -> Self {
        Self { transient: true, ..Self::default() }
    }

    /// Adds a queue under a number that is free.
    pub fn add_queue(&mut self, number: u32, name: &Name) {
        self.queue_numbers.insert(name.clone(), number);
        let line = Line {
            name: name.clone(),
            control: Control::default(),
            heads: BTreeMap::new(),
            tops: BTreeMap::new(),
            rounds: Rounds::default(),
        };
        self.lines.put(number, line);
        self.adopt(number, name);
    }

    /// Adds a lane under a number that is free.
    pub fn add_lane(&mut self, number: u32, queue: u32, kind: &Name) {
        let kind = self.add_kind(kind);
        self.kinds[kind as usize].lane_count += 1;
        let lane = Lane {
            queue,
            kind,
            listed: false,
            heads: Levels::default(),
            ranks: BTreeMap::new(),
            tops: Levels::default(),
            rounds: Rounds::default(),
        };
        self.lanes.put(number, lane);
    }

    /// Drops a lane without live tasks. It holds nothing that a later choice depends on.
    pub fn drop_lane(&mut self, number: u32) {
        let Some(lane) = self.lanes.remove(number) else { return };
        debug_assert!(!lane.is_ready() && lane.rounds.is_empty(), "a lane with tasks was dropped");
        let kind = &mut self.kinds[lane.kind as usize];
        kind.lanes.remove(&number);
        kind.lane_count -= 1;
        self.forget_kind(lane.kind);
    }

    /// Drops a queue without lanes; `false`, and nothing is done, if it has a limit.
    pub fn drop_queue(&mut self, number: u32) -> bool {
        let Some(line) = self.lines.get(number).filter(|line| line.control.gate.is_none()) else {
            return false;
        };
        debug_assert!(line.rounds.is_empty(), "a queue with tasks was dropped");
        self.queue_numbers.remove(&line.name);
        self.lines.remove(number);
        true
    }

    /// Gives back the memory of names that were dropped.
    pub fn shrink(&mut self) {
        crate::sparse::shrink(&mut self.queue_numbers);
        crate::sparse::shrink(&mut self.kind_numbers);
    }

    pub fn has_lane(&self, number: u32) -> bool {
        self.lanes.get(number).is_some()
    }

    pub fn has_queue(&self, number: u32) -> bool {
        self.lines.get(number).is_some()
    }

    /// The lane of a key, and whether it was made because this is its first live task there.
    pub fn share(&mut self, lane: u32, name: &Name) -> (u32, bool) {
        let key = self.add_key(name);
        let mut shares = self.key(key).shares.iter().copied();
        if let Some(number) = shares.find(|number| self.share_at(*number).lane == lane) {
            return (number, false);
        }
        let number = self.free_shares.pop_first().unwrap_or(self.shares.len() as u32);
        self.put_share(number, lane, key);
        (number, true)
    }

    fn put_share(&mut self, number: u32, lane: u32, key: u32) {
        self.key_mut(key).shares.push(number);
        let turns = Levels::default();
        let share = Share { lane, key, waiting: 0, running: 0, turns, changed: false };
        while self.shares.len() <= number as usize {
            self.shares.push(None);
        }
        self.shares[number as usize] = Some(share);
        self.note_share(number);
    }

    /// A share is to be written down.
    fn note_share(&mut self, number: u32) {
        if !std::mem::replace(&mut self.share_mut(number).changed, true) && !self.transient {
            self.changed.shares.push(number);
        }
    }

    pub fn find_share(&self, lane: u32, key: &Name) -> Option<u32> {
        let key = self.key_numbers.get(key)?;
        let shares = &self.key(*key).shares;
        shares.iter().copied().find(|number| self.share_at(*number).lane == lane)
    }

    /// Shares that exist: each owns a small structure in memory.
    pub fn share_count(&self) -> usize {
        self.shares.len() - self.free_shares.len()
    }

    /// Queue and type, by the number of their lane, and the name of the key.
    pub fn of_share(&self, number: u32) -> (u32, &Name) {
        let share = self.share_at(number);
        (share.lane, &self.key(share.key).name)
    }

    fn share_at(&self, number: u32) -> &Share {
        self.shares[number as usize].as_ref().expect("a share is named only while it has live tasks")
    }

    fn share_mut(&mut self, number: u32) -> &mut Share {
        self.shares[number as usize].as_mut().expect("a share is named only while it has live tasks")
    }
}
