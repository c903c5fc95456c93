//! Which events somebody wants to hear.

use foldhash::HashSet;
use windlass_core::{Name, TaskId};

use super::{Event, EventData, EventKind};

/// A set of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds(u32);

impl Kinds {
    pub const ALL: Kinds = Kinds(u32::MAX);
    pub const NONE: Kinds = Kinds(0);

    pub fn of(kinds: &[EventKind]) -> Kinds {
        Kinds(kinds.iter().fold(0, |bits, kind| bits | bit(*kind)))
    }

    pub fn without(self, kinds: &[EventKind]) -> Kinds {
        Kinds(self.0 & !Kinds::of(kinds).0)
    }

    /// Adds what a word names: a kind, or a family as in `task.*`. False if there is no such kind.
    pub fn add(&mut self, word: &str) -> bool {
        if word == "*" {
            *self = Kinds::ALL;
            return true;
        }
        let family = word.strip_suffix('*').filter(|family| family.ends_with('.'));
        let named = |kind: &&EventKind| match family {
            Some(family) => kind.as_str().starts_with(family),
            None => kind.as_str() == word,
        };
        let added = EventKind::ALL.iter().filter(named).fold(0, |bits, kind| bits | bit(*kind));
        self.0 |= added;
        added != 0
    }

    pub fn contains(self, kind: EventKind) -> bool {
        self.0 & bit(kind) != 0
    }
}

fn bit(kind: EventKind) -> u32 {
    1 << kind as u32
}

/// What passes. An empty set of queues or tasks does not filter.
#[derive(Debug, Clone)]
pub struct EventFilter {
    pub kinds: Kinds,
    /// Events about tasks of these queues, about these queues, and the depths of all.
    pub queues: HashSet<Name>,
    /// Events about these tasks, and no others.
    pub tasks: HashSet<TaskId>,
}

impl Default for EventFilter {
    fn default() -> Self {
        Self { kinds: Kinds::ALL, queues: HashSet::default(), tasks: HashSet::default() }
    }
}

impl EventFilter {
    pub fn passes(&self, event: &Event) -> bool {
        if !self.kinds.contains(event.kind) {
            return event.kind == EventKind::Unheard;
        }
        if !self.tasks.is_empty() && event.task().is_none_or(|facts| !self.tasks.contains(&facts.id)) {
            return event.kind == EventKind::Unheard;
        }
        self.queues.is_empty()
            || event.kind == EventKind::Unheard
            || event.queue().is_some_and(|queue| self.queues.contains(queue))
            || matches!(event.data, EventData::Depths(_))
    }

    /// Whether the figures of every second are wanted.
    pub(super) fn wants_figures(&self) -> bool {
        self.tasks.is_empty()
            && (self.kinds.contains(EventKind::QueueDepth)
                || (self.queues.is_empty() && self.kinds.contains(EventKind::SystemMetrics)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_kinds_and_families() {
        let table = [
            ("task.completed", &[EventKind::Completed][..]),
            ("worker.*", &[EventKind::WorkerJoined, EventKind::WorkerLeft]),
            ("system.*", &[EventKind::SystemMetrics]),
            ("*", &EventKind::ALL),
        ];
        for (word, some) in table {
            let mut kinds = Kinds::NONE;
            assert!(kinds.add(word), "{word}");
            assert!(some.iter().all(|kind| kinds.contains(*kind)), "{word}");
        }
        for word in ["", "task", "task.", "task*", "task.none", ".*", "tasks.*", "task.*.*", "Task.failed"] {
            let mut kinds = Kinds::NONE;
            assert!(!kinds.add(word), "{word}");
            assert_eq!(kinds, Kinds::NONE);
        }
    }
}
