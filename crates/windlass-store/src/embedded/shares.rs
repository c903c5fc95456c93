//! The shares of keys in their table.
//!
//! There are as many as there are keys with live tasks, and neighbours come, change and go together: a row holds
//! [`BLOCK_SHARES`] of them, so that a checkpoint of a hundred thousand keys changes some thousands of rows.

use prost::Message;
use redb::{ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};
use windlass_core::flow::ShareState;

use super::codec::{self, Undecodable};
use super::tables::{failed, seal};
use crate::store::Error;

/// By the number of the block.
pub(super) const SHARES: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("share_blocks");
const BLOCK_SHARES: u32 = 64;
/// The place in the block, and the bytes of the message behind it.
const HEAD_BYTES: usize = 3;

#[derive(Clone, PartialEq, Message)]
struct ShareMessage {
    #[prost(uint32, tag = "1")]
    lane: u32,
    #[prost(string, tag = "2")]
    key: String,
    #[prost(uint64, tag = "3")]
    waiting: u64,
    #[prost(uint64, tag = "4")]
    running: u64,
    #[prost(uint64, optional, tag = "5")]
    priority: Option<u64>,
    #[prost(uint64, tag = "6")]
    pass: u64,
    /// Further priorities, each followed by what was paid there: a queue that ages has them.
    #[prost(uint64, repeated, tag = "7")]
    further: Vec<u64>,
}

impl From<&ShareState> for ShareMessage {
    fn from(share: &ShareState) -> Self {
        let turns = share.turns.all();
        Self {
            lane: share.lane,
            key: share.key.as_str().to_owned(),
            waiting: share.waiting,
            running: share.running,
            priority: turns.first().map(|(priority, _)| *priority),
            pass: turns.first().map_or(0, |(_, pass)| *pass),
            further: turns.iter().skip(1).flat_map(|(priority, pass)| [*priority, *pass]).collect(),
        }
    }
}

fn share(message: ShareMessage) -> Result<ShareState, Undecodable> {
    let ShareMessage { lane, key, waiting, running, priority, pass, further } = message;
    let further = further.chunks_exact(2).map(|pair| (pair[0], pair[1]));
    let turns = priority.map(|priority| (priority, pass)).into_iter().chain(further).collect();
    Ok(ShareState { lane, key: codec::name(&key)?, waiting, running, turns })
}

/// One share of a block, encoded.
type Entry<'a> = (u32, &'a [u8]);

fn entries(block: u64, bytes: &[u8]) -> Result<Vec<Entry<'_>>, Error> {
    let damaged = || Error::Damaged(format!("block {block} of the shares cannot be read"));
    let first =
        u32::try_from(block).ok().and_then(|block| block.checked_mul(BLOCK_SHARES)).ok_or_else(damaged)?;
    let mut found: Vec<Entry<'_>> = Vec::with_capacity(BLOCK_SHARES as usize);
    let mut rest = bytes;
    while !rest.is_empty() {
        let (head, after) = rest.split_at_checked(HEAD_BYTES).ok_or_else(damaged)?;
        let len = u16::from_le_bytes([head[1], head[2]]);
        let (share, after) = after.split_at_checked(usize::from(len)).ok_or_else(damaged)?;
        let place = Some(u32::from(head[0])).filter(|place| *place < BLOCK_SHARES).ok_or_else(damaged)?;
        let number = first.checked_add(place).ok_or_else(damaged)?;
        if found.last().is_some_and(|(last, _)| *last >= number) {
            return Err(damaged());
        }
        found.push((number, share));
        rest = after;
    }
    Ok(found)
}

fn put(buffer: &mut Vec<u8>, (number, share): Entry<'_>) {
    buffer.push((number % BLOCK_SHARES) as u8);
    // A name and at most 256 pairs of small numbers are far from it.
    let len = u16::try_from(share.len()).expect("a share is small");
    buffer.extend_from_slice(&len.to_le_bytes());
    buffer.extend_from_slice(share);
}

