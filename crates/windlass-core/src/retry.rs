//! How long to wait before the next attempt. To add a policy: a variant here, its word in [`Kind::parse`], its line in
//! [`Policy::delay_ms`]; nothing else in the system does this arithmetic.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `initial × factor^(n-1)`
    Exponential,
    /// `initial × n^factor`
    Polynomial,
    /// `initial`
    Fixed,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Exponential, Kind::Polynomial, Kind::Fixed];

    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Exponential => "exponential",
            Kind::Polynomial => "polynomial",
            Kind::Fixed => "fixed",
        }
    }

    pub fn parse(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// The default is exponential: 1 s, doubled up to 5 minutes, ±10 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    pub kind: Kind,
    pub initial_ms: u64,
    pub factor: f64,
    pub max_ms: u64,
    /// The part of the delay that is random, 0–1: 0.1 means ±10 %.
    pub jitter: f64,
}

impl Default for Policy {
    fn default() -> Self {
        Self { kind: Kind::Exponential, initial_ms: 1000, factor: 2.0, max_ms: 300_000, jitter: 0.1 }
    }
}

impl Policy {
    /// The delay before the retry that follows the `failures`-th failure (from 1). `random` is in 0–1.
    pub fn delay_ms(&self, failures: u32, random: f64) -> u64 {
        // Zero times a factor beyond what a float holds is not a number, and would end as the ceiling.
        if self.initial_ms == 0 {
            return 0;
        }
        let n = f64::from(failures.max(1));
        let initial = self.initial_ms as f64;
        let plain = match self.kind {
            Kind::Exponential => initial * self.factor.powf(n - 1.0),
            Kind::Polynomial => initial * n.powf(self.factor),
            Kind::Fixed => initial,
        };
        let capped = plain.min(self.max_ms as f64);
        let spread = 1.0 + self.jitter * (2.0 * random.clamp(0.0, 1.0) - 1.0);
        // Jitter may not lift a delay over the ceiling; a float beyond u64 saturates in the cast.
        (capped * spread).min(self.max_ms as f64).max(0.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(policy: Policy, expected: [u64; 4]) {
        let exact = Policy { jitter: 0.0, ..policy };
        assert_eq!([1, 2, 3, 20].map(|n| exact.delay_ms(n, 0.5)), expected);
    }

    #[test]
    fn delays_of_the_known_policies() {
        let policy = Policy::default();
        check(policy, [1000, 2000, 4000, 300_000]);
        check(Policy { kind: Kind::Polynomial, initial_ms: 500, ..policy }, [500, 2000, 4500, 200_000]);
        check(Policy { kind: Kind::Fixed, initial_ms: 700, ..policy }, [700; 4]);
        check(Policy { initial_ms: 0, factor: 1e30, ..policy }, [0; 4]);
        check(Policy { initial_ms: 5000, max_ms: 3_600_000, ..policy }, [5000, 10_000, 20_000, 3_600_000]);
    }

    proptest! {
        #[test]
        fn a_delay_stays_within_jitter_and_ceiling(
            kind in prop::sample::select(Kind::ALL.to_vec()), initial_ms in 0u64..10_000_000, factor in 0.0f64..100.0,
            max_ms in 0u64..100_000_000, jitter in 0.0f64..=1.0, failures in 0u32..=u32::MAX, random in 0.0f64..=1.0,
        ) {
            let policy = Policy { kind, initial_ms, factor, max_ms, jitter };
            let exact = Policy { jitter: 0.0, ..policy }.delay_ms(failures, random) as f64;
            let delay = policy.delay_ms(failures, random);
            prop_assert!(delay <= max_ms);
            prop_assert!(delay as f64 <= exact * (1.0 + jitter) + 1.0);
            prop_assert!(delay as f64 + 1.0 >= (exact * (1.0 - jitter)).min(max_ms as f64));
        }
    }
}
