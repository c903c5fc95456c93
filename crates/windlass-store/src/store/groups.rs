//! How the writing goes, and the reading of lists.

use windlass_core::Histogram;

/// Commands are written and synced in groups; this is what it took since the store was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Groups {
    /// From taking the commands to the end of their sync, in microseconds.
    pub took_us: Histogram,
    /// By one less, so that a power of two is an upper bound that includes itself.
    pub one_less_than_size: Histogram,
    pub bytes: u64,
    /// Groups that a thread of a caller's wrote and synced itself ([`super::Store::insert_here`]).
    pub by_callers: u64,
    /// Records that were looked at for pages of lists, whether they matched or not.
    pub looked_at: u64,
}
