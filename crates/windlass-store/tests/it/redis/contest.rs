//! Many submits of one unique key at once, in one process and in several.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::task::JoinSet;
use windlass_core::{CancelReason, NewTask, OnConflict, State, TaskId, Unique, UniqueKey};
use windlass_store::clock::ManualClock;
use windlass_store::{Clock, Inserted, List, Store};

use super::shared::{add, task};
use super::{fresh_url, open};

const CLIENTS: usize = 64;
const ROUNDS: usize = 4;

fn unique(key: &str, id: &str, on_conflict: OnConflict, now: u64) -> NewTask {
    let key = UniqueKey::new(key).expect("a key");
    NewTask { unique: Some(Box::new(Unique { key, for_ms: None, on_conflict })), ..task(id, now) }
}

async fn processes(url: &str, many: usize) -> (Arc<ManualClock>, Vec<Arc<dyn Store>>) {
    let (clock, mut stores) = (ManualClock::shared(), Vec::new());
    for _ in 0..many {
        stores.push(open(url, clock.clone()).await);
    }
    (clock, stores)
}

/// Every client submits a batch in each round, at its store; returns all answers. None of them is an error.
async fn submit_all(
    stores: &[Arc<dyn Store>],
    batch: impl Fn(usize, usize) -> Vec<NewTask> + Copy + Send + 'static,
) -> Vec<Inserted> {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let store = Arc::clone(&stores[client % stores.len()]);
        clients.spawn(async move {
            let mut answers = Vec::new();
            for round in 0..ROUNDS {
                answers.extend(add(&store, batch(client, round)).await);
            }
            answers
        });
    }
    clients.join_all().await.concat()
}

async fn live(store: &Arc<dyn Store>) -> Vec<TaskId> {
    let page = store.list(List { limit: 1000, ..List::default() }).await.expect("list");
    let live = page.tasks.iter().filter(|task| !task.record.state.is_terminal());
    live.map(|task| task.record.id.clone()).collect()
}

/// Each submit takes the place of exactly one other, but for the first.
pub(super) async fn each_replaces_another(url: &str, many: usize) {
    let (clock, stores) = processes(url, many).await;
    let now = clock.now().wall;
    let answers = submit_all(&stores, move |client, round| {
        vec![unique("k", &format!("c{client}-{round}"), OnConflict::Replace, now)]
    })
    .await;
    let (mut added, mut replaced) = (BTreeSet::new(), BTreeSet::new());
    for answer in &answers {
        let new = match answer {
            Inserted::New(record) => record,
            Inserted::Replaced { new, old } => {
                let reason = CancelReason::Replaced;
                assert!(
                    matches!(old.state, State::Cancelled { reason: why, .. } if why == reason),
                    "{old:?}"
                );
                assert!(replaced.insert(old.id.clone()), "{} is replaced once", old.id);
                &**new
            }
            other => panic!("{other:?}"),
        };
        assert!(added.insert(new.id.clone()));
    }
    let all = CLIENTS * ROUNDS;
    assert_eq!((added.len(), replaced.len()), (all, all - 1));
    let left: Vec<TaskId> = added.difference(&replaced).cloned().collect();
    assert_eq!(live(&stores[0]).await, left);
    let ledger = stores[0].ledger().await.expect("ledger");
    assert_eq!((ledger.submitted, ledger.cancelled), (all as u64, all as u64 - 1));
}

#[tokio::test]
async fn sixty_four_clients_replace_each_other() {
    each_replaces_another(&fresh_url(), 1).await;
}

#[tokio::test]
async fn sixty_four_clients_of_three_processes_replace_each_other() {
    each_replaces_another(&fresh_url(), 3).await;
}

#[tokio::test]
async fn sixty_four_clients_return_or_reject_one_task() {
    for rule in [OnConflict::Return, OnConflict::Reject] {
        let (clock, stores) = processes(&fresh_url(), 3).await;
        let now = clock.now().wall;
        let answers = submit_all(&stores, move |client, round| {
            vec![unique("k", &format!("c{client}-{round}"), rule, now)]
        })
        .await;
        let mut holders = BTreeSet::new();
        for answer in &answers {
            holders.insert(match answer {
                Inserted::New(record) => record.id.clone(),
                Inserted::Live(task) if rule == OnConflict::Return => task.record.id.clone(),
                Inserted::KeyHeld(id) if rule == OnConflict::Reject => id.clone(),
                other => panic!("{other:?}"),
            });
        }
        assert_eq!(live(&stores[0]).await, Vec::from_iter(holders), "all met the same one");
        assert_eq!(stores[0].ledger().await.expect("ledger").submitted, 1);
    }
}

/// Batches name their keys in different orders, and not all of their tasks have one.
#[tokio::test]
async fn batches_of_several_keys_replace_each_other() {
    const KEYS: usize = 5;
    let (clock, stores) = processes(&fresh_url(), 3).await;
    let now = clock.now().wall;
    let answers = submit_all(&stores, move |client, round| {
        let rule = OnConflict::ALL[(client + round) % OnConflict::ALL.len()];
        let id = |what: String| format!("c{client}-{round}-{what}");
        let mut tasks: Vec<NewTask> = (0..KEYS)
            .map(|key| unique(&format!("k{key}"), &id(format!("k{key}")), rule, now))
            .chain([task(&id("plain".to_owned()), now)])
            .collect();
        tasks.rotate_left(client % KEYS);
        if client % 2 == 0 {
            tasks.reverse();
        }
        tasks
    })
    .await;
    let count = |what: fn(&Inserted) -> bool| answers.iter().filter(|answer| what(answer)).count();
    let replaced = count(|answer| matches!(answer, Inserted::Replaced { .. }));
    let new = count(|answer| matches!(answer, Inserted::New(_)));
    let met = count(|answer| matches!(answer, Inserted::Live(_) | Inserted::KeyHeld(_)));
    assert_eq!(new + replaced + met, answers.len());
    assert_eq!(new, KEYS + CLIENTS * ROUNDS, "every key is free once, and every plain task is new");
    let ledger = stores[0].ledger().await.expect("ledger");
    assert_eq!((ledger.submitted, ledger.cancelled), ((new + replaced) as u64, replaced as u64));
    assert_eq!(live(&stores[0]).await.len(), new);
}
