//! Rates.

use proptest::prelude::*;

use super::*;

/// Starts of one who takes every token as soon as it is there, looking at these moments.
fn greedy(rate: Rate, moments: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut window = Window::default();
    let mut starts = Vec::new();
    for now in moments {
        while window.next(rate, now).is_none() {
            window.take(rate, now);
            starts.push(now);
        }
    }
    starts
}

/// The most starts in any stretch of the window's length.
fn densest(starts: &[u64], per_ms: u64) -> usize {
    let within = |i: usize| starts[i..].iter().take_while(|at| **at < starts[i] + per_ms).count();
    (0..starts.len()).map(within).max().unwrap_or(0)
}

#[test]
fn a_rate_is_used_and_never_exceeded() {
    for (count, per_ms) in [(1, 1000), (7, 1000), (100, 1000), (5000, 60_000), (3, 50)] {
        let rate = Rate { count, per_ms };
        let starts = greedy(rate, (0..20 * per_ms).step_by(7));
        assert!(densest(&starts, per_ms) <= count as usize, "{rate:?}");
        let used = starts.len() as f64 / (20.0 * f64::from(count));
        // Looking only every seven milliseconds costs something where the window is short.
        let floor = 0.98 - 14.0 / per_ms as f64;
        assert!(used >= floor, "{rate:?}: {used}");
    }
}

#[test]
fn the_next_token_comes_when_it_was_said() {
    let rate = Rate { count: 2, per_ms: 1000 };
    let mut window = Window::default();
    window.take(rate, 100);
    window.take(rate, 600);
    assert_eq!(window.next(rate, 700), Some(1100));
    assert_eq!(window.next(rate, 1099), Some(1100));
    assert_eq!(window.next(rate, 1100), None);
    // With a smaller count more of them have to be over.
    assert_eq!(window.next(Rate { count: 1, ..rate }, 1100), Some(1600));
}

#[test]
fn a_clock_that_is_set_back_blocks_nobody_for_long() {
    let rate = Rate { count: 1, per_ms: 1000 };
    let mut window = Window::default();
    window.take(rate, 1_000_000);
    assert_eq!(window.next(rate, 5000), Some(6000));
    let mut bench = Bench::new(1);
    bench.flow.set_limit(Scope::Queue, &name("q0"), Some(Limit { rate: Some(rate), ..Limit::default() }), 0);
    for _ in 0..3 {
        bench.add(0, "t", None, 155);
    }
    assert!(bench.claim(0, None, 1_000_000).is_some());
    assert!(bench.claim(0, None, 5000).is_none());
    assert!(!bench.flow.is_due(5999) && bench.flow.is_due(6000));
    assert!(bench.claim(0, None, 6000).is_some());
}

#[test]
fn what_is_due_is_told_where_something_is_ready_and_within_bounds() {
    let mut bench = Bench::new(1);
    let rate = Limit { rate: Some(Rate { count: 1, per_ms: 1000 }), ..Limit::default() };
    for i in 0..10 {
        let key = format!("key-{i}");
        bench.flow.set_limit(Scope::Key, &name(&key), Some(rate), 0);
        bench.add(0, "t", Some(&key), 155);
        assert!(bench.claim(0, None, 0).is_some());
    }
    assert_eq!(bench.flow.take_alarmed(), Some(1000));
    assert_eq!(bench.flow.take_alarmed(), None);
    assert_eq!(bench.flow.due(999, 100), Some(vec![]));
    assert_eq!(bench.flow.due(1000, 100), Some(vec![]), "nothing is ready");
    bench.add(0, "t", Some("key-7"), 155);
    assert_eq!(bench.flow.due(1000, 100), Some(vec![Opened::Lane(0)]));
    assert_eq!(bench.flow.due(1000, 19), None);
    assert!(bench.claim(0, None, 1000).is_some());
    assert_eq!(bench.flow.due(1000, 100), Some(vec![]));
    assert_eq!(bench.flow.take_alarmed(), Some(2000));
}

#[test]
fn a_window_is_bounded_whatever_its_rate() {
    let rate = Rate { count: 1_000_000, per_ms: 60_000 };
    let mut window = Window::default();
    (0..600_000).for_each(|i| window.take(rate, i / 10));
    assert!(window.entries().count() <= 101, "{}", window.entries().count());
}

proptest! {
    #[test]
    fn no_stretch_holds_more_than_the_rate(
        count in 1u32..50,
        per_ms in 1u64..5000,
        steps in prop::collection::vec((0u64..500, 1u32..20), 1..200),
    ) {
        let rate = Rate { count, per_ms };
        let (mut window, mut now, mut starts) = (Window::default(), 0, Vec::new());
        for (step, wanted) in steps {
            now += step;
            for _ in 0..wanted {
                if window.next(rate, now).is_none() {
                    window.take(rate, now);
                    starts.push(now);
                }
            }
            window = Window::restore(window.entries().collect::<Vec<_>>(), window.began());
        }
        prop_assert!(densest(&starts, per_ms) <= count as usize);
    }
}
