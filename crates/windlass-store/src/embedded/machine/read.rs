//! Looking at the state without changing it.

use std::collections::HashMap;

use bytes::Bytes;
use windlass_core::limits::ANSWER_BYTES_MAX;
use windlass_core::transition;
use windlass_core::{Name, Record, StateName, Task, TaskId, Wakes};

use super::{Machine, decode_body, missing};
use crate::embedded::dirty::{ELAPSED_LANE, Keys, PRUNE_LANE, WAKE_LANE};
use crate::embedded::index::Beyond;
use crate::embedded::names::Queue;
use crate::store::{Due, Error, Expire, Extend, Extended, Ledger, ListQueues, QueueCounts};

impl Machine {
    pub(super) fn seq_of(&self, id: &TaskId) -> Result<Option<u64>, Error> {
        if let Some(seq) = self.dirty.seq_of(id) {
            let gone = self.dirty.get(seq).is_none_or(|slot| slot.gone);
            return Ok((!gone).then_some(seq));
        }
        // The table may still have an id whose task was removed since.
        let stored = self.snapshot.seq_of(id.as_str())?;
        Ok(stored.filter(|seq| self.dirty.get(*seq).is_none_or(|slot| !slot.gone)))
    }

    pub(super) fn record(&self, seq: u64) -> Result<Option<Record>, Error> {
        match self.dirty.get(seq) {
            Some(slot) => Ok((!slot.gone).then(|| slot.record.clone())),
            None => Ok(self.stored(seq)?.map(|loaded| loaded.record)),
        }
    }

    pub(super) fn body(&self, seq: u64) -> Result<Bytes, Error> {
        match self.dirty.body(seq) {
            Some(body) => Ok(body.clone()),
            None => self.snapshot.body(seq)?.ok_or_else(|| missing(seq)),
        }
    }

    pub(in crate::embedded) fn peek(&self, id: &TaskId) -> Result<Option<Record>, Error> {
        let Some(seq) = self.seq_of(id)? else { return Ok(None) };
        let mut record = self.record(seq)?.filter(|record| record.id == *id).ok_or_else(|| missing(seq))?;
        self.leases.complete(&mut record);
        Ok(Some(record))
    }

    pub(in crate::embedded) fn get(&self, id: &TaskId) -> Result<Option<Task>, Error> {
        let Some(record) = self.peek(id)? else { return Ok(None) };
        let body = decode_body(record.seq, self.body(record.seq)?)?;
        Ok(Some(Task { record, body }))
    }

    /// The tasks of these numbers, as many as one answer may hold.
    fn tasks(&self, seqs: &[u64]) -> Result<Vec<Task>, Error> {
        let mut tasks: Vec<Task> = Vec::with_capacity(seqs.len());
        let mut bytes = 0;
        for seq in seqs {
            if bytes >= ANSWER_BYTES_MAX {
                break;
            }
            let mut record = self.record(*seq)?.ok_or_else(|| missing(*seq))?;
            self.leases.complete(&mut record);
            let task = Task { record, body: decode_body(*seq, self.body(*seq)?)? };
            bytes += task.bytes();
            tasks.push(task);
        }
        Ok(tasks)
    }

    pub(in crate::embedded) fn due(&mut self, limit: usize) -> Result<Due, Error> {
        let now = self.clock.now();
        let (on_wall, wall) = self.timers(WAKE_LANE, now.wall, limit)?;
        let (counted, elapsed) = self.timers(ELAPSED_LANE, now.elapsed(), limit)?;
        self.awaited_wakes = Wakes { wall, elapsed };
        Ok(Due::of_both(on_wall, counted, self.awaited_wakes, now.stamp(), limit))
    }

    pub(in crate::embedded) fn prunable(&mut self, limit: usize) -> Result<Due, Error> {
        let now = self.clock.now();
        let (tasks, next) = self.timers(PRUNE_LANE, now.elapsed(), limit)?;
        self.awaited_prune = next;
        Ok(Due { tasks, next: next.map(|at| now.stamp().shown(at)) })
    }

    /// The tasks of a lane whose time has come, and when the next one is due, both on the time line of the lane.
    fn timers(&mut self, lane: u32, now: u64, limit: usize) -> Result<(Vec<Task>, Option<u64>), Error> {
        let dirty = |seq| self.dirty.contains(seq);
        let beyond = Beyond { snapshot: &self.snapshot, dirty: &dirty };
        let (seqs, next) = self.index.range(lane, (now + 1, 0), limit, &beyond)?;
        let tasks = self.tasks(&seqs)?;
        let next = if tasks.len() < seqs.len() { Some(now) } else { next.map(|(at, _)| at) };
        Ok((tasks, next))
    }

    pub(in crate::embedded) fn expired(&mut self, expire: &Expire) -> Result<Due, Error> {
        let now = self.clock.now();
        self.leases.renew(self.clock.resumed_at(now), now);
        let seqs = self.leases.take_expired(now, &expire.dead_workers, expire.limit);
        let tasks = self.tasks(&seqs)?;
        let next = if tasks.len() < seqs.len() { Some(now.mono) } else { self.leases.next() };
        Ok(Due { tasks, next })
    }

