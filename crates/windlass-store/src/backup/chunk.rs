//! The preface and the chunks of a stream.

use bytes::{BufMut, Bytes, BytesMut};
use sha2::{Digest as _, Sha256};

use super::{CHUNK_BYTES_MAX, VERSION, hex};

const MAGIC: [u8; 8] = *b"WNDLSBKP";
pub(super) const PREFACE_BYTES: usize = 16;
pub(super) const HEAD_BYTES: usize = 16;
/// The longest name of a table. Its length is one byte in the head.
pub(super) const NAME_BYTES_MAX: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Opening,
    Rows,
    Manifest,
}

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Kind::Opening => 1,
            Kind::Rows => 2,
            Kind::Manifest => 3,
        }
    }

    fn of(byte: u8) -> Option<Kind> {
        [Kind::Opening, Kind::Rows, Kind::Manifest].into_iter().find(|kind| kind.byte() == byte)
    }
}

/// The result of reading a preface.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Preface {
    Known,
    OtherVersion(u32),
    /// The magic is right, but the checksum is wrong.
    Damaged,
    Foreign,
}

fn preface(version: u32) -> [u8; PREFACE_BYTES] {
    let mut bytes = [0; PREFACE_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    let checksum = crc32fast::hash(&bytes[..12]);
    bytes[12..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

pub(super) fn read_preface(bytes: &[u8; PREFACE_BYTES]) -> Preface {
    let [magic @ .., v0, v1, v2, v3, _, _, _, _] = bytes;
    let version = u32::from_le_bytes([*v0, *v1, *v2, *v3]);
    if *magic != MAGIC {
        return Preface::Foreign;
    }
    match version {
        _ if preface(version) != *bytes => Preface::Damaged,
        VERSION => Preface::Known,
        other => Preface::OtherVersion(other),
    }
}

/// The head of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: Kind,
    pub(super) name_bytes: usize,
    pub(super) number: u32,
    pub(super) bytes: usize,
    pub(super) checksum: u32,
}

impl Head {
    /// Parses a head. Returns `None` if it is invalid or a length exceeds its limit.
    pub(super) fn read(bytes: &[u8; HEAD_BYTES]) -> Option<Head> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let head = Head {
            kind: Kind::of(bytes[0])?,
            name_bytes: usize::from(bytes[1]),
            number: word(4),
            bytes: word(8) as usize,
            checksum: word(12),
        };
        let sane =
            bytes[2..4] == [0, 0] && head.name_bytes <= NAME_BYTES_MAX && head.bytes <= CHUNK_BYTES_MAX;
        sane.then_some(head)
    }

    fn write(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0] = self.kind.byte();
        bytes[1] = self.name_bytes as u8;
        bytes[4..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..12].copy_from_slice(&(self.bytes as u32).to_le_bytes());
        bytes[12..].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    /// The checksum over the head (except for the checksum itself), the name and the content.
    pub(super) fn checksum_of(&self, name: &[u8], content: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.write()[..12]);
        hasher.update(name);
        hasher.update(content);
        hasher.finalize()
    }
}

/// Encodes the pieces of a stream, and keeps their totals and their hash.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    pub(crate) chunks: u32,
    pub(crate) bytes: u64,
    hash: Sha256,
}

impl Encoder {
    pub(crate) fn preface(&mut self) -> Bytes {
        self.sum(Bytes::copy_from_slice(&preface(VERSION)))
    }

    pub(crate) fn chunk(&mut self, kind: Kind, name: &str, content: &[u8]) -> Bytes {
        debug_assert!(content.len() <= CHUNK_BYTES_MAX && name.len() <= NAME_BYTES_MAX);
        let mut head =
            Head { kind, name_bytes: name.len(), number: self.chunks, bytes: content.len(), checksum: 0 };
        head.checksum = head.checksum_of(name.as_bytes(), content);
        let mut bytes = BytesMut::with_capacity(HEAD_BYTES + name.len() + content.len());
        bytes.put_slice(&head.write());
        bytes.put_slice(name.as_bytes());
        bytes.put_slice(content);
        self.chunks += 1;
        self.sum(bytes.freeze())
    }

    /// The hash of everything encoded so far.
    pub(crate) fn sha256(&self) -> String {
        hex(&self.hash.clone().finalize())
    }

    fn sum(&mut self, bytes: Bytes) -> Bytes {
        self.bytes += bytes.len() as u64;
        self.hash.update(&bytes);
        bytes
    }
}

/// Appends a row to the buffer.
pub(crate) fn put_row(buffer: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    buffer.extend_from_slice(&(key.len() as u32).to_le_bytes());
    buffer.extend_from_slice(&(value.len() as u32).to_le_bytes());
    buffer.extend_from_slice(key);
    buffer.extend_from_slice(value);
}
