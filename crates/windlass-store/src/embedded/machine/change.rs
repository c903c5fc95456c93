//! Carrying out decided changes.

use windlass_core::flow::load;
use windlass_core::{Change, Record, State, StateName, Transition};

use super::relocate::Located;
use super::{Machine, missing};
use crate::embedded::dirty::{Keys, READY_LANES, weight};
use crate::embedded::names::share_of;
use crate::store::{Committed, Error};

impl Machine {
    pub(super) fn commit(&mut self, transition: &Transition) -> Result<Committed, Error> {
        let mark = |record: &Record| (record.revision, record.awaited);
        let seen = match self.dirty.get(transition.seq) {
            Some(slot) => (!slot.gone && slot.record.id == transition.id).then(|| mark(&slot.record)),
            None => {
                let stored = self.stored(transition.seq)?;
                stored.filter(|it| it.record.id == transition.id).map(|it| mark(&it.record))
            }
        };
        let Some((revision, awaited)) = seen else {
            let known = self.seq_of(&transition.id)?.is_some();
            return Ok(if known { Committed::Conflict } else { Committed::Missing });
        };
        if revision != transition.revision || matches!(transition.change, Change::Claimed { .. }) {
            return Ok(Committed::Conflict);
        }
        if let Change::Requeued { at, .. } = transition.change
            && let Some(holder) = self.in_the_way(transition.seq, at)?
        {
            return Ok(Committed::KeyHeld(holder));
        }
        match &transition.change {
            Change::Removed { .. } if awaited => return Ok(Committed::Conflict),
            Change::Requeued { after, .. }
                if !after.is_empty() && !self.wait_again(transition.seq, after)? =>
            {
                return Ok(Committed::Conflict);
            }
            _ => {}
        }
        let mut record = self.change(transition.seq, &transition.change)?;
        self.leases.complete(&mut record);
        Ok(Committed::Done(Box::new(record)))
    }

    /// Carries out a change on a task that is there, in every structure at once. Returns the record after it.
    pub(super) fn change(&mut self, seq: u64, change: &Change) -> Result<Record, Error> {
        let number = self.next_number;
        let slot = self.slot(seq)?.ok_or_else(|| missing(seq))?;
        let (lane, stood, queue, priority) = (slot.lane, slot.home, slot.queue, slot.record.priority);
        let before = Keys::of(&slot.record, stood);
        let (from, grown) = (slot.record.state_name(), weight(&slot.record));
        slot.record.evolve(change, number);
        let record = slot.record.clone();
        let home = self.rehome(seq, &record, from, stood)?;
        self.dirty.grew(weight(&record).saturating_sub(grown));
        if change.takes_place() {
            self.next_number += 1;
        }
        self.write_down(change, from, &record);
        self.signals.changed(Some(change), &record);
        self.settle_key(&record, change)?;
        if let Change::Reprioritised { .. } | Change::Moved { .. } = change {
            self.relocate(&record, Located { lane, home, queue, priority, keys: before })?;
            return Ok(record);
        }
        let (after, to) = match change {
            Change::Removed { .. } => {
                self.dirty.remove(seq);
                (None, None)
            }
            _ => (Some(Keys::of(&record, home)), Some(record.state_name())),
        };
        self.names.count(lane, record.priority, Some(from), to);
        if record.member {
            self.node_moved(seq, Some(from), to)?;
        }
        self.reindex(seq, Some(before), after)?;
        let share = record.key.as_ref().and_then(|_| share_of(home));
        self.names.flow.count(lane - READY_LANES, share, load(from), to.and_then(load));
        // A checkpoint is no business of the lease, which goes on as it was.
        if matches!(change, Change::Checkpointed { .. }) {
            return Ok(record);
        }
        if from == StateName::Running {
            self.leases.end(seq);
        }
        if matches!(record.state, State::Running(_)) {
            let now = self.moment();
            self.leases.begin(&record, now);
            self.tell_nearer_lease(seq);
        }
        Ok(record)
    }

    pub(super) fn tell_nearer_lease(&mut self, seq: u64) {
        if self.leases.is_nearer(seq) {
            self.signals.leases.notify_one();
        }
    }
}
