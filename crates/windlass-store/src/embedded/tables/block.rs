//! Neighbouring tasks in one piece.
//!
//! Tasks that were submitted together are mostly claimed, finished and removed together, so a block holds [`BLOCK_TASKS`] of them
//! and a checkpoint makes one change of the index where it would make sixteen. A block is written anew with every change of one
//! of them; so what is large stands in a row of its own.

use crate::store::Error;

/// Tasks of one row.
pub(in crate::embedded) const BLOCK_TASKS: u64 = 16;
/// A record or body beyond this stands alone.
pub(in crate::embedded) const INLINE_BYTES_MAX: usize = 1024;

/// The most bytes that one task takes in a block.
pub(in crate::embedded) const ENTRY_BYTES_MAX: usize = HEAD_BYTES + 2 * INLINE_BYTES_MAX;
/// The most bytes of a block.
pub(in crate::embedded) const BLOCK_BYTES_MAX: usize = BLOCK_TASKS as usize * ENTRY_BYTES_MAX;

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
    let mut found: Vec<Entry<'_>> = Vec::with_capacity(BLOCK_TASKS as usize);
    let mut rest = bytes;
    while let Some(entry) = next(block, &mut rest)? {
        if found.last().is_some_and(|last| last.seq >= entry.seq) {
            return Err(damaged(block));
        }
        found.push(entry);
    }
    Ok(found)
}

/// One task of a block, without a look at those behind it.
pub(in crate::embedded) fn find(block: u64, bytes: &[u8], seq: u64) -> Result<Option<Entry<'_>>, Error> {
    let mut rest = bytes;
    while let Some(entry) = next(block, &mut rest)? {
        if entry.seq >= seq {
            return Ok((entry.seq == seq).then_some(entry));
        }
    }
    Ok(None)
}

fn next<'a>(block: u64, rest: &mut &'a [u8]) -> Result<Option<Entry<'a>>, Error> {
    if rest.is_empty() {
        return Ok(None);
    }
    let (head, after) = rest.split_at_checked(HEAD_BYTES).ok_or_else(|| damaged(block))?;
    *rest = after;
    let mut part = |len: [u8; 4]| -> Result<Option<&'a [u8]>, Error> {
        let len = u32::from_le_bytes(len);
        if len == APART {
            return Ok(None);
        }
        let (bytes, after) = rest.split_at_checked(len as usize).ok_or_else(|| damaged(block))?;
        *rest = after;
        Ok(Some(bytes))
    };
    let record = part([head[1], head[2], head[3], head[4]])?;
    let body = part([head[5], head[6], head[7], head[8]])?;
    if u64::from(head[0]) >= BLOCK_TASKS {
        return Err(damaged(block));
    }
    Ok(Some(Entry { seq: block * BLOCK_TASKS + u64::from(head[0]), record, body }))
}

fn damaged(block: u64) -> Error {
    Error::Damaged(format!("block {block} of the index cannot be read"))
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
        for seq in 160..176 {
            let found = written.into_iter().find(|entry| entry.seq == seq);
            assert_eq!(find(10, &buffer, seq).unwrap(), found, "{seq}");
        }
        assert_eq!(entries(10, &[]).unwrap(), []);
    }

    #[test]
    fn what_cannot_be_a_block_is_refused() {
        let entry = Entry { seq: 3, record: Some(b"record"), body: Some(b"body") };
        let mut buffer = Vec::new();
        entry.encode(&mut buffer);
        for cut in 1..buffer.len() {
            assert!(entries(0, &buffer[..cut]).is_err(), "cut at {cut}");
            assert!(find(0, &buffer[..cut], 3).is_err(), "cut at {cut}");
        }
        entry.encode(&mut buffer);
        assert!(entries(0, &buffer).is_err(), "the same task twice");
        buffer[0] = 16;
        assert!(entries(0, &buffer).is_err(), "a task of another block");
        assert!(find(0, &buffer, 3).is_err(), "a task of another block");
    }
}
