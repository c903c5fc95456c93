//! One batch on disk.
//!
//! ```text
//!  0 magic u32        4 crc u32 of bytes 8..48
//!  8 salt u64         the lifetime of the segment this frame was written in
//! 16 first u64        index of the first entry
//! 24 durable u64      every entry below this was synced when the frame was written
//! 32 payload u32      bytes of payload before padding
//! 36 count u32        entries
//! 40 crc u32          of the padded payload
//! 44 zero u32
//! 48 payload          entries, each a u32 length and its bytes; zeros up to a multiple of 8
//! ```
//! A frame without entries is a *vouch*: it only records how much is durable. An idle log ends with one, so that damage to its
//! last entries is not mistaken for a torn write.
//!
//! The header carries a checksum of its own so that it can testify about the entries before it even
//! where its payload is torn.

use super::{Error, MAX_BATCH_BYTES, MAX_BATCH_ENTRIES};
use bytes::Bytes;

pub(super) const HEAD_BYTES: usize = 48;
pub(super) const ALIGN: usize = 8;
pub(super) const MAGIC: [u8; 4] = *b"WLfr";

/// A buffer grown beyond this by one large batch is given back afterwards.
const KEPT_CAPACITY: usize = 4 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) salt: u64,
    pub(super) first: u64,
    pub(super) durable: u64,
    payload: u32,
    count: u32,
    payload_crc: u32,
}

impl Head {
    /// The header at the start of `bytes`, if its checksum and its fields hold.
    pub(super) fn parse(bytes: &[u8]) -> Option<Head> {
        let bytes = bytes.get(..HEAD_BYTES)?;
        if bytes[..4] != MAGIC || u32_at(bytes, 4) != crc32fast::hash(&bytes[8..]) {
            return None;
        }
        let head = Head {
            salt: u64_at(bytes, 8),
            first: u64_at(bytes, 16),
            durable: u64_at(bytes, 24),
            payload: u32_at(bytes, 32),
            count: u32_at(bytes, 36),
            payload_crc: u32_at(bytes, 40),
        };
        let sane = head.payload as usize <= MAX_BATCH_BYTES
            && (head.count as usize <= MAX_BATCH_ENTRIES)
            && (head.count > 0 || head.payload == 0)
            && head.first.checked_add(u64::from(head.count)).is_some();
        sane.then_some(head)
    }

    /// Whether `bytes` begin like a frame of this segment lifetime, intact or not.
    pub(super) fn resembles(bytes: &[u8], salt: u64) -> bool {
        bytes.len() >= 16 && bytes[..4] == MAGIC && u64_at(bytes, 8) == salt
    }

    /// The index after the last entry.
    pub(super) fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    pub(super) fn frame_bytes(&self) -> usize {
        HEAD_BYTES + (self.payload as usize).next_multiple_of(ALIGN)
    }

    /// The entries of the frame, or `None` if the payload is not what was written.
    pub(super) fn entries(&self, frame: Bytes) -> Option<Entries> {
        let padded = frame.get(HEAD_BYTES..self.frame_bytes())?;
        let intact = crc32fast::hash(padded) == self.payload_crc && self.adds_up(padded);
        intact.then(|| Entries {
            rest: frame.slice(HEAD_BYTES..HEAD_BYTES + self.payload as usize),
            index: self.first,
        })
    }

    /// Whether the lengths inside the payload fill it exactly.
    fn adds_up(&self, padded: &[u8]) -> bool {
        let mut rest = &padded[..self.payload as usize];
        for _ in 0..self.count {
            let Some((length, after)) = rest.split_first_chunk::<4>() else { return false };
            let Some(after) = after.get(u32::from_le_bytes(*length) as usize..) else { return false };
            rest = after;
        }
        rest.is_empty()
    }
}

/// The entries of a checked frame, as slices of the block it was read in.
#[derive(Debug)]
pub(super) struct Entries {
    rest: Bytes,
    index: u64,
}

impl Iterator for Entries {
    type Item = (u64, Bytes);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let length = u32_at(&self.rest.split_to(4), 0) as usize;
        let item = (self.index, self.rest.split_to(length));
        self.index += 1;
        Some(item)
    }
}

/// Builds one frame at a time in a buffer that is kept.
#[derive(Debug, Default)]
pub(super) struct Builder {
    buffer: Vec<u8>,
    count: u32,
}

