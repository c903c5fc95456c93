//! A set of small numbers as one value of a table.
//!
//! Orders and lists name tasks by consecutive numbers, so a row for every [`SPAN`] of them takes the place of a row for each:
//! a checkpoint of thousands of new tasks touches a handful of rows. A few members are kept as a list, many as a bitmap.

use crate::store::Error;

/// Numbers that share a row.
pub(in crate::embedded) const SPAN: u64 = 1024;
const WORDS: usize = SPAN as usize / 64;
const BITMAP_BYTES: usize = SPAN as usize / 8;
/// A list of this many takes less room than the bitmap.
const LISTED_MAX: u32 = BITMAP_BYTES as u32 / 2 - 1;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::embedded) struct Set {
    words: [u64; WORDS],
}

impl Set {
    pub(in crate::embedded) fn put(&mut self, number: u64, present: bool) {
        let (word, bit) = ((number % SPAN) as usize / 64, number % 64);
        if present {
            self.words[word] |= 1 << bit;
        } else {
            self.words[word] &= !(1 << bit);
        }
    }

    pub(in crate::embedded) fn contains(&self, number: u64) -> bool {
        self.words[(number % SPAN) as usize / 64] & (1 << (number % 64)) != 0
    }

    pub(in crate::embedded) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The members in rising order, as the numbers of the span that begins at `base`.
    pub(in crate::embedded) fn numbers(&self, base: u64) -> Vec<u64> {
        let mut numbers = Vec::with_capacity(self.len() as usize);
        for (i, word) in self.words.iter().enumerate() {
            let mut left = *word;
            while left != 0 {
                numbers.push(base + i as u64 * 64 + u64::from(left.trailing_zeros()));
                left &= left - 1;
            }
        }
        numbers
    }

    pub(in crate::embedded) fn encode(&self, buffer: &mut Vec<u8>) {
        if self.len() > LISTED_MAX {
            self.words.iter().for_each(|word| buffer.extend_from_slice(&word.to_le_bytes()));
        } else {
            self.numbers(0)
                .iter()
                .for_each(|number| buffer.extend_from_slice(&(*number as u16).to_le_bytes()));
        }
    }

    pub(in crate::embedded) fn decode(bytes: &[u8]) -> Result<Set, Error> {
        let damaged = || Error::Damaged("a row of an order or a list cannot be read".to_owned());
        let mut set = Set::default();
        if bytes.len() == BITMAP_BYTES {
            for (word, bytes) in set.words.iter_mut().zip(bytes.chunks_exact(8)) {
                *word = u64::from_le_bytes(bytes.try_into().map_err(|_| damaged())?);
            }
            return Ok(set);
        }
        for pair in bytes.chunks(2) {
            let number = u64::from(u16::from_le_bytes(pair.try_into().map_err(|_| damaged())?));
            if number >= SPAN {
                return Err(damaged());
            }
            set.put(number, true);
        }
        Ok(set)
    }

    fn len(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(members: impl IntoIterator<Item = u64>, bytes: usize) {
        let members: Vec<u64> = members.into_iter().collect();
        let mut set = Set::default();
        members.iter().for_each(|number| set.put(*number, true));
        let mut buffer = Vec::new();
        set.encode(&mut buffer);
        assert_eq!(buffer.len(), bytes);
        let read = Set::decode(&buffer).unwrap();
        assert_eq!(read, set);
        assert_eq!(read.numbers(2048), members.iter().map(|n| n + 2048).collect::<Vec<_>>());
        assert!((0..SPAN).all(|number| set.contains(number) == members.contains(&number)));
        members.iter().for_each(|number| set.put(*number, false));
        assert!(set.is_empty());
    }

    #[test]
    fn few_are_a_list_and_many_a_bitmap() {
        check([], 0);
        check([0, 63, 64, 1023], 8);
        check(0..63, 126);
        check((0..64).map(|n| n * 16), 128);
        check(0..1024, 128);
    }

    #[test]
    fn what_cannot_be_a_set_is_refused() {
        assert!(Set::decode(&[1]).is_err());
        assert!(Set::decode(&[0xff, 0xff]).is_err());
    }
}
