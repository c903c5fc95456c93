//! How many values of which size there were, in fixed memory and with no allocation per value.
//!
//! Buckets are linear within each power of two, sixteen to it, so a quantile is off by a sixteenth of its value at most. A
//! value is a whole number of whatever unit the owner measures in. Every power of two is the lower edge of a bucket, so
//! [`Histogram::below`] is exact there, which is what a cumulative histogram for others is made of.

/// Values at or above are counted as one less: 19 hours of microseconds, two years of milliseconds.
const VALUE_END: u64 = 1 << 36;
/// Sixteen buckets to a power of two.
const FINE_BITS: u32 = 4;
const FINE: u64 = 1 << FINE_BITS;

pub const BUCKETS: usize = bucket(VALUE_END - 1) + 1;

/// The bucket of a value.
pub const fn bucket(value: u64) -> usize {
    let value = if value < VALUE_END { value } else { VALUE_END - 1 };
    if value < FINE {
        return value as usize;
    }
    let power = value.ilog2();
    let within = (value >> (power - FINE_BITS)) & (FINE - 1);
    ((power - FINE_BITS + 1) as u64 * FINE + within) as usize
}

/// The least value of a bucket.
const fn edge(bucket: usize) -> u64 {
    let (row, within) = (bucket as u64 / FINE, bucket as u64 % FINE);
    if row == 0 { within } else { (FINE + within) << (row - 1) }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: Box<[u64; BUCKETS]>,
    sum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: Box::new([0; BUCKETS]), sum: 0 }
    }
}

impl Histogram {
    /// From counts that somebody else kept by [`bucket`].
    pub fn from_counts(counts: impl Iterator<Item = u64>, sum: u64) -> Histogram {
        let mut histogram = Histogram { sum, ..Histogram::default() };
        histogram.buckets.iter_mut().zip(counts).for_each(|(bucket, count)| *bucket = count);
        histogram
    }

    pub fn observe(&mut self, value: u64) {
        self.buckets[bucket(value)] += 1;
        self.sum += value;
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// How many values are smaller; exact for powers of two.
    pub fn below(&self, value: u64) -> u64 {
        self.buckets[..bucket(value)].iter().sum()
    }

    /// The values that shares of those since an earlier look lie at or below, for instance `[0.5, 0.99]`; `None` if there were
    /// none. A value within its bucket is taken to lie where its rank says.
    pub fn quantiles_since<const N: usize>(&self, earlier: &Histogram, shares: [f64; N]) -> Option<[f64; N]> {
        let since = |at: usize| self.buckets[at].saturating_sub(earlier.buckets[at]);
        let total: u64 = (0..BUCKETS).map(since).sum();
        if total == 0 {
            return None;
        }
        Some(shares.map(|share| {
            let rank = (share * total as f64).max(1.0);
            let mut before = 0.0;
            for at in 0..BUCKETS {
                let count = since(at) as f64;
                if count > 0.0 && before + count >= rank {
                    let (low, high) = (edge(at), edge(at + 1) - 1);
                    return low as f64 + (high - low) as f64 * (rank - before) / count;
                }
                before += count;
            }
            (VALUE_END - 1) as f64
        }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_value_lies_between_the_edges_of_its_bucket() {
        for at in 0..BUCKETS {
            assert_eq!((bucket(edge(at)), bucket(edge(at + 1) - 1)), (at, at));
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        for power in 0..36 {
            assert_eq!(edge(bucket(1 << power)), 1 << power, "a power of two is an edge");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_values_since_the_earlier_look() {
        let mut histogram = Histogram::default();
        (0..50).for_each(|_| histogram.observe(1_000_000));
        let earlier = histogram.clone();
        assert_eq!(histogram.quantiles_since(&earlier, [0.5]), None);
        (1..=10).for_each(|value| histogram.observe(value));
        assert_eq!(histogram.quantiles_since(&earlier, [0.5, 1.0]), Some([5.0, 10.0]));
        assert_eq!((histogram.count(), histogram.sum()), (60, 50_000_055));
        assert_eq!((histogram.below(8), histogram.below(1 << 20)), (7, 60));
    }

    proptest! {
        #[test]
        fn a_quantile_is_near_the_real_one(
            mut values in proptest::collection::vec(0u64..1_000_000_000, 1..200),
            share in 0.01f64..1.0,
        ) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|value| histogram.observe(*value));
            values.sort_unstable();
            let rank = (share * values.len() as f64).ceil().max(1.0) as usize;
            let real = values[rank - 1] as f64;
            let [told] = histogram.quantiles_since(&Histogram::default(), [share]).unwrap();
            prop_assert!((told - real).abs() <= real / 16.0 + 1e-6, "{told} for {real}");
        }
    }
}
