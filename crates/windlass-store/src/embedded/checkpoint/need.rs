//! Computes how much a checkpoint may write, before it begins.

use std::sync::Arc;

use crate::embedded::engine::Shared;
use crate::embedded::space::{IndexPages, Need, PAGE_BYTES, debt};
use crate::embedded::tables::block::{BLOCK_BYTES_MAX, BLOCK_TASKS, ENTRY_BYTES_MAX};
use crate::embedded::tables::{Snapshot, Tables};
use crate::store::Error;

/// The most that a row of the table of ids takes in its page. Pages are at least half full.
const ID_ROW_BYTES: u64 = 640;
/// What a row of the table of ids takes besides the id.
const ID_ROW_OVERHEAD: u64 = 32;
/// The most that the rows of one task take in the index: the largest row of ids, twice, and pages for the others.
const TASK_ROWS_BYTES: u64 = 256 * 1024;
/// Rows of blocks that a page has at least.
const BLOCK_ROWS: u64 = 32;
/// The most that a row of a queue or type takes, likewise.
const NAME_ROW_BYTES: u64 = 640;

/// What a checkpoint writes again.
#[derive(Debug, Default)]
pub(in crate::embedded) struct Touched {
    /// In order.
    pub(in crate::embedded) blocks: Vec<TouchedBlock>,
    /// Rows of ids that were made in one moment. Neighbours share them, so few of them are named twice.
    pub(in crate::embedded) moments: Vec<u64>,
    /// Rows of orders, counted likewise.
    pub(in crate::embedded) order_rows: u64,
}

/// A block that a checkpoint writes again.
#[derive(Debug, Clone, Copy)]
pub(in crate::embedded) struct TouchedBlock {
    pub(in crate::embedded) block: u64,
    /// The size of its changed tasks in memory. Removed tasks are not written and do not count.
    pub(in crate::embedded) bytes: u64,
    /// The number of its tasks that are removed.
    pub(in crate::embedded) gone: u64,
    /// The number of its ids that are added or removed. Each may be anywhere in the table of ids.
    pub(in crate::embedded) ids: u64,
    /// The length of the ids that are added.
    pub(in crate::embedded) id_bytes: u64,
}

/// How much the next checkpoint may write. Reads the tables only if the disk has no room for the worst case.
pub(super) fn need(shared: &Shared) -> Result<Need, Error> {
    let (unsaved_bytes, tasks, names, snapshot) = {
        let machine = shared.machine.lock();
        let (tasks, names) = (machine.changed_tasks() as u64, machine.changed_names() as u64);
        (machine.unsaved().bytes as u64, tasks, names, Arc::clone(machine.snapshot()))
    };
    let names = (names * PAGE_BYTES).min((snapshot.names_len()? + names) * NAME_ROW_BYTES);
    let index = shared.space.index_pages();
    // Each page of the index is copied at most once.
    let rows = (tasks * TASK_ROWS_BYTES).min(index.used + debt(unsaved_bytes));
    let worst = Need { unsaved_bytes, rewritten_bytes: tasks * BLOCK_BYTES_MAX as u64 + rows + names };
    if shared.space.fits_now(worst) {
        return Ok(worst);
    }
    let (touched, snapshot) = shared.machine.lock().touched();
    let unsaved_bytes = touched.blocks.iter().map(|it| it.bytes).sum();
    let exact = Rewritten::compute(&touched, &snapshot)?;
    Ok(Need { unsaved_bytes, rewritten_bytes: exact.bytes(index) + names })
}

/// Finds out how many pages of the index are in use. Counts its free pages only if the disk has no room to copy all of it.
pub(in crate::embedded) fn note_index(shared: &Shared, tables: &Tables) -> Result<(), Error> {
    let bytes = tables.index_bytes()?;
    let copied = Need { unsaved_bytes: 0, rewritten_bytes: bytes };
    let counts = !shared.space.fits_now(copied) && shared.space.fits_now(Need::default());
    let free = if counts { tables.reclaim()? } else { 0 };
    shared.space.note_index(IndexPages { used: tables.index_bytes()?.saturating_sub(free), free });
    Ok(())
}

/// The stored data that a checkpoint writes again.
struct Rewritten {
    blocks: u64,
    /// Pages of the index, at most.
    pages: u64,
    /// What is added to the index, at most.
    added: u64,
}

impl Rewritten {
    fn bytes(&self, index: IndexPages) -> u64 {
        // A page is written at most once, and only pages in use are copied.
        let pages = self.pages.min(index.used + self.added);
        self.blocks + pages.saturating_sub(index.free)
    }

    fn compute(touched: &Touched, snapshot: &Snapshot) -> Result<Self, Error> {
        let (mut blocks, mut ids, mut id_bytes) = (0, 0, 0);
        let (mut block_rows, mut last) = (0, None);
        for it in &touched.blocks {
            let rest_max = BLOCK_TASKS.saturating_sub(it.gone) * ENTRY_BYTES_MAX as u64;
            if rest_max > 0 {
                blocks += snapshot.stored_bytes(it.block)?.min(rest_max);
            }
            ids += it.ids;
            id_bytes += it.id_bytes;
            block_rows += u64::from(last != Some(it.block / BLOCK_ROWS));
            last = Some(it.block / BLOCK_ROWS);
        }
        let mut moments = 0;
        for row in &touched.moments {
            moments += (2 * snapshot.moment_bytes(*row)?).max(PAGE_BYTES);
        }
        // At worst each id is in a page of its own, but there are never more pages than the whole table has.
        let table = (snapshot.ids_len()? + ids) * ID_ROW_BYTES;
        let added = 2 * (id_bytes + ids * ID_ROW_OVERHEAD);
        let rows = (block_rows + touched.order_rows) * PAGE_BYTES;
        Ok(Self { blocks, pages: (ids * PAGE_BYTES).min(table) + moments + rows, added })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_pages_of_the_index_count_as_room_for_ids() {
        let purge = Rewritten { blocks: 5, pages: 1000, added: 10 };
        let bytes = |used, free| purge.bytes(IndexPages { used, free });
        assert_eq!(bytes(2000, 0), 1005, "each id in a page of its own");
        assert_eq!(bytes(500, 0), 515, "every page of the index, and the new ones");
        assert_eq!(bytes(300, 200), 115, "pages in use are copied, 200 of them into free pages");
        assert_eq!(bytes(100, 400), 5, "all fit into free pages");
    }
}
