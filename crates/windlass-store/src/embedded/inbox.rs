//! What waits to be written. Who commits takes everything that is there at once: the busier the store, the larger the
//! groups, with no artificial delay.

use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::claims::Request;
use super::command::Command;
use crate::store::{
    Committed, Error, Inserted, LimitWritten, OperationWritten, Restored, ScheduleWritten, Settled,
    WorkflowInserted,
};

/// Bytes and operations that may wait: beyond them callers are told to come again.
const WAITING_BYTES_MAX: usize = 64 << 20;
const WAITING_OPS_MAX: usize = 100_000;
/// What one group takes at most, so that the first of it does not wait for a disk busy with the last.
const GROUP_BYTES_MAX: usize = 8 << 20;
const GROUP_OPS_MAX: usize = 4096;

/// Where writing and syncing a group takes longer than this on average, the threads of the store have two on their way at once, and no
/// caller commits in its own.
const SLOW_DISK: Duration = Duration::from_micros(400);

#[derive(Debug)]
pub(super) struct Op {
    pub(super) command: Command,
    /// The command as the log takes it; empty for a claim, which is stamped and encoded when it is taken.
    pub(super) entry: Bytes,
    pub(super) reply: Reply,
}

#[derive(Debug)]
pub(super) enum Reply {
    Inserted(oneshot::Sender<Result<Vec<Inserted>, Error>>),
    Claimed(Request),
    Committed(oneshot::Sender<Result<Vec<Committed>, Error>>),
    Settled(oneshot::Sender<Result<Vec<Settled>, Error>>),
    Paused(oneshot::Sender<Result<(), Error>>),
    Scheduled(oneshot::Sender<Result<ScheduleWritten, Error>>),
    Operated(oneshot::Sender<Result<OperationWritten, Error>>),
    Limited(oneshot::Sender<Result<LimitWritten, Error>>),
    Workflow(oneshot::Sender<Result<WorkflowInserted, Error>>),
    Restored(oneshot::Sender<Result<Vec<Restored>, Error>>),
    /// Nobody asked: tasks given back for a caller who went away.
    Nobody,
}

impl Op {
    /// What it will take in the log, about.
    fn bytes(&self) -> usize {
        match &self.command {
            Command::Claim { claim, .. } => {
                let queues = claim.queues.iter().map(|queue| queue.name.as_str().len() + 4);
                let types = claim.types.iter().flatten().map(|kind| kind.as_str().len() + 4);
                128 + queues.chain(types).sum::<usize>()
            }
            _ => self.entry.len(),
        }
    }
}

impl Reply {
    pub(super) fn refuse(self, error: Error) {
        // A caller who has gone needs no answer.
        match self {
            Reply::Inserted(reply) => drop(reply.send(Err(error))),
            Reply::Committed(reply) => drop(reply.send(Err(error))),
            Reply::Settled(reply) => drop(reply.send(Err(error))),
            Reply::Paused(reply) => drop(reply.send(Err(error))),
            Reply::Scheduled(reply) => drop(reply.send(Err(error))),
            Reply::Operated(reply) => drop(reply.send(Err(error))),
            Reply::Limited(reply) => drop(reply.send(Err(error))),
            Reply::Workflow(reply) => drop(reply.send(Err(error))),
            Reply::Restored(reply) => drop(reply.send(Err(error))),
            Reply::Claimed(request) => request.answer(Err(error)),
            Reply::Nobody => {}
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ops: Vec<Op>,
    bytes: usize,
    closed: Option<Error>,
    /// Groups that were taken and are not durable.
    under_way: usize,
    /// Operations in the group that was taken last.
    latest: usize,
    /// What a group took lately to become durable.
    took: Duration,
    /// A waiting thread must compute its deadline again.
    nudged: bool,
}

impl State {
    /// For how many it is worth to begin: for one if nothing is on its way, for half of the last group if something is and
    /// the disk is slow. A fast one has done its work before a second group would have made up for its cost.
    fn enough(&self) -> usize {
        match self.under_way {
            0 => 1,
            _ if self.took < SLOW_DISK => usize::MAX,
            _ => (self.latest / 2).max(1),
        }
    }

    fn take(&mut self) -> Vec<Op> {
        if self.ops.len() <= GROUP_OPS_MAX && self.bytes <= GROUP_BYTES_MAX {
            self.bytes = 0;
            return std::mem::take(&mut self.ops);
        }
        let mut bytes = 0;
        let within = self.ops.iter().take(GROUP_OPS_MAX).take_while(|op| {
            bytes += op.bytes();
            bytes <= GROUP_BYTES_MAX
        });
        let count = within.count().max(1);
        let rest = self.ops.split_off(count);
        let group = std::mem::replace(&mut self.ops, rest);
        self.bytes = self.ops.iter().map(Op::bytes).sum();
        group
    }
}

impl Inbox {
    /// Adds an operation, or answers it with the reason why not.
    pub(super) fn push(&self, op: Op) {
        self.add(op, WAITING_OPS_MAX, WAITING_BYTES_MAX, true);
    }

    /// Adds an operation for whoever takes the next group, which the caller is about to do.
    pub(super) fn push_quietly(&self, op: Op) {
        self.add(op, WAITING_OPS_MAX, WAITING_BYTES_MAX, false);
    }

    /// Adds a claim that was woken. Those who wait are bounded already, and a refusal would leave its task to nobody.
    pub(super) fn push_woken(&self, op: Op) {
        self.add(op, usize::MAX, usize::MAX, true);
    }

    fn add(&self, op: Op, ops_max: usize, bytes_max: usize, loudly: bool) {
        let mut state = self.state.lock();
        let full = state.ops.len() >= ops_max || state.bytes > bytes_max;
        let refusal = state.closed.clone().or(full.then_some(Error::Busy));
        if let Some(error) = refusal {
            drop(state);
            return op.reply.refuse(error);
        }
        state.bytes += op.bytes();
        state.ops.push(op);
        if loudly && state.ops.len() == state.enough() {
            self.filled.notify_one();
        }
    }

    /// Whether a group is durable in no time.
    pub(super) fn is_quick(&self) -> bool {
        self.state.lock().took < SLOW_DISK
    }

    /// As if every group had been durable at once: a busy machine may have said otherwise.
    #[cfg(test)]
    pub(super) fn forget_times(&self) {
        self.state.lock().took = Duration::ZERO;
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.state.lock().ops.len()
    }

    /// Whether as much waits as a group should have, next to the last one.
    pub(super) fn has_gathered(&self) -> bool {
        let state = self.state.lock();
        state.ops.len() >= state.latest / 2
    }

    /// Waits until a group is due, or `until`. False when nothing waits and nothing ever will.
    pub(super) fn wait(&self, until: Option<Instant>) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.closed.is_some() {
                return !state.ops.is_empty();
            }
            if state.ops.len() >= state.enough() || std::mem::take(&mut state.nudged) {
                return true;
            }
            match until {
                None => self.filled.wait(&mut state),
                Some(until) => {
                    if self.filled.wait_until(&mut state, until).timed_out() {
                        return true;
                    }
                }
            }
        }
    }

