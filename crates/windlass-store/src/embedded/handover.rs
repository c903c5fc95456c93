//! Letting waiting claims join the group whose inserts will serve them: one sync for both.
//!
//! This is done without a look at the state, so it must be sure that the tasks will be free to start. Where a limit may hold
//! them, the claims stay in line and are served when the group is applied, if it turns out well: a claim in the log that gets nothing is waste.

use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::HashSet;
use parking_lot::Mutex;
use windlass_core::flow::Scope;
use windlass_core::{Name, NewTask, Stamp};

use super::claims::Waiter;
use super::command::Command;
use super::engine::Shared;
use super::inbox::{Op, Reply};
use super::machine::Machine;

/// What is known of limits and pauses without the state.
#[derive(Debug, Default)]
pub(super) struct Limited {
    any: AtomicBool,
    /// Queues and types with a limit, and queues that are paused.
    gates: Mutex<HashSet<(Scope, Name)>>,
}

impl Limited {
    /// When the store is opened.
    pub(super) fn load(&self, machine: &Machine) {
        let wide = [Scope::Queue, Scope::Type].into_iter().flat_map(|scope| machine.limits_of(scope));
        let paused = machine.paused_queues().map(|queue| (Scope::Queue, queue.clone()));
        let mut gates = self.gates.lock();
        gates.extend(wide.chain(paused));
        self.any.store(machine.is_limited() || !gates.is_empty(), Ordering::Relaxed);
    }

    /// A limit was set or removed, or a queue paused or resumed.
    pub(super) fn note(&self, machine: &Machine, scope: Scope, name: &Name) {
        let mut gates = self.gates.lock();
        if scope != Scope::Key {
            let paused = scope == Scope::Queue && machine.is_paused(name);
            if paused || machine.limit(scope, name).is_some() {
                gates.insert((scope, name.clone()));
            } else {
                gates.remove(&(scope, name.clone()));
            }
        }
        self.any.store(machine.is_limited() || !gates.is_empty(), Ordering::Relaxed);
    }

    fn holds(&self, queue: &Name, kind: &Name) -> bool {
        let gates = self.gates.lock();
        !gates.is_empty()
            && (gates.contains(&(Scope::Queue, queue.clone()))
                || gates.contains(&(Scope::Type, kind.clone())))
    }
}

pub(super) fn hand_over(shared: &Shared, ops: &mut Vec<Op>) {
    if !shared.has_waiters() {
        return;
    }
    let limited = shared.limited.any.load(Ordering::Relaxed);
    let mut woken = Vec::new();
    for op in ops.iter() {
        let Command::Insert { tasks, .. } = &op.command else { continue };
        let same_lane = |a: &NewTask, b: &NewTask| a.queue == b.queue && a.kind == b.kind;
        for group in tasks.tasks.chunk_by(same_lane) {
            let first = &group[0];
            if limited && shared.limited.holds(&first.queue, &first.kind) {
                continue;
            }
            let ready = |new: &&NewTask| {
                // Where there are limits, one with a key may have to wait: only the state knows.
                new.scheduled_at.is_none_or(|at| at <= new.created_at)
                    && !(limited && new.key.is_some())
                    && new.body.dependencies().is_empty()
            };
            let count = group.iter().filter(ready).count();
            woken.extend(shared.take_waiters(&first.queue, &first.kind, count));
        }
    }
    for Waiter { claim, request } in woken {
        let command = Command::Claim { claim, now: Stamp::default() };
        ops.push(Op { command, entry: bytes::Bytes::new(), reply: Reply::Claimed(request) });
    }
}
