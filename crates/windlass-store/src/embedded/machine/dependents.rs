//! Tasks that wait for others.
//!
//! A task that others wait for is marked (`awaited`). When it ends, the mark puts it into the lane of those who have yet to
//! tell, as a record with a deadline stands in the lane of the timers: it outlives a restart with the record. Each pair goes
//! away in the command that counts it, and the mark with the last pair.

use std::collections::BTreeSet;

use windlass_core::{Body, Ended, TaskId};

use super::{Machine, missing};
use crate::embedded::dirty::{Keys, TELL_LANE};
use crate::embedded::index::Beyond;
use crate::store::{Ending, Error, Settle, Settled, Waiting};

/// What a new task has to wait for.
pub(super) enum Wanted {
    Open(Vec<u64>),
    Broken { id: TaskId, cancelled: bool },
}

/// What an atomic batch would do to a task.
pub(super) enum Rehearsed {
    Added,
    Cancelled,
}

impl Machine {
    /// Looks up the dependencies of a new task. `rehearsed` knows those that are added with it, and those that the batch cancels.
    pub(super) fn wanted(
        &self,
        body: &Body,
        rehearsed: impl Fn(&TaskId) -> Option<Rehearsed>,
    ) -> Result<Wanted, Error> {
        let mut open = Vec::new();
        for id in body.dependencies() {
            match rehearsed(id) {
                Some(Rehearsed::Added) => continue,
                Some(Rehearsed::Cancelled) => return Ok(Wanted::Broken { id: id.clone(), cancelled: true }),
                None => {}
            }
            let Some(seq) = self.seq_of(id)? else {
                return Ok(Wanted::Broken { id: id.clone(), cancelled: false });
            };
            match Ended::of(&self.record(seq)?.ok_or_else(|| missing(seq))?) {
                None => open.push(seq),
                Some(Ended::Completed) => {}
                Some(Ended::Cancelled) => return Ok(Wanted::Broken { id: id.clone(), cancelled: true }),
            }
        }
        // One that is named twice is one pair, and counts once.
        open.sort_unstable();
        open.dedup();
        Ok(Wanted::Open(open))
    }

    pub(super) fn wait_for(&mut self, child: u64, parents: &[u64]) -> Result<(), Error> {
        for parent in parents {
            let grown = self.edges.put(self.snapshot.edges(), (*parent, child), true)?;
            self.dirty.grew(grown);
            self.set_awaited(*parent, true)?;
        }
        Ok(())
    }

    /// A task waits again; `false`, and nothing is done, if one that it should wait for is gone.
    pub(super) fn wait_again(&mut self, child: u64, after: &[TaskId]) -> Result<bool, Error> {
        let mut parents = Vec::with_capacity(after.len());
        for id in after {
            let Some(seq) = self.seq_of(id)? else { return Ok(false) };
            parents.push(seq);
        }
        self.wait_for(child, &parents)?;
        Ok(true)
    }

    fn set_awaited(&mut self, seq: u64, awaited: bool) -> Result<(), Error> {
        let slot = self.slot(seq)?.ok_or_else(|| missing(seq))?;
        if slot.record.awaited == awaited {
            return Ok(());
        }
        let before = Keys::of(&slot.record, slot.home);
        slot.record.awaited = awaited;
        let after = Keys::of(&slot.record, slot.home);
        self.reindex(seq, Some(before), Some(after))
    }

    pub(in crate::embedded) fn endings(&mut self, limit: usize) -> Result<Vec<Ending>, Error> {
        let dirty = |seq| self.dirty.contains(seq);
        let beyond = Beyond { snapshot: &self.snapshot, dirty: &dirty };
        let (parents, _) = self.index.range(TELL_LANE, (1, 0), limit, &beyond)?;
        let mut left = limit;
        let mut endings = Vec::new();
        for parent in parents {
            if left == 0 {
                break;
            }
            let record = self.record(parent)?.ok_or_else(|| missing(parent))?;
            let silent = || Error::Damaged(format!("task {parent} has nothing to tell"));
            let ended = Ended::of(&record).ok_or_else(silent)?;
            let mut children = Vec::new();
            for seq in self.edges.children(self.snapshot.edges(), parent, left)? {
                let mut record = self.record(seq)?;
                if let Some(record) = &mut record {
                    self.leases.complete(record);
                }
                children.push(Waiting { seq, record });
            }
            left -= children.len();
            endings.push(Ending { parent, ended, children });
        }
        Ok(endings)
    }

    pub(super) fn settle_all(&mut self, settles: &[Settle]) -> Result<Vec<Settled>, Error> {
        let mut done = Vec::with_capacity(settles.len());
        let mut told = BTreeSet::new();
        for settle in settles {
            done.push(self.settle(settle, &mut told)?);
        }
        for parent in told {
            if self.edges.children(self.snapshot.edges(), parent, 1)?.is_empty() {
                self.set_awaited(parent, false)?;
            }
        }
        Ok(done)
    }

    /// `told` takes the tasks whose pairs went away, which may have told all by now.
    fn settle(&mut self, settle: &Settle, told: &mut BTreeSet<u64>) -> Result<Settled, Error> {
        if self.record(settle.child)?.map(|record| record.revision) != settle.seen {
            return Ok(Settled::Conflict);
        }
        for (parent, ended) in &settle.parents {
            let as_seen = self.record(*parent)?.is_some_and(|record| Ended::of(&record) == Some(*ended));
            if !as_seen || !self.edges.contains(self.snapshot.edges(), (*parent, settle.child))? {
                return Ok(Settled::Conflict);
            }
        }
        for (parent, _) in &settle.parents {
            let grown = self.edges.put(self.snapshot.edges(), (*parent, settle.child), false)?;
            self.dirty.grew(grown);
            told.insert(*parent);
        }
        match &settle.change {
            Some(change) => Ok(Settled::Changed(Box::new(self.change(settle.child, change)?))),
            None => Ok(Settled::Dropped),
        }
    }
}
