//! A node of the cluster that goes away in the middle of the work. Answers wait for a replica, so what is answered is kept.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::{State, StateName, Task, Transition, transition};
use windlass_store::redis::Options;
use windlass_store::{Claim, Committed, Insert, Inserted, Store, SystemClock};

use super::super::cluster::Cluster;
use super::super::shared::claim;
use super::super::wait_until;
use super::{of, queues};

const ROUNDS: u64 = 30;
const PATIENCE: Duration = Duration::from_secs(90);

/// What was answered.
#[derive(Default)]
struct Known {
    added: HashSet<String>,
    /// How often the end of each was accepted.
    done: HashMap<String, u32>,
    /// Calls whose outcome is unknown.
    failed: u32,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_done_twice_when_a_node_is_killed() {
    let cluster = Arc::new(Cluster::with_replicas(2000));
    let url = cluster.url("work", "&shards=16&wait_replicas=1&wait_ms=4000");
    let options = Options::parse(&url).expect("a URL");
    let store = windlass_store::redis::open(options, SystemClock::shared()).await.expect("open");
    assert_eq!(store.capabilities().replicas, 1);
    let mut known = Known::default();
    for round in 0..ROUNDS {
        work(&store, round, &mut known).await;
    }
    let dying = Arc::clone(&cluster);
    let trouble = tokio::task::spawn_blocking(move || {
        // It is one of those that the URL names.
        dying.kill(dying.ports[0]);
        let heirs = &dying.replicas[..2];
        wait_until(dying.ports[1], &["CLUSTER", "NODES"], |nodes| {
            let leads = |port: &u16| {
                nodes.lines().any(|line| line.contains(&format!(":{port}@")) && line.contains("master"))
            };
            heirs.iter().any(leads)
        });
    });
    let mut round = ROUNDS;
    while !trouble.is_finished() {
        work(&store, round, &mut known).await;
        round += 1;
    }
    trouble.await.expect("another took its place");
    // It goes on by itself, in all queues.
    let deadline = Instant::now() + PATIENCE;
    let mut well = 0;
    while well < 10 {
        assert!(Instant::now() < deadline, "work does not go on: {} calls failed", known.failed);
        let failed = known.failed;
        work(&store, round, &mut known).await;
        round += 1;
        well = if known.failed == failed { well + 1 } else { 0 };
    }
    check(&store, &known).await;
}

/// Adds a task to every queue and finishes some. A call that fails has an unknown outcome.
async fn work(store: &Arc<dyn Store>, round: u64, known: &mut Known) {
    let now = SystemClock::shared().now().wall;
    for queue in queues() {
        let id = format!("{}-{round}", queue.name);
        let tasks = vec![of(queue.name.as_str(), &id, now)];
        match store.insert(Insert { tasks: tasks.into(), atomic: false, max_depth: None }).await.as_deref() {
            // An answer that was lost is asked for again, and finds the task.
            Ok([Inserted::New(_) | Inserted::Same(_)]) => drop(known.added.insert(id)),
            Ok(other) => panic!("{other:?}"),
            Err(_) => known.failed += 1,
        }
    }
    let wanted = Claim { queues: queues(), max: 8, lease_ms: 600_000, seed: round, ..claim() };
    let Ok(tasks) = store.claim(wanted).await else {
        known.failed += 1;
        return;
    };
    for Task { record, .. } in tasks {
        let State::Running(lease) = &record.state else { panic!("{record:?}") };
        let change = transition::complete(&record, lease.token, None, now).expect("held").expect("a change");
        let id = record.id.to_string();
        let end = Transition { id: record.id, seq: record.seq, revision: record.revision, change };
        match store.commit(vec![end]).await.as_deref() {
            Ok([Committed::Done(_)]) => *known.done.entry(id).or_default() += 1,
            Ok(_) => {}
            Err(_) => known.failed += 1,
        }
    }
}

async fn check(store: &Arc<dyn Store>, known: &Known) {
    for id in &known.added {
        let task = store.get(&id.parse().expect("an id")).await.expect("get");
        let record = task.unwrap_or_else(|| panic!("{id} was acknowledged and is lost")).record;
        if known.done.contains_key(id) {
            assert_eq!(record.state_name(), StateName::Completed, "{id} was done");
        }
    }
    assert!(known.added.len() > 100 && known.done.len() > 100, "little was shown");
    assert!(known.done.values().all(|ends| *ends == 1), "done twice: {:?}", known.done);
    let queues = store.queues(None).await.expect("queues");
    let ledger = store.ledger().await.expect("ledger");
    let all: u64 = queues.iter().flat_map(|queue| queue.by_state).sum();
    assert_eq!(ledger.submitted, all, "nothing vanishes");
    let completed: u64 = queues.iter().map(|queue| queue.by_state[StateName::Completed.index()]).sum();
    assert_eq!(ledger.completed, completed);
}
