//! Who gets how much when there is much.

use std::collections::HashMap;

use windlass_core::flow::{Limit, Scope};

use super::Harness;
use super::flow::{many, of_key};

const SMALL: usize = 99;
const EACH: usize = 10;

pub async fn weights_become_shares_of_a_queue(h: &mut Harness) {
    for (key, weight) in [("a", 6), ("b", 3), ("c", 1)] {
        h.set(Scope::Key, key, Limit { weight, ..Limit::default() }).await;
        h.add_of(key, 300).await;
    }
    let mut counts: HashMap<String, f64> = HashMap::new();
    for _ in 0..40 {
        for task in h.take(many(10)).await {
            *counts.entry(task.record.key.as_ref().expect("a key").to_string()).or_default() += 1.0;
        }
    }
    for (key, share) in [("a", 240.0), ("b", 120.0), ("c", 40.0)] {
        assert!((counts[key] / share - 1.0).abs() <= 0.03, "{counts:?}");
    }
}

pub async fn small_tenants_finish_as_if_alone(h: &mut Harness) {
    among_a_large_one(h, 2000).await;
}

/// One tenant has `large` tasks and was first; 99 others have ten each. They are done when everybody has had ten turns.
pub async fn among_a_large_one(h: &mut Harness, large: usize) {
    const BATCH: usize = 1000;
    for first in (0..large).step_by(BATCH) {
        let some = first..large.min(first + BATCH);
        h.add(some.map(|i| of_key(h, &format!("large-{i}"), "large")).collect()).await;
    }
    let small = |i: usize| of_key(h, &format!("small-{i}"), &format!("tenant-{}", i % SMALL));
    h.add((0..SMALL * EACH).map(small).collect()).await;
    let mut served: HashMap<String, usize> = HashMap::new();
    let mut started = 0;
    while served.values().filter(|count| **count == EACH).count() < SMALL {
        let tasks = h.take(many(100)).await;
        assert_eq!(tasks.len(), 100, "there is work for everybody");
        started += tasks.len();
        for task in &tasks {
            let key = task.record.key.as_ref().expect("all have a key").as_str();
            if key != "large" {
                *served.entry(key.to_owned()).or_default() += 1;
            }
        }
        h.complete_all(&tasks).await;
        // Ten rounds of a hundred, one for those who came into a round that was under way, and the rest of a claim.
        assert!(started <= 1200, "{started} have started, and of the small ones {served:?}");
    }
    let left = h.counts("q").await.by_state[windlass_core::StateName::Pending.index()];
    assert_eq!(left as usize, large + SMALL * EACH - started);
}
