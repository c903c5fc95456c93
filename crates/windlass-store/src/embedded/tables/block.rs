//! Neighbouring tasks in one value of a table.
//!
//! A table's page is read and written whole, whatever part of it changes. Tasks that were submitted together are mostly
//! claimed, finished and removed together, so a row holds [`BLOCK_TASKS`] of them and a checkpoint makes one change of the
//! table where it would make sixteen. What is large stands in a row of its own, so that it is not rewritten with its neighbours.

use crate::store::Error;

/// Tasks of one row.
pub(in crate::embedded) const BLOCK_TASKS: u64 = 16;
/// A record or body beyond this stands alone.
pub(in crate::embedded) const INLINE_BYTES_MAX: usize = 1024;

const APART: u32 = u32::MAX;
const HEAD_BYTES: usize = 9;

/// One task of a block. `None` stands apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) struct Entry<'a> {
    pub(in crate::embedded) seq: u64,
    pub(in crate::embedded) record: Option<&'a [u8]>,
    pub(in crate::embedded) body: Option<&'a [u8]>,
}

impl Entry<'_> {
    pub(in crate::embedded) fn encode(&self, buffer: &mut Vec<u8>) {
        buffer.push((self.seq % BLOCK_TASKS) as u8);
        for part in [self.record, self.body] {
            let len = part.map_or(APART, |bytes| bytes.len() as u32);
            buffer.extend_from_slice(&len.to_le_bytes());
        }
        for part in [self.record, self.body].into_iter().flatten() {
            buffer.extend_from_slice(part);
        }
    }
}

/// The tasks of a block in order.
pub(in crate::embedded) fn entries(block: u64, bytes: &[u8]) -> Result<Vec<Entry<'_>>, Error> {
    let damaged = || Error::Damaged(format!("block {block} of the index cannot be read"));
    let mut found: Vec<Entry<'_>> = Vec::with_capacity(BLOCK_TASKS as usize);
    let mut rest = bytes;
    while !rest.is_empty() {
        let (head, after) = rest.split_at_checked(HEAD_BYTES).ok_or_else(damaged)?;
        rest = after;
        let mut part = |len: [u8; 4]| -> Result<Option<&[u8]>, Error> {
            let len = u32::from_le_bytes(len);
            if len == APART {
                return Ok(None);
            }
            let (bytes, after) = rest.split_at_checked(len as usize).ok_or_else(damaged)?;
            rest = after;
            Ok(Some(bytes))
        };
        let record = part([head[1], head[2], head[3], head[4]])?;
        let body = part([head[5], head[6], head[7], head[8]])?;
        let seq = block * BLOCK_TASKS + u64::from(head[0]);
        if u64::from(head[0]) >= BLOCK_TASKS || found.last().is_some_and(|last| last.seq >= seq) {
            return Err(damaged());
        }
        found.push(Entry { seq, record, body });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_reads_as_it_was_written() {
        let written = [
            Entry { seq: 160, record: Some(b"record"), body: Some(b"") },
            Entry { seq: 163, record: None, body: Some(b"body") },
            Entry { seq: 167, record: Some(b"r"), body: None },
        ];
        let mut buffer = Vec::new();
        written.iter().for_each(|entry| entry.encode(&mut buffer));
        assert_eq!(entries(10, &buffer).unwrap(), written);
        assert_eq!(entries(10, &[]).unwrap(), []);
    }

    #[test]
    fn what_cannot_be_a_block_is_refused() {
        let entry = Entry { seq: 3, record: Some(b"record"), body: Some(b"body") };
        let mut buffer = Vec::new();
        entry.encode(&mut buffer);
        for cut in 1..buffer.len() {
            assert!(entries(0, &buffer[..cut]).is_err(), "cut at {cut}");
        }
        entry.encode(&mut buffer);
        assert!(entries(0, &buffer).is_err(), "the same task twice");
        buffer[0] = 16;
        assert!(entries(0, &buffer).is_err(), "a task of another block");
    }
}
