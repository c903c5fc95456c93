//! File descriptors. Connections must not use up those that the store needs for its files.
//!
//! The system gives out the lowest free number. So a connection whose number lies in the reserve shows that all others are in use, and
//! it is turned away. Nothing has to be counted: files, sockets and pipes of every kind take part.

use std::net;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpStream;

/// The reserve is an eighth of all descriptors, within these bounds, and never more than half.
const RESERVE_MIN: u64 = 64;
const RESERVE_MAX: u64 = 1024;

/// The first number that is kept for the store.
static RESERVED_FROM: OnceLock<u64> = OnceLock::new();

/// Raises the limit of this process as far as the system allows. Returns how many connections it leaves room for.
pub(crate) fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
    reserved_from()
}

fn reserved_from() -> u64 {
    *RESERVED_FROM.get_or_init(|| getrlimit(Resource::Nofile).current.map_or(u64::MAX, without_reserve))
}

fn without_reserve(limit: u64) -> u64 {
    limit - (limit / 8).clamp(RESERVE_MIN, RESERVE_MAX).min(limit / 2)
}

/// Whether a descriptor lies in the reserve.
pub(crate) fn is_reserved(descriptor: &impl AsRawFd) -> bool {
    is_beyond(descriptor.as_raw_fd(), reserved_from())
}

/// Another handle of a socket, if there is a descriptor to spare.
pub(crate) fn handle(stream: &TcpStream) -> Option<net::TcpStream> {
    let handle: net::TcpStream = stream.as_fd().try_clone_to_owned().ok()?.into();
    Some(handle).filter(|handle| !is_reserved(handle))
}

fn is_beyond(number: RawFd, reserved_from: u64) -> bool {
    u64::try_from(number).is_ok_and(|number| number >= reserved_from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_descriptors_is_kept_for_the_store() {
        assert_eq!(
            [0, 64, 256, 1024, 20_000, 1 << 20].map(without_reserve),
            [0, 32, 192, 896, 18_976, 1_047_552]
        );
        assert!(!is_beyond(895, 896));
        assert!(is_beyond(896, 896));
        assert!(!is_beyond(i32::MAX, u64::MAX));
    }
}
