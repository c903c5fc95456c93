//! The state of the store, and the one way to change it: [`Machine::apply`].
//!
//! `apply` is deterministic: the same commands in the same order give the same tasks, places, tokens and counters, at
//! replay or elsewhere. The only thing it adds from outside are lease deadlines, which are not part of the durable state.
//! It never fails half-way: what can be refused is checked before the first change. An error means that the index could not be
//! read or is damaged, and ends the store.

mod change;
mod claim;
mod dependents;
mod gained;
mod home;
mod insert;
mod ledger;
mod levels;
mod limits;
mod listing;
mod names;
mod operations;
mod read;
mod rehearse;
mod reindex;
mod relocate;
mod restore;
mod schedules;
mod unique;
mod workflows;

use std::sync::Arc;

use bytes::Bytes;
use windlass_core::flow::Delta;
use windlass_core::{Body, Now, Record, State, StateName, Task, Wakes};

use super::checkpoint::Touched;
use super::codec;
use super::command::Command;
use super::dirty::{
    Dirty, ELAPSED_LANE, Frozen, Keys, PRUNE_LANE, READY_LANES, Slot, TELL_LANE, WAKE_LANE, tell_place,
};
use super::edges::{self, Edges};
use super::holders::{self, Holders};
use super::index::{self, Index};
use super::leases::Leases;
use super::names::{Changed, KEYED_LANES, Names};
use super::operations::{self as operations_table, Register};
use super::schedules::{self as schedules_table, Book};
use super::space::Unsaved;
use super::tables::{MetaMessage, Row, Snapshot};
use super::workflows::{self as workflows_table, Workflows};
use crate::clock::Clock;
use crate::depth::Room;
use crate::store::{
    Committed, Error, Inserted, Ledger, LimitWritten, OperationWritten, Restored, ScheduleWritten, Settled,
    Signals, WorkflowInserted,
};
pub(super) use gained::Gained;
pub(super) use listing::{Listing, Stored};

#[derive(Debug)]
pub(super) struct Machine {
    clock: Arc<dyn Clock>,
    signals: Arc<Signals>,
    snapshot: Arc<Snapshot>,
    dirty: Dirty,
    index: Index,
    names: Names,
    leases: Leases,
    ledger: Ledger,
    schedules: Book,
    holders: Holders,
    operations: Register,
    edges: Edges,
    workflows: Workflows,
    next_number: u64,
    next_claim: u64,
    /// The last command that was applied.
    applied: u64,
    /// The last one that the tables contain.
    saved: u64,
    /// When the command that is being applied was begun, if it asked.
    moment: Option<Now>,
    /// A command was begun and not finished: the state must not be saved.
    broken: bool,
    /// Lanes that got a ready task since [`Machine::take_gained`], each that of a queue and type.
    gained: Vec<u32>,
    /// Queues that were resumed since.
    resumed: Vec<u32>,
    /// What the loops wait for; something nearer wakes them.
    awaited_wakes: Wakes,
    awaited_prune: Option<u64>,
    awaited_gate: u64,
}

/// What applying a command gives.
#[derive(Debug)]
pub(super) enum Output {
    Inserted(Vec<Inserted>),
    TooManyLanes,
    Claimed(Vec<Task>),
    Committed(Vec<Committed>),
    Settled(Vec<Settled>),
    Paused,
    Scheduled(ScheduleWritten),
    Operated(OperationWritten),
    Limited(LimitWritten),
    Workflow(WorkflowInserted),
    Restored(Vec<Restored>),
}

/// A task as the tables have it.
#[derive(Debug)]
struct Loaded {
    record: Record,
    lane: u32,
    /// `None` if it is so large that it stands apart.
    body: Option<Bytes>,
}

/// Everything that a checkpoint writes.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) slots: Frozen,
    pub(super) names: Changed,
    pub(super) flow: Delta,
    pub(super) schedules: schedules_table::Changed,
    pub(super) keys: holders::Changed,
    pub(super) operations: operations_table::Changed,
    pub(super) edges: edges::Changed,
    pub(super) workflows: workflows_table::Changed,
    pub(super) meta: MetaMessage,
}

