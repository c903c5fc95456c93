//! Values with a checksum over their key and themselves.

use super::{ListingKey, OrderKey};
use crate::store::Error;

const CHECKSUM_BYTES: usize = 4;

/// A key as the checksum takes it.
pub(in crate::embedded) trait Key: Copy + std::fmt::Debug {
    fn mark(self, hasher: &mut crc32fast::Hasher);
}

impl Key for u64 {
    fn mark(self, hasher: &mut crc32fast::Hasher) {
        hasher.update(&self.to_le_bytes());
    }
}

/// By its checksum, so that a name cannot run into the value.
impl Key for &str {
    fn mark(self, hasher: &mut crc32fast::Hasher) {
        u64::from(crc32fast::hash(self.as_bytes())).mark(hasher);
    }
}

impl Key for (u64, u8) {
    fn mark(self, hasher: &mut crc32fast::Hasher) {
        hasher.update(&self.0.to_le_bytes());
        hasher.update(&[self.1]);
    }
}

impl Key for (u64, u64) {
    fn mark(self, hasher: &mut crc32fast::Hasher) {
        hasher.update(&self.0.to_le_bytes());
        hasher.update(&self.1.to_le_bytes());
    }
}

impl Key for OrderKey {
    fn mark(self, hasher: &mut crc32fast::Hasher) {
        hasher.update(&self.0.to_le_bytes());
        hasher.update(&self.1.to_le_bytes());
        hasher.update(&self.2.to_le_bytes());
    }
}

impl Key for ListingKey {
    fn mark(self, hasher: &mut crc32fast::Hasher) {
        hasher.update(&self.0.to_le_bytes());
        hasher.update(&[self.1]);
        hasher.update(&self.2.to_le_bytes());
    }
}

/// Puts the checksum behind the value that is in `buffer`.
pub(in crate::embedded) fn close(key: impl Key, buffer: &mut Vec<u8>) -> &[u8] {
    let sum = checksum(key, buffer);
    buffer.extend_from_slice(&sum.to_le_bytes());
    buffer
}

/// The value without its checksum, which must be right.
pub(in crate::embedded) fn open(key: impl Key, sealed: &[u8]) -> Result<&[u8], Error> {
    let damaged = || Error::Damaged(format!("the checksum of value {key:?} in the index is wrong"));
    let (value, sum) =
        sealed.split_at_checked(sealed.len().wrapping_sub(CHECKSUM_BYTES)).ok_or_else(damaged)?;
    if checksum(key, value).to_le_bytes() == sum { Ok(value) } else { Err(damaged()) }
}

pub(super) fn checksum(key: impl Key, value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    key.mark(&mut hasher);
    hasher.update(value);
    hasher.finalize()
}