impl Builder {
    pub(super) fn begin(&mut self) {
        self.buffer.clear();
        self.buffer.shrink_to(KEPT_CAPACITY);
        self.buffer.resize(HEAD_BYTES, 0);
        self.count = 0;
    }

    pub(super) fn push(&mut self, entry: &[u8]) -> Result<(), Error> {
        let payload = self.buffer.len() - HEAD_BYTES + 4 + entry.len();
        if payload > MAX_BATCH_BYTES || self.count as usize == MAX_BATCH_ENTRIES {
            return Err(Error::TooLarge);
        }
        let length = u32::try_from(entry.len()).map_err(|_| Error::TooLarge)?;
        self.buffer.extend_from_slice(&length.to_le_bytes());
        self.buffer.extend_from_slice(entry);
        self.count += 1;
        Ok(())
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn frame_bytes(&self) -> u64 {
        self.buffer.len().next_multiple_of(ALIGN) as u64
    }

    /// Completes the frame for the segment lifetime `salt`.
    pub(super) fn finish(&mut self, place: Place) -> &[u8] {
        let payload = u32::try_from(self.buffer.len() - HEAD_BYTES).expect("push bounds the payload");
        self.buffer.resize(self.buffer.len().next_multiple_of(ALIGN), 0);
        let payload_crc = crc32fast::hash(&self.buffer[HEAD_BYTES..]);
        let head = &mut self.buffer[..HEAD_BYTES];
        head[..4].copy_from_slice(&MAGIC);
        head[8..16].copy_from_slice(&place.salt.to_le_bytes());
        head[16..24].copy_from_slice(&place.first.to_le_bytes());
        head[24..32].copy_from_slice(&place.durable.to_le_bytes());
        head[32..36].copy_from_slice(&payload.to_le_bytes());
        head[36..40].copy_from_slice(&self.count.to_le_bytes());
        head[40..44].copy_from_slice(&payload_crc.to_le_bytes());
        let crc = crc32fast::hash(&head[8..]);
        head[4..8].copy_from_slice(&crc.to_le_bytes());
        &self.buffer
    }
}

/// Where a frame stands in the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) salt: u64,
    pub(super) first: u64,
    pub(super) durable: u64,
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(entries: &[&[u8]]) -> Vec<u8> {
        let mut builder = Builder::default();
        builder.begin();
        for entry in entries {
            builder.push(entry).unwrap();
        }
        builder.finish(Place { salt: 7, first: 40, durable: 39 }).to_vec()
    }

    #[test]
    fn a_frame_reads_back_as_it_was_built() {
        let bytes = frame(&[b"one", b"", b"three33"]);
        assert_eq!(bytes.len() % ALIGN, 0);
        let head = Head::parse(&bytes).unwrap();
        assert_eq!((head.salt, head.first, head.durable, head.end()), (7, 40, 39, 43));
        let entries: Vec<_> = head.entries(Bytes::from(bytes)).unwrap().collect();
        let expected = [(40, "one".into()), (41, "".into()), (42, "three33".into())];
        assert_eq!(entries, expected);
    }

    #[test]
    fn a_vouch_has_no_entries() {
        let bytes = frame(&[]);
        assert_eq!(bytes.len(), HEAD_BYTES);
        let head = Head::parse(&bytes).unwrap();
        assert_eq!((head.first, head.durable, head.end()), (40, 39, 40));
        assert_eq!(head.entries(Bytes::from(bytes)).unwrap().count(), 0);
    }

    #[test]
    fn no_changed_byte_goes_unseen() {
        for entries in [&[b"one" as &[u8], b"", b"three33"] as &[&[u8]], &[]] {
            changed_bytes_are_seen(frame(entries));
        }
    }

    fn changed_bytes_are_seen(bytes: Vec<u8>) {
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                let seen = Head::parse(&changed).and_then(|head| head.entries(Bytes::from(changed)));
                assert!(seen.is_none(), "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn a_batch_beyond_the_limits_is_refused() {
        let mut builder = Builder::default();
        builder.begin();
        let half = vec![0; MAX_BATCH_BYTES / 2];
        builder.push(&half).unwrap();
        assert!(matches!(builder.push(&half), Err(Error::TooLarge)));
        builder.begin();
        for _ in 0..MAX_BATCH_ENTRIES {
            builder.push(b"").unwrap();
        }
        assert!(matches!(builder.push(b""), Err(Error::TooLarge)));
    }
}
