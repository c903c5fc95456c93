//! Which store a directory holds.
//!
//! A store has an id, drawn when it is created. `FORMAT`, the index, each file of blocks and each segment of the log carry
//! it, so files of two stores are never opened as one. `FORMAT` also says whether the store was ever complete: until then
//! the index and the log may be missing, afterwards a missing one is damage.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::open::io_error;
use crate::log::{Expected, StoreId};
use crate::store::Error;

/// The version of everything in the directory. 2: neighbouring tasks share a row of the index. 3: unique keys, keys of flow, a
/// number for why a task was cancelled, tasks that move between queues, operations, a lane for ended tasks that others wait for. 4: neighbouring keys of flow share a row.
/// 5: blocks of tasks are in files next to the index. 6: an id of the store in every file, and a record of the newest segment.
pub(super) const FORMAT: u32 = 6;
/// Versions that are upgraded when they are opened.
const FORMATS_BEFORE: [u32; 2] = [4, 5];
const FORMAT_WORD: &str = "windlass-data";
const STORE_WORD: &str = "store";
const CREATING_WORD: &str = "creating";

/// Where a salvage works until it is complete. A directory that has it and no `FORMAT` is not a store yet.
pub(super) const SALVAGE_FOLDER: &str = "salvage";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) store: StoreId,
    pub(super) stage: Stage,
}

/// How far a directory has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The directory has an earlier format and must be upgraded.
    Earlier,
    /// The store is being created. Nothing was acknowledged yet, and missing files are created.
    Creating,
    /// The store is complete. A missing file is damage.
    Complete,
}

impl Identity {
    /// Reads the identity of a directory, and begins a new store in an empty one. A directory of a version that this program
    /// cannot read is left untouched.
    pub(super) fn read(dir: &Path) -> Result<Identity, Error> {
        let path = dir.join("FORMAT");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Identity::begin(dir),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(unreadable(&path)),
            Err(error) => return Err(io_error("read", &path)(error)),
        };
        let mut lines = text.lines();
        let version =
            lines.next().and_then(|line| line.strip_prefix(FORMAT_WORD)?.trim().parse::<u32>().ok());
        let version = version.ok_or_else(|| unreadable(&path))?;
        if FORMATS_BEFORE.contains(&version) {
            return Ok(Identity { store: draw()?, stage: Stage::Earlier });
        }
        if version != FORMAT {
            return Err(Error::Version { found: version, known: FORMAT });
        }
        let store = lines.next().and_then(|line| parse(line.strip_prefix(STORE_WORD)?.trim()));
        let store = store.ok_or_else(|| unreadable(&path))?;
        match lines.next() {
            None => Ok(Identity { store, stage: Stage::Complete }),
            Some(CREATING_WORD) => Ok(Identity { store, stage: Stage::Creating }),
            Some(_) => Err(unreadable(&path)),
        }
    }

    /// Begins a new store in a directory that holds none.
    fn begin(dir: &Path) -> Result<Identity, Error> {
        for part in ["index.redb", "log", "blocks", SALVAGE_FOLDER] {
            if dir.join(part).exists() {
                let (format, part) = (dir.join("FORMAT"), dir.join(part));
                let words = format!("{} is missing, but {} exists", format.display(), part.display());
                return Err(Error::Damaged(words));
            }
        }
        let identity = Identity { store: draw()?, stage: Stage::Creating };
        identity.write(dir)?;
        Ok(identity)
    }

    /// Records the identity. It is durable on return.
    pub(super) fn write(&self, dir: &Path) -> Result<(), Error> {
        let store = hex(&self.store);
        let creating =
            if self.stage == Stage::Creating { format!("{CREATING_WORD}\n") } else { String::new() };
        let text = format!("{FORMAT_WORD} {FORMAT}\n{STORE_WORD} {store}\n{creating}");
        let temporary = dir.join("FORMAT.new");
        fs::write(&temporary, text).map_err(io_error("write", &temporary))?;
        File::open(&temporary).and_then(|file| file.sync_all()).map_err(io_error("sync", &temporary))?;
        fs::rename(&temporary, dir.join("FORMAT")).map_err(io_error("rename", &temporary))?;
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(io_error("sync", dir))
    }

    /// What the directory of the log must hold.
    pub(super) fn log(&self) -> Expected {
        match self.stage {
            Stage::Earlier => Expected::Earlier,
            Stage::Creating => Expected::Nothing,
            Stage::Complete => Expected::Log,
        }
    }
}

fn unreadable(path: &Path) -> Error {
    Error::Damaged(format!("{} is not a format file", path.display()))
}

pub(super) fn draw() -> Result<StoreId, Error> {
    let mut store = StoreId::default();
    rustix::rand::getrandom(&mut store, rustix::rand::GetRandomFlags::empty()).map_err(|error| {
        Error::Io { context: "cannot draw a store id".to_owned(), error: error.to_string() }
    })?;
    Ok(store)
}

pub(super) fn hex(store: &StoreId) -> String {
    format!("{:032x}", u128::from_be_bytes(*store))
}

fn parse(text: &str) -> Option<StoreId> {
    let plain = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let begun = Identity::read(dir.path()).unwrap();
        assert_eq!(begun.stage, Stage::Creating);
        assert_eq!(Identity::read(dir.path()).unwrap(), begun);
        let complete = Identity { stage: Stage::Complete, ..begun };
        complete.write(dir.path()).unwrap();
        assert_eq!(Identity::read(dir.path()).unwrap(), complete);
    }

    #[test]
    fn what_cannot_be_read_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("FORMAT");
        let id = "0123456789abcdef0123456789abcdef";
        for text in ["", "windlass-data", "windlass-data x", "windlass-data 6", "windlass-data 6\nstore 12"] {
            fs::write(&path, text).unwrap();
            assert!(matches!(Identity::read(dir.path()), Err(Error::Damaged(_))), "{text}");
        }
        for text in
            [format!("windlass-data 6\nstore {id}\nodd"), format!("windlass-data 6\nstore +{}", &id[1..])]
        {
            fs::write(&path, &text).unwrap();
            assert!(matches!(Identity::read(dir.path()), Err(Error::Damaged(_))), "{text}");
        }
        fs::write(&path, format!("windlass-data 7\nstore {id}\n")).unwrap();
        assert!(matches!(Identity::read(dir.path()), Err(Error::Version { found: 7, known: 6 })));
        fs::write(&path, b"\xff\xfe").unwrap();
        assert!(matches!(Identity::read(dir.path()), Err(Error::Damaged(_))));
        assert_eq!(fs::read(&path).unwrap(), b"\xff\xfe");
    }

    #[test]
    fn a_directory_with_data_and_without_a_format_is_refused() {
        for part in ["log", "blocks"] {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir(dir.path().join(part)).unwrap();
            assert!(matches!(Identity::read(dir.path()), Err(Error::Damaged(_))), "{part}");
            assert!(!dir.path().join("FORMAT").exists());
        }
    }
}
