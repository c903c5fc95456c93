//! Why there is no backup of a store on Redis.

use crate::store::Error;

/// What Redis has itself is better than anything read through it.
pub(in crate::redis) const NONE: Error = Error::NoBackup {
    store: "redis",
    instead: "use the snapshots of Redis (BGSAVE, AOF), or copy a stopped store with `windlass migrate`",
};
