//! The record of the newest segment.
//!
//! Intact segments do not show whether another segment followed them. So the newest segment is recorded in a file of its
//! own, before that segment gets its first entry. A log whose newest segment is missing is damaged, and so is a log without
//! this record. The file has two slots, which are written in turn. A torn write leaves the other slot intact.

use super::segment::sync_dir;
use super::{Error, StoreId, io_error, sync_file};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

pub(super) const NAME: &str = "NEWEST";

const MAGIC: [u8; 8] = *b"WINDNEW\0";
const SLOT_BYTES: usize = 64;
/// A slot has a block to itself, so that no write touches both.
const SLOT_STEP: u64 = 4096;
const CRC_AT: usize = SLOT_BYTES - 4;
/// The value for a log that has no segment yet.
const NONE: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Newest {
    file: File,
    path: PathBuf,
    store: StoreId,
    sequence: u64,
    first: Option<u64>,
}

impl Newest {
    /// Reads the record only: the id of the store, and the first entry of the newest segment.
    pub(super) fn peek(dir: &Path) -> Result<Option<(StoreId, Option<u64>)>, Error> {
        let path = dir.join(NAME);
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(io_error("open", &path))?,
        };
        let slot = latest(&file, &path)?;
        Ok(slot.map(|slot| (slot.store, (slot.first != NONE).then_some(slot.first))))
    }

    /// Reads the record. Returns `None` if there is none or neither slot is intact.
    pub(super) fn read(dir: &Path, store: StoreId) -> Result<Option<Newest>, Error> {
        let path = dir.join(NAME);
        let file = match File::options().read(true).write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(io_error("open", &path))?,
        };
        let Some(slot) = latest(&file, &path)? else { return Ok(None) };
        if slot.store != store {
            return Err(Error::Foreign { path });
        }
        let first = Some(slot.first).filter(|first| *first != NONE);
        Ok(Some(Newest { file, path, store, sequence: slot.sequence, first }))
    }

    /// Creates the record for a log whose newest segment begins with entry `first`.
    pub(super) fn create(dir: &Path, store: StoreId, first: Option<u64>) -> Result<Newest, Error> {
        let path = dir.join(NAME);
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.map_err(io_error("create", &path))?;
        // Both slots are allocated from the start, so that a full disk cannot refuse a write later.
        file.write_all_at(&[0; 2 * SLOT_STEP as usize], 0).map_err(io_error("write", &path))?;
        let mut newest = Newest { file, path, store, sequence: 0, first: None };
        newest.write(first)?;
        sync_dir(dir)?;
        Ok(newest)
    }

    /// The first entry of the newest segment, or `None` if there is no segment yet.
    pub(super) fn first(&self) -> Option<u64> {
        self.first
    }

    /// Records another newest segment. It is durable on return.
    pub(super) fn set(&mut self, first: Option<u64>) -> Result<(), Error> {
        if self.first == first { Ok(()) } else { self.write(first) }
    }

    fn write(&mut self, first: Option<u64>) -> Result<(), Error> {
        let sequence = self.sequence + 1;
        let slot = Slot { sequence, first: first.unwrap_or(NONE), store: self.store };
        let at = (sequence % 2) * SLOT_STEP;
        self.file.write_all_at(&slot.encode(), at).map_err(io_error("write", &self.path))?;
        sync_file(&self.file, &self.path)?;
        (self.sequence, self.first) = (sequence, first);
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    sequence: u64,
    first: u64,
    store: StoreId,
}

impl Slot {
    fn encode(&self) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first.to_le_bytes());
        bytes[24..40].copy_from_slice(&self.store);
        let crc = crc32fast::hash(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; SLOT_BYTES]) -> Option<Slot> {
        let (sequence, first, store) =
            (bytes[8..16].try_into(), bytes[16..24].try_into(), bytes[24..40].try_into());
        let intact =
            bytes[..8] == MAGIC && crc32fast::hash(&bytes[..CRC_AT]).to_le_bytes() == bytes[CRC_AT..];
        match (sequence, first, store) {
            (Ok(sequence), Ok(first), Ok(store)) if intact => {
                Some(Slot { sequence: u64::from_le_bytes(sequence), first: u64::from_le_bytes(first), store })
            }
            _ => None,
        }
    }
}

/// The intact slot that was written last.
fn latest(file: &File, path: &Path) -> Result<Option<Slot>, Error> {
    let mut latest: Option<Slot> = None;
    for nth in 0..2 {
        let mut bytes = [0; SLOT_BYTES];
        match file.read_exact_at(&mut bytes, nth * SLOT_STEP) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => continue,
            read => read.map_err(io_error("read", path))?,
        }
        latest = latest.into_iter().chain(Slot::decode(&bytes)).max_by_key(|slot| slot.sequence);
    }
    Ok(latest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    const STORE: StoreId = [7; 16];

    fn read(dir: &TempDir) -> Option<Option<u64>> {
        Newest::read(dir.path(), STORE).unwrap().map(|newest| newest.first())
    }

    #[test]
    fn the_record_reads_back_as_it_was_written_last() {
        let dir = TempDir::new().unwrap();
        assert_eq!(read(&dir), None);
        let mut newest = Newest::create(dir.path(), STORE, None).unwrap();
        assert_eq!(read(&dir), Some(None));
        for first in [1, 40, 2_000_000, 7] {
            newest.set(Some(first)).unwrap();
            assert_eq!(read(&dir), Some(Some(first)));
        }
        newest.set(None).unwrap();
        assert_eq!(read(&dir), Some(None));
    }

    #[test]
    fn a_torn_write_leaves_the_record_before_it() {
        let dir = TempDir::new().unwrap();
        let mut newest = Newest::create(dir.path(), STORE, Some(1)).unwrap();
        newest.set(Some(40)).unwrap();
        let file = File::options().write(true).open(dir.path().join(NAME)).unwrap();
        file.write_all_at(&[0xff; 20], 16).unwrap();
        assert_eq!(read(&dir), Some(Some(1)));
        file.write_all_at(&[0xff; 20], SLOT_STEP + 16).unwrap();
        assert_eq!(read(&dir), None, "without a whole slot there is no record");
    }

    #[test]
    fn the_record_of_another_store_is_refused() {
        let dir = TempDir::new().unwrap();
        Newest::create(dir.path(), [8; 16], Some(1)).unwrap();
        assert!(matches!(Newest::read(dir.path(), STORE), Err(Error::Foreign { .. })));
    }
}
