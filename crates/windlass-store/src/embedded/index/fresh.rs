//! Entries that wait for the next checkpoint, by key.
//!
//! New tasks stand behind all others of their lane and priority. Those are a row that only grows; everything else is in a tree.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::OrderKey;
use crate::embedded::dirty::{ELAPSED_LANE, READY_LANES};

/// In place of the number of an entry that was removed.
const GONE: u64 = u64::MAX;

#[derive(Debug, Default)]
pub(in crate::embedded) struct Fresh {
    /// Of ready tasks, by lane and priority; each by place in line, with the number of the task.
    rows: BTreeMap<(u32, u64), Vec<(u64, u64)>>,
    tree: BTreeMap<OrderKey, u64>,
}

impl Fresh {
    pub(super) fn insert(&mut self, key: OrderKey, seq: u64) {
        let (lane, level, place) = key;
        if lane >= READY_LANES && lane != ELAPSED_LANE {
            let row = self.rows.entry((lane, level)).or_default();
            if row.last().is_none_or(|(last, _)| *last < place) {
                return row.push((place, seq));
            }
        }
        self.tree.insert(key, seq);
    }

    pub(super) fn remove(&mut self, key: &OrderKey) {
        let (lane, level, place) = *key;
        if let Some(row) = self.rows.get_mut(&(lane, level))
            && let Ok(found) = row.binary_search_by_key(&place, |(place, _)| *place)
        {
            row[found].1 = GONE;
            while row.pop_if(|(_, seq)| *seq == GONE).is_some() {}
        }
        self.tree.remove(key);
    }

    /// The first `count` entries with keys in a range are among these.
    pub(super) fn first(
        &self,
        keys: RangeInclusive<OrderKey>,
        count: usize,
    ) -> impl Iterator<Item = (OrderKey, u64)> {
        let (start, end) = (*keys.start(), *keys.end());
        let rows = self.rows.range((start.0, start.1)..=(end.0, end.1));
        let row = rows.flat_map(move |(&(lane, level), row)| {
            let begin = row.partition_point(|(place, _)| (lane, level, *place) < start);
            row[begin..].iter().map(move |(place, seq)| ((lane, level, *place), *seq))
        });
        let row = row.take_while(move |(key, _)| *key <= end).filter(|(_, seq)| *seq != GONE);
        let tree = self.tree.range(keys).map(|(key, seq)| (*key, *seq));
        row.take(count).chain(tree.take(count))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.tree.is_empty()
    }
}

impl Extend<(OrderKey, u64)> for Fresh {
    fn extend<I: IntoIterator<Item = (OrderKey, u64)>>(&mut self, entries: I) {
        entries.into_iter().for_each(|(key, seq)| self.insert(key, seq));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_range_are_found_however_entries_came_and_went() {
        let (mut fresh, mut model) = (Fresh::default(), BTreeMap::new());
        for step in 0..3000_u64 {
            // Mostly in order, on three lanes, one of them of timers; some come before others, some go, some of those come again.
            let lane = READY_LANES - 1 + (step % 3) as u32;
            let key = match step % 7 {
                0..5 => (lane, step % 2, step),
                5 => (lane, step % 2, step * 7919 % (step + 1)),
                _ => (lane, step % 2, (step - step % 31) * 31 % (step + 1)),
            };
            if step % 7 == 6 {
                fresh.remove(&key);
                model.remove(&key);
            } else {
                fresh.insert(key, step);
                model.insert(key, step);
            }
        }
        for from in [(2, 0, 0), (2, 1, 500), (3, 0, 0), (3, 0, 1234), (4, 1, 0)] {
            for (to, count) in
                [((from.0, u64::MAX, u64::MAX), 10), ((from.0, from.1, u64::MAX), 1), ((9, 9, 9), 5000)]
            {
                let found: BTreeMap<_, _> = fresh.first(from..=to, count).collect();
                let found: Vec<_> = found.into_iter().take(count).collect();
                let expected: Vec<_> =
                    model.range(from..=to).take(count).map(|(key, seq)| (*key, *seq)).collect();
                assert_eq!(found, expected, "{from:?} to {to:?}");
            }
        }
        let in_rows: usize = fresh.rows.values().map(Vec::len).sum();
        assert!(in_rows > fresh.tree.len(), "{in_rows}, {}", fresh.tree.len());
        model.keys().for_each(|key| fresh.remove(key));
        assert_eq!(fresh.first((0, 0, 0)..=(9, 9, 9), 5000).count(), 0);
    }
}
