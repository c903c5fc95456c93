//! Watching the room on the disk, so that work under way can be finished when it runs out.
//!
//! New tasks are refused while less than the reserve would be free once everything accepted is in the tables. The reserve is for
//! work that must continue: reports of running tasks, and the checkpoints that let log files be reused.
//!
//! A checkpoint that runs out of room half-way stops the store, because the state on the disk is then unknown. So it begins only
//! if there is room for all that it may write ([`Space::has_room_for`]) and for a file that the log may create meanwhile.
//! Tasks that are accepted and not yet saved count as disk space in use, with the overhead of redb ([`debt`]). Ids that clients chose count
//! with a page of the index each, because redb copies every page that changes. Thus a reserve of [`reserve_bytes_min`] is enough for the
//! checkpoint of all accepted tasks, whatever their size. Changes to scattered tasks may need more, because the rest of each block is written
//! again. Such a checkpoint does not begin, and the log continues in the reserve.
//!
//! Files that the log has prepared and not yet used count as free space, because a part of the reserve is for them: one that it may
//! fill before the next checkpoint, and one during it. While the disk is short, the log prepares no files.

mod unsaved;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use windlass_core::{Change, Transition};

use self::unsaved::UnsavedCounts;
pub(super) use self::unsaved::{IndexPages, Unsaved};
use super::tables::block::BLOCK_BYTES_MAX;
use super::tables::heap::Room;
use crate::log::Reclaimer;
use crate::store::Error;

/// The system is asked again when its last answer is this old. One caller asks; the others go by that answer meanwhile,
const CHECK_INTERVAL_MS: u64 = 20;
/// unless it is older than this: then each asks for itself.
const BELIEVED_MS: u64 = 200;

/// While the disk is short, a checkpoint runs this soon after a change or a refused task, because it may free space.
pub(super) const SHORT_INTERVAL: Duration = Duration::from_secs(1);

/// Tree pages that every checkpoint writes, whatever its size: the paths to changed pages, and the list of free pages.
const TREE_BYTES: u64 = 4 << 20;
/// Files that the log may need between the last accepted task and the end of the checkpoint that releases its earlier files…
const LOG_FILES: u64 = 2;
/// …and during that checkpoint.
const LOG_FILES_MEANWHILE: u64 = 1;
/// Room for tasks that were accepted since the disk was last checked, and for reports of running work.
const SLACK_BYTES: u64 = 4 << 20;

/// A page of the index. redb copies a whole page for each row that changes.
pub(super) const PAGE_BYTES: u64 = 4096;

/// Rows of the index that the removal of a task may change, besides its id: its block, its place in an order, its list, the row of its moment.
const ROWS_OF_BLOCK: usize = 4;

/// Changes smaller than this do not cause an early checkpoint.
const TIGHT_BYTES_MIN: u64 = 1 << 20;

/// The smallest reserve with which no checkpoint runs out of room, for log files of this size.
pub fn reserve_bytes_min(segment_bytes: u64) -> u64 {
    LOG_FILES.saturating_mul(segment_bytes).saturating_add(TREE_BYTES + SLACK_BYTES)
}

/// The disk space that changed tasks of this size will take in the tables. redb rounds pages up to a power of two.
pub(super) fn debt(unsaved_bytes: u64) -> u64 {
    unsaved_bytes.saturating_mul(2)
}

/// The most that a checkpoint may write.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Need {
    /// The size of the changed tasks in memory.
    pub(super) unsaved_bytes: u64,
    /// The size of unchanged data that is rewritten because a neighbour changed.
    pub(super) rewritten_bytes: u64,
}

impl Need {
    fn bytes(self) -> u64 {
        debt(self.unsaved_bytes).saturating_add(self.rewritten_bytes).saturating_add(TREE_BYTES)
    }
}

#[derive(Debug)]
pub(super) struct Space {
    dir: PathBuf,
    reserve_bytes: u64,
    segment_bytes: u64,
    /// The log, as soon as it is open.
    log: OnceLock<Reclaimer>,
    /// The changes in memory, as of the last group or checkpoint.
    unsaved: UnsavedCounts,
    /// The submits that were admitted and are not answered yet.
    coming: UnsavedCounts,
    index_used: AtomicU64,
    index_free: AtomicU64,
    since: Instant,
    /// What the system answered last, and when it was asked. Every submit looks, so nobody has to wait for who asks.
    free: AtomicU64,
    answered_ms: AtomicU64,
    asking: AtomicBool,
    /// Whether the last checkpoint found no room.
    refused: AtomicBool,
}

