//! Moving blocks on from files that are mostly waste, so that these can be removed.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;

use redb::{ReadableTable, Table};

use super::{HEAD_BYTES, Heap, Owner, Place, Pointer, Writing, failed, missing, read};
use crate::store::Error;

/// A checkpoint looks through twice as much as it wrote, which is enough to keep up, and through this much at least.
const STEP_BYTES_MIN: u64 = 4 << 20;
/// The current file is abandoned, and blocks move to another one, if it has at least this share of a whole file (one in 64)
/// while the disk is short…
pub(super) const CURRENT_SHARE_SHORT: u32 = 64;
/// …and this share (one in 4) otherwise. Then seven eighths of it must be waste, because its blocks were just written.
const CURRENT_SHARE: u32 = 4;

/// What the disk has left.
#[derive(Debug, Clone, Copy)]
pub(in crate::embedded) struct Room {
    /// So little that smaller waste counts too: what is left to do must not wait for room.
    pub(in crate::embedded) short: bool,
    /// For what moves before its old file can go.
    pub(in crate::embedded) bytes: u64,
}

#[derive(Debug, Default)]
pub(super) struct Tidying {
    /// Since the last step.
    written: u64,
    /// The file that is being left, and how far it was looked through.
    leaving: Option<(u32, u32)>,
    /// Files that were looked through and still hold what counts: something there is damaged. It is told when it is asked for.
    given_up: BTreeSet<u32>,
}

impl Tidying {
    pub(super) fn note(&mut self, bytes: u32) {
        self.written += u64::from(bytes);
    }
}

impl Heap {
    /// One step.
    pub(in crate::embedded) fn tidy(&mut self, trees: &mut Writing<'_>, room: Room) -> Result<(), Error> {
        let least = if room.short { u64::from(self.file_bytes) } else { STEP_BYTES_MIN };
        // What is looked through and what moves are limited apart: waste takes no room.
        let (mut left, mut room) = (least.max(2 * self.tidying.written), room);
        while left > 0
            && room.bytes > 0
            && let Some((file, at)) = self.unfinished(room).or_else(|| self.most_wasteful(room))
        {
            let known = self.uses.get(&file).copied().unwrap_or_default();
            if known.live == 0 {
                continue;
            }
            if file == self.current {
                // After the flush its last blocks can be read, and no more blocks are written to it.
                self.flush()?;
                self.current += 1;
            }
            match self.move_on(trees, file, at, known.end)? {
                Some(next) => {
                    let live = self.uses.get(&file).map_or(0, |now| now.live);
                    left = left.saturating_sub(u64::from(next - at));
                    room.bytes = room.bytes.saturating_sub(u64::from(known.live.saturating_sub(live)));
                    self.tidying.leaving = Some((file, next));
                }
                None => {
                    tracing::warn!(file, bytes = known.live, "a file of blocks cannot be left");
                    self.tidying.given_up.insert(file);
                }
            }
        }
        self.tidying.written = 0;
        Ok(())
    }

    /// Whether a step would free space.
    pub(in crate::embedded) fn has_waste(&self, room: Room) -> bool {
        let unfinished = self.tidying.leaving.is_some_and(|(file, _)| self.can_empty(file, room));
        room.bytes > 0 && (unfinished || self.most_wasteful(room).is_some())
    }

    /// The file that the last step began to leave. It starts over later if it cannot be emptied now.
    fn unfinished(&mut self, room: Room) -> Option<(u32, u32)> {
        self.tidying.leaving.take().filter(|(file, _)| self.can_empty(*file, room))
    }

    /// While the disk is short, a file that cannot be emptied completely would only take the room of two files.
    fn can_empty(&self, file: u32, room: Room) -> bool {
        self.uses.get(&file).is_some_and(|known| !room.short || u64::from(known.live) <= room.bytes)
    }

    fn most_wasteful(&self, room: Room) -> Option<(u32, u32)> {
        let wasteful = self.uses.iter().filter(|(number, known)| {
            let limit = match (**number == self.current, room.short) {
                (_, true) => known.end / 8 * 7,
                (true, false) => known.end / 8,
                (false, false) => known.end / 2,
            };
            let share = if room.short { CURRENT_SHARE_SHORT } else { CURRENT_SHARE };
            let small = **number == self.current && known.end < self.file_bytes / share;
            known.live > 0
                && known.start + known.live < limit
                && self.can_empty(**number, room)
                && !small
                && !self.tidying.given_up.contains(number)
        });
        wasteful.min_by_key(|(_, known)| known.live).map(|(number, known)| (*number, known.start))
    }

    /// Moves the block at this place, if it counts. Says where the next one is; `None` if there is none, or it cannot be told.
    fn move_on(
        &mut self,
        trees: &mut Writing<'_>,
        file: u32,
        at: u32,
        end: u32,
    ) -> Result<Option<u32>, Error> {
        let open = self.files.get(&file).ok_or_else(|| missing(file))?;
        let mut head = [0; HEAD_BYTES];
        if end - at < HEAD_BYTES as u32 {
            return Ok(None);
        }
        open.read_exact_at(&mut head, u64::from(at)).map_err(failed("look through blocks"))?;
        let [n @ .., b0, b1, b2, b3] = head;
        let (number, bytes) = (u64::from_le_bytes(n), u32::from_le_bytes([b0, b1, b2, b3]));
        let next = (at + HEAD_BYTES as u32).checked_add(bytes).filter(|next| *next <= end);
        let Some(next) = next else { return Ok(None) };
        let moved = match Owner::of(number) {
            Owner::Block(key) => self.move_block(&mut trees.tasks, key, (file, at))?,
            Owner::Part(key) => self.move_block(&mut trees.large, key, (file, at))?,
        };
        Ok(moved.then_some(next))
    }

    /// Moves the block of a row, if the row points to this place. Returns whether the look through the file can continue.
    fn move_block<K: Pointer>(
        &mut self,
        tree: &mut Table<'_, K, &'static [u8]>,
        key: K,
        from: (u32, u32),
    ) -> Result<bool, Error> {
        let stored = tree.get(key).map_err(failed("look through blocks"))?;
        let place = stored.map(|value| Place::read(key, value.value())).transpose()?.flatten();
        let Some(place) = place.filter(|place| (place.file, place.at) == from) else { return Ok(true) };
        match read(&self.files, key.number(), place) {
            Ok(block) => self.put(tree, key, &block).map(|()| true),
            Err(Error::Damaged(words)) => {
                tracing::error!(words, "a block cannot be moved");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
