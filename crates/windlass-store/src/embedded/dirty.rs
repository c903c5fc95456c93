//! The tasks that changed since the last checkpoint, as memory knows them.
//!
//! Two generations: `active` takes the changes, `frozen` is what the checkpoint under way is writing. A task is described
//! by the newest generation that has it, else by the tables. Each slot remembers under which keys the generation below
//! knows its task, so that a checkpoint writes only the net change.

mod ids;
mod slots;

use std::sync::Arc;

use bytes::Bytes;
use windlass_core::{Record, TaskId};

use self::ids::Ids;
pub(super) use self::slots::Slots;
use super::checkpoint::{Touched, TouchedBlock};
use super::index::Place;
use super::names::KEYED_LANES;
use super::space::Unsaved;
use super::tables::block::BLOCK_TASKS;
use super::tables::ids::{Dated, has_own_row};
use super::tables::set::SPAN;

/// The index's lanes that are not for ready tasks.
pub(super) const WAKE_LANE: u32 = 0;
pub(super) const PRUNE_LANE: u32 = 1;
/// The lane of tasks that wait for a duration, by elapsed time. Its number is above all lanes of ready tasks, so that the
/// numbers in older directories stay valid.
pub(super) const ELAPSED_LANE: u32 = KEYED_LANES - 1;
/// Tasks that ended and have yet to tell those who wait for them, by number.
pub(super) const TELL_LANE: u32 = 2;
/// The first lane of ready tasks.
pub(super) const READY_LANES: u32 = 3;

#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) record: Record,
    /// The lane of its queue and type.
    pub(super) lane: u32,
    /// The lane where it stands when it is pending: the same, or that of its key. Only a live task's is true.
    pub(super) home: u32,
    pub(super) queue: u32,
    /// Present at least as long as no table has it.
    pub(super) body: Option<Bytes>,
    /// Where the generation below has this task; `None` if it does not. In a box, because most tasks of a busy broker are new.
    pub(super) base: Option<Box<Keys>>,
    /// The lane and queue under which the generation below has it, if they are others.
    pub(super) moved_from: Option<Box<(u32, u32)>>,
    /// The task was removed, and this slot stands for its absence.
    pub(super) gone: bool,
}

impl Slot {
    /// Lane and queue in the generation below.
    pub(super) fn base_queue(&self) -> u32 {
        self.moved_from.as_ref().map_or(self.queue, |from| from.1)
    }
}

/// The index entries of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Keys {
    /// With the lane, which may be another one when the task is pending again.
    pub(super) ready: Option<(u32, Place)>,
    pub(super) wake: Option<Place>,
    pub(super) elapsed: Option<Place>,
    pub(super) prune: Option<Place>,
    pub(super) state: u8,
    /// Stands in the lane of those who have yet to tell, at [`tell_place`].
    pub(super) tells: bool,
}

pub(super) fn tell_place(seq: u64) -> Place {
    (0, seq)
}

impl Keys {
    /// `home` is where it stands when it is pending.
    pub(super) fn of(record: &Record, home: u32) -> Keys {
        let pending = record.state == windlass_core::State::Pending;
        let wakes = record.wakes();
        Keys {
            ready: pending.then(|| (home, (u64::from(u8::MAX - record.priority.0), record.order))),
            wake: wakes.wall.map(|at| (at, record.seq)),
            elapsed: wakes.elapsed.map(|at| (at, record.seq)),
            prune: record.prune_at().map(|at| (at, record.seq)),
            state: record.state_name().index() as u8,
            tells: record.must_tell(),
        }
    }
}

/// What a checkpoint writes; shared with the thread that writes it.
pub(super) type Frozen = Arc<Slots>;

#[derive(Debug, Default)]
pub(super) struct Dirty {
    active: Slots,
    frozen: Frozen,
    active_ids: Ids,
    frozen_ids: Ids,
    /// What `active` will change in the tables, estimated…
    unsaved: Unsaved,
    /// …and `frozen`.
    frozen_unsaved: Unsaved,
    /// The block from which a task was removed last.
    removed_from: Option<u64>,
}

impl Dirty {
    pub(super) fn is_active(&self, seq: u64) -> bool {
        self.active.contains(seq)
    }