/// A submit that was admitted. It counts until it is answered and dropped.
#[derive(Debug)]
pub(super) struct Admitted<'a> {
    space: &'a Space,
    submit: Unsaved,
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.space.coming.sub(self.submit);
    }
}

impl Space {
    pub(super) fn new(dir: PathBuf, reserve_bytes: u64, segment_bytes: u64) -> Self {
        let free = AtomicU64::new(free_bytes(&dir));
        let (log, answered_ms, asking, unsaved, coming, refused) = Default::default();
        let (index_used, index_free) = Default::default();
        let since = Instant::now();
        Self {
            dir,
            reserve_bytes,
            segment_bytes,
            log,
            unsaved,
            coming,
            index_used,
            index_free,
            since,
            free,
            answered_ms,
            asking,
            refused,
        }
    }

    /// Counts the prepared files of this log as free space from now on.
    pub(super) fn count_prepared(&self, log: Reclaimer) {
        // A store opens its log once.
        let _ = self.log.set(log);
    }

    /// Warns if no task can be accepted, now or ever.
    pub(super) fn report(&self) {
        let (free, disk) = (self.free(), disk_bytes(&self.dir));
        let (reserve, dir) = (self.reserve_bytes, self.dir.display());
        if disk < reserve {
            tracing::warn!(
                disk,
                reserve,
                %dir,
                "the disk is smaller than store.disk_reserve_bytes: every new task is refused"
            );
        } else if free < reserve {
            tracing::warn!(
                free,
                reserve,
                %dir,
                "less than store.disk_reserve_bytes is free: new tasks are refused until there is more"
            );
        }
    }

    /// Records the changes in memory.
    pub(super) fn note_unsaved(&self, unsaved: Unsaved) {
        self.unsaved.set(unsaved);
    }

    /// Records the pages of the index, after a checkpoint.
    pub(super) fn note_index(&self, pages: IndexPages) {
        self.index_used.store(pages.used, Ordering::Relaxed);
        self.index_free.store(pages.free, Ordering::Relaxed);
    }

    /// The pages of the index, as of the last checkpoint.
    pub(super) fn index_pages(&self) -> IndexPages {
        IndexPages {
            used: self.index_used.load(Ordering::Relaxed),
            free: self.index_free.load(Ordering::Relaxed),
        }
    }

    /// The disk space for pages of the index that change because of so many rows, each anywhere in it.
    fn pages_for(&self, rows: usize) -> u64 {
        let IndexPages { used, free } = self.index_pages();
        (rows as u64).saturating_mul(PAGE_BYTES).min(used).saturating_sub(free)
    }

    /// Whether nothing was removed since the last checkpoint.
    pub(super) fn has_no_removals(&self) -> bool {
        self.unsaved.get().blocks == 0
    }

    /// Whether the next checkpoint has room for these removals too.
    pub(super) fn has_room_to_remove(&self, removals: Unsaved) -> bool {
        let all = self.unsaved.get() + removals;
        let rows = all.ids.saturating_add(all.blocks.saturating_mul(ROWS_OF_BLOCK));
        let need = debt(all.bytes as u64)
            .saturating_add(self.pages_for(rows))
            .saturating_add((all.blocks as u64).saturating_mul(BLOCK_BYTES_MAX as u64));
        // A half, because the rows of ids and orders vary in size.
        need <= self.available_bytes() / 2
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether new tasks must wait for room.
    pub(super) fn is_short(&self) -> bool {
        self.is_short_with(Unsaved::default())
    }

    /// Admits a submit, unless it would use the reserve.
    pub(super) fn admit(&self, submit: Unsaved) -> Result<Admitted<'_>, Error> {
        self.coming.add(submit);
        let admitted = Admitted { space: self, submit };
        if self.is_short_with(self.coming.get()) {
            return Err(Error::NoSpace);
        }
        Ok(admitted)
    }

    /// Whether unsaved changes take half of the room that is left for new tasks. Saving them early takes less room, so that
    /// new tasks are refused later.
    pub(super) fn is_tight(&self) -> bool {
        let Unsaved { bytes, ids, .. } = self.unsaved.get();
        let (bytes, pages) = (bytes as u64, self.pages_for(ids));
        let left = self.free().saturating_sub(self.reserve_bytes);
        bytes + pages >= TIGHT_BYTES_MIN && left < debt(bytes).saturating_add(pages).saturating_mul(2)
    }

