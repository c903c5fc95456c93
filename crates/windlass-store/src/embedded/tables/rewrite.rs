//! Rewriting the index into a smaller file.
//!
//! redb reuses free pages, but it rarely returns them to the disk: one page in use near the end keeps the whole file. So an
//! index that is mostly free pages is copied into a new file, which then replaces it. The checkpointer does this between its commit
//! and the snapshot of it, when nobody writes. Snapshots of the old file stay valid until they are dropped.
//!
//! A crash leaves the old file or the new one, and both hold the same checkpoint.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{Database, Durability, ReadTransaction, ReadableDatabase};

use super::Tables;
use super::failed;
use super::heap::{self, Room};
use super::open::{begin_write, sync_names};
use crate::embedded::catalogue::{self, Enough};
use crate::store::Error;

/// An index smaller than this is not worth a look while the disk is short…
const BYTES_MIN_SHORT: u64 = 4 << 20;
/// …and an index smaller than this otherwise.
const BYTES_MIN: u64 = 64 << 20;
/// The most that is copied while the disk is not short.
const COPY_BYTES_MAX: u64 = 64 << 20;
/// An index larger than this is not read to find its free pages.
const READ_BYTES_MAX: u64 = 256 << 20;
/// A row takes about this much besides its key and value. Pages are at least half full.
const ROW_BYTES: u64 = 32;
const PAGE_FILL: u64 = 2;

/// Exists as long as a snapshot reads a file.
pub(super) type Reader = Arc<()>;

#[derive(Default)]
pub(super) struct Rewriting {
    /// The number of rows when a rewrite was last done or not worth it. The next look is when a quarter of them is gone.
    refused_at: Option<u64>,
    /// The room that was too little for the copy, if that was the reason. The next look is also when there is twice as much.
    refused_room: Option<u64>,
    /// Given to each snapshot of the current file.
    reader: Reader,
    /// Files that were replaced and may still be read.
    replaced: Vec<(Database, Reader)>,
}

impl Rewriting {
    pub(super) fn reader(&self) -> Reader {
        Arc::clone(&self.reader)
    }
}

impl Tables {
    /// Whether it is worth to look if the index is mostly free pages.
    pub(super) fn may_rewrite(&self, room: Room) -> Result<bool, Error> {
        let bytes = self.index_bytes()?;
        if bytes < if room.short { BYTES_MIN_SHORT } else { BYTES_MIN } {
            return Ok(false);
        }
        let Some(refused_at) = self.rewriting.refused_at else { return Ok(true) };
        if self.rewriting.refused_room.is_some_and(|before| room.bytes > before.saturating_mul(2)) {
            return Ok(true);
        }
        let rows = rows(&self.database.begin_read().map_err(failed("read the index"))?)?;
        Ok(rows <= refused_at / 4 * 3)
    }

    /// What the index takes on the disk.
    pub(in crate::embedded) fn index_bytes(&self) -> Result<u64, Error> {
        disk_bytes(&self.index)
    }

    /// Frees the pages that the last checkpoint replaced, and returns the size of all free pages. Reads the whole index: for a large one it
    /// returns 0.
    ///
    /// It commits once. A commit uses pages that are free only when no snapshot from before it is left, so this runs once
    /// after each checkpoint.
    pub(in crate::embedded) fn reclaim(&self) -> Result<u64, Error> {
        let bytes = self.index_bytes()?;
        if bytes > READ_BYTES_MAX {
            return Ok(0);
        }
        self.begin_write()?.commit().map_err(failed("free pages of the index"))?;
        let write = self.begin_write()?;
        let stats = write.stats().map_err(failed("read the index"))?;
        write.abort().map_err(failed("read the index"))?;
        Ok(bytes.saturating_sub(stats.allocated_pages() * stats.page_size() as u64))
    }

