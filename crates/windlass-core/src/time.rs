//! Time as the domain sees it.

/// One reading of both clocks.
///
/// `wall` (milliseconds since 1970, UTC) is for what people and disks see: due times, timestamps, retention. `mono`
/// (milliseconds since some fixed start) is for leases: it never jumps, so a change of the wall clock ends no lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    pub wall: u64,
    pub mono: u64,
}
