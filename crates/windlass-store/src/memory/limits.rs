//! Limits: setting them, and saying which ones hold a task.

use windlass_core::flow::{Closed, Scope, Status};
use windlass_core::limits::{HOLDERS_NAMED_MAX, HOLDERS_SCAN_MAX, LIMITS_MAX, PAGE_ROWS_MAX};
use windlass_core::{Now, Record, State, TaskId};

use super::tables::Tables;
use crate::store::{Hold, LimitWritten, ListLimits, SetLimit};

impl Tables {
    pub(super) fn set_limit(&mut self, set: &SetLimit, now: Now) -> LimitWritten {
        let flow = &self.ready.flow;
        let existed = flow.status(set.scope, &set.name).is_some();
        if set.limit.is_some() && !existed && flow.limit_count() >= LIMITS_MAX {
            return LimitWritten::TooMany;
        }
        if set.limit.is_none() && !existed {
            return LimitWritten::Done { existed };
        }
        self.ready.flow.set_limit(set.scope, &set.name, set.limit, now.wall);
        if set.scope == Scope::Queue && set.limit.is_none() {
            self.ready.names.consider_queue(&set.name);
        }
        if set.scope == Scope::Queue && self.ready.flow.ageing(&set.name).is_some() {
            self.ready.show_levels(&set.name);
        }
        LimitWritten::Done { existed }
    }

    /// Whether a limit alone holds up the queue that it is about.
    pub(super) fn is_paused_by_limit(&self, set: &SetLimit) -> bool {
        set.scope == Scope::Queue
            && self.queues.get(&set.name).is_none_or(|queue| !queue.counts.paused)
            && self.ready.flow.status(set.scope, &set.name).is_some_and(|status| status.limit.paused)
    }

    pub(super) fn limits(&self, list: &ListLimits) -> Vec<Status> {
        self.ready
            .flow
            .statuses(list.scope, list.after.as_ref())
            .take(list.limit.min(PAGE_ROWS_MAX))
            .collect()
    }

    pub(super) fn holds(&self, record: &Record, now: Now) -> Vec<Hold> {
        let names = [
            (Scope::Queue, Some(&record.queue)),
            (Scope::Type, Some(&record.kind)),
            (Scope::Key, record.key.as_ref()),
        ];
        let hold = |(scope, name): (Scope, Option<&windlass_core::Name>)| {
            let name = name?;
            let closed = self.ready.flow.status(scope, name)?.closed?;
            let over = matches!(closed, Closed::NoToken { until } if until <= now.wall);
            let held_by = match closed {
                Closed::Full { .. } => self.holders(scope, record),
                _ => Vec::new(),
            };
            (!over).then(|| Hold { scope, name: name.clone(), closed, held_by })
        };
        names.into_iter().filter_map(hold).collect()
    }

    /// Some of the tasks that run beside `record` under its limit of this scope.
    fn holders(&self, scope: Scope, record: &Record) -> Vec<TaskId> {
        let same = |other: &Record| match scope {
            Scope::Queue => other.queue == record.queue,
            Scope::Type => other.kind == record.kind,
            Scope::Key => other.key == record.key,
        };
        let running = self.leases.seqs().take(HOLDERS_SCAN_MAX).map(|seq| &self.tasks[&seq].record);
        let running = running.filter(|other| matches!(other.state, State::Running(_)) && same(other));
        running.take(HOLDERS_NAMED_MAX).map(|other| other.id.clone()).collect()
    }

    /// Opens what a claim would find open now, and says when to come again.
    pub(super) fn open_gates(&mut self, now: Now) -> Option<u64> {
        self.ready.flow.advance(now.wall);
        self.serve_waiting(now);
        let next = self.ready.flow.next_alarm(now.wall);
        self.awaited_gate = next.unwrap_or(u64::MAX);
        next
    }

    /// Wakes the loop that opens gates if one opens before what it waits for.
    pub(super) fn tell_gates(&mut self) {
        let Some(next) = self.ready.flow.take_alarmed() else { return };
        if next < self.awaited_gate {
            self.awaited_gate = next;
            self.signals.gates.notify_one();
        }
    }
}
