//! The error for a backup of a store on Redis.

use crate::store::Error;

/// The snapshots of Redis itself are better than anything that a client could read.
pub(in crate::redis) const NONE: Error = Error::NoBackup {
    store: "redis",
    instead: "use the snapshots of Redis (BGSAVE, AOF), or copy a stopped store with `windlass migrate`",
};
