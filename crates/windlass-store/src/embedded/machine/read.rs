//! Looking at the state without changing it.

use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::limits::{ANSWER_BYTES_MAX, PAGE_ROWS_MAX, PAGE_SCAN_MAX};
use windlass_core::transition;
use windlass_core::{Name, Record, StateName, Task, TaskId};

use super::{Machine, decode_body, missing};
use crate::embedded::codec;
use crate::embedded::dirty::{Keys, PRUNE_LANE, WAKE_LANE};
use crate::embedded::index::Beyond;
use crate::embedded::names::{LaneNames, Queue};
use crate::embedded::tables::Snapshot;
use crate::store::{Due, Error, Expire, Extend, Extended, Ledger, List, ListQueues, Page, QueueCounts, Scan};

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
        let due = self.timers(WAKE_LANE, limit)?;
        self.awaited_wake = due.next.unwrap_or(u64::MAX);
        Ok(due)
    }

    pub(in crate::embedded) fn prunable(&mut self, limit: usize) -> Result<Due, Error> {
        let due = self.timers(PRUNE_LANE, limit)?;
        self.awaited_prune = due.next.unwrap_or(u64::MAX);
        Ok(due)
    }

    fn timers(&mut self, lane: u32, limit: usize) -> Result<Due, Error> {
        let now = self.clock.now().wall;
        let dirty = |seq| self.dirty.contains(seq);
        let beyond = Beyond { snapshot: &self.snapshot, dirty: &dirty };
        let (seqs, next) = self.index.range(lane, (now + 1, 0), limit, &beyond)?;
        let tasks = self.tasks(&seqs)?;
        let next = if tasks.len() < seqs.len() { Some(now) } else { next.map(|(at, _)| at) };
        Ok(Due { tasks, next })
    }

    pub(in crate::embedded) fn expired(&mut self, expire: &Expire) -> Result<Due, Error> {
        let now = self.clock.now();
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

/// The first half of a list: what memory describes, and what is needed to read the rest without holding the state.
#[derive(Debug)]
pub(in crate::embedded) struct Listing {
    list: List,
    limit: usize,
    snapshot: Arc<Snapshot>,
    lanes: LaneNames,
    /// Queues that may have matching tasks, by number; `None` if the filter names neither states nor a queue.
    queues: Option<Vec<u32>>,
    /// Matching tasks of memory, newest first, down to `memory_down_to`.
    found: Vec<u64>,
    memory_down_to: u64,
}

/// Tasks read from the tables, to be checked against memory once more.
#[derive(Debug)]
pub(in crate::embedded) struct Stored {
    seqs: Vec<u64>,
    down_to: u64,
}

impl Machine {
    pub(in crate::embedded) fn begin_list(&self, mut list: List) -> Listing {
        // A state that is named twice would be read twice, and fill a page with the same tasks.
        list.states.sort_unstable();
        list.states.dedup();
        // One queue is listed by its states, so a list of a queue is one of all its states.
        if list.states.is_empty() && list.queue.is_some() {
            list.states = StateName::ALL.to_vec();
        }
        let limit = list.limit.clamp(1, PAGE_ROWS_MAX);
        let before = list.before.unwrap_or(u64::MAX);
        let mut found = Vec::new();
        let mut memory_down_to = 0;
        for (looked_at, slot) in self.dirty.below(before).enumerate() {
            if found.len() == limit || looked_at == PAGE_SCAN_MAX {
                memory_down_to = slot.record.seq + 1;
                break;
            }
            if !slot.gone && list.matches(&slot.record) {
                found.push(slot.record.seq);
            }
        }
        let has_tasks = |queue: &Queue| {
            list.queue.as_ref().is_none_or(|name| *name == queue.name)
                && list.states.iter().any(|state| queue.by_state[state.index()] > 0)
        };
        let queues = (!list.states.is_empty()).then(|| {
            let numbers = self.names.queues().filter(|(_, queue)| has_tasks(queue));
            numbers.map(|(number, _)| number).collect()
        });
        Listing {
            list,
            limit,
            snapshot: Arc::clone(&self.snapshot),
            lanes: self.names.lane_names(),
            queues,
            found,
            memory_down_to,
        }
    }

    /// Puts both halves together. What memory took over meanwhile is judged by memory.
    pub(in crate::embedded) fn end_list(&self, listing: Listing, stored: Stored) -> Result<Page, Error> {
        let (seqs, next) = listing.chosen(&stored);
        let mut page = Page { tasks: Vec::with_capacity(seqs.len()), next };
        let mut bytes = 0;
        let mut last = None;
        for seq in seqs {
            if bytes >= ANSWER_BYTES_MAX {
                page.next = last;
                break;
            }
            last = Some(seq);
            let Some(mut record) = self.record(seq)?.filter(|record| listing.list.matches(record)) else {
                continue;
            };
            self.leases.complete(&mut record);
            let body = decode_body(seq, self.body(seq)?)?;
            let task = Task { record, body };
            bytes += task.bytes();
            page.tasks.push(task);
        }
        Ok(page)
    }

    /// The same, with the records alone: what decisions need, so without what may be large.
    pub(in crate::embedded) fn end_scan(&self, listing: Listing, stored: Stored) -> Result<Scan, Error> {
        let (seqs, next) = listing.chosen(&stored);
        let mut scan = Scan { records: Vec::with_capacity(seqs.len()), next };
        let mut bytes = 0;
        let mut last = None;
        for seq in seqs {
            if bytes >= ANSWER_BYTES_MAX {
                scan.next = last;
                break;
            }
            last = Some(seq);
            let Some(record) = self.record(seq)?.filter(|record| listing.list.matches(record)) else {
                continue;
            };
            let record = Record { result: None, checkpoint: None, ..record };
            bytes += record.bytes();
            scan.records.push(record);
        }
        Ok(scan)
    }
}

impl Listing {
    /// The tasks of the page, newest first, and where the next one begins.
    fn chosen(&self, stored: &Stored) -> (Vec<u64>, Option<u64>) {
        let down_to = self.memory_down_to.max(stored.down_to);
        let mut seqs: Vec<u64> = self.found.iter().chain(&stored.seqs).copied().collect();
        seqs.retain(|seq| *seq >= down_to);
        seqs.sort_unstable_by(|a, b| b.cmp(a));
        seqs.dedup();
        let full = seqs.len() > self.limit;
        seqs.truncate(self.limit);
        let next = match seqs.last() {
            Some(last) if full || seqs.len() == self.limit => Some(*last),
            _ => (down_to > 0).then_some(down_to),
        };
        (seqs, next)
    }

    /// Reads the tables; needs no access to the state.
    pub(in crate::embedded) fn read(&self) -> Result<Stored, Error> {
        let before = self.list.before.unwrap_or(u64::MAX);
        let mut stored = Stored { seqs: Vec::new(), down_to: 0 };
        let names = |lane: u32| self.lanes.get(lane);
        let matches = |seq: u64, bytes: Bytes| -> Result<bool, Error> {
            let record =
                codec::decode_record(seq, bytes, names).map_err(|error| Error::Damaged(error.to_string()))?;
            Ok(self.list.matches(&record))
        };
        let Some(queues) = &self.queues else {
            for (looked_at, entry) in self.snapshot.tasks_below(before)?.enumerate() {
                let (seq, bytes) = entry?;
                if stored.seqs.len() == self.limit || looked_at == PAGE_SCAN_MAX {
                    stored.down_to = seq + 1;
                    break;
                }
                if matches(seq, bytes)? {
                    stored.seqs.push(seq);
                }
            }
            return Ok(stored);
        };
        let mut sources = Vec::new();
        for queue in queues {
            for state in &self.list.states {
                let seqs = self.snapshot.listing_below(*queue, state.index() as u8, before)?;
                sources.push(seqs);
            }
        }
        // The newest of all heads comes next; a list of one state in one queue has one source.
        let mut heads = BinaryHeap::with_capacity(sources.len());
        for (i, source) in sources.iter_mut().enumerate() {
            heads.extend(source.next().transpose()?.map(|seq| (seq, i)));
        }
        let mut looked_at = 0;
        while let Some((next, i)) = heads.pop() {
            heads.extend(sources[i].next().transpose()?.map(|seq| (seq, i)));
            if stored.seqs.len() == self.limit || looked_at == PAGE_SCAN_MAX {
                stored.down_to = next + 1;
                break;
            }
            looked_at += 1;
            let bytes = self.snapshot.task(next)?.ok_or_else(|| missing(next))?.record;
            if matches(next, bytes)? {
                stored.seqs.push(next);
            }
        }
        Ok(stored)
    }
}

fn pending(queue: &Queue) -> u64 {
    queue.by_state[StateName::Pending.index()]
}
