//! Opening the files of the tables.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTable, WriteTransaction};
use windlass_core::flow::Delta;

use super::heap::{self, Heap, Trees};
use super::rewrite::{self, Rewriting};
use super::seal;
use super::{DATED_IDS, IDS, LANES, LARGE, LISTING, META, MOVED, ORDER, QUEUES, Snapshot, TASKS, failed};
use crate::embedded::identity::{Identity, Stage};
use crate::embedded::{edges, flow, holders, operations, schedules, workflows};
use crate::store::Error;

type Reading = Trees<ReadOnlyTable<u64, &'static [u8]>, ReadOnlyTable<(u64, u8), &'static [u8]>>;

/// The tree, and the blocks that it points to.
pub(in crate::embedded) struct Tables {
    pub(super) database: Database,
    pub(in crate::embedded) heap: Heap,
    pub(super) index: PathBuf,
    pub(super) cache_bytes: usize,
    pub(super) rewriting: Rewriting,
}

impl Tables {
    /// Opens or makes the files in a directory. `cache_bytes` bounds what redb keeps in memory. An index of up to `verify_bytes`
    /// is verified whole, and so are the blocks if they and the index are not more than that; a file of blocks takes no more than `block_bytes`.
    /// The files must belong to the store of `identity`; one of an earlier format gets the id that its index has or receives here.
    pub(in crate::embedded) fn open(
        dir: &Path,
        cache_bytes: usize,
        verify_bytes: u64,
        block_bytes: u32,
        identity: &mut Identity,
    ) -> Result<Tables, Error> {
        let (path, blocks) = (dir.join("index.redb"), dir.join("blocks"));
        rewrite::remove_unfinished(&path)?;
        if !path.exists() {
            if identity.stage == Stage::Complete {
                return Err(Error::Damaged(format!("{} is missing", path.display())));
            }
            heap::expect_none(&blocks)?;
            make(&path)?;
        }
        let mut database = Database::builder()
            .set_cache_size(cache_bytes)
            .create(&path)
            .map_err(failed("open the index"))?;
        let bytes = fs::metadata(&path).map_err(failed("open the index"))?.len();
        if bytes <= verify_bytes {
            verify(&mut database)?;
        }
        // A reader must find every table, also in a file that was just made.
        let write = begin_write(&database)?;
        let count = || write.list_tables().map(Iterator::count).map_err(failed("read the index"));
        let before = count()?;
        make_tables(&write)?;
        heap::make_table(&write)?;
        let claimed = claim(&write, &path, identity)?;
        if claimed || count()? > before {
            write.commit().map_err(failed("make the tables"))?;
        } else {
            // All tables exist. A commit would need room, which the disk may not have.
            write.abort().map_err(failed("read the index"))?;
        }
        let read = database.begin_read().map_err(failed("read the index"))?;
        let heap = Heap::open(blocks, &read, block_bytes, identity.store)?;
        drop(read);
        let rewriting = Rewriting::default();
        let tables = Tables { database, heap, index: path, cache_bytes, rewriting };
        if bytes + tables.heap.bytes() <= verify_bytes {
            tables.heap.verify(&tables.trees()?)?;
        }
        Ok(tables)
    }

    /// The log belongs to the tables: what else lies about was left by a crash.
    pub(in crate::embedded) fn remove_strays(&self) -> Result<(), Error> {
        self.heap.remove_strays(&self.trees()?)
    }

    fn trees(&self) -> Result<Reading, Error> {
        let read = self.database.begin_read().map_err(failed("read the index"))?;
        Ok(Trees {
            tasks: read.open_table(TASKS).map_err(failed("open a table"))?,
            large: read.open_table(LARGE).map_err(failed("open a table"))?,
        })
    }

    /// Whether a checkpoint without changes would free space on a disk that is short.
    pub(in crate::embedded) fn has_waste(&self, room: heap::Room) -> Result<bool, Error> {
        Ok(room.short && (self.heap.has_waste(room) || self.may_rewrite(room)?))
    }

