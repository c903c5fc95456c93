//! Queues and types in the tables.

use std::collections::HashMap;

use bytes::Bytes;
use prost::Message;
use redb::{ReadOnlyTable, ReadableTableMetadata};
use windlass_core::Name;

use super::{LaneMessage, META, MetaMessage, QueueMessage, Saved, Snapshot, decode, failed, seal};
use crate::embedded::codec;
use crate::embedded::dirty::READY_LANES;
use crate::embedded::flow;
use crate::embedded::operations::Register;
use crate::embedded::schedules::Book;
use crate::store::Error;

/// Queues and types of lanes as a snapshot has them, each looked up once. The state may have given their numbers to others since.
#[derive(Debug)]
pub(in crate::embedded) struct LaneNames<'a> {
    snapshot: &'a Snapshot,
    found: HashMap<u32, (Name, Name)>,
}

impl LaneNames<'_> {
    /// `None` if there is no such lane, or it cannot be read.
    pub(in crate::embedded) fn get(&mut self, lane: u32) -> Option<(Name, Name)> {
        if let Some(names) = self.found.get(&lane) {
            return Some(names.clone());
        }
        let names = self.snapshot.lane(lane)?;
        self.found.insert(lane, names.clone());
        Some(names)
    }
}

impl Snapshot {
    pub(in crate::embedded) fn lane_names(&self) -> LaneNames<'_> {
        LaneNames { snapshot: self, found: HashMap::new() }
    }

    fn lane(&self, lane: u32) -> Option<(Name, Name)> {
        let lane: LaneMessage = row(&self.lanes, lane.checked_sub(READY_LANES)?)?;
        let queue: QueueMessage = row(&self.queues, lane.queue)?;
        Some((codec::name(&queue.name).ok()?, codec::name(&lane.kind).ok()?))
    }

    /// How many tasks each lane of ready tasks has, by a walk past all of them.
    pub(in crate::embedded) fn count_lanes(&self) -> Result<HashMap<u32, u64>, Error> {
        let mut counts = HashMap::new();
        for entry in self.tasks_below(u64::MAX)? {
            let (seq, bytes) = entry?;
            let lane = codec::lane_of_record(bytes).map_err(|error| Error::Damaged(error.to_string()))?;
            let lost = || Error::Damaged(format!("task {seq} has a lane that does not exist"));
            *counts.entry(lane.checked_sub(READY_LANES).ok_or_else(lost)?).or_default() += 1;
        }
        Ok(counts)
    }

    /// The number of queues and lanes.
    pub(in crate::embedded) fn names_len(&self) -> Result<u64, Error> {
        let count = |table: &ReadOnlyTable<u32, &'static [u8]>| table.len().map_err(failed("count names"));
        Ok(count(&self.queues)? + count(&self.lanes)?)
    }

    /// What memory is rebuilt from at the start.
    pub(in crate::embedded) fn saved(&self) -> Result<Saved, Error> {
        let meta = self.read.open_table(META).map_err(failed("open a table"))?;
        let state = match meta.get("state").map_err(failed("read the state"))? {
            Some(value) => decode(Bytes::copy_from_slice(seal::open(0, value.value())?))?,
            None => MetaMessage::first(),
        };
        Ok(Saved {
            schedules: Book::load(&self.read)?,
            flow: flow::Book::load(&self.read)?,
            operations: Register::load(&self.read)?,
            state,
            queues: rows(&self.queues)?,
            lanes: rows(&self.lanes)?,
        })
    }
}

fn row<M: Message + Default>(table: &ReadOnlyTable<u32, &'static [u8]>, number: u32) -> Option<M> {
    let value = table.get(number).ok()??;
    let bytes = seal::open(u64::from(number), value.value()).ok()?;
    M::decode(bytes).ok()
}

fn rows<M: Message + Default>(table: &ReadOnlyTable<u32, &'static [u8]>) -> Result<Vec<(u32, M)>, Error> {
    let mut all = Vec::new();
    for entry in table.range::<u32>(..).map_err(failed("read names"))? {
        let (number, value) = entry.map_err(failed("read names"))?;
        let bytes = Bytes::copy_from_slice(seal::open(u64::from(number.value()), value.value())?);
        all.push((number.value(), decode(bytes)?));
    }
    Ok(all)
}