    /// Whether there is no room for these submits.
    fn is_short_with(&self, coming: Unsaved) -> bool {
        let unsaved = self.unsaved.get();
        let owed = debt(unsaved.bytes as u64).saturating_add(self.pages_for(unsaved.ids + coming.ids));
        // A task is written once to the log and once to the tables.
        let bytes = coming.bytes as u64;
        let coming = bytes.saturating_add(debt(bytes));
        self.free() < self.reserve_bytes.saturating_add(owed).saturating_add(coming)
    }

    /// Whether there is room for a whole checkpoint. It asks the system, because an older answer may be wrong by now.
    pub(super) fn has_room_for(&self, need: Need) -> bool {
        let fits = self.fits_now(need);
        self.refused.store(!fits, Ordering::Relaxed);
        fits
    }

    /// Whether there is room for this now. [`Space::had_room`] does not change.
    pub(super) fn fits_now(&self, need: Need) -> bool {
        self.fits(need, free_bytes(&self.dir), self.prepared_bytes())
    }

    /// The room for the pages of a checkpoint that changes no task.
    pub(super) fn available_bytes(&self) -> u64 {
        let kept = Need::default()
            .bytes()
            .saturating_add(self.log_bytes_meanwhile().saturating_sub(self.prepared_bytes()));
        free_bytes(&self.dir).saturating_sub(kept)
    }

    /// Whether the last check before a checkpoint found enough room.
    pub(super) fn had_room(&self) -> bool {
        !self.refused.load(Ordering::Relaxed)
    }

    /// Prepared files are not free for a checkpoint, but for the log meanwhile.
    fn fits(&self, need: Need, free: u64, prepared: u64) -> bool {
        free >= need.bytes().saturating_add(self.log_bytes_meanwhile().saturating_sub(prepared))
    }

    fn log_bytes_meanwhile(&self) -> u64 {
        LOG_FILES_MEANWHILE.saturating_mul(self.segment_bytes)
    }

    fn prepared_bytes(&self) -> u64 {
        let max = LOG_FILES.saturating_mul(self.segment_bytes);
        self.log.get().map_or(0, |log| log.ready_bytes().min(max))
    }

    /// Tells the log whether the disk is short.
    pub(super) fn advise_log(&self) {
        if let Some(log) = self.log.get() {
            log.prepare_files(!self.is_short());
        }
    }

    /// The room for blocks that a checkpoint may move. It is a part of the free space, because the rest must be enough for the
    /// log and the next checkpoint.
    pub(super) fn room(&self, need: Need) -> Room {
        let kept =
            need.bytes().saturating_add(self.log_bytes_meanwhile().saturating_sub(self.prepared_bytes()));
        Room { short: self.is_short(), bytes: free_bytes(&self.dir).saturating_sub(kept) / 2 }
    }

    fn free(&self) -> u64 {
        let now = self.since.elapsed().as_millis() as u64;
        let age = now.saturating_sub(self.answered_ms.load(Ordering::Acquire));
        if age > BELIEVED_MS {
            return self.ask(now);
        }
        if age > CHECK_INTERVAL_MS && !self.asking.swap(true, Ordering::Relaxed) {
            let free = self.ask(now);
            self.asking.store(false, Ordering::Relaxed);
            return free;
        }
        self.free.load(Ordering::Relaxed)
    }

    fn ask(&self, now: u64) -> u64 {
        let free = free_bytes(&self.dir).saturating_add(self.prepared_bytes());
        self.free.store(free, Ordering::Relaxed);
        self.answered_ms.store(now, Ordering::Release);
        free
    }
}

/// Whether a transition takes room and finishes nothing.
pub(super) fn saves(transition: &Transition) -> bool {
    matches!(&transition.change, Change::Checkpointed { bytes, .. } if !bytes.is_empty())
}

fn disk_bytes(dir: &std::path::Path) -> u64 {
    rustix::fs::statvfs(dir).map_or(u64::MAX, |stat| stat.f_blocks.saturating_mul(stat.f_frsize))
}

/// An unknown amount counts as enough: the write itself will tell.
fn free_bytes(dir: &std::path::Path) -> u64 {
    rustix::fs::statvfs(dir).map_or(u64::MAX, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests;
