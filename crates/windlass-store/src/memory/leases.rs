//! Lease deadlines, on the monotonic clock.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::Notify;
use windlass_core::transition::{self, Extension};
use windlass_core::{Now, State, Task};

use super::tables::Tables;
use crate::store::{Due, Expire, Extend, Extended};

#[derive(Debug, Default)]
pub(super) struct Leases {
    by_seq: BTreeMap<u64, Held>,
    by_deadline: BTreeSet<(u64, u64)>,
    /// The end of the last pause of the process for which leases were renewed.
    resumed: u64,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    deadline: u64,
    /// Handed to the reaper: it is not extended any more.
    lost: bool,
}

impl Leases {
    /// Sets the deadline of a lease, a new one or not.
    pub(super) fn set(&mut self, seq: u64, deadline: u64, nearer: &Notify) {
        if self.by_deadline.first().is_none_or(|(first, _)| deadline < *first) {
            nearer.notify_one();
        }
        self.end(seq);
        self.by_seq.insert(seq, Held { deadline, lost: false });
        self.by_deadline.insert((deadline, seq));
    }

    pub(super) fn end(&mut self, seq: u64) {
        if let Some(held) = self.by_seq.remove(&seq) {
            self.by_deadline.remove(&(held.deadline, seq));
        }
    }

    /// The tasks that run, in order of number.
    pub(super) fn seqs(&self) -> impl Iterator<Item = u64> {
        self.by_seq.keys().copied()
    }

    fn is_lost(&self, seq: u64) -> bool {
        self.by_seq.get(&seq).is_none_or(|held| held.lost)
    }

    /// A lost lease is over now whatever it was, so that later calls find it again until its task changes.
    fn lose(&mut self, seq: u64, now: Now) {
        let Some(held) = self.by_seq.get_mut(&seq) else { return };
        self.by_deadline.remove(&(held.deadline, seq));
        *held = Held { deadline: held.deadline.min(now.mono), lost: true };
        self.by_deadline.insert((held.deadline, seq));
    }
}

impl Tables {
    pub(super) fn extend(&mut self, extension: Extend, now: Now) -> Extended {
        let Some(seq) = self.ids.get(&extension.id) else { return Extended::Missing };
        let record = &mut self.tasks.get_mut(seq).expect("an id names a task").record;
        match transition::extend(record, extension.token) {
            Err(_) => return Extended::LeaseLost,
            Ok(Extension::CancelRequested) => return Extended::CancelRequested,
            Ok(Extension::Granted) if self.leases.is_lost(*seq) => return Extended::LeaseLost,
            Ok(Extension::Granted) => {}
        }
        let State::Running(lease) = &mut record.state else { return Extended::LeaseLost };
        let lease_ms = extension.lease_ms.unwrap_or(lease.lease_ms);
        lease.expires_at = now.wall.saturating_add(lease_ms);
        let expires_at = lease.expires_at;
        if let Some(progress) = extension.progress {
            self.signals.progressed(record, &progress, now.wall);
            record.progress = Some(progress);
        }
        self.leases.set(*seq, now.mono.saturating_add(lease_ms), &self.signals.leases);
        Extended::Until { expires_at }
    }

    /// Gives every lease one fresh window after a pause that ended at `resumed`. During a pause extensions wait unread.
    pub(super) fn renew_leases(&mut self, resumed: u64, now: Now) {
        if resumed <= self.leases.resumed {
            return;
        }
        self.leases.resumed = resumed;
        let live: Vec<u64> = self.leases.seqs().filter(|seq| !self.leases.is_lost(*seq)).collect();
        for seq in live {
            let Some(task) = self.tasks.get_mut(&seq) else { continue };
            let State::Running(lease) = &mut task.record.state else { continue };
            let deadline = resumed.saturating_add(lease.lease_ms);
            if self.leases.by_seq.get(&seq).is_some_and(|held| held.deadline < deadline) {
                lease.expires_at = now.wall.saturating_add(deadline.saturating_sub(now.mono));
                self.leases.set(seq, deadline, &self.signals.leases);
            }
        }
    }

    pub(super) fn expired(&mut self, expire: &Expire, now: Now) -> Due {
        let dead = |task: &Task| match &task.record.state {
            State::Running(lease) => expire.dead_workers.contains(&lease.worker),
            _ => false,
        };
        let mut found = Due::default();
        for &(deadline, seq) in &self.leases.by_deadline {
            let task = &self.tasks[&seq];
            if found.tasks.len() < expire.limit && (deadline <= now.mono || dead(task)) {
                found.tasks.push(task.clone());
            } else {
                found.next = found.next.or(Some(deadline));
            }
        }
        for task in &found.tasks {
            self.leases.lose(task.record.seq, now);
        }
        found
    }
}