    pub(super) fn contains(&self, seq: u64) -> bool {
        self.active.contains(seq) || self.frozen.contains(seq)
    }

    pub(super) fn get(&self, seq: u64) -> Option<&Slot> {
        self.active.get(seq).or_else(|| self.frozen.get(seq))
    }

    pub(super) fn seq_of(&self, id: &TaskId) -> Option<u64> {
        self.active_ids.find(id, &self.active).or_else(|| self.frozen_ids.find(id, &self.frozen))
    }

    /// The slot to change, if this generation has the task.
    pub(super) fn active_mut(&mut self, seq: u64) -> Option<&mut Slot> {
        self.active.get_mut(seq)
    }

    /// A slot for this generation, if the frozen one has the task.
    pub(super) fn next_of_frozen(&self, seq: u64) -> Option<Slot> {
        let below = self.frozen.get(seq)?;
        Some(Slot {
            record: below.record.clone(),
            lane: below.lane,
            home: below.home,
            queue: below.queue,
            // It stays with the frozen one, and is in the table after that.
            body: None,
            base: (!below.gone).then(|| Box::new(Keys::of(&below.record, below.home))),
            moved_from: None,
            gone: below.gone,
        })
    }

    /// The body of a task, if memory has it. It may be in the frozen generation when the active one has the task too.
    pub(super) fn body(&self, seq: u64) -> Option<&Bytes> {
        [&self.active, &*self.frozen].into_iter().find_map(|slots| slots.get(seq)?.body.as_ref())
    }

    /// Adds a task that this generation does not have.
    pub(super) fn insert(&mut self, slot: Slot) {
        self.unsaved.bytes += cost(&slot);
        self.unsaved.ids += usize::from(slot.base.is_none() && has_own_row(slot.record.id.as_str()));
        self.active_ids.add(&slot.record.id, slot.record.seq, &self.active);
        self.active.insert(slot);
    }

    /// The task is gone. If no generation below knows it, no trace remains.
    pub(super) fn remove(&mut self, seq: u64) {
        let Some(slot) = self.active.get_mut(seq) else { return };
        let own_row = usize::from(has_own_row(slot.record.id.as_str()));
        if slot.base.is_some() {
            let block = Some(seq / BLOCK_TASKS);
            if !slot.gone {
                self.unsaved.ids += own_row;
                self.unsaved.blocks += usize::from(self.removed_from != block);
                self.removed_from = block;
            }
            slot.gone = true;
            slot.body = None;
        } else if let Some(slot) = self.active.remove(seq) {
            self.unsaved.bytes = self.unsaved.bytes.saturating_sub(cost(&slot));
            self.unsaved.ids = self.unsaved.ids.saturating_sub(own_row);
            self.active_ids.remove(&slot.record.id, seq);
        }
    }

    /// Something that a slot holds grew.
    pub(super) fn grew(&mut self, bytes: usize) {
        self.unsaved.bytes += bytes;
    }

    pub(super) fn bytes(&self) -> usize {
        self.unsaved.bytes
    }

    /// What is changed in memory and not yet in the tables.
    pub(super) fn unsaved(&self) -> Unsaved {
        self.unsaved + self.frozen_unsaved
    }

    /// How many tasks the next checkpoint writes.
    pub(super) fn len(&self) -> usize {
        self.active.len()
    }

    /// What the next checkpoint writes again.
    pub(super) fn touched(&self) -> Touched {
        let mut touched = Touched::default();
        // Rows of an order that tasks leave. Neighbours share them.
        let mut left: [Option<(u32, u64, u64)>; 4] = [None; 4];
        for slot in self.active.iter() {
            let all = &mut touched.blocks;
            let block = slot.record.seq / BLOCK_TASKS;
            if all.last().is_none_or(|last| last.block != block) {
                all.push(TouchedBlock { block, bytes: 0, gone: 0, ids: 0, id_bytes: 0 });
            }
            let Some(last) = all.last_mut() else { continue };
            last.bytes += if slot.gone { 0 } else { cost(slot) as u64 };
            last.gone += u64::from(slot.gone);
            let id_changes = slot.gone || slot.base.is_none();
            let id = slot.record.id.as_str();
            match Dated::parse(id) {
                _ if !id_changes => {}
                None => {
                    last.ids += 1;
                    last.id_bytes += if slot.gone { 0 } else { id.len() as u64 };
                }
                Some(dated) if touched.moments.last() != Some(&dated.row()) => {
                    touched.moments.push(dated.row());
                }
                Some(_) => {}
            }
            let Some(keys) = slot.base.as_ref() else { continue };
            let in_lane = |lane, place: Option<Place>| place.map(|(a, b)| (lane, a, b / SPAN));
            let ready = keys.ready.and_then(|(lane, place)| in_lane(lane, Some(place)));
            let (wake, elapsed) = (in_lane(WAKE_LANE, keys.wake), in_lane(ELAPSED_LANE, keys.elapsed));
            let rows = [ready, wake, elapsed, in_lane(PRUNE_LANE, keys.prune)];
            for (row, left) in rows.into_iter().zip(&mut left) {
                if row.is_some() && row != *left {
                    touched.order_rows += 1;
                    *left = row;
                }
            }
        }
        touched
    }

