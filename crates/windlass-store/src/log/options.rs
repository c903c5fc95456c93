//! How a log is kept, and what its directory must hold.

use super::StoreId;
use std::path::PathBuf;

/// How a log is kept.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the segments are; made if missing.
    pub dir: PathBuf,
    /// Size of a segment file.
    pub segment_bytes: u64,
    /// Files kept prepared ahead of need.
    pub spare_segments: usize,
    /// Whether [`super::Log::sync`] reaches the disk.
    pub sync: SyncMode,
    /// Write past the page cache where that is possible: best if every append is followed by a sync.
    pub direct: bool,
    /// The store that the log belongs to.
    pub store: StoreId,
    /// What the directory must hold already.
    pub expected: Expected,
}

impl Options {
    /// The usual sizes, durable.
    pub fn new(dir: impl Into<PathBuf>) -> Options {
        let dir = dir.into();
        Options {
            dir,
            segment_bytes: 64 << 20,
            spare_segments: 1,
            sync: SyncMode::Always,
            direct: true,
            store: StoreId::default(),
            expected: Expected::Nothing,
        }
    }
}

/// What a log directory must hold when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// The store is being created, so the log may not be there yet.
    Nothing,
    /// The log was here before. A log that is missing, or that ends before the first entry asked for, is damaged.
    Log,
    /// The log may be of the version before, without store ids, sizes and the record of the newest segment. It is only read:
    /// what is appended goes to a new segment.
    Earlier,
}

/// Whether the log waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// [`super::Log::sync`] returns when the disk has everything.
    Always,
    /// The operating system writes when it likes; a power cut may lose everything since the last opening.
    Never,
}
