//! Lists of tasks and queues.

use std::sync::Arc;

use windlass_core::filter::mentions;
use windlass_core::{Filter, Name, Record, StateName, Task};

#[derive(Debug, Clone, Default)]
pub struct List {
    /// The states to list; empty for all.
    pub states: Vec<StateName>,
    pub queue: Option<Name>,
    pub kind: Option<Name>,
    pub worker: Option<Name>,
    /// Part of the id, the type or the error.
    pub text: Option<String>,
    pub created_after: Option<u64>,
    pub created_before: Option<u64>,
    /// A filter that a user wrote; see [`List::narrowed`].
    pub filter: Option<Arc<Filter>>,
    /// Only tasks with a smaller `seq`.
    pub before: Option<u64>,
    pub limit: usize,
}

impl List {
    /// Narrows the list to tasks that also pass `filter`. States and queue of the filter become part of the list itself, so
    /// that a store can use its index.
    pub fn narrowed(mut self, filter: Filter) -> List {
        if self.states.is_empty() {
            self.states = filter.states().unwrap_or_default();
        }
        self.queue = self.queue.or_else(|| filter.queue());
        self.filter = (!filter.is_empty()).then(|| Arc::new(filter));
        self
    }

    /// Whether a record passes the whole filter, for stores without a better index.
    pub fn matches(&self, record: &Record) -> bool {
        let worker = |record: &Record| match &record.state {
            windlass_core::State::Running(lease) => Some(lease.worker.clone()),
            _ => None,
        };
        (self.states.is_empty() || self.states.contains(&record.state_name()))
            && self.queue.as_ref().is_none_or(|queue| *queue == record.queue)
            && self.kind.as_ref().is_none_or(|kind| *kind == record.kind)
            && self.worker.as_ref().is_none_or(|name| worker(record).as_ref() == Some(name))
            && self.created_after.is_none_or(|at| record.created_at > at)
            && self.created_before.is_none_or(|at| record.created_at < at)
            && self.before.is_none_or(|seq| record.seq < seq)
            && self.text.as_ref().is_none_or(|text| mentions(record, text))
            && self.filter.as_ref().is_none_or(|filter| filter.matches(record))
    }
}

#[derive(Debug, Default)]
pub struct Page {
    pub tasks: Vec<Task>,
    /// Continue with `before` set to this; a page may be short, even empty, and still have a next one.
    pub next: Option<u64>,
}

/// A page of queues, in order of name.
#[derive(Debug, Clone, Default)]
pub struct ListQueues {
    /// Only queues after this one.
    pub after: Option<Name>,
    pub limit: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueCounts {
    pub name: Name,
    pub paused: bool,
    /// The number of tasks in each state, by [`StateName::index`].
    pub by_state: [u64; 8],
    /// Pending tasks by [`windlass_core::Class::ALL`].
    pub pending_by_class: [u64; 4],
    /// `created_at` of the oldest pending task.
    pub oldest_pending_at: Option<u64>,
}

impl QueueCounts {
    /// The number of tasks that wait in the queue for any reason, which the depth limit counts.
    pub fn waiting(&self) -> u64 {
        [StateName::Scheduled, StateName::Blocked, StateName::Pending, StateName::Retrying]
            .into_iter()
            .map(|state| self.by_state[state.index()])
            .sum()
    }
}

/// What [`super::Store::release_names`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Released {
    /// How many names were released: queues, and pairs of queue and type.
    pub names: usize,
    /// There is more to release now.
    pub more: bool,
}
