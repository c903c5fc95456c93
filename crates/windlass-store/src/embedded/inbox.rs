//! What waits to be written. The writer takes everything that is there at once: the busier the store, the larger the
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

#[derive(Debug)]
pub(super) struct Op {
    pub(super) command: Command,
    /// The command as the log takes it; empty for a claim, which is stamped and encoded by the writer.
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
}

impl Inbox {
    /// Adds an operation, or answers it with the reason why not.
    pub(super) fn push(&self, op: Op) {
        self.add(op, WAITING_OPS_MAX, WAITING_BYTES_MAX);
    }

    /// Adds a claim that was woken. Those who wait are bounded already, and a refusal would leave its task to nobody.
    pub(super) fn push_woken(&self, op: Op) {
        self.add(op, usize::MAX, usize::MAX);
    }

    fn add(&self, op: Op, ops_max: usize, bytes_max: usize) {
        let mut state = self.state.lock();
        let full = state.ops.len() >= ops_max || state.bytes > bytes_max;
        let refusal = state.closed.clone().or(full.then_some(Error::Busy));
        if let Some(error) = refusal {
            drop(state);
            return op.reply.refuse(error);
        }
        state.bytes += op.bytes();
        state.ops.push(op);
        if state.ops.len() == 1 {
            self.filled.notify_one();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.state.lock().ops.len()
    }

    /// The next group, as soon as there is one. Empty when `until` came first; `None` when closed and empty.
    pub(super) fn take(&self, until: Option<Instant>) -> Option<Vec<Op>> {
        let mut state = self.state.lock();
        while state.ops.is_empty() {
            if state.closed.is_some() {
                return None;
            }
            match until {
                None => self.filled.wait(&mut state),
                Some(until) => {
                    if self.filled.wait_until(&mut state, until).timed_out() {
                        return Some(Vec::new());
                    }
                }
            }
        }
        if state.ops.len() <= GROUP_OPS_MAX && state.bytes <= GROUP_BYTES_MAX {
            state.bytes = 0;
            return Some(std::mem::take(&mut state.ops));
        }
        let mut bytes = 0;
        let within = state.ops.iter().take(GROUP_OPS_MAX).take_while(|op| {
            bytes += op.bytes();
            bytes <= GROUP_BYTES_MAX
        });
        let count = within.count().max(1);
        let rest = state.ops.split_off(count);
        let group = std::mem::replace(&mut state.ops, rest);
        state.bytes = state.ops.iter().map(Op::bytes).sum();
        Some(group)
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

/// How long the writer may leave written entries unsynced.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pace {
    EveryGroup,
    Every(Duration),
    Never,
}
