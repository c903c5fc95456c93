//! Who gets how much.

use std::collections::HashMap;

use super::*;

/// Serves until nothing is left or `most` were served, and returns the keys in order.
fn drain(bench: &mut Bench, kinds: Option<&[&str]>, most: usize) -> Vec<String> {
    let mut order = Vec::new();
    while order.len() < most
        && let Some(id) = bench.claim(0, kinds, 0)
    {
        order.push(bench.key_of(id).unwrap_or("-").to_owned());
        bench.end(id, false);
    }
    order
}

fn weigh(bench: &mut Bench, key: &str, weight: u32) {
    bench.flow.set_limit(Scope::Key, &name(key), Some(Limit { weight, ..Limit::default() }), 0);
}

#[test]
fn small_tenants_finish_as_if_the_large_one_were_not_there() {
    let mut bench = Bench::new(1);
    for _ in 0..100_000 {
        bench.add(0, "t", Some("large"), 155);
    }
    for tenant in 0..99 {
        for _ in 0..10 {
            bench.add(0, "t", Some(&format!("small-{tenant}")), 155);
        }
    }
    let order = drain(&mut bench, None, usize::MAX);
    assert_eq!(order.len(), 100_990);
    let last = order.iter().rposition(|key| key != "large").unwrap();
    // Ten rounds of a hundred tenants, and one more for those who came into a round that was under way.
    assert!(last < 1100, "the last small one was served as number {last}");
    assert_eq!(bench.flow.share_count(), 0);
    assert!(bench.flow.key_numbers.is_empty(), "keys without tasks and limits are forgotten");
    assert!(bench.flow.lines[0].rounds.is_empty() && bench.flow.lanes[0].rounds.is_empty());
}

#[test]
fn shares_follow_the_weights_while_all_have_work() {
    let mut bench = Bench::new(1);
    for (key, weight) in [("a", 6), ("b", 3), ("c", 1)] {
        weigh(&mut bench, key, weight);
        for _ in 0..8000 {
            bench.add(0, "t", Some(key), 155);
        }
    }
    let order = drain(&mut bench, None, 10_000);
    let mut counts: HashMap<&str, f64> = HashMap::new();
    order.iter().for_each(|key| *counts.entry(key).or_default() += 1.0);
    for (key, want) in [("a", 0.6), ("b", 0.3), ("c", 0.1)] {
        let share = counts[key] / order.len() as f64;
        assert!((share / want - 1.0).abs() < 0.03, "{counts:?}");
    }
    // Smooth, too: no ten in a row are far from it.
    for ten in order.chunks(10) {
        assert!(ten.iter().filter(|key| *key == "a").count() <= 8, "{ten:?}");
    }
}

#[test]
fn a_new_weight_counts_from_the_next_task_on() {
    let mut bench = Bench::new(1);
    for key in ["a", "b"] {
        for _ in 0..2000 {
            bench.add(0, "t", Some(key), 155);
        }
    }
    let of_a = |order: &[String]| order.iter().filter(|key| *key == "a").count();
    assert_eq!(of_a(&drain(&mut bench, None, 1000)), 500);
    weigh(&mut bench, "a", 3);
    let share = of_a(&drain(&mut bench, None, 1000));
    assert!((745..=755).contains(&share), "{share}");
}

#[test]
fn tasks_without_a_key_keep_their_order_and_are_one_party() {
    let mut bench = Bench::new(1);
    let ids: Vec<u64> = (0..20).map(|i| bench.add(0, ["t", "u"][i % 2], None, 155)).collect();
    for _ in 0..20 {
        bench.add(0, "t", Some("k"), 155);
    }
    let mut plain = Vec::new();
    let mut order = String::new();
    while let Some(id) = bench.claim(0, None, 0) {
        if bench.key_of(id).is_none() {
            plain.push(id);
        }
        order.push(if bench.key_of(id).is_some() { 'k' } else { '-' });
        bench.end(id, false);
    }
    assert_eq!(plain, ids, "first in, first out, over types");
    // The key comes into a round that has begun, and then they take turns.
    assert!(!order[2..38].contains("kk") && !order[2..38].contains("--"), "{order}");
}

#[test]
fn priority_goes_before_any_share() {
    let mut bench = Bench::new(1);
    for _ in 0..10 {
        bench.add(0, "t", Some("a"), 155);
    }
    for _ in 0..10 {
        bench.add(0, "t", Some("b"), 55);
    }
    bench.add(0, "t", None, 5);
    let order = drain(&mut bench, None, usize::MAX).join("");
    assert_eq!(order, format!("-{}{}", "b".repeat(10), "a".repeat(10)));
}

