//! Which queue a worker is served from when it listens to several.

use crate::ids::Name;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A queue's chance is its share of the weights of the queues that have work.
    Weighted,
    /// The first listed queue that has work.
    Strict,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    pub name: Name,
    pub weight: u32,
}

/// A small generator for choices that must come out the same when a claim is replayed.
#[derive(Debug, Clone)]
pub struct Draws(u64);

impl Draws {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// SplitMix64: every seed gives a full-period, well-mixed sequence.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Picks one of the queues that have work: `has_work(i)` tells for the i-th. `None` if none has.
pub fn pick(
    mode: Mode,
    queues: &[Queue],
    draws: &mut Draws,
    mut has_work: impl FnMut(usize) -> bool,
) -> Option<usize> {
    let mut ready = (0..queues.len()).filter(|&i| has_work(i));
    match mode {
        Mode::Strict => ready.next(),
        Mode::Weighted => {
            let first = ready.next()?;
            let rest: Vec<usize> = ready.collect();
            if rest.is_empty() {
                return Some(first);
            }
            let all = || std::iter::once(first).chain(rest.iter().copied());
            let weight = |i: usize| u64::from(queues[i].weight.max(1));
            let mut point = draws.next_u64() % all().map(weight).sum::<u64>();
            for i in all() {
                if point < weight(i) {
                    return Some(i);
                }
                point -= weight(i);
            }
            Some(first)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(weights: &[u32]) -> Vec<Queue> {
        let name = |i: usize| Name::new(&format!("q{i}")).unwrap();
        weights.iter().enumerate().map(|(i, &weight)| Queue { name: name(i), weight }).collect()
    }

    #[test]
    fn weights_become_shares() {
        let queues = queues(&[6, 3, 1]);
        let mut draws = Draws::new(7);
        let mut served = [0u32; 3];
        for _ in 0..10_000 {
            served[pick(Mode::Weighted, &queues, &mut draws, |_| true).unwrap()] += 1;
        }
        for (got, want) in served.iter().zip([6000i64, 3000, 1000]) {
            assert!((i64::from(*got) - want).abs() < 300, "{served:?}");
        }
    }

    #[test]
    fn only_queues_with_work_are_picked() {
        let queues = queues(&[6, 3, 1]);
        let mut draws = Draws::new(7);
        for _ in 0..100 {
            assert_eq!(pick(Mode::Weighted, &queues, &mut draws, |i| i == 2), Some(2));
        }
        assert_eq!(pick(Mode::Strict, &queues, &mut draws, |i| i > 0), Some(1));
        assert_eq!(pick(Mode::Strict, &queues, &mut draws, |_| false), None);
        assert_eq!(pick(Mode::Weighted, &queues, &mut draws, |_| false), None);
    }
}
