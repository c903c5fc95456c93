//! The mark of a data directory that a migration is filling.
//!
//! The mark is on the disk before the first task is copied, and is removed when the copy was compared with its source and found
//! equal. Until then the directory has a part of the tasks but looks complete, so only a migration may open it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::open::Options;
use crate::store::Error;

const MARK: &str = "MIGRATING";
/// A longer name of the source is cut when it is read, because the file could hold anything.
const SOURCE_BYTES_MAX: usize = 4096;

/// The source of the migration that is filling a directory, if there is one.
pub fn source(dir: &Path) -> Result<Option<String>, Error> {
    let path = dir.join(MARK);
    match fs::read(&path) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SOURCE_BYTES_MAX)]);
            // The text may be missing after a power cut. The file alone is the mark.
            let text = text.trim();
            Ok(Some(if text.is_empty() { "an unknown source".to_owned() } else { text.to_owned() }))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", &path, &error)),
    }
}

/// Marks a directory durably. Its store must have no tasks, and must be open so that no other process can use it.
pub fn begin(dir: &Path, source: &str) -> Result<(), Error> {
    let path = dir.join(MARK);
    let written = File::create(&path).and_then(|mut file| {
        writeln!(file, "{source}")?;
        file.sync_all()
    });
    written.map_err(|error| failed("write", &path, &error))?;
    sync(dir)
}

/// Removes the mark, because the copy is complete.
pub fn end(dir: &Path) -> Result<(), Error> {
    let path = dir.join(MARK);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &path, &error)),
        _ => sync(dir),
    }
}

/// Refuses a directory whose migration did not finish, unless it is opened to finish it.
pub(super) fn check(options: &Options) -> Result<(), Error> {
    match source(&options.dir)? {
        Some(source) if !options.unfinished => {
            Err(Error::Unfinished { from: source, discard: "delete the directory".to_owned() })
        }
        _ => Ok(()),
    }
}

fn sync(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| failed("sync", dir, &error))
}

fn failed(action: &str, path: &Path, error: &io::Error) -> Error {
    Error::Io { context: format!("cannot {action} {}", path.display()), error: error.to_string() }
}