#[test]
fn one_key_in_two_types_has_one_share() {
    let mut bench = Bench::new(1);
    for _ in 0..1000 {
        bench.add(0, "t", Some("both"), 155);
        bench.add(0, "u", Some("both"), 155);
        bench.add(0, "t", Some("one"), 155);
    }
    let order = drain(&mut bench, None, 1000);
    let both = order.iter().filter(|key| *key == "both").count();
    assert!((498..=502).contains(&both), "{both}");
}

#[test]
fn workers_of_one_type_push_back_nobody_in_another() {
    let mut bench = Bench::new(1);
    weigh(&mut bench, "b", 3);
    for _ in 0..3000 {
        for key in ["a", "b"] {
            bench.add(0, "fast", Some(key), 155);
            bench.add(0, "slow", Some(key), 155);
        }
    }
    let mut slow = Vec::new();
    for _ in 0..100 {
        drain(&mut bench, Some(&["fast"]), 20);
        slow.extend(drain(&mut bench, Some(&["slow"]), 1));
    }
    // The weights hold in the slow type, however far the fast one has come.
    let of_b = slow.iter().filter(|key| *key == "b").count();
    assert!((72..=78).contains(&of_b), "{of_b}");
    // One who comes new to the slow type waits for about a round, not for all that the fast one has done.
    bench.add(0, "slow", Some("new"), 155);
    assert!(drain(&mut bench, Some(&["slow"]), 6).iter().any(|key| key == "new"));
}

#[test]
fn tasks_without_a_key_of_one_type_pay_for_no_other() {
    let mut bench = Bench::new(1);
    for _ in 0..1000 {
        bench.add(0, "mail", None, 155);
        bench.add(0, "report", Some("a"), 155);
        bench.add(0, "report", Some("b"), 155);
        bench.add(0, "report", None, 155);
    }
    drain(&mut bench, Some(&["mail"]), 500);
    let order = drain(&mut bench, Some(&["report"]), 300);
    let plain = order.iter().filter(|key| *key == "-").count();
    assert!((98..=102).contains(&plain), "{plain} of 300");
}

#[test]
fn tasks_without_a_key_are_one_party_for_workers_of_some_types() {
    let mut bench = Bench::new(1);
    for _ in 0..1000 {
        for kind in ["t", "u"] {
            bench.add(0, kind, None, 155);
            bench.add(0, kind, Some("k"), 155);
        }
        // No key has tasks of this type.
        bench.add(0, "v", None, 155);
    }
    for kinds in [&["t", "u"][..], &["t", "v"], &["t", "u", "v"]] {
        let order = drain(&mut bench, Some(kinds), 400);
        let plain = order.iter().filter(|key| *key == "-").count();
        assert!((197..=203).contains(&plain), "{kinds:?}: {plain} of 400");
    }
}

#[test]
fn fast_workers_of_one_type_starve_nobody_without_a_key_in_another() {
    let mut bench = Bench::new(1);
    for _ in 0..3000 {
        bench.add(0, "fast", Some("k"), 155);
        bench.add(0, "slow", Some("l"), 155);
        bench.add(0, "slow", None, 155);
    }
    let mut order = Vec::new();
    for _ in 0..100 {
        drain(&mut bench, Some(&["fast"]), 20);
        order.extend(drain(&mut bench, Some(&["fast", "slow"]), 1));
    }
    let plain = order.iter().filter(|key| *key == "-").count();
    assert!((48..=52).contains(&plain), "{plain}: {order:?}");
}

#[test]
fn a_store_that_keeps_nothing_notes_nothing() {
    let mut bench = Bench::new(1);
    bench.flow.transient = true;
    for i in 0..100 {
        let key = format!("key-{i}");
        weigh(&mut bench, &key, 2);
        bench.add(0, "t", Some(&key), 155);
        assert_eq!(drain(&mut bench, None, 2), [key.as_str()]);
        bench.flow.set_limit(Scope::Key, &name(&key), None, 0);
    }
    assert!(bench.flow.changed.shares.is_empty() && bench.flow.changed.gates.is_empty());
}

#[test]
fn the_gate_of_a_type_looks_only_where_something_is_ready() {
    let mut bench = Bench::new(100);
    for queue in 0..100 {
        let id = bench.add(queue, "t", [None, Some("k")][queue as usize % 2], 155);
        if queue >= 3 {
            bench.end(id, false);
        }
    }
    let cap = Limit { max_concurrency: Some(1), ..Limit::default() };
    bench.flow.set_limit(Scope::Type, &name("t"), Some(cap), 0);
    let first = bench.claim(0, None, 0).unwrap();
    assert_eq!(bench.flow.kinds[0].lanes, [1, 2].into(), "the lanes that had tasks are forgotten");
    assert_eq!([bench.claim(1, None, 0), bench.claim(2, None, 0)], [None, None]);
    // What becomes ready behind a closed gate is found when it opens.
    let late = bench.add(50, "t", None, 155);
    bench.flow.take_opened();
    bench.end(first, false);
    assert_eq!(bench.flow.take_opened(), [Opened::Lane(1), Opened::Lane(2), Opened::Lane(50)]);
    assert_eq!(bench.claim(50, None, 0), Some(late));
}