impl Machine {
    pub(super) fn load(
        snapshot: Snapshot,
        window_entries: usize,
        clock: Arc<dyn Clock>,
        signals: Arc<Signals>,
    ) -> Result<Machine, Error> {
        let saved = snapshot.saved()?;
        let names = Names::load(&saved.queues, saved.lanes, saved.flow, || snapshot.count_lanes())?;
        let mut index = Index::new(window_entries);
        for lane in (0..READY_LANES).chain(names.lane_numbers()) {
            index.add_lane(lane, true);
        }
        for share in names.flow.share_numbers() {
            index.begin_keyed(KEYED_LANES + share, true);
        }
        let mut machine = Machine {
            clock,
            signals,
            snapshot: Arc::new(snapshot),
            dirty: Dirty::default(),
            index,
            names,
            leases: Leases::default(),
            ledger: saved.state.ledger(),
            schedules: saved.schedules,
            holders: Holders::default(),
            operations: saved.operations,
            edges: Edges::default(),
            workflows: Workflows::default(),
            next_number: saved.state.next_number,
            next_claim: saved.state.next_claim,
            applied: saved.state.applied,
            saved: saved.state.applied,
            moment: None,
            broken: false,
            gained: Vec::new(),
            resumed: Vec::new(),
            awaited_wakes: Wakes::default(),
            awaited_prune: None,
            awaited_gate: u64::MAX,
        };
        let lanes = machine.names.lane_numbers();
        let keyed = machine.names.flow.share_numbers().map(|share| KEYED_LANES + share);
        for lane in lanes.chain(keyed).collect::<Vec<_>>() {
            if machine.names.ages(lane) {
                machine.split_lane(lane)?;
            } else {
                machine.refresh_head(lane)?;
            }
        }
        Ok(machine)
    }

    /// The tables of the last checkpoint.
    pub(super) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    pub(super) fn applied(&self) -> u64 {
        self.applied
    }

    /// Applies the next command of the log.
    pub(super) fn apply(&mut self, index: u64, command: &Command) -> Result<Output, Error> {
        debug_assert_eq!(index, self.applied + 1, "commands are applied in order");
        self.broken = true;
        self.moment = None;
        let output = match command {
            Command::Insert { tasks, atomic, max_depth } => {
                self.insert(tasks, *atomic, Room::Bounded { max_depth: *max_depth })?
            }
            Command::Claim { claim, now } => Output::Claimed(self.claim(claim, *now)?),
            Command::Commit { transitions } if !self.has_lanes_for(transitions)? => Output::TooManyLanes,
            Command::Commit { transitions } => {
                let mut done = Vec::with_capacity(transitions.len());
                for transition in transitions {
                    done.push(self.commit(transition)?);
                }
                Output::Committed(done)
            }
            Command::Pause { queue, paused } => {
                let number = self.names.add_queue(queue);
                self.names.queue_mut(number).paused = *paused;
                self.signals.paused(queue, *paused);
                if !*paused {
                    self.resumed.push(number);
                    self.names.consider_queue(number);
                }
                Output::Paused
            }
            Command::Schedule { write, tasks } => self.write_schedule(write, tasks)?,
            Command::Operate { write } => self.write_operation(write)?,
            Command::Limit { set, now } => self.set_limit(set, *now)?,
            Command::Workflow { insert, tasks } => self.insert_workflow(insert, tasks)?,
            Command::Settle { settles } => Output::Settled(self.settle_all(settles)?),
            Command::Restore { restore } => self.restore(restore)?,
        };
        self.applied = index;
        self.broken = false;
        self.tell_names();
        Ok(output)
    }

    /// As if this many lanes and keys were the most.
    #[cfg(test)]
    pub(super) fn bound_lanes(&mut self, lanes: usize, shares: usize) {
        self.names.bounds = (lanes, shares);
    }

    /// Every running task gets a fresh lease: the last step of opening.
    pub(super) fn renew_leases(&mut self) -> Result<(), Error> {
        let now = self.clock.now();
        let running = |queue: &super::names::Queue| queue.by_state[StateName::Running.index()] > 0;
        let queues: Vec<u32> =
            self.names.queues().filter(|(_, queue)| running(queue)).map(|(number, _)| number).collect();
        let mut found: Vec<u64> = Vec::new();
        for queue in queues {
            let state = StateName::Running.index() as u8;
            for seq in self.snapshot.listing(queue, state)? {
                let seq = seq?;
                if !self.dirty.contains(seq) {
                    found.push(seq);
                }
            }
        }
        let changed = self.dirty.below(u64::MAX).filter(|slot| !slot.gone);
        found.extend(changed.map(|slot| slot.record.seq));
        for seq in found {
            let record = self.record(seq)?.ok_or_else(|| missing(seq))?;
            if matches!(record.state, State::Running(_)) {
                self.leases.begin(&record, now);
            }
        }
        drop(self.forget_gained());
        Ok(())
    }