    pub(super) fn is_freezing(&self) -> bool {
        !self.frozen.is_empty()
    }

    /// Slots below `before`, newest first, each task once.
    pub(super) fn below(&self, before: u64) -> impl Iterator<Item = &Slot> {
        let mut active = self.active.below(before).peekable();
        let mut frozen = self.frozen.below(before).peekable();
        std::iter::from_fn(move || match (active.peek(), frozen.peek()) {
            (Some(a), Some(f)) if a.record.seq < f.record.seq => frozen.next(),
            (Some(a), Some(f)) => {
                if a.record.seq == f.record.seq {
                    frozen.next();
                }
                active.next()
            }
            (Some(_), None) => active.next(),
            (None, _) => frozen.next(),
        })
    }

    pub(super) fn freeze(&mut self) -> Frozen {
        debug_assert!(self.frozen.is_empty(), "one checkpoint at a time");
        self.frozen = Arc::new(std::mem::take(&mut self.active));
        self.frozen_ids = std::mem::take(&mut self.active_ids);
        self.frozen_unsaved = std::mem::take(&mut self.unsaved);
        self.removed_from = None;
        Arc::clone(&self.frozen)
    }

    /// The frozen generation is in the tables. Returns it, for a thread with time to drop it.
    pub(super) fn thaw(&mut self) -> impl Sized + use<> {
        self.frozen_unsaved = Unsaved::default();
        (std::mem::take(&mut self.frozen), std::mem::take(&mut self.frozen_ids))
    }
}

fn cost(slot: &Slot) -> usize {
    /// The way to it, its id and its entries in the windows.
    const AROUND_BYTES: usize = 160;
    size_of::<Slot>() + AROUND_BYTES + slot.body.as_ref().map_or(0, Bytes::len) + weight(&slot.record)
}

/// The parts of a record that grow with what users send.
pub(super) fn weight(record: &Record) -> usize {
    record.result.as_ref().map_or(0, |result| result.bytes().len())
        + record.error.as_ref().map_or(0, |error| error.len())
        + record.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.bytes.len())
        + record.history.iter().map(|row| 128 + row.error.as_ref().map_or(0, |e| e.len())).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use windlass_core::{Body, Name, NewTask, Payload, Priority, retry};

    use super::*;

    /// A new task of this number, with an id of its own.
    pub(super) fn slot(seq: u64) -> Slot {
        let name = Name::new("name").unwrap();
        let body = Body {
            payload: Payload::Json(Bytes::from_static(b"null")),
            metadata: Vec::new(),
            timeout_ms: 1000,
            max_retries: 1,
            max_crashes: 1,
            retry: retry::Policy::default(),
            fingerprint: None,
            links: None,
        };
        let new = NewTask {
            id: TaskId::new(&format!("task-{seq}")).unwrap(),
            queue: name.clone(),
            kind: name,
            priority: Priority::default(),
            created_at: 1,
            scheduled_at: None,
            expires_at: None,
            retention_ms: 0,
            counted: windlass_core::Counted::default(),
            unique: None,
            key: None,
            body,
        };
        Slot {
            record: Record::submitted(&new, seq),
            lane: READY_LANES,
            home: READY_LANES,
            queue: 0,
            body: Some(Bytes::from_static(b"body")),
            base: None,
            moved_from: None,
            gone: false,
        }
    }
}
