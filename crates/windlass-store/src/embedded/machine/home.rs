//! The lanes where tasks stand when they are pending: that of their queue and type, or that of their key there.

use windlass_core::flow::load;
use windlass_core::{Name, Record, StateName};

use super::Machine;
use crate::embedded::dirty::READY_LANES;
use crate::embedded::names::KEYED_LANES;
use crate::store::Error;

impl Machine {
    /// Where a task with a key stands from now on: the lane of a key is given up while it has no live task.
    pub(super) fn rehome(
        &mut self,
        seq: u64,
        record: &Record,
        from: StateName,
        stood: u32,
    ) -> Result<u32, Error> {
        let Some(key) = &record.key else { return Ok(stood) };
        if load(from).is_some() || load(record.state_name()).is_none() {
            return Ok(stood);
        }
        let lane = self.dirty.get(seq).map_or(stood, |slot| slot.lane);
        let home = self.keyed_lane(lane, key)?;
        if let Some(slot) = self.dirty.active_mut(seq) {
            slot.home = home;
        }
        Ok(home)
    }

    /// The lane of a key beside that of its queue and type, made if need be.
    pub(super) fn keyed_lane(&mut self, lane: u32, key: &Name) -> Result<u32, Error> {
        let (share, made) = self.names.flow.share(lane - READY_LANES, key);
        let home = KEYED_LANES + share;
        if made {
            self.index.begin_keyed(home, false);
            self.split_lane(home)?;
        }
        Ok(home)
    }

    /// Where a task that memory does not describe stands when it is pending.
    pub(super) fn home(&self, lane: u32, record: &Record) -> Result<u32, Error> {
        let Some(key) = record.key.as_ref().filter(|_| load(record.state_name()).is_some()) else {
            return Ok(lane);
        };
        let share = self.names.flow.find_share(lane - READY_LANES, key);
        let lost = || Error::Damaged(format!("task {} has a key without a lane", record.seq));
        share.map(|share| KEYED_LANES + share).ok_or_else(lost)
    }
}
