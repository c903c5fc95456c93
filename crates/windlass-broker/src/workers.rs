//! Which workers there are, and which of them live.
//!
//! A worker is a name; behind a name there may be several lives, one after the other or, by mistake, at once. A life is a
//! process: it has a random incarnation and proves itself by its own heartbeats. Three things end one: it says that it
//! leaves, it misses its beats, or a younger life of the same name beats while it stays silent for half that time (a
//! restart). A younger life alone ends nothing: two processes that share a name must not keep taking each other's tasks.
//!
//! When the last life of a name ends, every lease of the name goes back. When a younger one goes on, those leases go
//! back that were given out before it was born and that it does not name in its beats.
//!
//! A worker may also be connected ([`link`]): then a broken connection ends its life much sooner than missed beats would.
//!
//! Workers that only claim (a shell script) are listed while they call, and are never judged: their leases run out.
//! All of this lives in memory; after a restart of the broker the next beat or claim registers a worker again.

mod judge;
mod link;
mod view;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use windlass_core::choice::Queue;
use windlass_core::limits::WORKERS_MAX;
use windlass_core::{Name, Now, TaskId, Token};

use crate::finish::Beat;

pub(crate) use judge::Orphans;
pub(crate) use link::Link;
pub use view::{ListWorkers, WorkerPage, WorkerView};

/// Lives kept per name: more are the restarts of a worker that dies at once, and the oldest is dead for sure.
const LIVES_MAX: usize = 16;

#[derive(Debug)]
pub(crate) struct Registry {
    dead_after_ms: u64,
    state: Mutex<Workers>,
}

#[derive(Debug, Default)]
struct Workers {
    by_name: HashMap<Name, Worker>,
    /// On the monotonic clock: nothing can have ended before it. Saves looking at every worker at every step.
    judge_at: u64,
}

#[derive(Debug)]
struct Worker {
    queues: Vec<Name>,
    types: Option<Vec<Name>>,
    first_seen_at: u64,
    seen: Now,
    paused: bool,
    lives: Vec<Life>,
    /// Its last life ended and its leases are on their way back.
    gone: Option<Gone>,
    /// A life ended while a younger one goes on, and its leases are on their way back.
    orphaned: bool,
}

#[derive(Debug, Clone, Copy)]
struct Gone {
    /// On the monotonic clock.
    at: u64,
    told: bool,
}

#[derive(Debug)]
struct Life {
    incarnation: u64,
    born: Now,
    beat: Now,
    host: Option<String>,
    pid: Option<u32>,
    version: Option<String>,
    slots: Option<u32>,
    cpu: Option<f64>,
    memory_bytes: Option<u64>,
    /// What its last beat named; a connected worker's are in its link.
    leases: Vec<(TaskId, Token)>,
    link: Option<Arc<Link>>,
    /// Its connection broke, and this is when that ends it, on the monotonic clock.
    cut_at: Option<u64>,
}

/// What a beat was to the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) joined: bool,
    /// A life began or ended: the reaper should look, for what it has to do or by when.
    pub(crate) look: bool,
}

impl Registry {
    pub(crate) fn new(dead_after_ms: u64) -> Self {
        Self { dead_after_ms, state: Mutex::default() }
    }

    /// Notes that a worker asked for work; true if it was unknown. Beyond the limit it is served, but not listed.
    pub(crate) fn claims(&self, name: &Name, queues: &[Queue], types: Option<&[Name]>, now: Now) -> bool {
        let mut state = self.state.lock();
        if let Some(worker) = state.by_name.get_mut(name) {
            worker.seen = now;
            if worker.lives.is_empty() {
                worker.listens(queues, types);
            }
            return false;
        }
        if state.by_name.len() >= WORKERS_MAX {
            return false;
        }
        let mut worker = Worker::new(now);
        worker.listens(queues, types);
        state.by_name.insert(name.clone(), worker);
        state.judge_at = state.judge_at.min(now.mono + judge::FORGOTTEN_AFTER_MS);
        true
    }

    /// Notes a sign of life. `None` when there are too many workers to take a new one.
    pub(crate) fn beat(&self, beat: &Beat, now: Now) -> Option<Arrival> {
        self.state.lock().beat(beat, now)
    }