    /// Rewrites the index if it is mostly free pages and the new file fits into the room.
    pub(in crate::embedded) fn rewrite(&mut self, room: Room) -> Result<(), Error> {
        if !self.may_rewrite(room)? {
            return Ok(());
        }
        let before = self.index_bytes()?;
        let copied_max = if room.short { before / 2 } else { (before / 4).min(COPY_BYTES_MAX) };
        let read = self.database.begin_read().map_err(failed("read the index"))?;
        let Some(live) = live_bytes(&read, copied_max.min(room.bytes))? else {
            self.rewriting.refused_at = Some(rows(&read)?);
            self.rewriting.refused_room = Some(room.bytes).filter(|room| *room < copied_max);
            return Ok(());
        };
        self.rewriting.refused_room = None;
        let unfinished = unfinished(&self.index);
        match copy(&read, &unfinished, self.cache_bytes) {
            Ok(database) => {
                drop(read);
                fs::rename(&unfinished, &self.index).map_err(failed("replace the index"))?;
                sync_names(&self.index).map_err(failed("replace the index"))?;
                let replaced = std::mem::replace(&mut self.database, database);
                let reader = std::mem::take(&mut self.rewriting.reader);
                self.rewriting.replaced.push((replaced, reader));
                self.rewriting.refused_at = Some(self.rows()?);
                let after = self.index_bytes()?;
                tracing::info!(before, after, live, "the index was rewritten into a smaller file");
            }
            Err(error) => {
                tracing::warn!(%error, "the index could not be rewritten into a smaller file");
                remove_unfinished(&self.index)?;
                self.rewriting.refused_at = Some(rows(&read)?);
            }
        }
        Ok(())
    }

    /// Closes replaced files that nobody reads any more. Only then their space is free.
    pub(in crate::embedded) fn close_replaced(&mut self) {
        self.rewriting.replaced.retain(|(_, reader)| Arc::strong_count(reader) > 1);
    }

    /// More rows may be gone by the next look.
    pub(super) fn note_rows(&mut self) -> Result<(), Error> {
        if let Some(refused_at) = self.rewriting.refused_at {
            self.rewriting.refused_at = Some(refused_at.max(self.rows()?));
        }
        Ok(())
    }

    fn rows(&self) -> Result<u64, Error> {
        rows(&self.database.begin_read().map_err(failed("read the index"))?)
    }
}

/// Removes a copy that a crash left unfinished.
pub(super) fn remove_unfinished(index: &Path) -> Result<(), Error> {
    match fs::remove_file(unfinished(index)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("remove a copy of the index")(error))
        }
        _ => Ok(()),
    }
}

/// The name of an index that is being written.
pub(super) fn unfinished(index: &Path) -> PathBuf {
    index.with_extension("new")
}

fn copy(read: &ReadTransaction, path: &Path, cache_bytes: usize) -> Result<Database, Error> {
    let created = File::options().read(true).write(true).create(true).truncate(true).open(path);
    drop(created.map_err(failed("create an index"))?);
    let builder = &mut Database::builder();
    let database = builder.set_cache_size(cache_bytes).create(path).map_err(failed("create an index"))?;
    let mut write = begin_write(&database)?;
    write.set_durability(Durability::Immediate).map_err(failed("copy the index"))?;
    for table in catalogue::tables() {
        table.copy(read, &write)?;
    }
    heap::copy_table(read, &write)?;
    write.commit().map_err(failed("copy the index"))?;
    Ok(database)
}

fn rows(read: &ReadTransaction) -> Result<u64, Error> {
    catalogue::tables().map(|table| table.count(read)).sum()
}

/// The most that the rows would take in a new file, or `None` if that is more than `bytes_max`.
fn live_bytes(read: &ReadTransaction, bytes_max: u64) -> Result<Option<u64>, Error> {
    let mut bytes = 0;
    for table in catalogue::tables() {
        table.sizes(read, &mut |row| {
            bytes += PAGE_FILL * (ROW_BYTES + row as u64);
            if bytes > bytes_max { Enough::Yes } else { Enough::No }
        })?;
    }
    Ok((bytes <= bytes_max).then_some(bytes))
}

