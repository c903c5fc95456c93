//! Looking without changing.

use windlass_core::limits::{PAGE_ROWS_MAX, PAGE_SCAN_MAX};
use windlass_core::{Name, TaskId};

use super::tables::{Queue, Tables};
use crate::store::{List, Page, QueueCounts};

/// How far back a place in line is told.
const POSITION_MAX: usize = 10_000;

impl Tables {
    pub(super) fn list(&self, list: &List) -> Page {
        let limit = list.limit.min(PAGE_ROWS_MAX);
        let mut page = Page::default();
        if limit == 0 {
            return page;
        }
        let mut older = self.tasks.range(..list.before.unwrap_or(u64::MAX)).rev().peekable();
        for (&seq, task) in older.by_ref().take(PAGE_SCAN_MAX) {
            page.next = Some(seq);
            if list.matches(&task.record) {
                page.tasks.push(task.clone());
            }
            if page.tasks.len() == limit {
                break;
            }
        }
        if older.peek().is_none() {
            page.next = None;
        }
        page
    }

    pub(super) fn position(&self, id: &TaskId) -> Option<u64> {
        self.ready.position(&self.find(id)?.record, POSITION_MAX)
    }

    pub(super) fn queues(&self, name: Option<&Name>) -> Vec<QueueCounts> {
        let counts = |queue: &Queue| QueueCounts {
            oldest_pending_at: queue.pending.first().map(|(created_at, _)| *created_at),
            ..queue.counts.clone()
        };
        match name {
            Some(name) => self.queues.get(name).map(counts).into_iter().collect(),
            None => self.queues.values().map(counts).collect(),
        }
    }
}