    pub(crate) fn is_paused(&self, name: &Name) -> bool {
        self.state.lock().by_name.get(name).is_some_and(|worker| worker.paused)
    }

    /// False if there is no such worker.
    pub(crate) fn set_paused(&self, name: &Name, paused: bool) -> bool {
        match self.state.lock().by_name.get_mut(name) {
            Some(worker) => {
                worker.paused = paused;
                true
            }
            None => false,
        }
    }
}

impl Workers {
    fn beat(&mut self, beat: &Beat, now: Now) -> Option<Arrival> {
        if beat.leaving {
            return Some(self.leaves(beat, now));
        }
        let known = self.by_name.contains_key(&beat.worker);
        if !known && self.by_name.len() >= WORKERS_MAX {
            return None;
        }
        let worker = self.by_name.entry(beat.worker.clone()).or_insert_with(|| Worker::new(now));
        let returned = worker.gone.take();
        worker.orphaned |= returned.is_some();
        worker.seen = now;
        worker.queues.clone_from(&beat.queues);
        worker.types.clone_from(&beat.types);
        let born = worker.lives_on(beat, now);
        if born {
            self.judge_at = 0;
        }
        Some(Arrival { joined: !known || returned.is_some_and(|gone| gone.told), look: born })
    }

    fn leaves(&mut self, beat: &Beat, now: Now) -> Arrival {
        let Some(worker) = self.by_name.get_mut(&beat.worker) else {
            return Arrival { joined: false, look: false };
        };
        worker.lives.retain(|life| life.incarnation != beat.incarnation);
        if worker.lives.is_empty() {
            worker.gone.get_or_insert(Gone { at: now.mono, told: false });
        } else {
            worker.orphaned = true;
        }
        self.judge_at = 0;
        Arrival { joined: false, look: true }
    }
}

impl Worker {
    fn new(now: Now) -> Self {
        Self {
            queues: Vec::new(),
            types: None,
            first_seen_at: now.wall,
            seen: now,
            paused: false,
            lives: Vec::new(),
            gone: None,
            orphaned: false,
        }
    }

    /// Keeps what it listens to; copies only what changed, because this runs at every claim.
    fn listens(&mut self, queues: &[Queue], types: Option<&[Name]>) {
        if !self.queues.iter().eq(queues.iter().map(|queue| &queue.name)) {
            self.queues = queues.iter().map(|queue| queue.name.clone()).collect();
        }
        if self.types.as_deref() != types {
            self.types = types.map(<[Name]>::to_vec);
        }
    }

    /// Keeps the life of this beat; true if it is a new one.
    fn lives_on(&mut self, beat: &Beat, now: Now) -> bool {
        let youngest = self.lives.last().map(|life| life.incarnation);
        if let Some(life) = self.lives.iter_mut().find(|life| life.incarnation == beat.incarnation) {
            if youngest != Some(beat.incarnation) {
                tracing::warn!(worker_id = %beat.worker, "two living workers use this name; give each its own");
            }
            life.update(beat, now);
            return false;
        }
        let mut life = Life::born(beat.incarnation, now);
        life.update(beat, now);
        self.lives.push(life);
        if self.lives.len() > LIVES_MAX {
            self.lives.remove(0);
            self.orphaned = true;
        }
        true
    }
}

impl Life {
    fn born(incarnation: u64, now: Now) -> Self {
        Self {
            incarnation,
            born: now,
            beat: now,
            host: None,
            pid: None,
            version: None,
            slots: None,
            cpu: None,
            memory_bytes: None,
            leases: Vec::new(),
            link: None,
            cut_at: None,
        }
    }

    /// What it works on, as far as it is known.
    fn held(&self) -> Vec<(TaskId, Token)> {
        self.link.as_ref().map_or_else(|| self.leases.clone(), |link| link.leases())
    }

    fn update(&mut self, beat: &Beat, now: Now) {
        self.beat = now;
        self.cut_at = None;
        self.host.clone_from(&beat.host);
        self.pid = beat.pid;
        self.version.clone_from(&beat.version);
        self.slots = beat.slots;
        self.cpu = beat.cpu;
        self.memory_bytes = beat.memory_bytes;
        self.leases.clone_from(&beat.leases);
    }
}
