//! Workers that are connected.
//!
//! A link is the broker's end of a worker's connection: it knows exactly what the worker holds, and it can speak first. A life
//! has at most one; when its worker connects again the new link takes the place of the old, which is told so.
//!
//! A connection that breaks says nothing about the worker: the network may have failed, or the process. So the life goes on
//! for [`GRACE_MS`] and ends then, unless the worker is heard of. If it comes back, it keeps the leases that it names; what
//! was on its way to it when the connection broke goes back.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass_core::{Name, Now, TaskId, Token};

use super::{Arrival, Registry};
use crate::finish::Beat;

/// Enough to connect again at once, and short enough that the tasks of a killed worker run elsewhere within a second.
const GRACE_MS: u64 = 500;

#[derive(Debug)]
pub(crate) struct Link {
    held: Mutex<HashMap<TaskId, Token>>,
    cancelled: mpsc::Sender<(TaskId, Token)>,
    pub(crate) replaced: CancellationToken,
}

impl Link {
    pub(crate) fn new(cancelled: mpsc::Sender<(TaskId, Token)>, held: &[(TaskId, Token)]) -> Arc<Self> {
        let mut newest: HashMap<TaskId, Token> = HashMap::with_capacity(held.len());
        for (id, token) in held {
            // Of two leases of one task only the newer can still be good.
            let known = newest.entry(id.clone()).or_insert(*token);
            if token.number > known.number {
                *known = *token;
            }
        }
        Arc::new(Self { held: Mutex::new(newest), cancelled, replaced: CancellationToken::new() })
    }

    pub(crate) fn takes(&self, leases: impl Iterator<Item = (TaskId, Token)>) {
        self.held.lock().extend(leases);
    }

    /// Only what is held under this very lease: a task may have come back to the worker under a new one.
    pub(crate) fn drops<'a>(&self, leases: impl Iterator<Item = (&'a TaskId, Token)>) {
        let mut held = self.held.lock();
        for (id, token) in leases {
            if held.get(id) == Some(&token) {
                held.remove(id);
            }
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.held.lock().len()
    }

    pub(crate) fn leases(&self) -> Vec<(TaskId, Token)> {
        self.held.lock().iter().map(|(id, token)| (id.clone(), *token)).collect()
    }

    fn holds(&self, id: &TaskId, token: Token) -> bool {
        self.held.lock().get(id) == Some(&token)
    }
}

impl Registry {
    /// Notes a sign of life that came through a link. `None` when there are too many workers to take a new one.
    pub(crate) fn linked(&self, beat: &Beat, link: &Arc<Link>, now: Now) -> Option<Arrival> {
        let mut state = self.state.lock();
        let mut arrival = state.beat(beat, now)?;
        let Some(worker) = state.by_name.get_mut(&beat.worker) else { return Some(arrival) };
        let Some(life) = worker.lives.iter_mut().find(|life| life.incarnation == beat.incarnation) else {
            return Some(arrival);
        };
        if life.link.as_ref().is_some_and(|known| Arc::ptr_eq(known, link)) {
            return Some(arrival);
        }
        if let Some(old) = life.link.replace(link.clone()) {
            old.replaced.cancel();
            // What it was given before now and does not name never reached it.
            life.born = now;
            worker.orphaned = true;
            state.judge_at = 0;
            arrival.look = true;
        }
        Some(arrival)
    }

    /// The connection broke. True if that was the worker's way to the broker.
    pub(crate) fn unlinked(&self, name: &Name, link: &Arc<Link>, now: Now) -> bool {
        let mut state = self.state.lock();
        let Some(worker) = state.by_name.get_mut(name) else { return false };
        let linked = |known: &Arc<Link>| Arc::ptr_eq(known, link);
        let Some(life) = worker.lives.iter_mut().find(|life| life.link.as_ref().is_some_and(linked)) else {
            return false;
        };
        life.cut_at = Some(now.mono + GRACE_MS);
        state.judge_at = state.judge_at.min(now.mono + GRACE_MS);
        true
    }

    /// A lease was taken from a worker: if it is connected, it holds that no more.
    pub(crate) fn lost(&self, name: &Name, id: &TaskId, token: Token) {
        let state = self.state.lock();
        let Some(worker) = state.by_name.get(name) else { return };
        for link in worker.lives.iter().filter_map(|life| life.link.as_ref()) {
            link.drops(std::iter::once((id, token)));
        }
    }

    /// Tells a connected worker that a task it holds was cancelled. If it is too slow to hear it, the answer to its next
    /// extension says so.
    pub(crate) fn cancelled(&self, name: &Name, id: &TaskId, token: Token) {
        let state = self.state.lock();
        let Some(worker) = state.by_name.get(name) else { return };
        for link in worker.lives.iter().filter_map(|life| life.link.as_ref()) {
            if link.holds(id, token) {
                let _ = link.cancelled.try_send((id.clone(), token));
            }
        }
    }
}
