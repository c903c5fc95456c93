//! Backups: the whole state of a store as one stream of bytes, consistent at one position of its log.
//!
//! **Stream.** A preface (magic, version), then chunks. A chunk has a head (kind, length of its name, number, length, CRC-32 over all
//! of it), a name and at most [`CHUNK_BYTES_MAX`] of content. The first chunk is the [`Opening`]: what will come. Then come the
//! tables in a fixed order, each as one run of rows that is cut into chunks wherever a chunk is full: key length, value length,
//! key, value, with keys rising byte by byte. Blocks of tasks are the last table. The last chunk is the [`Manifest`]: what came,
//! with a SHA-256 over every byte before it. Opening and manifest are JSON.
//!
//! **Invariants.**
//! - Numbers are little-endian in heads and rows, big-endian in keys, whatever the tables use: so keys rise by their bytes, and the
//!   format does not depend on the library that keeps the tables.
//! - A stream without its manifest is no backup. A reader takes nothing for granted before it has seen it, and what stands behind it is
//!   damage.
//! - Every length is checked against a limit before memory is taken for it.
//! - Values are copied as they are, with the checksums that the tables keep, and these are verified by the one who writes and by the one
//!   who reads: damage of the source is not carried on.
//!
//! **Versions.** A reader refuses a version, a store format or a table that it does not know, before it has written anything. A later
//! version reads all earlier ones.
//!
//! **On disk** a backup is a directory with the stream in `chunks` and a copy of the manifest in `manifest.json`, which is written last
//! ([`folder`]). So a backup that was killed never looks whole, and `cat chunks` is what would have gone to a pipe.

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

/// The version of the stream.
pub const VERSION: u32 = 1;
/// Content of a chunk.
pub const CHUNK_BYTES_MAX: usize = 4 << 20;

/// What a stream will hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// Of Windlass.
    pub windlass: String,
    /// The version of the data directory that it was taken from.
    pub store_format: u32,
    /// The store that it was taken from, if it has an id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_id: Option<String>,
    /// The last entry of the log whose effect is in the backup. Everything that was acknowledged before the backup began is.
    pub log_position: u64,
    /// In milliseconds since 1970.
    pub created_at_ms: u64,
    /// Rows by table.
    pub rows: BTreeMap<String, u64>,
}

impl Opening {
    pub fn total_rows(&self) -> u64 {
        self.rows.values().sum()
    }
}

/// What a stream held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`VERSION`] when it was written.
    pub version: u32,
    #[serde(flatten)]
    pub opening: Opening,
    pub tasks: u64,
    /// Chunks before the manifest.
    pub chunks: u32,
    /// Bytes before the manifest.
    pub bytes: u64,
    /// Over these bytes.
    pub sha256: String,
}

/// A backup that is being taken.
pub trait Source: std::fmt::Debug + Send {
    /// The next piece of the stream: the preface and the opening, then a chunk each time; `None` behind the manifest. It blocks, the
    /// first time until a checkpoint is written. After an error there is nothing more.
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
    /// The word that programs branch on.
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