    /// Wakes one waiting thread, so that it waits with a new deadline.
    pub(super) fn nudge(&self) {
        self.state.lock().nudged = true;
        self.filled.notify_one();
    }

    /// The next group. It may be empty, if another thread was faster.
    pub(super) fn take(&self) -> Vec<Op> {
        let mut state = self.state.lock();
        let group = state.take();
        if !group.is_empty() {
            state.under_way += 1;
            state.latest = group.len();
        }
        if state.ops.len() >= state.enough() {
            self.filled.notify_one();
        }
        group
    }

    /// A group that was taken is durable, after this time.
    pub(super) fn landed(&self, took: Duration) {
        let mut state = self.state.lock();
        state.under_way -= 1;
        state.took = (state.took * 7 + took) / 8;
        if state.ops.len() >= state.enough() {
            self.filled.notify_one();
        }
    }

    /// Gives back what did not fit into a group; it comes first in the next.
    pub(super) fn put_back(&self, mut ops: Vec<Op>) {
        let mut state = self.state.lock();
        state.bytes += ops.iter().map(Op::bytes).sum::<usize>();
        ops.append(&mut state.ops);
        state.ops = ops;
    }

    /// Nobody takes anything any more: whoever is left is told.
    pub(super) fn refuse_all(&self) {
        let mut state = self.state.lock();
        let error = state.closed.get_or_insert(Error::Closed).clone();
        let left = std::mem::take(&mut state.ops);
        drop(state);
        left.into_iter().for_each(|op| op.reply.refuse(error.clone()));
    }

    /// Refuses what comes from here on; what waits is still taken.
    pub(super) fn close(&self, error: Error) {
        let mut state = self.state.lock();
        state.closed.get_or_insert(error);
        self.filled.notify_all();
    }

    pub(super) fn closed(&self) -> Option<Error> {
        self.state.lock().closed.clone()
    }
}

/// How long written entries may be left unsynced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    EveryGroup,
    Every(Duration),
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(inbox: &Inbox, count: usize) {
        for _ in 0..count {
            let command = Command::Settle { settles: Vec::new() };
            inbox.push(Op { command, entry: Bytes::from_static(b"entry"), reply: Reply::Nobody });
        }
    }

    /// Whether a group is due at once.
    fn due(inbox: &Inbox) -> bool {
        let state = inbox.state.lock();
        state.ops.len() >= state.enough()
    }

    #[test]
    fn a_group_goes_beside_another_when_half_as_many_wait() {
        let inbox = Inbox::default();
        inbox.state.lock().took = 2 * SLOW_DISK;
        assert!(!due(&inbox) && !inbox.is_quick());
        add(&inbox, 1);
        assert!(due(&inbox), "nothing is on its way");
        add(&inbox, 7);
        assert_eq!(inbox.take().len(), 8);
        add(&inbox, 3);
        assert!(!due(&inbox));
        add(&inbox, 1);
        assert!(due(&inbox));
        assert_eq!(inbox.take().len(), 4);
        add(&inbox, 1);
        inbox.landed(2 * SLOW_DISK);
        assert!(!due(&inbox), "one group is still on its way");
        inbox.landed(2 * SLOW_DISK);
        assert!(due(&inbox));
    }

    #[test]
    fn on_a_fast_disk_groups_go_one_by_one() {
        let inbox = Inbox::default();
        inbox.state.lock().took = 2 * SLOW_DISK;
        for _ in 0..20 {
            add(&inbox, 8);
            inbox.take();
            inbox.landed(SLOW_DISK / 2);
        }
        assert!(inbox.is_quick());
        add(&inbox, 8);
        inbox.take();
        add(&inbox, 100);
        assert!(!due(&inbox));
        inbox.landed(SLOW_DISK / 2);
        assert!(due(&inbox));
    }

    #[test]
    fn who_waits_is_woken_when_the_other_group_has_landed() {
        let inbox = Inbox::default();
        add(&inbox, 8);
        inbox.take();
        add(&inbox, 1);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| inbox.wait(None));
            inbox.landed(SLOW_DISK);
            assert!(waiting.join().unwrap());
        });
        assert_eq!(inbox.take().len(), 1);
        inbox.close(Error::Closed);
        assert!(!inbox.wait(None), "nothing is left, nothing comes");
    }
}