    /// The slot of a task that is there, brought into this generation if need be.
    fn slot(&mut self, seq: u64) -> Result<Option<&mut Slot>, Error> {
        if !self.dirty.is_active(seq) {
            let slot = match self.dirty.next_of_frozen(seq) {
                Some(slot) if slot.gone => return Ok(None),
                Some(slot) => slot,
                None => {
                    let Some(Loaded { record, lane, body }) = self.stored(seq)? else { return Ok(None) };
                    let queue = self.names.queue_of_lane(lane);
                    let home = self.home(lane, &record)?;
                    let base = Some(Box::new(Keys::of(&record, home)));
                    Slot { record, lane, home, queue, body, base, moved_from: None, gone: false }
                }
            };
            // From here on the table's entries for this task do not count, so memory must have them.
            let keys = Keys::of(&slot.record, slot.home);
            let at = |lane: u32, place: Option<index::Place>| place.map(|place| (lane, place));
            let tell = keys.tells.then(|| (TELL_LANE, tell_place(seq)));
            let timers =
                [at(WAKE_LANE, keys.wake), at(ELAPSED_LANE, keys.elapsed), at(PRUNE_LANE, keys.prune)];
            for (lane, place) in timers.into_iter().chain([keys.ready, tell]).flatten() {
                self.index.insert(lane, place, seq);
            }
            self.dirty.insert(slot);
        }
        Ok(self.dirty.active_mut(seq).filter(|slot| !slot.gone))
    }

    fn stored(&self, seq: u64) -> Result<Option<Loaded>, Error> {
        let Some(Row { record: bytes, body }) = self.snapshot.task(seq)? else { return Ok(None) };
        let mut found = 0;
        let names = |lane| {
            found = lane;
            self.names.of_lane(lane).map(|(queue, kind)| (queue.clone(), kind.clone()))
        };
        let record =
            codec::decode_record(seq, bytes, names).map_err(|error| Error::Damaged(error.to_string()))?;
        Ok(Some(Loaded { record, lane: found, body }))
    }

    /// The time of a command, for leases: asked once, because a claim may begin a hundred of them.
    fn moment(&mut self) -> Now {
        *self.moment.get_or_insert_with(|| self.clock.now())
    }

    pub(super) fn dirty_bytes(&self) -> usize {
        self.dirty.bytes()
    }

    /// The changes that are in the log and in no table.
    pub(super) fn unsaved(&self) -> Unsaved {
        self.dirty.unsaved()
    }

    /// How many tasks changed since the last checkpoint began.
    pub(super) fn changed_tasks(&self) -> usize {
        self.dirty.len()
    }

    /// What a checkpoint would write again, and the tables that hold it now.
    pub(super) fn touched(&self) -> (Touched, Arc<Snapshot>) {
        (self.dirty.touched(), Arc::clone(&self.snapshot))
    }

    /// Whether the state can be saved, though there may be nothing new.
    pub(super) fn is_whole(&self) -> bool {
        !self.broken
    }

    /// Whether a checkpoint makes sense: there is something new, and it is whole.
    pub(super) fn can_be_saved(&self) -> bool {
        (self.applied > self.saved || self.changed_names() > 0) && self.is_whole()
    }

    pub(super) fn is_freezing(&self) -> bool {
        self.dirty.is_freezing()
    }

    /// A checkpoint begins: everything that changed so far goes into it.
    pub(super) fn freeze(&mut self) -> Frame {
        self.index.freeze();
        self.saved = self.applied;
        Frame {
            slots: self.dirty.freeze(),
            flow: self.names.flow.take_changed(),
            names: self.names.freeze(),
            schedules: self.schedules.freeze(),
            keys: self.holders.freeze(),
            operations: self.operations.freeze(),
            edges: self.edges.freeze(),
            workflows: self.workflows.freeze(),
            meta: MetaMessage::new(self.applied, self.next_number, self.next_claim, &self.ledger),
        }
    }

    /// The checkpoint is done. Returns what is left to drop, for a thread with time for it.
    pub(super) fn thaw(&mut self, snapshot: Snapshot) -> impl Sized + use<> {
        let old = std::mem::replace(&mut self.snapshot, Arc::new(snapshot));
        let rest = (self.holders.thaw(), self.edges.thaw(), self.workflows.thaw());
        (old, self.dirty.thaw(), self.index.thaw(), rest)
    }
}

fn missing(seq: u64) -> Error {
    Error::Damaged(format!("task {seq} is in the index but not in the store"))
}

fn decode_body(seq: u64, bytes: Bytes) -> Result<Body, Error> {
    codec::decode_body(bytes).map_err(|error| Error::Damaged(format!("the body of task {seq}: {error}")))
}
