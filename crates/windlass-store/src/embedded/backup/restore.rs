//! Making a data directory of a backup.
//!
//! From its first file to its last the directory carries a mark, [`UNFINISHED`], with which no store opens there: a restore that was killed
//! never passes for a store, and the next one starts over. `FORMAT` is written when everything else is on the disk, and then the mark
//! goes. There is no log: the first one begins behind the position of the backup.
//!
//! What is restored is another store than the one that was backed up, and both may go on. So it gets an identity of its own, and its
//! claims go on from a number that the other one does not reach: no fencing token is given out by both.

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

/// In the directory as long as a restore is not finished.
const UNFINISHED: &str = "RESTORING";
/// Claims that the other store may give out before a token could repeat.
const CLAIMS_APART: u64 = 1 << 32;
/// Written in one transaction.
const COMMIT_BYTES: usize = 64 << 20;
const CACHE_BYTES: usize = 64 << 20;
const BLOCK_FILE_BYTES: u32 = 128 << 20;
/// Everything that a restore makes, besides the mark and the lock.
const MADE: [&str; 5] = ["index.redb", "index.new", "blocks", "FORMAT.new", "FORMAT"];
/// Files that an empty directory may have: the lock, and what a new file system begins with.
const HARMLESS: [&str; 2] = ["LOCK", "lost+found"];

/// What was restored.
#[derive(Debug, Clone)]
pub struct Restored {
    pub manifest: Manifest,
    /// The first claim of the new store has this number.
    pub next_claim: u64,
}

/// Refuses a directory into which a restore was begun and not finished.
pub(in crate::embedded) fn check(dir: &Path) -> Result<(), store::Error> {
    if !is_unfinished(dir) {
        return Ok(());
    }
    let (mark, dir) = (dir.join(UNFINISHED), dir.display());
    Err(store::Error::Restoring(format!(
        "a backup was being restored into {dir} ({} exists): run `windlass backup restore` again",
        mark.display()
    )))
}

fn is_unfinished(dir: &Path) -> bool {
    dir.join(UNFINISHED).exists()
}

/// Fills an empty or missing directory with what a stream holds. Nothing is made before the stream has said what it is, and
/// nothing is left of one that turns out to be damaged.
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

/// What there is once the directory has its mark.
struct Work {
    /// Before the tables, so that it outlives the open transaction.
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
        // Whoever had the directory before this one had the lock may have filled it.
        check_empty(&self.dir)?;
        let mark = self.dir.join(UNFINISHED);
        File::create(&mark).and_then(|file| file.sync_all()).map_err(io_error("write", &mark))?;
        sync_dir(&self.dir)?;
        remove_made(&self.dir)?;
        // Without a log: it is created when the store is opened for the first time.
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
    /// The manifest has confirmed everything: the directory becomes a store.
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

    /// Best effort: what is left behind carries the mark.
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
            Err(error) => tracing::warn!(%error, "what was restored so far could not be removed"),
        }
    }
}

/// The state of the new store: its claims go on from a number that the store which was backed up does not reach.
fn reborn(mut state: MetaMessage) -> Result<MetaMessage, Error> {
    let next_claim = state.next_claim.checked_add(CLAIMS_APART);
    state.next_claim =
        next_claim.ok_or_else(|| store::Error::Damaged("the numbers of claims are used up".to_owned()))?;
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
