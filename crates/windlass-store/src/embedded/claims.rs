//! Claims on their way: waiting for work, being served, or left by a caller who went away.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use windlass_core::transition;
use windlass_core::{Name, Stamp, State, Task, Transition};

use super::command::Command;
use super::engine::Shared;
use super::inbox::{Op, Reply};
use super::machine::Machine;
use crate::store::{Claim, Error};
use crate::waiting::Ticket;

/// The asking side of a claim, wherever the claim is at the moment.
#[derive(Debug)]
pub(super) struct Request {
    reply: oneshot::Sender<Result<Delivery, Error>>,
    call: Arc<Call>,
}

/// What both sides know of a claim. Locked after the line of waiting claims, never before.
#[derive(Debug, Default)]
pub(super) struct Call {
    state: Mutex<CallState>,
}

#[derive(Debug, Default)]
struct CallState {
    /// The caller's time is up or it went away: do not wait any more.
    over: bool,
    ticket: Option<Ticket>,
}

/// Leased tasks on their way to the caller. If it never takes them they are given back.
#[derive(Debug)]
pub(super) struct Delivery {
    tasks: Vec<Task>,
    store: Weak<Shared>,
}

impl Delivery {
    pub(super) fn new(tasks: Vec<Task>, store: &Arc<Shared>) -> Self {
        Self { tasks, store: Arc::downgrade(store) }
    }

    pub(super) fn take(mut self) -> Vec<Task> {
        std::mem::take(&mut self.tasks)
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if self.tasks.is_empty() {
            return;
        }
        let Some(store) = self.store.upgrade() else { return };
        let now = store.clock.now();
        let release = |task: &Task| {
            let State::Running(lease) = &task.record.state else { return None };
            let change = transition::release(&task.record, lease.token, None, now).ok().flatten()?;
            let record = &task.record;
            Some(Transition { id: record.id.clone(), seq: record.seq, revision: record.revision, change })
        };
        let command = Command::Commit { transitions: self.tasks.iter().filter_map(release).collect() };
        let entry = command.encode();
        // If even this is refused, the lease runs out.
        store.inbox.push(Op { command, entry, reply: Reply::Nobody });
    }
}

impl Request {
    pub(super) fn new(reply: oneshot::Sender<Result<Delivery, Error>>) -> (Self, Arc<Call>) {
        let call = Arc::<Call>::default();
        (Self { reply, call: Arc::clone(&call) }, call)
    }

    pub(super) fn answer(self, answer: Result<Delivery, Error>) {
        // A delivery that cannot be sent is dropped, and so given back.
        drop(self.reply.send(answer));
    }
}

/// A claim in the line of those who wait.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) claim: Claim,
    pub(super) request: Request,
}

impl Shared {
    /// Lets a claim wait for work, unless its time is up. Call it with the state locked: work that comes later finds it.
    pub(super) fn wait(self: &Arc<Self>, claim: Claim, request: Request) {
        let mut waiting = self.waiting.lock();
        let call = Arc::clone(&request.call);
        let mut state = call.state.lock();
        if state.over || claim.wait_ms == 0 {
            return request.answer(Ok(Delivery::new(Vec::new(), self)));
        }
        let queues = claim.queues.iter().map(|queue| queue.name.clone()).collect();
        let types = claim.types.clone();
        if let Some(error) = self.inbox.closed().or(waiting.is_full().then_some(Error::Busy)) {
            return request.answer(Err(error));
        }
        state.ticket = waiting.register(queues, types, Waiter { claim, request }).ok();
    }

    /// The caller stops waiting. `false` if it is too late and an answer is on its way.
    pub(super) fn leave(&self, call: &Call) -> bool {
        let mut waiting = self.waiting.lock();
        let mut state = call.state.lock();
        state.over = true;
        state.ticket.take().and_then(|ticket| waiting.remove(ticket)).is_some()
    }

    /// Takes those out of the line who can be served with `count` tasks of a queue and type.
    pub(super) fn take_waiters(&self, queue: &Name, kind: &Name, count: usize) -> Vec<Waiter> {
        let mut waiting = self.waiting.lock();
        let mut taken = Vec::new();
        let mut room = 0;
        while room < count {
            let Some(waiter) = waiting.take(queue, kind) else { break };
            waiter.request.call.state.lock().ticket = None;
            room += waiter.claim.max as usize;
            taken.push(waiter);
        }
        taken
    }

    /// Has the state look again at what those wait for who stand at one of these queues.
    pub(super) fn look_again(&self, machine: &mut Machine, queues: &BTreeSet<Name>) {
        let waiting = self.waiting.lock();
        for queue in queues {
            waiting.wanted(queue).for_each(|kind| machine.look_again(queue, kind));
        }
    }

    /// Takes one of those out of the line who wait for what is about to open; if that is too much to tell, anyone.
    pub(super) fn take_awaiting(&self, due: Option<Vec<(Name, Option<Name>)>>) -> Option<Waiter> {
        let mut waiting = self.waiting.lock();
        let Some(due) = due else {
            let waiter = waiting.take_any()?;
            waiter.request.call.state.lock().ticket = None;
            return Some(waiter);
        };
        for (queue, kind) in &due {
            let wanted: Vec<Name> = match kind {
                Some(kind) => vec![kind.clone()],
                // Whoever takes any type is found under every name, that of the queue too.
                None => waiting.wanted(queue).map(|kind| kind.unwrap_or(queue).clone()).collect(),
            };
            if let Some(waiter) = wanted.iter().find_map(|kind| waiting.take(queue, kind)) {
                waiter.request.call.state.lock().ticket = None;
                return Some(waiter);
            }
        }
        None
    }

    pub(super) fn has_waiters(&self) -> bool {
        !self.waiting.lock().is_empty()
    }

    /// Sends everybody away who waits, because the store ends.
    pub(super) fn dismiss(&self, error: &Error) {
        let left = self.waiting.lock().clear();
        left.into_iter().for_each(|waiter| waiter.request.answer(Err(error.clone())));
    }

    /// Puts a claim in the inbox of those who commit.
    pub(super) fn serve(&self, claim: Claim, request: Request) {
        let command = Command::Claim { claim, now: Stamp::default() };
        self.inbox.push(Op { command, entry: bytes::Bytes::new(), reply: Reply::Claimed(request) });
    }

    /// Serves a claim that was taken out of the line.
    pub(super) fn serve_woken(&self, claim: Claim, request: Request) {
        let command = Command::Claim { claim, now: Stamp::default() };
        self.inbox.push_woken(Op { command, entry: bytes::Bytes::new(), reply: Reply::Claimed(request) });
    }
}

/// Leaves the line when the caller goes away.
#[derive(Debug)]
pub(super) struct Presence {
    pub(super) shared: Arc<Shared>,
    pub(super) call: Arc<Call>,
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.shared.leave(&self.call);
    }
}
