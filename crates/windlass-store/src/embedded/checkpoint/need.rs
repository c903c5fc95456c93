//! Computes how much a checkpoint may write, before it begins.

use std::sync::Arc;

use crate::embedded::engine::Shared;
use crate::embedded::space::Need;
use crate::embedded::tables::block::{BLOCK_BYTES_MAX, BLOCK_TASKS, ENTRY_BYTES_MAX};
use crate::embedded::tables::{Snapshot, Tables};
use crate::store::Error;

/// A page of the tree.
const PAGE_BYTES: u64 = 4096;
/// The most that a row of the table of ids takes in its page. Pages are at least half full.
const ID_ROW_BYTES: u64 = 640;
/// What a row of the table of ids takes besides the id.
const ID_ROW_OVERHEAD: u64 = 32;
/// The most that a row of a queue or type takes, likewise.
const NAME_ROW_BYTES: u64 = 640;

/// A block that a checkpoint writes again.
#[derive(Debug, Clone, Copy)]
pub(in crate::embedded) struct Touched {
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
pub(super) fn need(shared: &Shared, tables: &Tables) -> Result<Need, Error> {
    let (unsaved_bytes, tasks, names, snapshot) = {
        let machine = shared.machine.lock();
        let (tasks, names) = (machine.changed_tasks() as u64, machine.changed_names() as u64);
        (machine.unsaved_bytes() as u64, tasks, names, Arc::clone(machine.snapshot()))
    };
    let names = (names * PAGE_BYTES).min((snapshot.names_len()? + names) * NAME_ROW_BYTES);
    let worst =
        Need { unsaved_bytes, rewritten_bytes: tasks * (BLOCK_BYTES_MAX as u64 + PAGE_BYTES) + names };
    if shared.space.fits_now(worst) {
        return Ok(worst);
    }
    let (touched, snapshot) = shared.machine.lock().touched();
    let unsaved_bytes = touched.iter().map(|it| it.bytes).sum();
    let rewritten_bytes = rewritten(&touched, &snapshot, tables.index_bytes()?)? + names;
    Ok(Need { unsaved_bytes, rewritten_bytes })
}

fn rewritten(touched: &[Touched], snapshot: &Snapshot, index_bytes: u64) -> Result<u64, Error> {
    let (mut blocks, mut ids, mut id_bytes) = (0, 0, 0);
    for it in touched {
        let rest_max = BLOCK_TASKS.saturating_sub(it.gone) * ENTRY_BYTES_MAX as u64;
        if rest_max > 0 {
            blocks += snapshot.stored_bytes(it.block)?.min(rest_max);
        }
        ids += it.ids;
        id_bytes += it.id_bytes;
    }
    // At worst each id is in a page of its own. But a page of the index is written once at most, and there are never more pages than
    // the whole table has.
    let added = 2 * (id_bytes + ids * ID_ROW_OVERHEAD);
    let table = (snapshot.ids_len()? + ids) * ID_ROW_BYTES;
    Ok(blocks + (ids * PAGE_BYTES).min(table).min(index_bytes + added))
}
