//! The threads that commit.
//!
//! There are two of the same kind. One at a time takes everything that waits and writes it to the log as one group. It then
//! syncs the group, applies it to the state when the one before it has been applied, and answers. So while one thread waits for
//! a slow disk or applies, the other can be on its way with the next group: what comes meanwhile does not wait for the whole of it.
//! It waits for half as many as went last, because a group costs the same whether it is large or small.
//!
//! A caller whose thread is free commits in the same way (`here.rs`): a fast disk is done before a thread of the store would be awake.
//!
//! No answer is given, and no read sees anything, before it is durable. Groups are applied in the order of the log, whichever sync ends
//! first: who fails never applies, so nothing that stands behind a failed group is ever answered.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::{Notify, watch};
use windlass_core::Name;
use windlass_core::flow::Scope;

use super::answers::{Answer, settle};
use super::backup::Backups;
use super::checkpoint::Bell;
use super::claims::Waiter;
use super::command::Command;
use super::desk::Desk;
use super::gauges::Gauges;
use super::handover::{Limited, hand_over};
use super::inbox::{Inbox, Op, Reply};
use super::machine::{Gained, Machine};
use super::space::{Admitted, Space, Unsaved};
use crate::clock::Clock;
use crate::log::{self, Log, StoreId};
use crate::store::{Error, Signals};
use crate::waiting::Waiting;

/// What the threads and the callers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) machine: Mutex<Machine>,
    /// Signalled when a checkpoint has made room in memory.
    pub(super) room: Condvar,
    pub(super) inbox: Inbox,
    pub(super) waiting: Mutex<Waiting<Waiter>>,
    pub(super) bell: Bell,
    pub(super) space: Space,
    /// Rings after every checkpoint, and after one that had no room.
    pub(super) saved: Notify,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) signals: Arc<Signals>,
    pub(super) failure: watch::Sender<Option<String>>,
    pub(super) limits: MemoryLimits,
    pub(super) gauges: Gauges,
    /// Signalled when a group has been applied: the next one is due.
    pub(super) turn: Condvar,
    pub(super) limited: Limited,
    /// Whether groups are applied before they are synced. If so, a checkpoint syncs the log first.
    pub(super) log_lags: bool,
    pub(super) backups: Backups,
    pub(super) store: StoreId,
}

/// Bytes of changed tasks in memory, and how long they stay there.
#[derive(Debug, Clone, Copy)]
pub(super) struct MemoryLimits {
    /// A checkpoint begins.
    pub(super) checkpoint_bytes: usize,
    /// It begins within a time, the shorter one if there is more than this.
    pub(super) lasting_bytes: usize,
    pub(super) interval: Duration,
    /// Applying waits for the checkpoint under way.
    pub(super) stop_bytes: usize,
    /// A checkpoint begins after this much log, so that a restart has little to replay.
    pub(super) log_bytes: u64,
}

impl MemoryLimits {
    /// How long this much may stay.
    pub(super) fn time_for(&self, dirty_bytes: usize) -> Duration {
        /// Long enough for most tasks of a busy queue to end, so that they are saved once.
        const MUCH: Duration = Duration::from_secs(2);
        if dirty_bytes > self.lasting_bytes { self.interval.min(MUCH) } else { self.interval }
    }
}

impl Shared {
    /// The store ends for good. Whoever waits is told.
    pub(super) fn fail(&self, message: String) {
        if self.failed().is_some() {
            return;
        }
        tracing::error!(error = message, "the store has stopped");
        let error = Error::Failed(message.clone());
        self.inbox.close(error.clone());
        self.failure.send_if_modified(|failure| {
            let first = failure.is_none();
            failure.get_or_insert(message);
            first
        });
        self.dismiss(&error);
        self.bell.close();
        // Somebody may be waiting for a checkpoint that will never be done, or for a group that will never be applied.
        drop(self.machine.lock());
        self.room.notify_all();
        self.turn.notify_all();
        self.saved.notify_waiters();
    }

    /// Whether new tasks must wait for disk space. If so, it requests a checkpoint, which may free some.
    pub(super) fn is_short(&self) -> bool {
        let short = self.space.is_short();
        if short {
            self.bell.free_soon();
        }
        short
    }

