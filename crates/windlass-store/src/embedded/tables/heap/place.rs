//! The positions of blocks in the files.

use redb::{Key, Value};

use super::{HEAD_BYTES, damaged};
use crate::embedded::tables::seal;
use crate::store::Error;

/// The key of a row that points to a block: blocks of tasks have a number, parts of large tasks have `(seq, part)`.
pub(in crate::embedded) trait Pointer:
    Key + Copy + for<'a> Value<SelfType<'a> = Self> + 'static
{
    /// The number in front of the block in its file. It tells both kinds of keys apart.
    fn number(self) -> u64;
}

/// Marks the number of a part.
const PART: u64 = 1 << 63;

impl Pointer for u64 {
    fn number(self) -> u64 {
        self
    }
}

impl Pointer for (u64, u8) {
    fn number(self) -> u64 {
        PART | self.0 << 1 | u64::from(self.1)
    }
}

/// The row that a number belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Block(u64),
    Part((u64, u8)),
}

impl Owner {
    pub(super) fn of(number: u64) -> Owner {
        if number & PART == 0 {
            return Owner::Block(number);
        }
        Owner::Part(((number & !PART) >> 1, (number & 1) as u8))
    }
}

/// The position of a block. As a value of a table it is recognised by its first byte and its length: blocks of tasks never begin
/// with that byte, and parts that are rows themselves, as earlier versions wrote them, are longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) struct Place {
    pub(super) file: u32,
    pub(super) at: u32,
    pub(super) bytes: u32,
    pub(super) checksum: u32,
}

const PLACE_MARK: u8 = 0xff;
/// The mark, four numbers and the checksum.
const PLACE_BYTES: usize = 1 + 4 * 4 + 4;

impl Place {
    /// Decodes the value of a row in the tree. Returns `None` if the value is the block itself, as in earlier formats.
    pub(in crate::embedded) fn read(key: impl Pointer, value: &[u8]) -> Result<Option<Place>, Error> {
        if value.first() != Some(&PLACE_MARK) || value.len() != PLACE_BYTES {
            return Ok(None);
        }
        let number = key.number();
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
        place.map(Some).ok_or_else(|| damaged(format!("the place of block {number} cannot be read")))
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
