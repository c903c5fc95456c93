//! The positions of blocks in the files.

use super::{HEAD_BYTES, damaged};
use crate::embedded::tables::block::BLOCK_BYTES_MAX;
use crate::embedded::tables::seal;
use crate::store::Error;

/// The position of a block. As a value of the table of tasks it begins with a byte that no block begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) struct Place {
    pub(super) file: u32,
    pub(super) at: u32,
    pub(super) bytes: u32,
    pub(super) checksum: u32,
}

const PLACE_MARK: u8 = 0xff;

impl Place {
    /// Decodes the value of block `number` in the tree. Returns `None` if the value is the block itself, as in format 4.
    pub(in crate::embedded) fn read(number: u64, value: &[u8]) -> Result<Option<Place>, Error> {
        if value.first() != Some(&PLACE_MARK) {
            return Ok(None);
        }
        let (numbers, rest) = seal::open(number, value)?.get(1..).unwrap_or_default().as_chunks::<4>();
        let place = match (numbers, rest) {
            ([file, at, bytes, checksum], []) => Some(Place {
                file: u32::from_le_bytes(*file),
                at: u32::from_le_bytes(*at),
                bytes: u32::from_le_bytes(*bytes),
                checksum: u32::from_le_bytes(*checksum),
            }),
            _ => None,
        };
        let sane = place.filter(|place| place.bytes as usize <= BLOCK_BYTES_MAX);
        sane.map(Some).ok_or_else(|| damaged(format!("the place of block {number} cannot be read")))
    }

    pub(super) fn write(self, number: u64, buffer: &mut Vec<u8>) -> &[u8] {
        buffer.clear();
        buffer.push(PLACE_MARK);
        for part in [self.file, self.at, self.bytes, self.checksum] {
            buffer.extend_from_slice(&part.to_le_bytes());
        }
        seal::close(number, buffer)
    }

    /// The size of the block without its head.
    pub(in crate::embedded) fn block_bytes(self) -> u64 {
        u64::from(self.bytes)
    }

    /// The size of the block with its head.
    pub(super) fn taken(self) -> u32 {
        HEAD_BYTES as u32 + self.bytes
    }
}
