//! Encodes the keys and values of tables as the bytes of a backup.

use crate::embedded::tables::{ListingKey, OrderKey, seal};
use crate::store::Error;

/// A type of key. The order of its bytes is the order of the keys.
pub(super) trait Column: redb::Key + 'static {
    fn encode(key: &Self::SelfType<'_>, bytes: &mut Vec<u8>);
    fn decode(bytes: &[u8]) -> Option<Self::SelfType<'_>>;
    /// Verifies the checksum of the value that belongs to the key.
    fn open(key: &Self::SelfType<'_>, sealed: &[u8]) -> Result<(), Error>;
}

/// A type of value.
pub(super) trait Cell: redb::Value + 'static {
    fn encode(value: &Self::SelfType<'_>, bytes: &mut Vec<u8>);
    fn decode(bytes: &[u8]) -> Option<Self::SelfType<'_>>;
    /// The bytes that carry a checksum; `None` if the type has none.
    fn sealed<'a>(value: &'a Self::SelfType<'_>) -> Option<&'a [u8]>;
}

impl Column for u32 {
    fn encode(key: &u32, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&key.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<u32> {
        bytes.try_into().ok().map(u32::from_be_bytes)
    }

    fn open(key: &u32, sealed: &[u8]) -> Result<(), Error> {
        seal::open(u64::from(*key), sealed).map(drop)
    }
}

impl Column for u64 {
    fn encode(key: &u64, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&key.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<u64> {
        bytes.try_into().ok().map(u64::from_be_bytes)
    }

    fn open(key: &u64, sealed: &[u8]) -> Result<(), Error> {
        seal::open(*key, sealed).map(drop)
    }
}

impl Column for (u64, u8) {
    fn encode(key: &(u64, u8), bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&key.0.to_be_bytes());
        bytes.push(key.1);
    }

    fn decode(bytes: &[u8]) -> Option<(u64, u8)> {
        let (number, part) = bytes.split_first_chunk::<8>()?;
        match part {
            [part] => Some((u64::from_be_bytes(*number), *part)),
            _ => None,
        }
    }

    fn open(key: &(u64, u8), sealed: &[u8]) -> Result<(), Error> {
        seal::open(*key, sealed).map(drop)
    }
}

impl Column for (u64, u64) {
    fn encode(key: &(u64, u64), bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&key.0.to_be_bytes());
        bytes.extend_from_slice(&key.1.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<(u64, u64)> {
        let (first, second) = bytes.split_first_chunk::<8>()?;
        Some((u64::from_be_bytes(*first), <u64 as Column>::decode(second)?))
    }

    fn open(key: &(u64, u64), sealed: &[u8]) -> Result<(), Error> {
        seal::open(*key, sealed).map(drop)
    }
}

impl Column for OrderKey {
    fn encode(key: &OrderKey, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&key.0.to_be_bytes());
        bytes.extend_from_slice(&key.1.to_be_bytes());
        bytes.extend_from_slice(&key.2.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<OrderKey> {
        let (lane, rest) = bytes.split_first_chunk::<4>()?;
        let (a, b) = <(u64, u64) as Column>::decode(rest)?;
        Some((u32::from_be_bytes(*lane), a, b))
    }

    fn open(key: &OrderKey, sealed: &[u8]) -> Result<(), Error> {
        seal::open(*key, sealed).map(drop)
    }
}

impl Column for ListingKey {
    fn encode(key: &ListingKey, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&key.0.to_be_bytes());
        bytes.push(key.1);
        bytes.extend_from_slice(&key.2.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<ListingKey> {
        let (queue, rest) = bytes.split_first_chunk::<4>()?;
        let (state, number) = rest.split_first()?;
        Some((u32::from_be_bytes(*queue), *state, <u64 as Column>::decode(number)?))
    }

    fn open(key: &ListingKey, sealed: &[u8]) -> Result<(), Error> {
        seal::open(*key, sealed).map(drop)
    }
}

impl Column for &'static str {
    fn encode(key: &&str, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(key.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<&str> {
        std::str::from_utf8(bytes).ok()
    }

    fn open(key: &&str, sealed: &[u8]) -> Result<(), Error> {
        seal::open(*key, sealed).map(drop)
    }
}

/// Keys of the tables of ids, whose values have no checksum.
impl Column for &'static [u8] {
    fn encode(key: &&[u8], bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(key);
    }

    fn decode(bytes: &[u8]) -> Option<&[u8]> {
        Some(bytes)
    }

    fn open(_: &&[u8], _: &[u8]) -> Result<(), Error> {
        Err(Error::Damaged("an id has no value with a checksum".to_owned()))
    }
}

impl Cell for &'static [u8] {
    fn encode(value: &&[u8], bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(value);
    }

    fn decode(bytes: &[u8]) -> Option<&[u8]> {
        Some(bytes)
    }

    fn sealed<'a>(value: &'a &[u8]) -> Option<&'a [u8]> {
        Some(value)
    }
}

impl Cell for u64 {
    fn encode(value: &u64, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&value.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<u64> {
        bytes.try_into().ok().map(u64::from_be_bytes)
    }

    fn sealed(_: &u64) -> Option<&[u8]> {
        None
    }
}