    /// Admits a submit of this size. If there is no room, it requests a checkpoint, as [`Shared::is_short`] does.
    pub(super) fn admit(&self, submit: Unsaved) -> Result<Admitted<'_>, Error> {
        self.space.admit(submit).inspect_err(|_| self.bell.free_soon())
    }

    pub(super) fn failed(&self) -> Option<Error> {
        self.failure.borrow().clone().map(Error::Failed)
    }

    /// Runs the body of a thread; an error or a panic in it ends the store.
    pub(super) fn guard(&self, body: impl FnOnce() -> Result<(), Error>) {
        match catch_unwind(AssertUnwindSafe(body)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.fail(error.to_string()),
            Err(_) => self.fail("a thread of the store panicked".to_owned()),
        }
    }
}

/// The body of a thread that commits. However it ends, it leaves.
pub(super) fn commit(shared: &Arc<Shared>, desk: &Desk) -> Result<(), Error> {
    shared.guard(|| {
        while shared.inbox.wait(desk.deadline()) {
            gather(shared);
            if commit_group(shared, desk)? == 0 {
                desk.vouch()?;
            }
        }
        Ok(())
    });
    desk.leave(shared);
    Ok(())
}

/// Says how many commands were committed.
pub(super) fn commit_group(shared: &Arc<Shared>, desk: &Desk) -> Result<usize, Error> {
    let mut writing = desk.writing.lock();
    let mut ops = shared.inbox.take();
    let taken = !ops.is_empty();
    let began = Instant::now();
    hand_over(shared, &mut ops);
    let now = shared.clock.now();
    for op in &mut ops {
        match &mut op.command {
            Command::Claim { now: stamp, .. } => *stamp = now.stamp(),
            Command::Limit { now: stamp, .. } => *stamp = now.wall,
            _ => continue,
        }
        op.entry = op.command.encode();
    }
    let first = append(shared, &mut writing.log, &mut ops)?;
    let unsynced = writing.due(desk.pace, !ops.is_empty());
    if !ops.is_empty() {
        writing.latest = began;
        if desk.note_written() {
            shared.inbox.nudge();
        }
    }
    if writing.log.written_bytes() - writing.saved_bytes > shared.limits.log_bytes {
        writing.saved_bytes = writing.log.written_bytes();
        shared.bell.ring();
    }
    drop(writing);
    if let Some(unsynced) = unsynced {
        unsynced.sync().map_err(fatal)?;
    }
    if taken {
        shared.inbox.landed(began.elapsed());
    }
    shared.gauges.note(&ops, began);
    let count = ops.len();
    if count > 0 {
        apply_group(shared, first, ops)?;
    }
    Ok(count)
}

/// Lets those run who are about to add to the next group. After a large group many callers have just been answered, and
/// on a busy machine they wait for this thread's core: syncing the first few of them alone would cost as much as all of
/// them. It is not a delay, since on a machine with nothing else to run every yield returns at once.
fn gather(shared: &Shared) {
    const YIELDS_MAX: usize = 8;
    for _ in 0..YIELDS_MAX {
        if shared.inbox.has_gathered() {
            return;
        }
        std::thread::yield_now();
    }
}

/// Appends a group. Without room, new tasks are refused and the rest is tried alone; what is too much for one frame
/// goes back to be written with the next group.
fn append(shared: &Shared, log: &mut Log, ops: &mut Vec<Op>) -> Result<u64, Error> {
    loop {
        match log.append(ops.iter().map(|op| &op.entry)) {
            Ok(first) => return Ok(first),
            Err(error @ (log::Error::NoSpace { .. } | log::Error::NoFiles { .. })) => {
                let why = match error {
                    log::Error::NoSpace { .. } => Error::NoSpace,
                    _ => Error::Busy,
                };
                let (refused, rest): (Vec<Op>, Vec<Op>) = std::mem::take(ops).into_iter().partition(|op| {
                    matches!(
                        op.reply,
                        Reply::Inserted(_) | Reply::Scheduled(_) | Reply::Workflow(_) | Reply::Restored(_)
                    )
                });
                let nothing_helps = refused.is_empty();
                refused.into_iter().for_each(|op| op.reply.refuse(why.clone()));
                if nothing_helps {
                    rest.into_iter().for_each(|op| op.reply.refuse(why.clone()));
                } else {
                    *ops = rest;
                }
            }
            Err(log::Error::TooLarge) if ops.len() > 1 => shared.inbox.put_back(ops.split_off(ops.len() / 2)),
            Err(log::Error::TooLarge) => {
                std::mem::take(ops).into_iter().for_each(|op| op.reply.refuse(Error::TooLarge));
            }
            Err(error) => return Err(fatal(error)),
        }
    }
}

