//! The options of a log, and what its directory must hold.

use super::StoreId;
use std::path::PathBuf;

/// The options of a log.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory of the segments, created if it is missing.
    pub dir: PathBuf,
    /// Size of a segment file.
    pub segment_bytes: u64,
    /// How many segment files are prepared in advance.
    pub spare_segments: usize,
    /// Whether [`super::Log::sync`] reaches the disk.
    pub sync: SyncMode,
    /// Whether to bypass the page cache where possible. This is best if every append is followed by a sync.
    pub direct: bool,
    /// The store that the log belongs to.
    pub store: StoreId,
    /// What the directory must hold already.
    pub expected: Expected,
}

impl Options {
    /// The default sizes, with syncs.
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
    /// The log existed before. A log that is missing, or that ends before the first entry asked for, is damaged.
    Log,
    /// The log may have the previous version, without store ids, sizes and the record of the newest segment. It is only read:
    /// new entries go to a new segment.
    Earlier,
}

/// Whether the log waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// [`super::Log::sync`] returns when the disk has everything.
    Always,
    /// The operating system decides when to write. A power cut may lose everything since the log was opened.
    Never,
}
