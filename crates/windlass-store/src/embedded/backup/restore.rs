//! Restoring a data directory from a backup.
//!
//! Until the restore is finished, the directory carries the mark [`UNFINISHED`], and no store opens there. So a killed restore
//! never looks like a store, and the next restore starts over. `FORMAT` is written when everything else is on the disk, and then
//! the mark is removed. There is no log: the first one begins after the position of the backup.
//!
//! The restored store is a new store, and the original may continue to run. So it gets an id of its own, and its claims continue
//! from a number that the original does not reach: no fencing token is given out by both.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use redb::WriteTransaction;

use crate::backup::{self, Error, Manifest, Opening, Progress, Row, Sink};
use crate::embedded::catalogue;
use crate::embedded::identity::{self, Identity, Stage};
use crate::embedded::open::{Ownership, lock};
use crate::embedded::tables::{MetaMessage, Tables, failed};
use crate::store;

/// The file that marks a directory whose restore is not finished.
const UNFINISHED: &str = "RESTORING";
/// How many claims the original store may give out before a token could repeat.
const CLAIMS_APART: u64 = 1 << 32;
/// How much is written in one transaction.
const COMMIT_BYTES: usize = 64 << 20;
const CACHE_BYTES: usize = 64 << 20;
const BLOCK_FILE_BYTES: u32 = 128 << 20;
/// Everything that a restore creates, besides the mark and the lock.
const MADE: [&str; 5] = ["index.redb", "index.new", "blocks", "FORMAT.new", "FORMAT"];
/// Files that do not count: the lock, and the directory that a new file system has.
const HARMLESS: [&str; 2] = ["LOCK", "lost+found"];

/// The result of a restore.
#[derive(Debug, Clone)]
pub struct Restored {
    pub manifest: Manifest,
    /// The number of the first claim in the new store.
    pub next_claim: u64,
}

/// Refuses a directory whose restore was not finished.
pub(in crate::embedded) fn check(dir: &Path) -> Result<(), store::Error> {
    if !is_unfinished(dir) {
        return Ok(());
    }
    let (mark, dir) = (dir.join(UNFINISHED), dir.display());
    Err(store::Error::Restoring(format!(
        "a restore into {dir} did not finish ({} exists): run `windlass backup restore` again",
        mark.display()
    )))
}

fn is_unfinished(dir: &Path) -> bool {
    dir.join(UNFINISHED).exists()
}

/// Restores a stream into an empty or missing directory. Nothing is created before the opening of the stream was checked, and
/// nothing is left behind if the stream turns out to be damaged.
pub fn restore(input: impl Read, dir: &Path, watch: &mut dyn FnMut(Progress)) -> Result<Restored, Error> {
    check_empty(dir)?;
    let mut target = Target { dir: dir.to_owned(), made_dir: false, work: None, unsaved_bytes: 0 };
    let restored = backup::read(input, &mut target, watch).and_then(|manifest| {
        let next_claim = target.finish()?;
        Ok(Restored { manifest, next_claim })
    });
    if restored.is_err() {
        target.abandon();
    }
    restored
}

fn check_empty(dir: &Path) -> Result<(), Error> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error("read", dir)(error)),
    };
    let starts_over = is_unfinished(dir);
    for entry in entries {
        let name = entry.map_err(io_error("read", dir))?.file_name();
        let known = |names: &[&str]| names.iter().any(|known| name == **known);
        if !known(&HARMLESS) && !(starts_over && (known(&MADE) || known(&[UNFINISHED]))) {
            return Err(Error::NotEmpty(dir.display().to_string()));
        }
    }
    Ok(())
}

struct Target {
    dir: PathBuf,
    made_dir: bool,
    work: Option<Work>,
    unsaved_bytes: usize,
}

/// The state of a restore once the directory has its mark.
struct Work {
    /// Declared before the tables, so that the transaction is dropped first.
    write: Option<WriteTransaction>,
    tables: Tables,
    identity: Identity,
    _lock: Ownership,
}

