//! The maps, and the one place where a task moves between them.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use windlass_core::{
    Change, Class, Name, Now, Record, State, StateName, Task, TaskId, Transition, UniqueKey, Wakes,
};

use super::dependents::Dependents;
use super::leases::Leases;
use super::ready::Ready;
use super::serving::Waiter;
use super::workflows::Workflows;
use crate::operations::Operations;
use crate::schedules::Schedules;
use crate::store::{Committed, Due, Ledger, QueueCounts, Signals};
use crate::waiting::Waiting;

/// Pairs of a time and the `seq` of the task that is due then.
pub(super) type Timers = BTreeSet<(u64, u64)>;

#[derive(Debug)]
pub(super) struct Tables {
    pub(super) closed: bool,
    pub(super) tasks: BTreeMap<u64, Task>,
    pub(super) ids: HashMap<TaskId, u64>,
    pub(super) ready: Ready,
    /// Timers on the wall clock.
    pub(super) wakes: Timers,
    /// Timers on elapsed time, like `prunes`.
    pub(super) counted: Timers,
    pub(super) prunes: Timers,
    pub(super) leases: Leases,
    pub(super) queues: BTreeMap<Name, Queue>,
    pub(super) ledger: Ledger,
    pub(super) schedules: Schedules,
    /// The task that took each unique key last, as long as it lives.
    pub(super) keys: HashMap<UniqueKey, u64>,
    pub(super) operations: Operations,
    pub(super) dependents: Dependents,
    pub(super) workflows: Workflows,
    pub(super) signals: Arc<Signals>,
    /// What the loop that opens gates waits for.
    pub(super) awaited_gate: u64,
    pub(super) waiting: Waiting<Waiter>,
    /// Lanes that got a ready task since waiting claims were served last.
    pub(super) readied: VecDeque<(Name, Name)>,
    /// The last number given to a task or to a new place in line.
    pub(super) number: u64,
    /// The last number given to a lease.
    pub(super) claims: u64,
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) counts: QueueCounts,
    /// `created_at` and `seq` of the pending tasks.
    pub(super) pending: BTreeSet<(u64, u64)>,
}

impl Tables {
    pub(super) fn new(signals: Arc<Signals>) -> Self {
        Self {
            closed: false,
            tasks: BTreeMap::new(),
            ids: HashMap::new(),
            ready: Ready::new(),
            wakes: Timers::new(),
            counted: Timers::new(),
            prunes: Timers::new(),
            leases: Leases::default(),
            queues: BTreeMap::new(),
            ledger: Ledger::default(),
            schedules: Schedules::default(),
            keys: HashMap::new(),
            operations: Operations::default(),
            dependents: Dependents::default(),
            workflows: Workflows::default(),
            signals,
            awaited_gate: u64::MAX,
            waiting: Waiting::default(),
            readied: VecDeque::new(),
            number: 0,
            claims: 0,
        }
    }

