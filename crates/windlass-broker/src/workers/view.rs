//! The registry as people see it.

use windlass_core::limits::PAGE_ROWS_MAX;
use windlass_core::{Name, Now, TaskId};

use super::{Life, Registry, Worker};

/// A worker that only claims counts as listening for this long after its last call.
const LISTENING_MS: u64 = 120_000;
/// Names and ids on a page of workers: what every protocol has room for in one answer.
const PAGE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Other workers named when nobody listens to a queue and type.
const NAMED_MAX: usize = 5;

#[derive(Debug, Clone, PartialEq)]
pub struct WorkerView {
    pub name: Name,
    /// Of the youngest process of this name; `None` for a worker that never sent a heartbeat.
    pub incarnation: Option<u64>,
    pub host: Option<String>,
    pub pid: Option<u32>,
    pub version: Option<String>,
    pub queues: Vec<Name>,
    /// `None` for all.
    pub types: Option<Vec<Name>>,
    pub slots: Option<u32>,
    pub cpu: Option<f64>,
    pub memory_bytes: Option<u64>,
    pub paused: bool,
    /// Judged to be there: its beats come, or it called a short while ago.
    pub active: bool,
    /// Living processes that use this name; more than one is a mistake.
    pub processes: usize,
    pub first_seen_at: u64,
    pub last_seen_at: u64,
    /// What it works on, as its beats say.
    pub running: Vec<TaskId>,
}

impl WorkerView {
    /// About how much room it takes in an answer.
    fn bytes(&self) -> usize {
        let names = self.queues.iter().chain(self.types.iter().flatten());
        256 + names.map(|name| name.as_str().len() + 3).sum::<usize>()
            + self.running.iter().map(|id| id.as_str().len() + 3).sum::<usize>()
    }
}

/// A page of workers, in order of name.
#[derive(Debug, Clone)]
pub struct ListWorkers {
    /// Only those behind this one.
    pub after: Option<Name>,
    pub limit: usize,
}

impl Default for ListWorkers {
    fn default() -> Self {
        Self { after: None, limit: PAGE_ROWS_MAX }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkerPage {
    pub workers: Vec<WorkerView>,
    /// The last one, if there are more.
    pub next: Option<Name>,
}

/// Who listens to a queue and type.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    pub(crate) active: usize,
    pub(crate) paused: Vec<Name>,
    /// Workers that are there and listen to something else, described; some of them.
    pub(crate) others: Vec<String>,
}

impl Registry {
    /// A page may come back short when its workers name and hold a great deal; `next` says where to go on.
    pub(crate) fn page(&self, list: ListWorkers, now: Now) -> WorkerPage {
        let state = self.state.lock();
        let behind = |name: &Name| list.after.as_ref().is_none_or(|after| name > after);
        let listed = state.by_name.iter().filter(|(name, worker)| worker.gone.is_none() && behind(name));
        let mut listed: Vec<(&Name, &Worker)> = listed.collect();
        listed.sort_unstable_by_key(|(name, _)| *name);
        let mut page = WorkerPage::default();
        let mut bytes = 0;
        for (name, worker) in listed {
            if page.workers.len() >= list.limit.min(PAGE_ROWS_MAX) || bytes >= PAGE_BYTES_MAX {
                page.next = page.workers.last().map(|worker| worker.name.clone());
                break;
            }
            let view = worker.view(name, now);
            bytes += view.bytes();
            page.workers.push(view);
        }
        page
    }

    pub(crate) fn view(&self, name: &Name, now: Now) -> Option<WorkerView> {
        let state = self.state.lock();
        state.by_name.get(name).filter(|worker| worker.gone.is_none()).map(|worker| worker.view(name, now))
    }

    pub(crate) fn active(&self, now: Now) -> usize {
        self.state.lock().by_name.values().filter(|worker| worker.is_active(now)).count()
    }

    pub(crate) fn listening(&self, queue: &Name, kind: &Name, now: Now) -> Listening {
        let mut listening = Listening::default();
        for (name, worker) in self.state.lock().by_name.iter().filter(|(_, worker)| worker.is_active(now)) {
            let fits = worker.queues.contains(queue)
                && worker.types.as_ref().is_none_or(|types| types.contains(kind));
            if fits && worker.paused {
                listening.paused.push(name.clone());
            } else if fits {
                listening.active += 1;
            } else if listening.others.len() < NAMED_MAX {
                listening.others.push(worker.describe(name));
            }
        }
        listening.paused.sort();
        listening.others.sort();
        listening
    }
}

impl Worker {
    fn is_active(&self, now: Now) -> bool {
        let called = now.mono.saturating_sub(self.seen.mono) < LISTENING_MS;
        self.gone.is_none() && (!self.lives.is_empty() || called)
    }

    fn view(&self, name: &Name, now: Now) -> WorkerView {
        let life = self.lives.last();
        WorkerView {
            name: name.clone(),
            incarnation: life.map(|life| life.incarnation),
            host: life.and_then(|life| life.host.clone()),
            pid: life.and_then(|life| life.pid),
            version: life.and_then(|life| life.version.clone()),
            queues: self.queues.clone(),
            types: self.types.clone(),
            slots: life.and_then(|life| life.slots),
            cpu: life.and_then(|life| life.cpu),
            memory_bytes: life.and_then(|life| life.memory_bytes),
            paused: self.paused,
            active: self.is_active(now),
            processes: self.lives.len(),
            first_seen_at: self.first_seen_at,
            last_seen_at: self.seen.wall,
            running: self.lives.iter().flat_map(Life::held).map(|(id, _)| id).collect(),
        }
    }

    fn describe(&self, name: &Name) -> String {
        let join =
            |names: &[Name]| names.iter().take(NAMED_MAX).map(Name::as_str).collect::<Vec<_>>().join(", ");
        let types = self
            .types
            .as_deref()
            .map_or_else(|| "all types".to_owned(), |types| format!("types {}", join(types)));
        format!("{name} (queues {}; {types})", join(&self.queues))
    }
}
