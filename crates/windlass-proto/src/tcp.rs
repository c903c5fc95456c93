//! The frames of the TCP interface: a length as `u32` in network order, a kind as `u8`, and JSON. The length counts what follows it.
//!
//! The JSON of a frame is a body of [`crate::rest`] wherever REST has one; what only frames need is here.

mod bodies;

use bytes::{Buf, Bytes, BytesMut};
use serde::Serialize;

pub use bodies::{Empty, IdBody, Report, ResultBody, Status, TaskAnswer};

/// The length and the kind.
pub const HEAD_BYTES: usize = 5;
const LENGTH_BYTES: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    SubmitTask = 1,
    ClaimTask = 2,
    TaskResult = 3,
    Heartbeat = 4,
    /// The answer to a request that was carried out.
    Ack = 5,
    /// The answer to a request that was refused.
    Nack = 6,
    QueryStatus = 7,
    CancelTask = 8,
    ListTasks = 9,
    GetStats = 10,
}

impl Kind {
    pub const ALL: [Kind; 10] = [
        Kind::SubmitTask,
        Kind::ClaimTask,
        Kind::TaskResult,
        Kind::Heartbeat,
        Kind::Ack,
        Kind::Nack,
        Kind::QueryStatus,
        Kind::CancelTask,
        Kind::ListTasks,
        Kind::GetStats,
    ];

    pub fn of(byte: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }
}

/// What the first bytes of a buffer say about the frame that begins there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// What follows the length: the kind and the JSON. 0 for a frame without even a kind.
    pub length: usize,
    /// As it came; `None` until it is there.
    pub kind: Option<u8>,
}

impl Head {
    /// `None` until the length is there.
    pub fn read(input: &[u8]) -> Option<Head> {
        let (length, rest) = input.split_first_chunk::<LENGTH_BYTES>()?;
        let length = u32::from_be_bytes(*length) as usize;
        Some(Head { length, kind: rest.first().filter(|_| length > 0).copied() })
    }

    /// The whole frame.
    pub fn frame_bytes(self) -> usize {
        LENGTH_BYTES + self.length
    }
}

/// Takes the JSON of the first frame, all of which must be there. Nothing is copied.
pub fn take(input: &mut BytesMut, head: Head) -> Bytes {
    let mut frame = input.split_to(head.frame_bytes());
    frame.advance(HEAD_BYTES.min(frame.len()));
    frame.freeze()
}

/// Adds a whole frame to `out`, or nothing if the body cannot be written.
pub fn write(out: &mut Vec<u8>, kind: Kind, body: &impl Serialize) -> serde_json::Result<()> {
    write_with(out, kind, |out| serde_json::to_writer(out, body))
}

/// Like [`write()`], for a body that has its own way to become JSON.
pub fn write_with(
    out: &mut Vec<u8>,
    kind: Kind,
    body: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()>,
) -> serde_json::Result<()> {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, 0, kind as u8]);
    if let Err(error) = body(out) {
        out.truncate(start);
        return Err(error);
    }
    // No answer comes near the limits of its length: payloads and pages are bounded far below.
    let length = (out.len() - start - LENGTH_BYTES) as u32;
    out[start..start + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_numbers_of_the_table() {
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index + 1);
            assert_eq!(Kind::of(kind as u8), Some(kind));
        }
        for unknown in [0, 11, 255] {
            assert_eq!(Kind::of(unknown), None);
        }
    }

    #[test]
    fn frames_come_back_as_they_were_written() {
        let mut out = Vec::new();
        write(&mut out, Kind::Ack, &Empty {}).unwrap();
        write(&mut out, Kind::SubmitTask, &[1, 2]).unwrap();
        assert_eq!(out[..7], [0, 0, 0, 3, 5, b'{', b'}']);
        let mut input = BytesMut::from(&out[..]);
        for (kind, json) in [(5, "{}"), (1, "[1,2]")] {
            for length in 0..4 {
                assert_eq!(Head::read(&input[..length]), None);
            }
            let head = Head::read(&input).unwrap();
            assert_eq!((head.kind, head.length), (Some(kind), json.len() + 1));
            assert_eq!(take(&mut input, head), json.as_bytes());
        }
        assert!(input.is_empty());
    }

    #[test]
    fn a_frame_of_nothing_has_no_kind_and_takes_only_its_length() {
        let mut input = BytesMut::from(&[0, 0, 0, 0, 9][..]);
        let head = Head::read(&input).unwrap();
        assert_eq!((head.kind, head.length), (None, 0));
        assert_eq!(take(&mut input, head), "");
        assert_eq!(input[..], [9]);
    }

    #[test]
    fn a_body_that_cannot_be_written_leaves_nothing() {
        let mut out = vec![7];
        let wrong = std::collections::HashMap::from([(vec![1], 1)]);
        assert!(write(&mut out, Kind::Ack, &wrong).is_err());
        assert_eq!(out, [7]);
    }
}