    /// The number that the next task will have.
    pub(super) fn next_seq(&self) -> u64 {
        self.number + 1
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    pub(super) fn commit(&mut self, transition: &Transition, now: Now) -> Committed {
        let Some(task) = self.find(&transition.id) else { return Committed::Missing };
        let Record { seq, revision, awaited, .. } = task.record;
        // Leases are given out by claims alone: they number the tokens.
        let claimed = matches!(transition.change, Change::Claimed { .. });
        if claimed || (seq, revision) != (transition.seq, transition.revision) {
            return Committed::Conflict;
        }
        if let Change::Requeued { at, .. } = transition.change
            && let Some(holder) = self.key_holder(&task.record, at)
        {
            return Committed::KeyHeld(holder);
        }
        match &transition.change {
            Change::Removed { .. } if awaited => return Committed::Conflict,
            Change::Requeued { after, .. } => {
                let found: Option<Vec<u64>> = after.iter().map(|id| self.ids.get(id).copied()).collect();
                let Some(parents) = found else { return Committed::Conflict };
                self.wait_for(seq, &parents);
            }
            _ => {}
        }
        Committed::Done(Box::new(self.change(seq, &transition.change, now)))
    }

    /// Makes a decided change of a task that is there, and returns its record afterwards.
    pub(super) fn change(&mut self, seq: u64, change: &Change, now: Now) -> Record {
        // A checkpoint moves nothing between the maps, and is no business of the lease.
        if let Change::Checkpointed { .. } = change {
            let record = &mut self.tasks.get_mut(&seq).expect("only tasks that are there change").record;
            record.evolve(change, record.order);
            self.signals.changed(Some(change), record);
            return record.clone();
        }
        let mut task = self.exit(seq);
        let before = task.record.state_name();
        let queue = task.record.queue.clone();
        let order = if change.takes_place() { self.next_number() } else { task.record.order };
        task.record.evolve(change, order);
        self.ledger.count(change);
        let record = task.record.clone();
        self.signals.changed(Some(change), &record);
        self.settle_key(&record, change);
        let gone = matches!(change, Change::Removed { .. });
        if record.member {
            self.workflows.moved(seq, Some(before), (!gone).then(|| record.state_name()));
        }
        if gone {
            self.ids.remove(&record.id);
            self.ready.forget(&record, before);
        } else if record.queue != queue {
            self.ready.forget(&Record { queue, ..record.clone() }, before);
            self.enter(task, None, now);
        } else {
            self.enter(task, Some(before), now);
        }
        record
    }

    /// Puts a task into every map it belongs in; `before` is the state from which it comes, if it was there.
    pub(super) fn enter(&mut self, task: Task, before: Option<StateName>, now: Now) {
        let record = &task.record;
        let seq = record.seq;
        let queue = self.queue(&record.queue);
        queue.counts.by_state[record.state_name().index()] += 1;
        match &record.state {
            State::Pending => {
                queue.counts.pending_by_class[class_index(record)] += 1;
                queue.pending.insert((record.created_at, seq));
                self.readied.push_back((record.queue.clone(), record.kind.clone()));
            }
            State::Running(lease) => {
                let deadline = now.mono.saturating_add(lease.lease_ms);
                self.leases.set(seq, deadline, &self.signals.leases);
            }
            _ => {}
        }
        self.ready.enter(record, before);
        let wakes = record.wakes();
        for (timers, at) in [(&mut self.wakes, wakes.wall), (&mut self.counted, wakes.elapsed)] {
            if let Some(at) = at {
                start(timers, (at, seq), &self.signals.due);
            }
        }
        self.tasks.insert(seq, task);
        self.enter_ends(seq);
    }

    /// The part of [`Tables::enter`] that depends on whether others wait for the task.
    pub(super) fn enter_ends(&mut self, seq: u64) {
        let record = &self.tasks[&seq].record;
        if let Some(at) = record.prune_at() {
            start(&mut self.prunes, (at, seq), &self.signals.prunable);
        }
        if record.must_tell() {
            self.dependents.ended.insert(seq);
            self.signals.dependents.notify_one();
        }
    }

    pub(super) fn leave_ends(&mut self, seq: u64) {
        let record = &self.tasks[&seq].record;
        if let Some(at) = record.prune_at() {
            self.prunes.remove(&(at, seq));
        }
        if record.must_tell() {
            self.dependents.ended.remove(&seq);
        }
    }

    /// Takes a task out of every map but that of the ids.
    fn exit(&mut self, seq: u64) -> Task {
        self.leave_ends(seq);
        let task = self.tasks.remove(&seq).expect("only tasks that are there change");
        let record = &task.record;
        let queue = self.queue(&record.queue);
        queue.counts.by_state[record.state_name().index()] -= 1;
        match record.state {
            State::Pending => {
                queue.counts.pending_by_class[class_index(record)] -= 1;
                queue.pending.remove(&(record.created_at, seq));
                self.ready.leave(record);
            }
            State::Running(_) => self.leases.end(seq),
            _ => {}
        }
        let wakes = record.wakes();
        for (timers, at) in [(&mut self.wakes, wakes.wall), (&mut self.counted, wakes.elapsed)] {
            if let Some(at) = at {
                timers.remove(&(at, seq));
            }
        }
        task
    }

    pub(super) fn queue(&mut self, name: &Name) -> &mut Queue {
        if !self.queues.contains_key(name) {
            self.ready.add_queue(name);
        }
        self.queues.entry(name.clone()).or_insert_with(|| Queue {
            counts: QueueCounts {
                name: name.clone(),
                paused: false,
                by_state: [0; StateName::ALL.len()],
                pending_by_class: [0; Class::ALL.len()],
                oldest_pending_at: None,
            },
            pending: BTreeSet::new(),
        })
    }

    pub(super) fn set_paused(&mut self, name: &Name, paused: bool) {
        self.queue(name).counts.paused = paused;
        if paused {
            return;
        }
        self.ready.names.consider_queue(name);
        self.readied.extend(self.ready.lanes_of(name));
    }

    pub(super) fn find(&self, id: &TaskId) -> Option<&Task> {
        self.ids.get(id).map(|seq| &self.tasks[seq])
    }

    pub(super) fn due(&self, limit: usize, now: Now) -> Due {
        let (on_wall, wall) = self.come_up(&self.wakes, limit, now.wall);
        let (counted, elapsed) = self.come_up(&self.counted, limit, now.elapsed());
        Due::of_both(on_wall, counted, Wakes { wall, elapsed }, now.stamp(), limit)
    }

    pub(super) fn prunable(&self, limit: usize, now: Now) -> Due {
        let (tasks, next) = self.come_up(&self.prunes, limit, now.elapsed());
        Due { tasks, next: next.map(|at| now.stamp().shown(at)) }
    }

    /// The tasks in `timers` whose time has come, and when the next one is due.
    fn come_up(&self, timers: &Timers, limit: usize, now: u64) -> (Vec<Task>, Option<u64>) {
        let tasks: Vec<Task> = timers
            .iter()
            .take_while(|(at, _)| *at <= now)
            .take(limit)
            .map(|(_, seq)| self.tasks[seq].clone())
            .collect();
        let next = timers.iter().nth(tasks.len()).map(|(at, _)| *at);
        (tasks, next)
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
        // Whoever waits learns it by the end of its channel.
        self.waiting.clear();
    }
}

fn class_index(record: &Record) -> usize {
    record.priority.class() as usize
}

/// Adds a timer, and tells the loop that waits for the nearest one if this one is nearer.
fn start(timers: &mut Timers, timer: (u64, u64), nearer: &tokio::sync::Notify) {
    if timers.first().is_none_or(|first| timer.0 < first.0) {
        nearer.notify_one();
    }
    timers.insert(timer);
}
