//! Everything that is on the screen.

mod history;

use windlass_core::{Name, TaskId};
use windlass_proto::rest::{QueueBody, WorkerBody};

use super::feed::News;
use super::keys::Act;
use super::snapshot::{Failed, Snapshot};

pub(super) use history::History;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Queues,
    Workers,
    Failures,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Mode {
    Watch,
    /// The filter is being typed; this one comes back if it is given up.
    Filter {
        before: String,
    },
    /// It is done if the person says yes.
    Ask(Act),
    Help,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Link {
    Connecting,
    Up,
    /// Why the broker is away.
    Lost(String),
}

/// What came of the last request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) text: String,
    pub(super) bad: bool,
}

#[derive(Debug)]
pub(super) struct Model {
    pub(super) server: String,
    pub(super) colour: bool,
    pub(super) link: Link,
    pub(super) snapshot: Option<Snapshot>,
    pub(super) history: History,
    pub(super) pane: Pane,
    pub(super) mode: Mode,
    /// Only what contains it is shown, in every pane.
    pub(super) filter: String,
    /// The deepest queues first, instead of by name.
    pub(super) deepest_first: bool,
    pub(super) notice: Option<Notice>,
    /// What is selected in each pane, by name: rows come and go.
    selected: [Option<String>; 3],
}

impl Model {
    pub(super) fn new(server: &str, colour: bool) -> Self {
        Self {
            server: server.to_owned(),
            colour,
            link: Link::Connecting,
            snapshot: None,
            history: History::default(),
            pane: Pane::Queues,
            mode: Mode::Watch,
            filter: String::new(),
            deepest_first: false,
            notice: None,
            selected: [const { None }; 3],
        }
    }

    pub(super) fn hear(&mut self, news: News) {
        match news {
            News::Look(snapshot) => {
                self.link = Link::Up;
                self.history.add(&snapshot);
                self.snapshot = Some(*snapshot);
            }
            News::Failures(failures) => {
                if let Some(snapshot) = &mut self.snapshot {
                    snapshot.failures = failures;
                }
            }
            News::Lost(reason) => self.link = Link::Lost(reason),
            News::Done(text) => self.notice = Some(Notice { text, bad: false }),
            News::Refused(text) => self.notice = Some(Notice { text, bad: true }),
        }
    }

    pub(super) fn queues(&self) -> Vec<&QueueBody> {
        let all = self.snapshot.iter().flat_map(|snapshot| &snapshot.queues);
        let mut queues: Vec<_> = all.filter(|queue| self.shows(&[queue.name.as_str()])).collect();
        if self.deepest_first {
            queues.sort_by_key(|queue| std::cmp::Reverse(queue.tasks.pending));
        }
        queues
    }

    /// The busiest first.
    pub(super) fn workers(&self) -> Vec<&WorkerBody> {
        let all = self.snapshot.iter().flat_map(|snapshot| &snapshot.workers);
        let shown = |worker: &&WorkerBody| {
            self.shows(&[worker.id.as_str(), worker.host.as_deref().unwrap_or_default()])
        };
        let mut workers: Vec<_> = all.filter(|worker| worker.active).filter(shown).collect();
        workers.sort_by_key(|worker| std::cmp::Reverse(worker.tasks.len()));
        workers
    }

    pub(super) fn failures(&self) -> Vec<&Failed> {
        let all = self.snapshot.iter().flat_map(|snapshot| &snapshot.failures);
        let shown =
            |failed: &&Failed| self.shows(&[&failed.task_id, &failed.kind, &failed.queue, &failed.error]);
        all.filter(shown).collect()
    }

    fn shows(&self, texts: &[&str]) -> bool {
        let part = self.filter.to_lowercase();
        part.is_empty() || texts.iter().any(|text| text.to_lowercase().contains(&part))
    }

    /// The row that is selected in a pane: what was chosen, or the first.
    pub(super) fn row(&self, pane: Pane) -> Option<usize> {
        let names = self.names(pane);
        let chosen = self.selected[pane as usize].as_deref();
        let found = chosen.and_then(|chosen| names.iter().position(|name| *name == chosen));
        found.or((!names.is_empty()).then_some(0))
    }

    /// Selects the row that is so many rows away, as far as there are rows.
    pub(super) fn step(&mut self, rows: isize) {
        let Some(row) = self.row(self.pane) else { return };
        let names = self.names(self.pane);
        let to = row.saturating_add_signed(rows).min(names.len() - 1);
        let name = names[to].to_owned();
        self.selected[self.pane as usize] = Some(name);
    }

    fn names(&self, pane: Pane) -> Vec<&str> {
        match pane {
            Pane::Queues => self.queues().into_iter().map(|queue| queue.name.as_str()).collect(),
            Pane::Workers => self.workers().into_iter().map(|worker| worker.id.as_str()).collect(),
            Pane::Failures => self.failures().into_iter().map(|failed| failed.task_id.as_str()).collect(),
        }
    }

    /// To pause or resume what is selected; failures have nothing to pause.
    pub(super) fn pausing(&self) -> Option<Act> {
        let row = self.row(self.pane)?;
        match self.pane {
            Pane::Queues => {
                let queue = *self.queues().get(row)?;
                let name: Name = queue.name.clone();
                Some(if queue.paused { Act::ResumeQueue(name) } else { Act::PauseQueue(name) })
            }
            Pane::Workers => {
                let worker = *self.workers().get(row)?;
                let id = worker.id.clone();
                Some(if worker.paused { Act::ResumeWorker(id) } else { Act::PauseWorker(id) })
            }
            Pane::Failures => None,
        }
    }

    pub(super) fn retrying(&self) -> Option<Act> {
        let row = self.row(Pane::Failures)?;
        let failed = *self.failures().get(row)?;
        TaskId::new(&failed.task_id).ok().map(Act::Retry)
    }
}