fn apply_group(shared: &Arc<Shared>, first: u64, ops: Vec<Op>) -> Result<(), Error> {
    let mut answers = Vec::with_capacity(ops.len());
    let mut machine = shared.machine.lock();
    while machine.applied() + 1 != first {
        if let Some(error) = shared.failed() {
            return Err(error);
        }
        shared.turn.wait(&mut machine);
    }
    while machine.dirty_bytes() > shared.limits.stop_bytes && machine.is_freezing() {
        if let Some(error) = shared.failed() {
            return Err(error);
        }
        shared.room.wait(&mut machine);
    }
    let waited_for = shared.has_waiters();
    let mut served_at: BTreeSet<Name> = BTreeSet::new();
    for (index, op) in (first..).zip(ops) {
        let output = machine.apply(index, &op.command)?;
        if waited_for && let Command::Claim { claim, .. } = &op.command {
            served_at.extend(claim.queues.iter().map(|queue| queue.name.clone()));
        }
        match &op.command {
            Command::Limit { set, .. } => shared.limited.note(&machine, set.scope, &set.name),
            Command::Pause { queue, .. } => shared.limited.note(&machine, Scope::Queue, queue),
            _ => {}
        }
        answers.extend(settle(shared, &machine, op, output));
    }
    let gained = if shared.has_waiters() {
        machine.opened(&mut served_at);
        shared.look_again(&mut machine, &served_at);
        machine.take_gained()
    } else {
        machine.forget_gained()
    };
    machine.tell_gates();
    let dirty_bytes = machine.dirty_bytes();
    shared.space.note_unsaved(machine.unsaved());
    let much = dirty_bytes > shared.limits.checkpoint_bytes || shared.space.is_tight();
    let grown = much && !machine.is_freezing();
    // While the state is locked, so that a checkpoint that begins takes its time with it.
    shared.bell.save_within(shared.limits.time_for(dirty_bytes));
    if shared.space.is_short() {
        shared.bell.free_soon();
    }
    drop(machine);
    shared.turn.notify_all();
    answers.into_iter().for_each(Answer::send);
    wake(shared, gained);
    if grown {
        shared.bell.ring();
    }
    Ok(())
}

fn wake(shared: &Shared, mut gained: Gained) {
    for (queue, kind, count) in gained.lanes {
        let room = gained.rooms.get(&queue).copied().unwrap_or(usize::MAX);
        let woken = shared.take_waiters(&queue, &kind, count.min(room));
        let hoped: usize = woken.iter().map(|waiter| waiter.claim.max as usize).sum();
        if let Some(room) = gained.rooms.get_mut(&queue) {
            *room -= hoped.min(count.min(*room));
        }
        for Waiter { claim, request } in woken {
            shared.serve_woken(claim, request);
        }
    }
}

pub(super) fn fatal(error: log::Error) -> Error {
    Error::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_is_saved_soon() {
        let limits = MemoryLimits {
            checkpoint_bytes: 100,
            lasting_bytes: 10,
            interval: Duration::from_secs(60),
            stop_bytes: 200,
            log_bytes: 1000,
        };
        assert_eq!(limits.time_for(10), limits.interval);
        assert!(limits.time_for(11) < limits.interval / 10);
        let hasty = MemoryLimits { interval: Duration::from_millis(5), ..limits };
        assert_eq!(hasty.time_for(11), hasty.interval, "nothing stays longer than the interval");
    }
}
