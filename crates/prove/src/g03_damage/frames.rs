//! The frames of the log, read by the proof itself.

use std::fs;
use std::path::Path;

use super::harm::files;
use crate::proof::Trouble;

const HEADER_BYTES: usize = 4096;
const HEAD_BYTES: usize = 48;

#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) at: usize,
    /// With its head and its padding.
    pub(super) bytes: usize,
    pub(super) first: u64,
    pub(super) count: u32,
    salt: u64,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// The frame at a place, if both of its checksums hold.
fn frame_at(bytes: &[u8], at: usize) -> Option<Frame> {
    let head = bytes.get(at..at + HEAD_BYTES)?;
    if &head[..4] != b"WLfr" || u32_at(head, 4) != crc32fast::hash(&head[8..]) {
        return None;
    }
    let padded = (u32_at(head, 32) as usize).next_multiple_of(8);
    let payload = bytes.get(at + HEAD_BYTES..at + HEAD_BYTES + padded)?;
    let whole = crc32fast::hash(payload) == u32_at(head, 40);
    whole.then(|| Frame {
        at,
        bytes: HEAD_BYTES + padded,
        first: u64_at(head, 16),
        count: u32_at(head, 36),
        salt: u64_at(head, 8),
    })
}

/// The frames from the beginning of a segment up to the first that is not whole.
pub(super) fn frames(bytes: &[u8]) -> Vec<Frame> {
    let mut found: Vec<Frame> = Vec::new();
    let mut at = HEADER_BYTES;
    while let Some(frame) =
        frame_at(bytes, at).filter(|it| found.first().is_none_or(|first| first.salt == it.salt))
    {
        at += frame.bytes;
        found.push(frame);
    }
    found
}

/// The last frame, if no vouch follows it.
pub(super) fn unvouched(bytes: &[u8]) -> Option<Frame> {
    frames(bytes).pop().filter(|frame| frame.count > 0)
}

/// The entries of all whole frames of the log, each with its index, as far as their segments belong to the store `id`.
pub(super) fn entries(dir: &Path, id: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, Trouble> {
    let mut found = Vec::new();
    for segment in files(dir, "log", "seg")? {
        let bytes = fs::read(dir.join(&segment))?;
        let header = bytes.get(..HEADER_BYTES).filter(|header| {
            &header[..8] == b"WINDLOG\0"
                && u32_at(header, HEADER_BYTES - 4) == crc32fast::hash(&header[..HEADER_BYTES - 4])
        });
        let salt = match header {
            Some(header) if &header[40..56] == id => u64_at(header, 32),
            Some(_) => continue,
            None => match frame_at(&bytes, HEADER_BYTES) {
                Some(frame) => frame.salt,
                None => continue,
            },
        };
        let mut at = HEADER_BYTES;
        while at + HEAD_BYTES <= bytes.len() {
            let Some(frame) = frame_at(&bytes, at).filter(|frame| frame.salt == salt) else {
                at += 8;
                continue;
            };
            let mut rest = &bytes[at + HEAD_BYTES..at + frame.bytes];
            for index in (frame.first..).take(frame.count as usize) {
                let length = u32_at(rest, 0) as usize;
                found.push((index, rest[4..4 + length].to_vec()));
                rest = &rest[4 + length..];
            }
            at += frame.bytes;
        }
    }
    found.sort();
    found.dedup_by_key(|(index, _)| *index);
    Ok(found)
}

/// Changes the payload of the newest task in the log and corrects the checksums: what a reader without checks would see.
pub(super) fn forge(dir: &Path) -> Result<(), Trouble> {
    for segment in files(dir, "log", "seg")?.into_iter().rev() {
        let path = dir.join(segment);
        let mut bytes = fs::read(&path)?;
        for frame in frames(&bytes).into_iter().rev() {
            let (at, payload) = (frame.at, frame.at + HEAD_BYTES..frame.at + frame.bytes);
            let marker = super::written::MARKER.as_bytes();
            let found = bytes[payload.clone()].windows(marker.len()).position(|window| window == marker);
            let Some(offset) = found else { continue };
            bytes[payload.start + offset] ^= 1;
            let crc = crc32fast::hash(&bytes[payload]);
            bytes[at + 40..at + 44].copy_from_slice(&crc.to_le_bytes());
            let crc = crc32fast::hash(&bytes[at + 8..at + HEAD_BYTES]);
            bytes[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
            return Ok(fs::write(&path, bytes)?);
        }
    }
    Err(Trouble::failed("the log holds no task to forge"))
}