/// What a file takes on the disk. redb makes its file longer than what it writes.
fn disk_bytes(path: &Path) -> Result<u64, Error> {
    Ok(fs::metadata(path).map_err(failed("look at the index"))?.blocks() * 512)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::identity::{Identity, Stage};
    use crate::embedded::tables::{IDS, TASKS};
    use redb::ReadableTableMetadata;

    const ROWS: u64 = 200_000;

    fn open(dir: &Path) -> Tables {
        let stage = if dir.join("index.redb").exists() { Stage::Complete } else { Stage::Creating };
        let mut identity = Identity { store: [7; 16], stage };
        Tables::open(dir, 1 << 20, 0, 1 << 20, &mut identity).unwrap()
    }

    fn id(number: u64) -> Vec<u8> {
        format!("order-{number:040}").into_bytes()
    }

    /// Writes many rows, and removes all but every `keep`-th.
    fn wasteful(dir: &Path, keep: u64) -> Tables {
        let mut tables = open(dir);
        for (kept, add) in [(1, true), (keep, false)] {
            let write = tables.begin_write().unwrap();
            let mut ids = write.open_table(IDS).unwrap();
            for number in (0..ROWS).filter(|number| add || number % kept != 0) {
                if add {
                    ids.insert(&id(number)[..], number).unwrap();
                } else {
                    ids.remove(&id(number)[..]).unwrap();
                }
            }
            drop(ids);
            tables.heap.save(&write).unwrap();
            write.commit().unwrap();
            tables.committed().unwrap();
        }
        tables
    }

    fn ids(tables: &Tables) -> u64 {
        tables.database.begin_read().unwrap().open_table(IDS).unwrap().len().unwrap()
    }

    const SHORT: Room = Room { short: true, bytes: u64::MAX };

    #[test]
    fn an_index_of_free_pages_becomes_small_and_older_snapshots_stay_valid() {
        let dir = tempfile::tempdir().unwrap();
        let mut tables = wasteful(dir.path(), 1000);
        let (index, older) = (dir.path().join("index.redb"), tables.snapshot().unwrap());
        let before = disk_bytes(&index).unwrap();
        assert!(tables.has_waste(SHORT).unwrap());
        tables.rewrite(SHORT).unwrap();
        let after = disk_bytes(&index).unwrap();
        assert!(after < before / 8, "{before} → {after}");
        assert_eq!(older.seq_of(std::str::from_utf8(&id(5000)).unwrap()).unwrap(), Some(5000));
        assert_eq!(ids(&tables), ROWS / 1000);
        assert!(!tables.has_waste(SHORT).unwrap(), "once is enough");
        // It is written to and found again.
        let write = tables.begin_write().unwrap();
        write.open_table(IDS).unwrap().insert(&b"new"[..], 1).unwrap();
        write.commit().unwrap();
        tables.close_replaced();
        assert_eq!(tables.rewriting.replaced.len(), 1, "it is still read");
        drop(older);
        tables.close_replaced();
        assert!(tables.rewriting.replaced.is_empty());
        drop(tables);
        assert_eq!(ids(&open(dir.path())), ROWS / 1000 + 1);
    }

    #[test]
    fn an_index_stays_if_most_of_it_is_in_use_or_there_is_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let mut tables = wasteful(dir.path(), 3);
        let before = disk_bytes(&dir.path().join("index.redb")).unwrap();
        for room in [SHORT, Room { bytes: 1000, ..SHORT }] {
            tables.rewriting = Rewriting::default();
            assert!(tables.may_rewrite(room).unwrap());
            tables.rewrite(room).unwrap();
            assert_eq!(disk_bytes(&dir.path().join("index.redb")).unwrap(), before);
            assert!(!tables.may_rewrite(room).unwrap(), "the next look is when more rows are gone");
        }
        assert!(!tables.may_rewrite(Room { short: false, ..SHORT }).unwrap(), "it is small");
    }

    #[test]
    fn a_copy_that_a_crash_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let tables = wasteful(dir.path(), 1000);
        let read = tables.database.begin_read().unwrap();
        let copied = unfinished(&dir.path().join("index.redb"));
        drop(copy(&read, &copied, 1 << 20).unwrap());
        drop((read, tables));
        let tables = open(dir.path());
        assert_eq!(ids(&tables), ROWS / 1000);
        assert!(!copied.exists());
        // The copy would have been as good.
        let write = tables.begin_write().unwrap();
        assert_eq!(write.open_table(TASKS).unwrap().len().unwrap(), 0);
    }
}
