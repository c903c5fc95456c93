//! Why a store did not do what was asked.

use super::{Apart, Feature};

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Nothing was written; finishing running work still succeeds, and adding does again when there is room.
    #[error("the disk is full")]
    NoSpace,
    /// Too much is under way; nothing was written.
    #[error("the store is overloaded")]
    Busy,
    /// More than one commit can hold; nothing was written.
    #[error("the batch is too large for one commit")]
    TooLarge,
    #[error("too many different pairs of queue and type have tasks")]
    TooManyLanes,
    /// This store cannot do it; nothing was written.
    #[error("the {store} store does not have {feature}")]
    Unsupported { store: &'static str, feature: Feature },
    /// This store cannot count it ([`Feature::FlowTogether`]); nothing was written.
    #[error("{0}")]
    LimitApart(Box<Apart>),
    /// It was written. Whether it is still there after a failover is unknown; asked again, the store finds its own work.
    #[error(
        "it was written, but only {confirmed} of {wanted} replicas had it after {wait_ms} ms: a failover may lose it; to send it again is harmless"
    )]
    Unconfirmed { confirmed: u64, wanted: u32, wait_ms: u64 },
    /// This store has no online backup.
    #[error("the {store} store has no online backup: {instead}")]
    NoBackup {
        store: &'static str,
        /// What to use instead.
        instead: &'static str,
    },
    #[error("a backup is being taken already")]
    BackupRunning,
    #[error("the store is closed")]
    Closed,
    /// The store stopped: whether the change was written is unknown.
    #[error("the store has stopped: {0}")]
    Failed(String),
    #[error("the data directory is in use by another process: {0}")]
    Locked(String),
    #[error("the data was written by another version (format {found}, this one reads format {known})")]
    Version { found: u32, known: u32 },
    /// The store has only a part of the tasks, because a migration into it did not finish. Nothing was read or written.
    #[error(
        "a migration from {from} into it did not finish: run the same `windlass migrate` again, or {discard} and begin again"
    )]
    Unfinished {
        from: String,
        /// How to discard the store if it is not needed any more.
        discard: String,
    },
    /// The directory holds a restore that did not finish.
    #[error("{0}")]
    Restoring(String),
    #[error("the data is damaged: {0}")]
    Damaged(String),
    #[error("{context}: {error}")]
    Io { context: String, error: String },
}
