//! Errors of the log.

use super::{MAX_BATCH_BYTES, MAX_BATCH_ENTRIES, VisitError};
use std::io;
use std::path::PathBuf;

/// An error of the log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// There is no room for a new segment; nothing was written and the log is still usable.
    #[error("no space left for {path}")]
    NoSpace {
        /// The file that there was no room for.
        path: PathBuf,
    },
    /// The process has too many files open to begin a new segment; nothing was written and the log is still usable.
    #[error("too many open files, so {path} cannot be created")]
    NoFiles {
        /// The file that was to be created.
        path: PathBuf,
    },
    /// An earlier write or sync failed. What is on the disk is unknown until the log is opened again.
    #[error("the log is closed because an earlier write or sync failed")]
    Poisoned,
    /// An entry that was durable is not readable any more.
    #[error("{segment} is damaged at byte {offset}, where entry {index} should be")]
    Damaged {
        /// The damaged file.
        segment: PathBuf,
        /// The position in the file.
        offset: u64,
        /// The first entry that is missing.
        index: u64,
    },
    /// Entries that are needed have been released or lost.
    #[error("the log begins with entry {first}, but entry {wanted} is needed")]
    Gap {
        /// The entry asked for.
        wanted: u64,
        /// The lowest entry there is.
        first: u64,
    },
    /// A file of the log is gone.
    #[error("{path} is missing")]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A segment is shorter than when it was created.
    #[error("{segment} has {bytes} bytes, but it was created with {whole}: the file was cut short")]
    CutShort {
        /// The file.
        segment: PathBuf,
        /// Its size.
        bytes: u64,
        /// The size that it was created with.
        whole: u64,
    },
    /// The log ends before an entry that was durable.
    #[error("the log ends before entry {next}, but entry {wanted} is expected next")]
    Short {
        /// The entry after the last one there is.
        next: u64,
        /// The entry that the caller has not seen yet.
        wanted: u64,
    },
    /// A file carries the id of another store.
    #[error("{path} belongs to another store")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A segment is of a format this program does not know.
    #[error("{segment} has format version {found}; this program knows version {known}")]
    Version {
        /// The file.
        segment: PathBuf,
        /// Its version.
        found: u32,
        /// The version of this program.
        known: u32,
    },
    /// The batch exceeds [`MAX_BATCH_BYTES`] or [`MAX_BATCH_ENTRIES`]; nothing was written.
    #[error("the batch is larger than {MAX_BATCH_BYTES} bytes or {MAX_BATCH_ENTRIES} entries")]
    TooLarge,
    /// The visitor of [`super::Log::open`] refused an entry.
    #[error("the replay was stopped: {0}")]
    Visit(#[source] VisitError),
}
