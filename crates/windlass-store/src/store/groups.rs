//! How the writing goes.

use windlass_core::Histogram;

/// Commands are written and synced in groups; this is what it took since the store was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Groups {
    /// From taking the commands to the end of their sync, in microseconds.
    pub took_us: Histogram,
    /// By one less, so that a power of two is an upper bound that includes itself.
    pub one_less_than_size: Histogram,
    pub bytes: u64,
}
