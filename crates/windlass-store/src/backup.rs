//! Backups: the whole state of a store as one stream of bytes, consistent at one position of its log.
//!
//! **Stream.** A preface (magic, version), then chunks. A chunk has a head (kind, length of its name, number, length, CRC-32 over all
//! of it), a name and at most [`CHUNK_BYTES_MAX`] of content. The first chunk is the [`Opening`], which announces the contents.
//! Then come the tables in a fixed order, each as a sequence of rows that is cut into chunks wherever a chunk is full. A row is
//! key length, value length, key and value, with keys in ascending byte order. Blocks of tasks are the last table. The last
//! chunk is the [`Manifest`], which sums up the contents with a SHA-256 over every byte before it. Both are JSON.
//!
//! **Invariants.**
//! - Numbers are little-endian in heads and rows and big-endian in keys, whatever the tables use. So keys sort by their bytes,
//!   and the format does not depend on the library that keeps the tables.
//! - A stream without its manifest is not a backup. A reader trusts nothing before it has read the manifest, and data after the
//!   manifest is damage.
//! - Every length is checked against a limit before memory is allocated for it.
//! - Values are copied as they are, with the checksums that the tables keep. Both the writer and the reader verify these
//!   checksums, so damage in the source is not copied.
//!
//! **Versions.** A reader refuses a version, a store format or a table that it does not know, before it has written anything. A later
//! version reads all earlier ones.
//!
//! **On disk** a backup is a directory with the stream in `chunks` and a copy of the manifest in `manifest.json`, which is written last
//! ([`folder`]). So an interrupted backup never looks complete, and `chunks` is exactly what a pipe would have carried.

mod chunk;
pub mod folder;
mod read;

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub(crate) use chunk::{Encoder, Kind, put_row};
pub(crate) use read::Row;
pub use read::{Progress, Relay, verify};
pub(crate) use read::{Sink, read};

use crate::store;

/// The version of the stream format.
pub const VERSION: u32 = 1;
/// The most bytes of content in one chunk.
pub const CHUNK_BYTES_MAX: usize = 4 << 20;

/// The first chunk of a stream: where the backup comes from, and what it will hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// The version of Windlass that wrote the backup.
    pub windlass: String,
    /// The format of the data directory that was backed up.
    pub store_format: u32,
    /// The id of the store that was backed up, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_id: Option<String>,
    /// The last log entry whose effect is in the backup. Everything acknowledged before the backup began is included.
    pub log_position: u64,
    /// When the backup began, in milliseconds since 1970.
    pub created_at_ms: u64,
    /// The number of rows in each table.
    pub rows: BTreeMap<String, u64>,
}

impl Opening {
    pub fn total_rows(&self) -> u64 {
        self.rows.values().sum()
    }
}

/// The last chunk of a stream: what it held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The [`VERSION`] of the program that wrote the stream.
    pub version: u32,
    #[serde(flatten)]
    pub opening: Opening,
    pub tasks: u64,
    /// The number of chunks before the manifest.
    pub chunks: u32,
    /// The number of bytes before the manifest.
    pub bytes: u64,
    /// The SHA-256 of all bytes before the manifest, in hexadecimal.
    pub sha256: String,
}

/// A backup that is being taken.
pub trait Source: std::fmt::Debug + Send {
    /// Returns the next piece of the stream: first the preface with the opening, then one chunk per call, and `None` after the
    /// manifest. It blocks; the first call waits for a checkpoint. After an error it returns `None`.
    fn next(&mut self) -> Result<Option<Bytes>, store::Error>;
}

/// Why a backup was not written, read or restored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action}: {error}")]
    Io { action: String, error: std::io::Error },
    #[error("this is not a backup")]
    NotABackup,
    #[error("the backup is of version {found}; this program reads version {known}")]
    Version { found: u32, known: u32 },
    #[error("the backup is of a store of format {found}; this program reads formats up to {known}")]
    StoreFormat { found: u32, known: u32 },
    #[error("the backup has a table that this program does not know: {0}")]
    UnknownTable(String),
    #[error("the backup is not whole: it ends at byte {at}, before its manifest")]
    Unfinished { at: u64 },
    #[error("the backup is not whole: {0} is missing")]
    NoManifest(String),
    #[error("the backup is damaged at byte {at}: {what}")]
    Damaged { at: u64, what: String },
    #[error("{0} is not empty")]
    NotEmpty(String),
    #[error("{0}")]
    Store(store::Error),
}

impl Error {
    /// A stable code for programs to branch on.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Io { .. } => "backup_io",
            Error::NotABackup => "not_a_backup",
            Error::Version { .. } | Error::StoreFormat { .. } | Error::UnknownTable(_) => "backup_version",
            Error::Unfinished { .. } | Error::NoManifest(_) => "backup_unfinished",
            Error::Damaged { .. } => "backup_damaged",
            Error::NotEmpty(_) => "destination_not_empty",
            Error::Store(_) => "store_failed",
        }
    }

    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        move |error| Error::Io { action: action.into(), error }
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Error::Store(error)
    }
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
