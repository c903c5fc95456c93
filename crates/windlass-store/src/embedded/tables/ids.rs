//! Ids that carry the time at which they were made share a row with those of the same moment.
//!
//! A UUID of version 7 begins with its millisecond, and ids that come together are stored together: one change of the table
//! for all of them. Ids come from outside, so a moment may be made up: a row that is full takes no more, and what does not
//! fit stands alone like an id without a time.

use uuid::{Uuid, Variant, Version};
use windlass_core::TaskId;

/// Milliseconds that share a row, as a power of two.
const ROW_MS_LOG2: u32 = 1;
/// Two milliseconds of a broker that is as busy as can be: those beyond cost as much as ten of the others.
const ROW_IDS_MAX: usize = 4096;
const UUID_BYTES: usize = 16;
const PAIR_BYTES: usize = UUID_BYTES + 8;

/// The 16 bytes of an id that is written as a UUID of version 7 is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::embedded) struct Dated([u8; UUID_BYTES]);

impl Dated {
    /// `None` for every other text: only what reads back as the same text can be kept as bytes.
    pub(in crate::embedded) fn parse(id: &str) -> Option<Dated> {
        if id.len() != 36 || id.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return None;
        }
        let uuid = Uuid::try_parse(id).ok()?;
        let dated = uuid.get_version() == Some(Version::SortRand) && uuid.get_variant() == Variant::RFC4122;
        dated.then(|| Dated(uuid.into_bytes()))
    }

    /// The row for its moment.
    pub(in crate::embedded) fn row(&self) -> u64 {
        let mut ms = [0; 8];
        ms[2..].copy_from_slice(&self.0[..6]);
        u64::from_be_bytes(ms) >> ROW_MS_LOG2
    }
}

/// Whether an id has a row of its own in the table of ids. A guess by its length and the digit of the version, because this is asked for every task.
pub(in crate::embedded) fn has_own_row(id: &str) -> bool {
    const VERSION_AT: usize = 14;
    id.len() != 36 || id.as_bytes()[VERSION_AT] != b'7'
}

/// Counts the ids that have a row of their own.
pub(in crate::embedded) fn own_rows<'a>(ids: impl Iterator<Item = &'a TaskId>) -> usize {
    ids.filter(|id| has_own_row(id.as_str())).count()
}

pub(in crate::embedded) fn find(row: &[u8], dated: &Dated) -> Option<u64> {
    let (pairs, _) = row.as_chunks::<PAIR_BYTES>();
    pairs.iter().find(|pair| pair[..UUID_BYTES] == dated.0).map(seq_of)
}

/// Decodes the ids in a row, each with the number of its task.
pub(in crate::embedded) fn pairs(row: &[u8]) -> impl Iterator<Item = (String, u64)> {
    let (pairs, _) = row.as_chunks::<PAIR_BYTES>();
    pairs.iter().map(|pair| {
        let mut id = [0; UUID_BYTES];
        id.copy_from_slice(&pair[..UUID_BYTES]);
        (Uuid::from_bytes(id).to_string(), seq_of(pair))
    })
}

/// Whether there was room.
pub(in crate::embedded) fn add(row: &mut Vec<u8>, dated: &Dated, seq: u64) -> bool {
    let room = row.len() < ROW_IDS_MAX * PAIR_BYTES;
    if room {
        row.extend_from_slice(&dated.0);
        row.extend_from_slice(&seq.to_le_bytes());
    }
    room
}

/// Whether it was there, for this task.
pub(in crate::embedded) fn remove(row: &mut Vec<u8>, dated: &Dated, seq: u64) -> bool {
    let (pairs, _) = row.as_chunks::<PAIR_BYTES>();
    let found = pairs.iter().position(|pair| pair[..UUID_BYTES] == dated.0 && seq_of(pair) == seq);
    if let Some(at) = found {
        row.drain(at * PAIR_BYTES..(at + 1) * PAIR_BYTES);
    }
    found.is_some()
}

fn seq_of(pair: &[u8; PAIR_BYTES]) -> u64 {
    let mut seq = [0; 8];
    seq.copy_from_slice(&pair[UUID_BYTES..]);
    u64::from_le_bytes(seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0192f0c1-2345-7abc-8def-0123456789ab";

    #[test]
    fn only_the_usual_form_of_version_7_is_dated() {
        assert_eq!(Dated::parse(ID).unwrap().row(), 0x0192_f0c1_2345 >> 1);
        for other in [
            "0192F0C1-2345-7abc-8def-0123456789ab",
            "0192f0c1-2345-4abc-8def-0123456789ab",
            "0192f0c1-2345-7abc-0def-0123456789ab",
            "0192f0c123457abc8def0123456789ab",
            "0192f0c1-2345-7abc-8def-0123456789ag",
            "order-1",
        ] {
            assert_eq!(Dated::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_row_finds_and_forgets_and_has_an_end() {
        let other = Dated::parse(&ID.replace("ab", "cd")).unwrap();
        let id = Dated::parse(ID).unwrap();
        let mut row = Vec::new();
        assert!(add(&mut row, &id, 7) && add(&mut row, &other, 8));
        assert_eq!((find(&row, &id), find(&row, &other)), (Some(7), Some(8)));
        assert!(!remove(&mut row, &id, 9), "the id of another task");
        assert!(remove(&mut row, &id, 7) && !remove(&mut row, &id, 7));
        assert_eq!((find(&row, &id), find(&row, &other)), (None, Some(8)));
        let added = (0..2 * ROW_IDS_MAX as u64).filter(|seq| add(&mut row, &id, *seq)).count();
        assert_eq!(added, ROW_IDS_MAX - 1);
    }
}
