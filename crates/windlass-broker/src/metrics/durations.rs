//! How long tasks of one type took, in the buckets that a scraper sees.

/// The upper bounds of the buckets; the last bucket has none.
pub const BOUNDS_MS: [u64; 16] =
    [1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000, 1_800_000];

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Durations {
    /// Not cumulative: the i-th holds what is above the bound before and at most [`BOUNDS_MS`]`[i]`.
    pub buckets: [u64; BOUNDS_MS.len() + 1],
    pub sum_ms: u64,
}

impl Durations {
    pub(crate) fn observe(&mut self, ms: u64) {
        self.buckets[BOUNDS_MS.partition_point(|bound| *bound < ms)] += 1;
        self.sum_ms += ms;
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lands_in_the_bucket_whose_bound_it_does_not_exceed() {
        let mut durations = Durations::default();
        [0, 1, 2, 1_800_000, 1_800_001].into_iter().for_each(|ms| durations.observe(ms));
        assert_eq!(durations.buckets[0], 2);
        assert_eq!(durations.buckets[1], 1);
        assert_eq!(durations.buckets[15], 1);
        assert_eq!(durations.buckets[16], 1);
        assert_eq!((durations.count(), durations.sum_ms), (5, 3_600_004));
    }
}
