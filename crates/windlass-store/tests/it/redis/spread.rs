//! A store that is spread over the slots of a cluster passes the suite, and what reaches over its parts is right or refused.

mod failover;
mod lead;
mod limits;
mod migrate;
mod swept;
mod unique;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use windlass_core::choice::{Mode, Queue};
use windlass_core::{Links, NewTask, OnConflict, Task, TaskId, Unique, UniqueKey};
use windlass_store::clock::ManualClock;
use windlass_store::conformance::Harness;
use windlass_store::redis::Options;
use windlass_store::{Claim, Clock, Error, Feature, Insert, Inserted, List, Store};

use super::cluster::{cluster, fresh_url};
use super::shared::{add, claim, name, task};
use super::{ask, fresh_prefix, harness, open, wait_until};

const PARTS: &str = "&shards=4";

async fn fresh() -> Harness {
    harness(fresh_url(PARTS)).await
}

windlass_store::conformance_suite!(fresh);

async fn store() -> (Arc<ManualClock>, Arc<dyn Store>) {
    let clock = ManualClock::shared();
    (clock.clone(), open(&fresh_url(PARTS), clock).await)
}

/// Queues of which every two neighbours are in different parts, whatever the parts are.
fn queues() -> Vec<Queue> {
    ["q", "r", "s", "t", "u", "v"].map(|text| Queue { name: name(text), weight: 1 }).into()
}

fn of(queue: &str, id: &str, now: u64) -> NewTask {
    let mut new = NewTask { queue: name(queue), ..task(id, now) };
    new.body.fingerprint = Some([1; 16]);
    new
}

fn is_refused<T>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Unsupported { store: "redis", feature: Feature::Together }))
}

fn ids(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| task.record.id.as_str()).collect()
}

/// Two queues that are kept apart.
async fn two_apart(store: &Arc<dyn Store>, now: u64) -> (String, String) {
    for other in ["r", "s", "t", "u", "v"] {
        let tasks = vec![of("q", &format!("q-{other}"), now), of(other, &format!("{other}-q"), now)];
        if is_refused(&store.insert(Insert { tasks: tasks.into(), atomic: true, max_depth: None }).await) {
            return ("q".into(), other.into());
        }
    }
    panic!("all in one part");
}

#[tokio::test]
async fn queues_are_on_all_nodes() {
    let clock = ManualClock::shared();
    let prefix = fresh_prefix();
    let store = open(&cluster().url(&prefix, "&shards=16"), clock.clone()).await;
    let tasks = (0..60).map(|i| of(&format!("queue-{i}"), &format!("task-{i}"), clock.now().wall));
    add(&store, tasks.collect()).await;
    for port in &cluster().ports {
        let keys = ask(*port, &["--scan", "--pattern", &format!("{{{prefix}/*}}:ready/*")]);
        assert!(keys.lines().count() > 5, "{port} has {keys:?}");
    }
}