/// Writes what changed, which is in order of the numbers; with nothing to write it only sees to it that there is a table.
pub(super) fn write(write: &WriteTransaction, changed: &[(u32, Option<ShareState>)]) -> Result<(), Error> {
    let mut table = write.open_table(SHARES).map_err(failed("open a table"))?;
    let (mut buffer, mut encoded) = (Vec::new(), Vec::new());
    for changed in changed.chunk_by(|a, b| a.0 / BLOCK_SHARES == b.0 / BLOCK_SHARES) {
        let block = u64::from(changed[0].0 / BLOCK_SHARES);
        buffer.clear();
        let whole = changed.len() == BLOCK_SHARES as usize;
        let stored = if whole { None } else { table.get(block).map_err(failed("read a share"))? };
        let kept = match &stored {
            Some(row) => entries(block, seal::open(block, row.value())?)?,
            None => Vec::new(),
        };
        let mut kept = kept.into_iter().peekable();
        for (number, state) in changed {
            while let Some(entry) = kept.next_if(|entry| entry.0 < *number) {
                put(&mut buffer, entry);
            }
            kept.next_if(|entry| entry.0 == *number);
            if let Some(state) = state {
                encoded.clear();
                ShareMessage::from(state).encode_raw(&mut encoded);
                put(&mut buffer, (*number, &encoded));
            }
        }
        kept.for_each(|entry| put(&mut buffer, entry));
        drop(stored);
        if buffer.is_empty() {
            table.remove(block).map_err(failed("remove a share"))?;
        } else {
            table.insert(block, seal::close(block, &mut buffer)).map_err(failed("write a share"))?;
        }
    }
    Ok(())
}

pub(super) fn load(read: &ReadTransaction) -> Result<Vec<(u32, ShareState)>, Error> {
    let damaged = |error: Undecodable| Error::Damaged(error.to_string());
    let table = read.open_table(SHARES).map_err(failed("open a table"))?;
    let mut found = Vec::new();
    for row in table.iter().map_err(failed("read the shares"))? {
        let (block, value) = row.map_err(failed("read the shares"))?;
        let block = block.value();
        for (number, bytes) in entries(block, seal::open(block, value.value())?)? {
            let message = ShareMessage::decode(bytes).map_err(|error| damaged(error.into()))?;
            found.push((number, share(message).map_err(damaged)?));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use redb::{Database, ReadableDatabase};
    use windlass_core::Name;

    use super::*;

    fn state(text: &str) -> ShareState {
        let turns = [(100, 7), (155, 9), (200, 3)].into_iter().collect();
        ShareState { lane: 3, key: Name::new(text).unwrap(), waiting: 2, running: 1, turns }
    }

    #[test]
    fn shares_come_back_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::create(dir.path().join("index.redb")).unwrap();
        let save = |changed: &[(u32, Option<ShareState>)]| {
            let transaction = database.begin_write().unwrap();
            write(&transaction, changed).unwrap();
            transaction.commit().unwrap();
        };
        let all = || load(&database.begin_read().unwrap()).unwrap();
        let new = |number: u32| (number, Some(state(&format!("key-{number}"))));
        save(&[]);
        assert_eq!(all(), []);
        save(&(0..200).map(new).collect::<Vec<_>>());
        save(&[(0, None), (70, None), (71, Some(state("other"))), (500, Some(state("far")))]);
        let mut want: Vec<(u32, ShareState)> =
            (1..200).filter(|it| *it != 70).map(|it| (it, state(&format!("key-{it}")))).collect();
        want[69].1 = state("other");
        want.push((500, state("far")));
        assert_eq!(all(), want);
        save(&(0..600).map(|number| (number, None)).collect::<Vec<_>>());
        assert_eq!(all(), []);
    }

    #[test]
    fn what_cannot_be_a_block_is_refused() {
        let mut buffer = Vec::new();
        put(&mut buffer, (66, b"share"));
        assert_eq!(entries(1, &buffer).unwrap(), [(66, &b"share"[..])]);
        for cut in 1..buffer.len() {
            assert!(entries(1, &buffer[..cut]).is_err(), "cut at {cut}");
        }
        put(&mut buffer, (66, b"again"));
        assert!(entries(1, &buffer).is_err());
        assert!(entries(u64::MAX, &buffer).is_err());
    }
}
