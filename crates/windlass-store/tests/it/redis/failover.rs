//! A primary that goes away in the middle of the work. Redis replicates after it has answered, so what counts as acknowledged
//! is what the replica has too: either the store waits for that, or this looks for itself.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use windlass_core::{State, StateName, Task, Transition, transition};
use windlass_store::redis::Options;
use windlass_store::{Claim, Committed, Inserted, Store, SystemClock};

use super::sentinel::Group;
use super::shared::{claim, name, task};

const ROUNDS: u64 = 60;
const BATCH: u32 = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_done_twice_when_the_primary_is_changed() {
    let group = Arc::new(Group::start(60_000));
    let changing = Arc::clone(&group);
    // For a while both of them take writes, so only the store can tell which of them took its own.
    work_through(group, "&wait_replicas=1&wait_ms=300", move || {
        changing.fail_over();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_done_twice_when_the_primary_is_killed() {
    let group = Arc::new(Group::start(1500));
    let dying = Arc::clone(&group);
    work_through(group, "", move || {
        let primary = dying.primary();
        dying.kill(primary);
        dying.wait_for_another(primary);
    })
    .await;
}

/// What is known of the work: only what was answered and is on the replica.
#[derive(Default)]
struct Known {
    added: HashSet<String>,
    /// How often the end of each was accepted.
    done: HashMap<String, u32>,
    failed: u32,
}

async fn work_through(group: Arc<Group>, waits: &str, trouble: impl FnOnce() + Send + 'static) {
    let clock = SystemClock::shared();
    let options = Options::parse(&format!("{}{waits}", group.url("work"))).expect("a URL");
    let store = windlass_store::redis::open(options, clock.clone()).await.expect("open");
    let mut known = Known::default();
    let mut trouble = Some(trouble);
    let mut under_way = None;
    let mut round = 0;
    // As long as the trouble lasts, and some rounds more.
    while round < ROUNDS
        || under_way.as_ref().is_some_and(|task: &tokio::task::JoinHandle<()>| !task.is_finished())
    {
        if round == ROUNDS / 3 {
            under_way = trouble.take().map(tokio::task::spawn_blocking);
        }
        round += 1;
        let proof = if waits.is_empty() {
            let group = Arc::clone(&group);
            Proof::Look(tokio::task::spawn_blocking(move || group.primary()).await.expect("a port"))
        } else {
            Proof::Answer
        };
        work(&store, &group, proof, round, &mut known).await;
    }
    under_way.expect("there was trouble").await.expect("it passed");
    for last in round + 1..round + 10 {
        work(&store, &group, Proof::None, last, &mut known).await;
    }
    for id in &known.added {
        let task = store.get(&id.parse().expect("an id")).await.expect("get");
        let record = task.unwrap_or_else(|| panic!("{id} was acknowledged and is lost")).record;
        if known.done.contains_key(id) {
            assert_eq!(record.state_name(), StateName::Completed, "{id} was done");
        }
    }
    assert!(known.added.len() > 20 && known.done.len() > 20, "little was shown");
    assert!(known.done.values().all(|ends| *ends == 1), "done twice: {:?}", known.done);
    let counts = store.queues(Some(&name("q"))).await.expect("queues").pop().expect("a queue");
    let ledger = store.ledger().await.expect("ledger");
    assert_eq!(ledger.submitted, counts.by_state.iter().sum::<u64>(), "nothing vanishes");
    assert_eq!(ledger.completed, counts.by_state[StateName::Completed.index()]);
}

/// How it is known that a replica has what was answered.
enum Proof {
    /// The store has waited for it.
    Answer,
    /// By a look at the primary, if it is the same one before and after.
    Look(u16),
    None,
}

/// Adds some tasks and finishes some. A call that fails has an unknown outcome.
async fn work(store: &Arc<dyn Store>, group: &Arc<Group>, proof: Proof, round: u64, known: &mut Known) {
    let now = SystemClock::shared().now().wall;
    let ids: Vec<String> = (0..BATCH).map(|i| format!("task-{round}-{i}")).collect();
    let tasks = Arc::new(ids.iter().map(|id| task(id, now)).collect());
    let insert = windlass_store::Insert { tasks, atomic: false, max_depth: None };
    let added = store.insert(insert).await;
    let mut done = Vec::new();
    match store.claim(Claim { max: BATCH, lease_ms: 600_000, seed: round, ..claim() }).await {
        Ok(tasks) => {
            for Task { record, .. } in tasks {
                let State::Running(lease) = &record.state else { panic!("{record:?}") };
                let change = transition::complete(&record, lease.token, None, now);
                let change = change.expect("held").expect("a change");
                let id = record.id.clone();
                let end = Transition { id: record.id, seq: record.seq, revision: record.revision, change };
                match store.commit(vec![end]).await.as_deref() {
                    Ok([Committed::Done(_)]) => done.push(id.to_string()),
                    Ok(_) => {}
                    Err(_) => known.failed += 1,
                }
            }
        }
        Err(_) => known.failed += 1,
    }
    let watched = Arc::clone(group);
    let replicated = tokio::task::spawn_blocking(move || match proof {
        Proof::Answer => true,
        Proof::Look(primary) => {
            watched.primary() == primary && watched.is_replicated(primary) && watched.primary() == primary
        }
        Proof::None => false,
    });
    if replicated.await.expect("an answer") {
        if let Ok(answers) = added {
            let new = ids.into_iter().zip(answers).filter(|(_, answer)| matches!(answer, Inserted::New(_)));
            known.added.extend(new.map(|(id, _)| id));
        }
        done.into_iter().for_each(|id| *known.done.entry(id).or_default() += 1);
    }
}
