//! When the leases of running tasks end. Memory only: see the contract of `Store`.

use std::collections::{BTreeSet, HashSet};

use foldhash::{HashMap, HashMapExt};
use windlass_core::{Name, Now, Progress, Record, State};

#[derive(Debug)]
pub(super) struct Leases {
    held: HashMap<u64, Held>,
    deadlines: BTreeSet<(u64, u64)>,
    /// What the reaper waits for.
    awaited: u64,
    /// The end of the last pause of the process for which leases were renewed.
    resumed: u64,
}

impl Default for Leases {
    fn default() -> Self {
        Self { held: HashMap::new(), deadlines: BTreeSet::new(), awaited: u64::MAX, resumed: 0 }
    }
}

#[derive(Debug)]
struct Held {
    worker: Name,
    deadline: u64,
    expires_at: u64,
    lease_ms: u64,
    /// It was handed to the reaper: no extension is possible any more.
    lost: bool,
    progress: Option<Progress>,
}

impl Leases {
    /// A lease begins, or gets a fresh window after a restart.
    pub(super) fn begin(&mut self, record: &Record, now: Now) {
        let State::Running(lease) = &record.state else { return };
        let deadline = now.mono.saturating_add(lease.lease_ms);
        let held = Held {
            worker: lease.worker.clone(),
            deadline,
            expires_at: now.wall.saturating_add(lease.lease_ms),
            lease_ms: lease.lease_ms,
            lost: false,
            progress: None,
        };
        self.end(record.seq);
        self.deadlines.insert((deadline, record.seq));
        self.held.insert(record.seq, held);
    }

    pub(super) fn end(&mut self, seq: u64) {
        if let Some(held) = self.held.remove(&seq) {
            self.deadlines.remove(&(held.deadline, seq));
        }
    }

    /// Moves the deadline; answers when it ends now on the wall clock, or `None` if it is lost already.
    pub(super) fn extend(
        &mut self,
        seq: u64,
        lease_ms: Option<u64>,
        progress: Option<Progress>,
        now: Now,
    ) -> Option<u64> {
        let held = self.held.get_mut(&seq).filter(|held| !held.lost)?;
        let lease_ms = lease_ms.unwrap_or(held.lease_ms);
        self.deadlines.remove(&(held.deadline, seq));
        held.deadline = now.mono.saturating_add(lease_ms);
        held.expires_at = now.wall.saturating_add(lease_ms);
        if progress.is_some() {
            held.progress = progress;
        }
        self.deadlines.insert((held.deadline, seq));
        Some(held.expires_at)
    }

    /// Gives every lease one fresh window after a pause that ended at `resumed`. During a pause extensions wait unread.
    pub(super) fn renew(&mut self, resumed: u64, now: Now) {
        if resumed <= self.resumed {
            return;
        }
        self.resumed = resumed;
        for (seq, held) in self.held.iter_mut().filter(|(_, held)| !held.lost) {
            let deadline = resumed.saturating_add(held.lease_ms);
            if deadline > held.deadline {
                self.deadlines.remove(&(held.deadline, *seq));
                self.deadlines.insert((deadline, *seq));
                held.deadline = deadline;
                held.expires_at = now.wall.saturating_add(deadline.saturating_sub(now.mono));
            }
        }
    }

    /// The leases that ended or whose worker is dead; they cannot be extended from here on.
    pub(super) fn take_expired(&mut self, now: Now, dead: &[Name], limit: usize) -> Vec<u64> {
        let ended = self.deadlines.range(..=(now.mono, u64::MAX)).map(|(_, seq)| *seq).take(limit);
        let mut found: Vec<u64> = ended.collect();
        if !dead.is_empty() && found.len() < limit {
            let dead: HashSet<&Name> = dead.iter().collect();
            let orphaned =
                self.held.iter().filter(|(_, held)| held.deadline > now.mono && dead.contains(&held.worker));
            let mut orphaned: Vec<u64> = orphaned.map(|(seq, _)| *seq).collect();
            orphaned.sort_unstable();
            orphaned.truncate(limit - found.len());
            found.append(&mut orphaned);
        }
        for seq in &found {
            if let Some(held) = self.held.get_mut(seq) {
                held.lost = true;
                // The lease of a dead worker ends now, so that it is told again until somebody acts on it.
                self.deadlines.remove(&(held.deadline, *seq));
                held.deadline = held.deadline.min(now.mono);
                self.deadlines.insert((held.deadline, *seq));
            }
        }
        found
    }

    /// When the next lease ends that was not told yet; the reaper waits for it.
    pub(super) fn next(&mut self) -> Option<u64> {
        let told = |seq: &u64| self.held.get(seq).is_some_and(|held| held.lost);
        let next = self.deadlines.iter().find(|(_, seq)| !told(seq)).map(|(deadline, _)| *deadline);
        self.awaited = next.unwrap_or(u64::MAX);
        next
    }

    /// Some running tasks, in order of number.
    pub(super) fn running(&self, most: usize) -> Vec<u64> {
        let mut seqs: Vec<u64> = self.deadlines.iter().take(most).map(|(_, seq)| *seq).collect();
        seqs.sort_unstable();
        seqs
    }

    /// Whether a lease now ends before what the reaper waits for; said once.
    pub(super) fn is_nearer(&mut self, seq: u64) -> bool {
        let nearer =
            self.held.get(&seq).map(|held| held.deadline).filter(|deadline| *deadline < self.awaited);
        self.awaited = nearer.unwrap_or(self.awaited);
        nearer.is_some()
    }

    /// Puts what only memory knows into a record that is about to be shown.
    pub(super) fn complete(&self, record: &mut Record) {
        let State::Running(lease) = &mut record.state else { return };
        if let Some(held) = self.held.get(&record.seq) {
            lease.expires_at = held.expires_at;
            record.progress = held.progress.clone();
        }
    }
}