impl Sink for Target {
    fn open(&mut self, _: &Opening) -> Result<(), Error> {
        if !self.dir.is_dir() {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700).create(&self.dir).map_err(io_error("make", &self.dir))?;
            self.made_dir = true;
        }
        let lock = lock(&self.dir)?;
        // Another process may have filled the directory before this one got the lock.
        check_empty(&self.dir)?;
        let mark = self.dir.join(UNFINISHED);
        File::create(&mark).and_then(|file| file.sync_all()).map_err(io_error("write", &mark))?;
        sync_dir(&self.dir)?;
        remove_made(&self.dir)?;
        // There is no log yet. It is created when the store is opened for the first time.
        let mut identity = Identity { store: identity::draw()?, stage: Stage::Creating };
        let tables = Tables::open(&self.dir, CACHE_BYTES, 0, BLOCK_FILE_BYTES, &mut identity)?;
        self.work = Some(Work { write: None, tables, identity, _lock: lock });
        Ok(())
    }

    fn put(&mut self, table: &'static str, rows: &[Row<'_>]) -> Result<(), Error> {
        let work = self.work.as_mut().ok_or(store::Error::Closed)?;
        let table = catalogue::named(table).ok_or_else(|| Error::UnknownTable(table.to_owned()))?;
        let write = match work.write.take() {
            Some(write) => write,
            None => work.tables.begin_write()?,
        };
        table.insert(&write, &mut work.tables.heap, rows)?;
        work.write = Some(write);
        self.unsaved_bytes += rows.iter().map(|row| row.key.len() + row.value.len()).sum::<usize>();
        if self.unsaved_bytes >= COMMIT_BYTES {
            work.save()?;
            self.unsaved_bytes = 0;
        }
        Ok(())
    }
}

impl Work {
    fn save(&mut self) -> Result<(), Error> {
        let Some(write) = self.write.take() else { return Ok(()) };
        self.tables.heap.save(&write)?;
        write.commit().map_err(failed("commit a restore"))?;
        Ok(self.tables.heap.saved()?)
    }
}

impl Target {
    /// Turns the directory into a store, after the manifest has confirmed everything.
    fn finish(&mut self) -> Result<u64, Error> {
        let mut work = self.work.take().ok_or(store::Error::Closed)?;
        work.save()?;
        let write = work.tables.begin_write()?;
        let state = reborn(catalogue::written_state(&write)?)?;
        catalogue::write_state(&write, &state)?;
        work.write = Some(write);
        work.save()?;
        let Work { tables, identity, _lock: lock, .. } = work;
        drop(tables);
        identity.write(&self.dir)?;
        let mark = self.dir.join(UNFINISHED);
        fs::remove_file(&mark).map_err(io_error("remove", &mark))?;
        sync_dir(&self.dir)?;
        if let Some(parent) = self.dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            sync_dir(parent)?;
        }
        drop(lock);
        Ok(state.next_claim)
    }

    /// Removes what was created. If that fails, the mark stays and the directory is refused.
    fn abandon(&mut self) {
        if self.work.take().is_none() {
            return;
        }
        let removed = remove_made(&self.dir).and_then(|()| {
            let mark = self.dir.join(UNFINISHED);
            fs::remove_file(&mark).map_err(io_error("remove", &mark))
        });
        match removed {
            Ok(()) if self.made_dir => {
                let _ = fs::remove_file(self.dir.join("LOCK"));
                let _ = fs::remove_dir(&self.dir);
            }
            Ok(()) => {}
            Err(error) => tracing::warn!(%error, "the files of a failed restore could not be removed"),
        }
    }
}

/// The state of the new store, whose claims continue from a number that the original store does not reach.
fn reborn(mut state: MetaMessage) -> Result<MetaMessage, Error> {
    let next_claim = state.next_claim.checked_add(CLAIMS_APART);
    state.next_claim =
        next_claim.ok_or_else(|| store::Error::Damaged("there are no claim numbers left".to_owned()))?;
    Ok(state)
}

fn remove_made(dir: &Path) -> Result<(), Error> {
    for name in MADE {
        let path = dir.join(name);
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io_error("remove", &path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn sync_dir(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io_error("sync", dir))
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    Error::io(format!("{action} {}", path.display()))
}
