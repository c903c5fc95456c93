//! Copies intact tables, with the log after them.

use std::fs;
use std::path::Path;

use prost::Message;
use redb::{Database, ReadableTable};

use super::damaged_log;
use super::evidence::Evidence;
use super::rows::unreadable;
use crate::embedded::identity::{Identity, Stage, draw};
use crate::embedded::open::io_error;
use crate::embedded::tables::{META, MetaMessage, failed, heap, seal};
use crate::log::{self, Intact, Log, StoreId, SyncMode};
use crate::store::Error;

/// How much is written to the new log at once.
const BATCH_BYTES: usize = 1 << 20;
pub(super) const STORE_KEY: &str = "store";
pub(super) const STATE_KEY: &str = "state";

/// A new directory that is ready to be opened.
pub(super) struct Copied {
    pub(super) replayed: u64,
    pub(super) next_claim: u64,
    /// The intact entries after the first hole in the log.
    pub(super) intact: Intact,
}

pub(super) fn with_tables(evidence: &Evidence, new: &Path, segment_bytes: u64) -> Result<Copied, Error> {
    let rows = evidence.rows.as_ref().ok_or_else(unreadable)?;
    let state = rows.state.clone().ok_or_else(unreadable)?;
    copy_tables(&evidence.dir, new)?;
    // An earlier format is upgraded when the copy is opened, and gets its id then.
    let store = match evidence.store {
        Some(_) => {
            let store = draw()?;
            rename(new, store)?;
            Identity { store, stage: Stage::Complete }.write(new)?;
            store
        }
        None => {
            let format = evidence.dir.join("FORMAT");
            fs::copy(&format, new.join("FORMAT")).map_err(io_error("copy", &format))?;
            StoreId::default()
        }
    };
    let (replayed, intact) = copy_log(evidence, new, store, state.applied + 1, segment_bytes)?;
    if evidence.store.is_none() {
        log::remove_record(&new.join("log")).map_err(damaged_log)?;
    }
    Ok(Copied { replayed, next_claim: state.next_claim, intact })
}

/// Copies only the log. A log that still has its first entry, and no hole, has everything.
pub(super) fn from_log(evidence: &Evidence, new: &Path, segment_bytes: u64) -> Result<Copied, Error> {
    let mut intact = evidence.log.entries(1);
    let mut expected = 1;
    while let Some((index, _)) = intact.next().map_err(damaged_log)? {
        if index != expected {
            return Err(unreadable());
        }
        expected += 1;
    }
    if expected == 1 || intact.missing_at_end().is_some() {
        return Err(unreadable());
    }
    let store = draw()?;
    Identity { store, stage: Stage::Creating }.write(new)?;
    let (replayed, intact) = copy_log(evidence, new, store, 1, segment_bytes)?;
    Ok(Copied { replayed, next_claim: 0, intact })
}

fn copy_tables(from: &Path, new: &Path) -> Result<(), Error> {
    let (index, blocks) = (from.join("index.redb"), from.join("blocks"));
    fs::copy(&index, new.join("index.redb")).map_err(io_error("copy", &index))?;
    fs::create_dir(new.join("blocks")).map_err(io_error("make a folder in", new))?;
    if blocks.is_dir() {
        for entry in fs::read_dir(&blocks).map_err(io_error("list", &blocks))? {
            let path = entry.map_err(io_error("list", &blocks))?.path();
            if let (true, Some(name)) = (path.is_file(), path.file_name()) {
                fs::copy(&path, new.join("blocks").join(name)).map_err(io_error("copy", &path))?;
            }
        }
    }
    Ok(())
}

/// Gives the copy of the tables an id of its own.
fn rename(new: &Path, store: StoreId) -> Result<(), Error> {
    let database = Database::open(new.join("index.redb")).map_err(failed("open the index"))?;
    let mut write = database.begin_write().map_err(failed("write the index"))?;
    write.set_quick_repair(true);
    {
        let mut meta = write.open_table(META).map_err(failed("open a table"))?;
        let mut value = store.to_vec();
        meta.insert(STORE_KEY, seal::close(STORE_KEY, &mut value)).map_err(failed("write the store id"))?;
    }
    heap::rename_owner(&new.join("blocks"), &write, store)?;
    write.commit().map_err(failed("write the index"))
}

/// Writes the intact entries from `from` on into a new log, up to the first hole.
fn copy_log(
    evidence: &Evidence,
    new: &Path,
    store: StoreId,
    from: u64,
    segment_bytes: u64,
) -> Result<(u64, Intact), Error> {
    let options = log::Options {
        segment_bytes,
        spare_segments: 0,
        sync: SyncMode::Never,
        direct: false,
        store,
        ..log::Options::new(new.join("log"))
    };
    let mut log = Log::open(options, from, &mut |_, _| Ok(())).map_err(damaged_log)?;
    let mut intact = evidence.log.entries(from);
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let mut expected = from;
    loop {
        let next = intact.next().map_err(damaged_log)?;
        let next = match next {
            Some(entry) if entry.0 != expected => {
                intact.put_back(entry, expected);
                None
            }
            next => next,
        };
        if bytes >= BATCH_BYTES || next.is_none() {
            log.append(std::mem::take(&mut batch)).map_err(damaged_log)?;
            bytes = 0;
        }
        let Some((_, entry)) = next else { return Ok((expected - from, intact)) };
        bytes += entry.len();
        batch.push(entry);
        expected += 1;
    }
}

/// Raises the next claim number of a closed store above every token that was ever given out. Returns its store id.
pub(super) fn raise_claims(new: &Path, known: u64) -> Result<StoreId, Error> {
    /// How far the claim number is raised, as in a restore from a backup.
    const LEAP: u64 = 1 << 32;
    let database = Database::open(new.join("index.redb")).map_err(failed("open the index"))?;
    let mut write = database.begin_write().map_err(failed("write the index"))?;
    write.set_quick_repair(true);
    let store = {
        let mut meta = write.open_table(META).map_err(failed("open a table"))?;
        let stored = meta.get(STATE_KEY).map_err(failed("read the state"))?;
        let mut state = match stored.as_ref() {
            Some(value) => MetaMessage::decode(seal::open(0, value.value())?)
                .map_err(|error| Error::Damaged(error.to_string()))?,
            None => MetaMessage::first(),
        };
        drop(stored);
        state.next_claim = state.next_claim.max(known).saturating_add(LEAP);
        let mut value = state.encode_to_vec();
        meta.insert(STATE_KEY, seal::close(0, &mut value)).map_err(failed("write the state"))?;
        let id = meta.get(STORE_KEY).map_err(failed("read the store id"))?;
        let id = id.map(|value| seal::open(STORE_KEY, value.value()).map(<[u8]>::to_vec)).transpose()?;
        id.and_then(|id| id.try_into().ok()).ok_or_else(unreadable)?
    };
    write.commit().map_err(failed("write the index"))?;
    Ok(store)
}