    pub(in crate::embedded) fn extend(&mut self, input: &Extend) -> Result<Extended, Error> {
        let Some(record) = self.peek(&input.id)? else { return Ok(Extended::Missing) };
        Ok(match transition::extend(&record, input.token) {
            Err(_) => Extended::LeaseLost,
            Ok(transition::Extension::CancelRequested) => Extended::CancelRequested,
            Ok(transition::Extension::Granted) => {
                let now = self.clock.now();
                let extended = self.leases.extend(record.seq, input.lease_ms, input.progress.clone(), now);
                self.tell_nearer_lease(record.seq);
                match extended {
                    Some(expires_at) => {
                        if let Some(progress) = &input.progress {
                            self.signals.progressed(&record, progress, now.wall);
                        }
                        Extended::Until { expires_at }
                    }
                    None => Extended::LeaseLost,
                }
            }
        })
    }

    pub(in crate::embedded) fn position(&self, record: &Record) -> Option<u64> {
        let queue = self.names.queue_number(&record.queue)?;
        let lane = self.names.lane_number(queue, &record.kind)?;
        let home = self.home(lane, record).ok()?;
        let (lane, place) = Keys::of(record, home).ready?;
        self.index.rank(lane, place)
    }

    pub(in crate::embedded) fn ledger(&self) -> Ledger {
        self.ledger
    }

    /// What is kept of every queue, and nothing that has to be looked for.
    pub(in crate::embedded) fn depths(&self) -> Vec<QueueCounts> {
        let depth = |(_, queue): (u32, &Queue)| QueueCounts {
            name: queue.name.clone(),
            paused: queue.paused,
            by_state: queue.by_state,
            pending_by_class: queue.pending_by_class,
            oldest_pending_at: None,
        };
        self.names.queues().map(depth).collect()
    }

    pub(in crate::embedded) fn queues(&self, only: Option<&Name>) -> Result<Vec<QueueCounts>, Error> {
        let wanted = self.names.queues().filter(|(_, queue)| only.is_none_or(|name| *name == queue.name));
        self.counted(wanted.collect(), usize::MAX)
    }

    pub(in crate::embedded) fn queue_page(&self, list: &ListQueues) -> Result<Vec<QueueCounts>, Error> {
        let behind = |queue: &Queue| list.after.as_ref().is_none_or(|after| queue.name > *after);
        self.counted(self.names.queues().filter(|(_, queue)| behind(queue)).collect(), list.limit)
    }

    /// The first of these in order of name.
    fn counted(&self, mut wanted: Vec<(u32, &Queue)>, limit: usize) -> Result<Vec<QueueCounts>, Error> {
        wanted.sort_unstable_by_key(|(_, queue)| &queue.name);
        wanted.truncate(limit);
        let oldest_dirty = self.oldest_dirty(&wanted);
        let count = |(number, queue): (u32, &Queue)| {
            let oldest_pending_at = match pending(queue) {
                0 => None,
                _ => self.oldest_pending(number, oldest_dirty.get(&number).copied())?,
            };
            Ok(QueueCounts {
                name: queue.name.clone(),
                paused: queue.paused,
                by_state: queue.by_state,
                pending_by_class: queue.pending_by_class,
                oldest_pending_at,
            })
        };
        wanted.into_iter().map(count).collect()
    }

    /// The oldest pending task that memory describes, of each of these queues: a pass over what changed since a checkpoint,
    /// newest first, that ends when all that are pending have been seen. Without a backlog these are among the newest.
    fn oldest_dirty(&self, wanted: &[(u32, &Queue)]) -> HashMap<u32, u64> {
        let waiting = wanted.iter().map(|(number, queue)| (*number, pending(queue)));
        let mut unseen: HashMap<u32, u64> = waiting.filter(|(_, count)| *count > 0).collect();
        let mut oldest = HashMap::new();
        for slot in self.dirty.below(u64::MAX) {
            if unseen.is_empty() {
                break;
            }
            if slot.gone || slot.record.state_name() != StateName::Pending {
                continue;
            }
            let Some(left) = unseen.get_mut(&slot.queue) else { continue };
            *left -= 1;
            if *left == 0 {
                unseen.remove(&slot.queue);
            }
            oldest.insert(slot.queue, slot.record.created_at);
        }
        oldest
    }

    fn oldest_pending(&self, queue: u32, dirty: Option<u64>) -> Result<Option<u64>, Error> {
        for seq in self.snapshot.listing(queue, StateName::Pending.index() as u8)? {
            let seq = seq?;
            if self.dirty.contains(seq) {
                continue;
            }
            let record = self.record(seq)?.ok_or_else(|| missing(seq))?;
            return Ok(Some(dirty.map_or(record.created_at, |at| at.min(record.created_at))));
        }
        Ok(dirty)
    }
}

fn pending(queue: &Queue) -> u64 {
    queue.by_state[StateName::Pending.index()]
}