    /// Updates the bookkeeping after a commit of the tree.
    pub(in crate::embedded) fn committed(&mut self) -> Result<(), Error> {
        self.heap.saved()?;
        self.note_rows()
    }

    /// A write that survives a crash without a repair at the next opening.
    pub(in crate::embedded) fn begin_write(&self) -> Result<WriteTransaction, Error> {
        begin_write(&self.database)
    }

    pub(in crate::embedded) fn snapshot(&self) -> Result<Snapshot, Error> {
        Snapshot::take(&self.database, self.heap.files(), self.rewriting.reader())
    }
}

pub(super) fn begin_write(database: &Database) -> Result<WriteTransaction, Error> {
    let mut write = database.begin_write().map_err(failed("begin a checkpoint"))?;
    write.set_quick_repair(true);
    Ok(write)
}

/// Compares the store id in the index with that of the directory. An index without one gets it. Returns whether it did.
fn claim(write: &WriteTransaction, path: &Path, identity: &mut Identity) -> Result<bool, Error> {
    const STORE: &str = "store";
    let mut meta = write.open_table(META).map_err(failed("open a table"))?;
    let found = match meta.get(STORE).map_err(failed("read the store id"))? {
        Some(value) => {
            let value = seal::open(STORE, value.value())?;
            let id = value
                .try_into()
                .map_err(|_| Error::Damaged("the store id in the index cannot be read".to_owned()))?;
            Some(id)
        }
        None => None,
    };
    match (found, identity.stage) {
        (Some(store), Stage::Earlier) => identity.store = store,
        (Some(store), _) if store == identity.store => {}
        (Some(_), _) => {
            return Err(Error::Damaged(format!("{} belongs to another store", path.display())));
        }
        (None, Stage::Complete) => {
            return Err(Error::Damaged(format!("{} has no store id", path.display())));
        }
        (None, _) => {
            let mut value = identity.store.to_vec();
            meta.insert(STORE, seal::close(STORE, &mut value)).map_err(failed("write the store id"))?;
            return Ok(true);
        }
    }
    Ok(false)
}

fn make_tables(write: &WriteTransaction) -> Result<(), Error> {
    write.open_table(TASKS).map_err(failed("make a table"))?;
    write.open_table(LARGE).map_err(failed("make a table"))?;
    write.open_table(DATED_IDS).map_err(failed("make a table"))?;
    write.open_table(IDS).map_err(failed("make a table"))?;
    write.open_table(ORDER).map_err(failed("make a table"))?;
    write.open_table(MOVED).map_err(failed("make a table"))?;
    write.open_table(LISTING).map_err(failed("make a table"))?;
    for table in [QUEUES, LANES] {
        write.open_table(table).map_err(failed("make a table"))?;
    }
    write.open_table(META).map_err(failed("make a table"))?;
    schedules::write(write, &Vec::new())?;
    holders::write(write, &Default::default())?;
    operations::write(write, &Vec::new())?;
    flow::write(write, &Delta::default())?;
    edges::write(write, &Default::default())?;
    workflows::write(write, &workflows::Changed::default())
}

/// Checks every page, so that a flipped bit in a key or a branch cannot make a task invisible.
fn verify(database: &mut Database) -> Result<(), Error> {
    let damaged = |error: redb::DatabaseError| Error::Damaged(format!("the index: {error}"));
    if !database.check_integrity().map_err(damaged)? {
        tracing::warn!("the index was damaged and has been repaired");
    }
    Ok(())
}

/// Makes the file under another name first: a crash half-way through must not leave one that cannot be opened.
fn make(path: &Path) -> Result<(), Error> {
    let unfinished = rewrite::unfinished(path);
    drop(Database::create(&unfinished).map_err(failed("make the index"))?);
    fs::rename(&unfinished, path).map_err(failed("make the index"))?;
    sync_names(path).map_err(failed("make the index"))
}

/// Makes the name of a file survive a power cut.
pub(super) fn sync_names(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or_else(|| Path::new("."))).and_then(|dir| dir.sync_all())
}
