//! Limits: setting them, waking those who wait for them, and saying which ones hold a task.

use std::collections::BTreeSet;

use windlass_core::flow::{Closed, Opened, Scope, Status};
use windlass_core::limits::{GATES_LOOK_MAX, HOLDERS_NAMED_MAX, HOLDERS_SCAN_MAX, LIMITS_MAX, PAGE_ROWS_MAX};
use windlass_core::{Name, Record, TaskId};

use super::{Machine, Output};
use crate::embedded::dirty::READY_LANES;
use crate::store::{Error, Hold, LimitWritten, ListLimits, SetLimit};

impl Machine {
    pub(super) fn set_limit(&mut self, set: &SetLimit, now: u64) -> Result<Output, Error> {
        let flow = &self.names.flow;
        let existed = flow.status(set.scope, &set.name).is_some();
        if set.limit.is_some() && !existed && flow.limit_count() >= LIMITS_MAX {
            return Ok(Output::Limited(LimitWritten::TooMany));
        }
        if set.limit.is_some() || existed {
            // A queue that is not there yet is not made for its limit, which may go before it comes.
            let queue = self.names.queue_number(&set.name).filter(|_| set.scope == Scope::Queue);
            let aged = self.names.flow.ageing(&set.name).is_some();
            let paused = self.is_paused_by_limit(set);
            self.names.flow.set_limit(set.scope, &set.name, set.limit, now);
            if self.is_paused_by_limit(set) != paused {
                self.signals.paused(&set.name, !paused);
            }
            let ages = set.limit.is_some_and(|limit| limit.ageing.is_some());
            if let Some(queue) = queue.filter(|_| ages != aged) {
                self.set_ageing(queue, ages)?;
            }
            if let Some(queue) = queue.filter(|_| set.limit.is_none()) {
                self.names.consider_queue(queue);
            }
        }
        Ok(Output::Limited(LimitWritten::Done { existed }))
    }

    /// Whether a limit alone holds up the queue that it is about.
    fn is_paused_by_limit(&self, set: &SetLimit) -> bool {
        let queue = self.names.queue_number(&set.name);
        set.scope == Scope::Queue
            && queue.is_none_or(|queue| !self.names.queue(queue).paused)
            && self.limit(set.scope, &set.name).is_some_and(|status| status.limit.paused)
    }

    pub(in crate::embedded) fn is_limited(&self) -> bool {
        self.names.flow.limit_count() > 0
    }

    pub(in crate::embedded) fn limit(&self, scope: Scope, name: &Name) -> Option<Status> {
        self.names.flow.status(scope, name)
    }

    pub(in crate::embedded) fn is_paused(&self, queue: &Name) -> bool {
        self.names.queue_number(queue).is_some_and(|queue| self.names.queue(queue).paused)
    }

    pub(in crate::embedded) fn paused_queues(&self) -> impl Iterator<Item = &Name> {
        self.names.queues().filter(|(_, queue)| queue.paused).map(|(_, queue)| &queue.name)
    }

    pub(in crate::embedded) fn limits_of(&self, scope: Scope) -> impl Iterator<Item = (Scope, Name)> {
        self.names.flow.statuses(Some(scope), None).map(|status| (status.scope, status.name))
    }

    pub(in crate::embedded) fn limits(&self, list: &ListLimits) -> Vec<Status> {
        self.names
            .flow
            .statuses(list.scope, list.after.as_ref())
            .take(list.limit.min(PAGE_ROWS_MAX))
            .collect()
    }

    pub(in crate::embedded) fn holds(&self, record: &Record) -> Result<Vec<Hold>, Error> {
        let now = self.clock.now().wall;
        let names = [
            (Scope::Queue, Some(&record.queue)),
            (Scope::Type, Some(&record.kind)),
            (Scope::Key, record.key.as_ref()),
        ];
        let mut holds = Vec::new();
        for (scope, name) in names {
            let Some(name) = name else { continue };
            let Some(closed) = self.limit(scope, name).and_then(|status| status.closed) else { continue };
            let held_by = match closed {
                Closed::NoToken { until } if until <= now => continue,
                Closed::Full { .. } => self.holders(scope, record)?,
                _ => Vec::new(),
            };
            holds.push(Hold { scope, name: name.clone(), closed, held_by });
        }
        Ok(holds)
    }

    /// Some of the tasks that run beside `record` under its limit of this scope.
    fn holders(&self, scope: Scope, record: &Record) -> Result<Vec<TaskId>, Error> {
        let mut found = Vec::new();
        for seq in self.leases.running(HOLDERS_SCAN_MAX) {
            let Some(other) = self.record(seq)? else { continue };
            let same = match scope {
                Scope::Queue => other.queue == record.queue,
                Scope::Type => other.kind == record.kind,
                Scope::Key => other.key == record.key,
            };
            if same {
                found.push(other.id);
            }
            if found.len() == HOLDERS_NAMED_MAX {
                break;
            }
        }
        Ok(found)
    }

    /// Has those looked after who wait for what opened: lanes at once, queues by adding their names.
    pub(in crate::embedded) fn opened(&mut self, queues: &mut BTreeSet<Name>) {
        for opened in self.names.flow.take_opened() {
            match opened {
                Opened::Lane(lane) => self.gained.push(READY_LANES + lane),
                Opened::Queue(queue) => queues.extend(self.names.find_queue(queue).map(|it| it.name.clone())),
            }
        }
        for queue in std::mem::take(&mut self.resumed) {
            queues.extend(self.names.find_queue(queue).map(|it| it.name.clone()));
        }
    }

    /// What will open with the next claim, because its time has come: queues, and types in them if not the whole queue. `None`
    /// if it is much.
    pub(in crate::embedded) fn due_gates(&self, now: u64) -> Option<Vec<(Name, Option<Name>)>> {
        let named = |opened: Opened| match opened {
            Opened::Queue(queue) => Some((self.names.queue(queue).name.clone(), None)),
            Opened::Lane(lane) => {
                let (queue, kind) = self.names.of_lane(READY_LANES + lane)?;
                Some((queue.clone(), Some(kind.clone())))
            }
        };
        let due = self.names.flow.due(now, GATES_LOOK_MAX)?;
        Some(due.into_iter().filter_map(named).collect())
    }

    /// When the loop that opens gates has to come again.
    pub(in crate::embedded) fn await_gate(&mut self, now: u64) -> Option<u64> {
        let next = self.names.flow.next_alarm(now);
        self.awaited_gate = next.unwrap_or(u64::MAX);
        next
    }

    /// Wakes that loop if a gate was closed that opens before what it waits for. One that is due already and was looked at wakes
    /// nobody again: who comes, and what gets ready, looks at the clock by itself.
    pub(in crate::embedded) fn tell_gates(&mut self) {
        let Some(next) = self.names.flow.take_alarmed() else { return };
        if next < self.awaited_gate {
            self.awaited_gate = next;
            self.signals.gates.notify_one();
        }
    }
}
