//! Lists of tasks: a page is read in two halves, what memory describes and what the tables have, and looks at a bounded number of records.

use std::collections::BinaryHeap;
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::limits::{ANSWER_BYTES_MAX, PAGE_ROWS_MAX, PAGE_SCAN_MAX};
use windlass_core::{Record, StateName, Task};

use super::{Machine, decode_body, missing};
use crate::embedded::codec;
use crate::embedded::names::Queue;
use crate::embedded::tables::Snapshot;
use crate::store::{Error, List, Page, Scan};

/// The first half of a list: what memory describes, and what is needed to read the rest without holding the state.
#[derive(Debug)]
pub(in crate::embedded) struct Listing {
    list: List,
    limit: usize,
    snapshot: Arc<Snapshot>,
    /// Queues that may have matching tasks, by number; `None` if the filter names neither states nor a queue.
    queues: Option<Vec<u32>>,
    /// Matching tasks of memory, newest first, down to `memory_down_to`.
    found: Vec<u64>,
    memory_down_to: u64,
    /// Records of memory that were held against the list.
    looked_at: usize,
}

/// Tasks read from the tables, to be checked against memory once more.
#[derive(Debug)]
pub(in crate::embedded) struct Stored {
    seqs: Vec<u64>,
    down_to: u64,
    /// Records of the tables that were held against the list.
    looked_at: usize,
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
        let mut looked_at = 0;
        for slot in self.dirty.below(before) {
            if found.len() == limit || looked_at == PAGE_SCAN_MAX {
                memory_down_to = slot.record.seq + 1;
                break;
            }
            looked_at += 1;
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
            queues,
            found,
            memory_down_to,
            looked_at,
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
    /// Records that were held against the list, of memory and of the tables.
    pub(in crate::embedded) fn looked_at(&self, stored: &Result<Stored, Error>) -> usize {
        self.looked_at + stored.as_ref().map_or(0, |stored| stored.looked_at)
    }

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
        let mut stored = Stored { seqs: Vec::new(), down_to: 0, looked_at: 0 };
        let mut lanes = self.snapshot.lane_names();
        let mut matches = |seq: u64, bytes: Bytes| -> Result<bool, Error> {
            let record = codec::decode_record(seq, bytes, |lane| lanes.get(lane))
                .map_err(|error| Error::Damaged(error.to_string()))?;
            Ok(self.list.matches(&record))
        };
        let Some(queues) = &self.queues else {
            for entry in self.snapshot.tasks_below(before)? {
                let (seq, bytes) = entry?;
                if stored.seqs.len() == self.limit || stored.looked_at == PAGE_SCAN_MAX {
                    stored.down_to = seq + 1;
                    break;
                }
                stored.looked_at += 1;
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
        while let Some((next, i)) = heads.pop() {
            heads.extend(sources[i].next().transpose()?.map(|seq| (seq, i)));
            if stored.seqs.len() == self.limit || stored.looked_at == PAGE_SCAN_MAX {
                stored.down_to = next + 1;
                break;
            }
            stored.looked_at += 1;
            let bytes = self.snapshot.task(next)?.ok_or_else(|| missing(next))?.record;
            if matches(next, bytes)? {
                stored.seqs.push(next);
            }
        }
        Ok(stored)
    }
}