#[tokio::test]
async fn an_id_is_taken_once_whatever_the_queue() {
    let (clock, store) = store().await;
    let now = clock.now().wall;
    let (a, b) = two_apart(&store, now).await;
    let other = |queue: &str| {
        let mut new = of(queue, "one", now);
        new.body.fingerprint = Some([queue.as_bytes()[0]; 16]);
        new
    };
    let answers = add(&store, vec![other(&a), other(&b)]).await;
    assert!(matches!(answers[..], [Inserted::New(_), Inserted::Clash]), "inside a batch: {answers:?}");
    assert!(matches!(add(&store, vec![other(&b)]).await[..], [Inserted::Clash]));
    assert!(matches!(add(&store, vec![other(&a)]).await[..], [Inserted::Same(_)]));
    assert_eq!(store.ledger().await.expect("ledger").submitted, 1);
    let id: TaskId = "one".parse().expect("an id");
    assert_eq!(store.get(&id).await.expect("get").expect("a task").record.queue, name(&a));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_racing_submits_of_one_id_in_many_queues_one_wins() {
    let clock = ManualClock::shared();
    let url = fresh_url(PARTS);
    let mut racing = Vec::new();
    for queue in queues() {
        // Each a process of its own.
        let (store, now) = (open(&url, clock.clone()).await, clock.now().wall);
        racing.push(tokio::spawn(async move {
            let mut new = of(queue.name.as_str(), "one", now);
            new.body.fingerprint = Some([queue.name.as_str().as_bytes()[0]; 16]);
            let insert = Insert { tasks: vec![new].into(), atomic: false, max_depth: None };
            store.insert(insert).await.map(|mut answers| answers.remove(0))
        }));
    }
    let mut new = 0;
    for answer in racing {
        match answer.await.expect("no panic") {
            Ok(Inserted::New(_)) => new += 1,
            // The winner was still on its way.
            Ok(Inserted::Clash) | Err(Error::Busy) => {}
            other => panic!("{other:?}"),
        }
    }
    let store = open(&url, clock.clone()).await;
    assert_eq!((new, store.ledger().await.expect("ledger").submitted), (1, 1));
}

/// As when a process was killed between the two writes.
#[tokio::test]
async fn an_entry_without_a_task_holds_nobody_up_for_long() {
    let clock = ManualClock::shared();
    let prefix = fresh_prefix();
    let store = open(&cluster().url(&prefix, PARTS), clock.clone()).await;
    let now = clock.now().wall;
    let (a, b) = two_apart(&store, now).await;
    let added = add(&store, vec![of(&a, "first", now), of(&b, "second", now)]).await;
    let part = |answer: &Inserted| match answer {
        Inserted::New(record) => record.seq % 4,
        other => panic!("{other:?}"),
    };
    let (there, here) = (part(&added[0]), part(&added[1]));
    assert_ne!(there, here);
    // The entry is in one of the parts; it is put into all, so that the test need not know how they are dealt out.
    let write = |at: &str| {
        for share in 0..4 {
            let key = format!("{{{prefix}/{share}}}:homes");
            ask(cluster().ports[0], &["-c", "HSET", &key, "i:lost", &format!("{there} {at}")]);
        }
    };
    let time = ask(cluster().ports[0], &["TIME"]);
    let now_ms = format!("{}000", time.lines().next().expect("a time"));
    write(&now_ms);
    let insert =
        |queue: &str| Insert { tasks: vec![of(queue, "lost", now)].into(), atomic: false, max_depth: None };
    assert!(matches!(store.insert(insert(&b)).await, Err(Error::Busy)), "somebody may be on the way");
    assert_eq!(store.get(&"lost".parse().expect("an id")).await.expect("get"), None);
    write("1000");
    let answers = store.insert(insert(&b)).await.expect("insert");
    assert!(matches!(answers[..], [Inserted::New(_)]), "nobody is: {answers:?}");
    write(&now_ms);
}

#[tokio::test]
async fn a_unique_key_is_held_over_all_queues() {
    let (clock, store) = store().await;
    let now = clock.now().wall;
    let (a, b) = two_apart(&store, now).await;
    let unique = |queue: &str, id: &str, on_conflict| NewTask {
        unique: Some(Box::new(Unique {
            key: UniqueKey::new("a key").expect("a key"),
            for_ms: None,
            on_conflict,
        })),
        ..of(queue, id, now)
    };
    assert!(matches!(
        add(&store, vec![unique(&a, "holds", OnConflict::Return)]).await[..],
        [Inserted::New(_)]
    ));
    let met = add(&store, vec![unique(&b, "returns", OnConflict::Return)]).await;
    assert!(matches!(&met[..], [Inserted::Live(task)] if task.record.id.as_str() == "holds"), "{met:?}");
    let met = add(&store, vec![unique(&b, "rejects", OnConflict::Reject)]).await;
    assert!(matches!(&met[..], [Inserted::KeyHeld(id)] if id.as_str() == "holds"), "{met:?}");
    let replaces =
        Insert { tasks: vec![unique(&b, "new", OnConflict::Replace)].into(), atomic: false, max_depth: None };
    assert!(is_refused(&store.insert(replaces).await));
    let met = add(&store, vec![unique(&a, "newer", OnConflict::Replace)]).await;
    assert!(matches!(met[..], [Inserted::Replaced { .. }]), "in its own part: {met:?}");
    assert_eq!(store.ledger().await.expect("ledger").submitted, 2);
}

#[tokio::test]
async fn what_would_be_one_commit_over_parts_is_refused_and_works_inside_a_group() {
    let (clock, store) = store().await;
    let now = clock.now().wall;
    let (a, b) = two_apart(&store, now).await;
    let behind = |queue: &str, id: &str, other: &str| {
        let mut new = of(queue, id, now);
        let dependencies = vec![other.parse().expect("an id")];
        new.body.links = Some(Box::new(Links { dependencies, workflow: None }));
        new
    };
    add(&store, vec![of(&a, "first", now)]).await;
    let insert = |tasks: Vec<NewTask>, atomic| Insert { tasks: tasks.into(), atomic, max_depth: None };
    assert!(is_refused(&store.insert(insert(vec![behind(&b, "second", "first")], false)).await));
    assert!(is_refused(&store.insert(insert(vec![of(&a, "x", now), behind(&b, "y", "x")], false)).await));
    assert_eq!(store.ledger().await.expect("ledger").submitted, 1, "nothing was added");
    let alike = format!("{a}:other");
    let together = vec![of(&alike, "x", now), behind(&a, "y", "first"), behind(&alike, "z", "x")];
    let answers = store.insert(insert(together, true)).await.expect("insert");
    assert!(answers.iter().all(|answer| matches!(answer, Inserted::New(_))), "{answers:?}");
}

#[tokio::test]
async fn a_claim_takes_from_several_parts_what_it_asked_for() {
    let (clock, store) = store().await;
    let now = clock.now().wall;
    let mut tasks = Vec::new();
    for queue in queues() {
        tasks.extend((0..5).map(|i| of(queue.name.as_str(), &format!("{}-{i}", queue.name), now)));
    }
    add(&store, tasks).await;
    let strict = Claim { queues: queues(), mode: Mode::Strict, max: 7, ..claim() };
    let served = store.claim(strict).await.expect("claim");
    assert_eq!(ids(&served), ["q-0", "q-1", "q-2", "q-3", "q-4", "r-0", "r-1"]);
    let mut all: Vec<Task> = served;
    for seed in 0..9 {
        let weighted = Claim { queues: queues(), max: 4, seed, ..claim() };
        let served = store.claim(weighted).await.expect("claim");
        assert!(served.len() <= 4, "{served:?}");
        all.extend(served);
    }
    assert_eq!(all.len(), 30);
    let mut by_queue: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for task in &all {
        by_queue.entry(task.record.queue.as_str()).or_default().push(task.record.id.as_str());
    }
    assert!(by_queue.values().all(|ids| ids.is_sorted() && ids.len() == 5), "in order: {by_queue:?}");
    let tokens: HashSet<&TaskId> = all.iter().map(|task| &task.record.id).collect();
    assert_eq!(tokens.len(), 30, "each once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_waits_in_all_parts_at_once() {
    let (clock, store) = store().await;
    for (i, queue) in queues().into_iter().enumerate() {
        let waiting = Arc::clone(&store);
        let wanted = Claim { queues: queues(), wait_ms: 60_000, seed: i as u64, ..claim() };
        let waiting = tokio::spawn(async move { waiting.claim(wanted).await });
        let id = format!("task-{i}");
        add(&store, vec![of(queue.name.as_str(), &id, clock.now().wall)]).await;
        let served = tokio::time::timeout(Duration::from_secs(30), waiting).await;
        let served = served.expect("in time").expect("no panic").expect("claim");
        assert_eq!(ids(&served), [id]);
    }
    let counts = store.queues(None).await.expect("queues");
    assert_eq!(counts.iter().map(|queue| queue.by_state[3]).sum::<u64>(), 6, "one lease each: {counts:?}");
}

#[tokio::test]
async fn pages_are_in_order_of_submit_over_all_parts() {
    let (clock, store) = store().await;
    let names = queues();
    let mut added = Vec::new();
    for i in 0..40 {
        let id = format!("task-{i:02}");
        add(&store, vec![of(names[i * 7 % names.len()].name.as_str(), &id, clock.now().wall)]).await;
        added.insert(0, id);
    }
    let (mut found, mut before) = (Vec::new(), None);
    loop {
        let list = List { before, limit: 7, ..List::default() };
        let page = store.list(list).await.expect("list");
        found.extend(page.tasks.iter().map(|task| task.record.id.to_string()));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(found, added);
}

#[tokio::test]
async fn the_number_of_parts_stays() {
    let prefix = fresh_prefix();
    let open = async |more: &str| {
        let options = Options::parse(&cluster().url(&prefix, more)).expect("a URL");
        windlass_store::redis::open(options, ManualClock::shared()).await.map(drop)
    };
    open(PARTS).await.expect("it is made");
    open("").await.expect("as it was made");
    for other in ["&shards=1", "&shards=5"] {
        let refused = open(other).await.expect_err("another number").to_string();
        assert!(refused.contains("made with 4"), "{refused}");
    }
}

/// A process that was stopped between the directory and its insert finds the id given to somebody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_long_after_its_name_was_put_down_is_refused() {
    let (clock, prefix) = (ManualClock::shared(), fresh_prefix());
    let url = cluster().url(&prefix, PARTS);
    let fence = Duration::from_millis(500);
    let hurried = Options::parse(&url).expect("a URL").fenced(fence);
    let stopped = windlass_store::redis::open(hurried, clock.clone()).await.expect("open");
    let other = open(&url, clock.clone()).await;
    let part = |text: &str| crc32fast::hash(text.as_bytes()) % 4;
    let node = |part: u32| {
        let key = format!("{{{prefix}/{part}}}:meta");
        let has = |port: &&u16| ask(**port, &["EXISTS", &key]).trim() == "1";
        *cluster().ports.iter().find(has).expect("a node")
    };
    let numbered = |head: &'static str| (0..).map(move |i| format!("{head}{i}"));
    let here = "q".to_owned();
    let there = numbered("r").find(|queue| node(part(queue)) != node(part(&here))).expect("a queue");
    let id = numbered("id").find(|id| node(part(&format!("i:{id}"))) != node(part(&here))).expect("an id");

    // It gets no further than to put the name down.
    ask(node(part(&here)), &["CLIENT", "PAUSE", "60000", "WRITE"]);
    let now = clock.now().wall;
    let insert = Insert { tasks: vec![of(&here, &id, now)].into(), atomic: false, max_depth: None };
    let adding = tokio::spawn(async move { stopped.insert(insert).await });
    let name = format!("i:{id}");
    let homes = format!("{{{prefix}/{}}}:homes", part(&name));
    wait_until(node(part(&name)), &["HGET", &homes, &name], |entry| !entry.trim().is_empty());
    // A minute later somebody takes it over.
    ask(node(part(&name)), &["HSET", &homes, &name, &format!("{} taken 1", part(&there))]);
    let answers = add(&other, vec![of(&there, &id, now)]).await;
    assert!(matches!(answers[..], [Inserted::New(_)]), "{answers:?}");
    // sleep: the fence is a time of the server.
    tokio::time::sleep(2 * fence).await;
    ask(node(part(&here)), &["CLIENT", "UNPAUSE"]);
    let late = adding.await.expect("no panic");
    assert!(matches!(late, Err(Error::Busy)), "{late:?}");
    assert_eq!(other.ledger().await.expect("ledger").submitted, 1, "there is one task of that id");
}