#[test]
fn a_blocked_key_leaves_no_trace_in_the_order() {
    let mut bench = Bench::new(1);
    let cap = Limit { max_concurrency: Some(2), ..Limit::default() };
    bench.flow.set_limit(Scope::Key, &name("k"), Some(cap), 0);
    let ids: Vec<u64> = (0..1000).map(|_| bench.add(0, "t", Some("k"), 155)).collect();
    assert_eq!([bench.claim(0, None, 0), bench.claim(0, None, 0)], [Some(ids[0]), Some(ids[1])]);
    assert_eq!(bench.claim(0, None, 0), None);
    assert!(bench.flow.lanes[0].ranks.is_empty() && bench.flow.lines[0].tops.is_empty());
    let other = bench.add(0, "t", Some("other"), 155);
    assert_eq!(bench.claim(0, None, 0), Some(other));
    bench.flow.take_opened();
    bench.end(ids[1], false);
    assert_eq!(bench.flow.take_opened(), [Opened::Lane(0)]);
    assert_eq!(bench.claim(0, None, 0), Some(ids[2]));
    bench.flow.set_limit(Scope::Key, &name("k"), None, 0);
    assert_eq!(bench.claim(0, None, 0), Some(ids[3]));
}

#[test]
fn the_room_of_a_queue_is_what_its_limit_has_left() {
    let mut bench = Bench::new(1);
    for _ in 0..4 {
        bench.add(0, "t", None, 155);
    }
    assert_eq!(bench.flow.room(0), None);
    let mut limit = Limit { max_concurrency: Some(3), ..Limit::default() };
    bench.flow.set_limit(Scope::Queue, &name("q0"), Some(limit), 0);
    assert_eq!(bench.flow.room(0), Some(3));
    assert!(bench.claim(0, None, 0).is_some());
    assert_eq!(bench.flow.room(0), Some(2));
    limit.rate = Some(Rate { count: 1, per_ms: 1000 });
    bench.flow.set_limit(Scope::Queue, &name("q0"), Some(limit), 0);
    assert_eq!(bench.flow.room(0), Some(1));
    assert!(bench.claim(0, None, 0).is_some());
    assert_eq!(bench.flow.room(0), None, "it is closed, and what opens it tells");
}

#[test]
fn limits_that_come_and_go_leave_nothing_behind() {
    let mut bench = Bench::new(1);
    let cap = Limit { max_concurrency: Some(1), ..Limit::default() };
    for i in 0..100 {
        for scope in Scope::ALL {
            let text = name(&format!("name-{i}"));
            assert!(!bench.flow.set_limit(scope, &text, Some(cap), 0));
            assert!(bench.flow.status(scope, &text).is_some());
            assert!(bench.flow.set_limit(scope, &text, None, 0));
        }
    }
    let flow = &bench.flow;
    assert_eq!((flow.lines.len(), flow.kinds.len(), flow.keys.len()), (1, 0, 1));
    assert!(flow.kind_numbers.is_empty() && flow.key_numbers.is_empty() && flow.absents.is_empty());
}

#[test]
fn a_limit_waits_for_its_queue() {
    let mut bench = Bench::new(1);
    let cap = Limit { max_concurrency: Some(1), ..Limit::default() };
    bench.flow.set_limit(Scope::Queue, &name("q1"), Some(Limit { max_concurrency: Some(9), ..cap }), 0);
    assert!(bench.flow.set_limit(Scope::Queue, &name("q1"), Some(cap), 0));
    let mut saved = Saved::default();
    bench.restart(&mut saved);
    bench.flow.add_queue(1, &name("q1"));
    for _ in 0..2 {
        bench.add(1, "t", None, 155);
    }
    assert_eq!(bench.flow.status(Scope::Queue, &name("q1")).map(|it| it.waiting), Some(2));
    assert!(bench.claim(1, None, 0).is_some());
    assert!(bench.claim(1, None, 0).is_none());
    assert!(bench.flow.set_limit(Scope::Queue, &name("q1"), None, 0));
    assert!(bench.claim(1, None, 0).is_some());
}
