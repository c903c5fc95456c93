//! Waiting that counts as priority.

use proptest::prelude::*;

use super::*;

const STEP: u64 = 1000;

fn ageing() -> Option<Limit> {
    Some(Limit { ageing: Some(Ageing { every_ms: STEP }), ..Limit::default() })
}

/// Whose turn it is when a task of priority 50 was added at 0 and one of 100 (of these keys) at this time.
fn first_of(second_at: u64, keys: [Option<&str>; 2]) -> usize {
    let mut bench = Bench::new(1);
    bench.set_limit(Scope::Queue, "q0", ageing(), 0);
    let low = bench.add(0, "t", keys[0], 205);
    bench.now = second_at;
    let high = bench.add(0, "t", keys[1], 155);
    let served = bench.claim(0, None, second_at).unwrap();
    [low, high].iter().position(|id| *id == served).unwrap()
}

#[test]
fn a_step_of_priority_is_worth_its_stretch_of_waiting() {
    for keys in
        [[None, None], [Some("a"), None], [None, Some("b")], [Some("a"), Some("b")], [Some("a"), Some("a")]]
    {
        assert_eq!(first_of(49 * STEP, keys), 1, "{keys:?}: it has not waited long enough");
        assert_eq!(first_of(50 * STEP, keys), 1, "{keys:?}: of equals the higher priority goes first");
        assert_eq!(first_of(50 * STEP + 1, keys), 0, "{keys:?}");
    }
}

/// One task of high priority comes and one is served with every tick: there is always one waiting.
fn served_among_a_flood(limit: Option<Limit>, keyed: bool) -> Option<u64> {
    let mut bench = Bench::new(1);
    if let Some(limit) = limit {
        bench.set_limit(Scope::Queue, "q0", Some(limit), 0);
    }
    let low = bench.add(0, "t", keyed.then_some("low"), 255);
    for tick in 0..1000 {
        bench.now = tick * STEP;
        bench.add(0, ["t", "u"][tick as usize % 2], keyed.then_some("flood"), 0);
        let served = bench.claim(0, None, bench.now).unwrap();
        bench.end(served, false);
        if served == low {
            return Some(tick);
        }
    }
    None
}

#[test]
fn without_ageing_the_low_one_starves_and_with_it_it_does_not() {
    for keyed in [false, true] {
        assert_eq!(served_among_a_flood(None, keyed), None);
        assert_eq!(served_among_a_flood(Some(Limit::default()), keyed), None);
        assert_eq!(served_among_a_flood(ageing(), keyed), Some(256), "after every step that it lacks");
    }
}

#[test]
fn it_is_set_changed_and_removed_with_tasks_in_line() {
    let mut bench = Bench::new(2);
    for key in [None, Some("k")] {
        for priority in [200, 100, 0] {
            bench.add(0, "t", key, priority);
            bench.add(1, "t", key, priority);
            bench.now += STEP;
        }
    }
    let order = |bench: &mut Bench, queue: u32| {
        let mut order = Vec::new();
        while let Some(id) = bench.claim(queue, None, bench.now) {
            order.push(bench.tasks[&id].place.0);
        }
        order
    };
    bench.set_limit(
        Scope::Queue,
        "q0",
        Some(Limit { ageing: Some(Ageing { every_ms: 1 }), ..Limit::default() }),
        0,
    );
    bench.set_limit(Scope::Queue, "q1", ageing(), 0);
    assert!(bench.flow.has_ageing());
    assert_eq!(
        order(&mut bench, 0),
        [200, 100, 0, 200, 100, 0],
        "next to nothing for a step: first in, first out"
    );
    bench.set_limit(Scope::Queue, "q0", None, 0);
    bench.set_limit(Scope::Queue, "q1", None, 0);
    assert!(!bench.flow.has_ageing());
    assert_eq!(order(&mut bench, 1), [0, 0, 100, 100, 200, 200]);
    assert!(bench.flow.lines.iter().all(|(_, line)| line.heads.is_empty() && line.tops.is_empty()));
}

#[test]
fn keys_share_a_priority_as_ever() {
    let mut bench = Bench::new(1);
    bench.set_limit(Scope::Queue, "q0", ageing(), 0);
    for _ in 0..50 {
        bench.add(0, "t", Some("large"), 155);
    }
    for _ in 0..5 {
        bench.add(0, "t", Some("small"), 155);
        bench.add(0, "t", Some("small"), 205);
    }
    let mut order = Vec::new();
    while let Some(id) = bench.claim(0, None, 0) {
        order.push((bench.key_of(id).unwrap().to_owned(), bench.tasks[&id].place.0));
        bench.end(id, false);
    }
    let last = order.iter().rposition(|(key, level)| key == "small" && *level == 155).unwrap();
    assert!(last < 12, "{last}: {order:?}");
    assert!(order[55..].iter().all(|(_, level)| *level == 205), "{order:?}");
}

proptest! {
    /// Nobody is overtaken by what got ready later than the steps that it lacks are worth: the bound on waiting.
    #[test]
    fn who_comes_too_late_overtakes_nobody(
        tasks in prop::collection::vec((0u64..256, 0u64..40_000, 0usize..3), 1..80),
        every_ms in 1u64..400,
    ) {
        let mut bench = Bench::new(1);
        let limit = Limit { ageing: Some(Ageing { every_ms }), ..Limit::default() };
        bench.set_limit(Scope::Queue, "q0", Some(limit), 0);
        let mut served = Vec::new();
        for (priority, after, kind) in tasks {
            bench.now += after;
            bench.add(0, ["t", "u", "v"][kind], None, priority);
            if kind == 0 && let Some(id) = bench.claim(0, None, bench.now) {
                served.push(bench.tasks[&id].clone());
            }
        }
        while let Some(id) = bench.claim(0, None, bench.now) {
            served.push(bench.tasks[&id].clone());
        }
        for (i, early) in served.iter().enumerate() {
            for late in &served[i + 1..] {
                let worth = early.place.0.saturating_sub(late.place.0) * every_ms;
                let overtaken = late.ready_at + worth < early.ready_at && early.place.0 >= late.place.0;
                prop_assert!(!overtaken, "{late:?} was overtaken by {early:?}");
                let lacks = late.place.0.saturating_sub(early.place.0) * every_ms;
                prop_assert!(early.ready_at <= late.ready_at + lacks, "{early:?} overtook {late:?}");
            }
        }
    }
}
