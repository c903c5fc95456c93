//! Moving into a store that is spread, and out of it. That a moved store goes on as it was is in the conformance suite.

use std::sync::Arc;

use windlass_core::flow::{Limit, Scope};
use windlass_core::operation::{Action, Expected, Operation, Order};
use windlass_core::{Links, NewTask, OnConflict, Unique, UniqueKey, workflow};
use windlass_store::clock::ManualClock;
use windlass_store::embedded::{self, EmbeddedStore};
use windlass_store::faults::{Fault, Faulty, Verb};
use windlass_store::memory::MemoryStore;
use windlass_store::migrate::{self, Copied, Error, Job, Running, Verified};
use windlass_store::{
    Claim, Clock, InsertWorkflow, Inserted, List, OperationChange, SetLimit, Span, Store, WorkflowInserted,
    WriteOperation,
};

use super::super::shared::{add, claim, name};
use super::super::{fresh_prefix, fresh_url as fresh_server, open};
use super::{PARTS, cluster, fresh_url, ids, of, queues, store, two_apart};

async fn moved(from: &Arc<dyn Store>, to: &Arc<dyn Store>, at: u64) -> Result<(Copied, Verified), Error> {
    let job = Job { from: &**from, to: &**to, running: Running::Keep, at };
    let survey = migrate::survey(&job, &mut |_| {}).await?;
    let copied = migrate::copy(&job, &survey, &mut |_| {}).await?;
    Ok((copied, migrate::verify(&job, &survey, &mut |_| {}).await?))
}

fn behind(queue: &str, id: &str, parents: &[&str], now: u64) -> NewTask {
    let mut new = of(queue, id, now);
    let dependencies = parents.iter().map(|id| id.parse().expect("an id")).collect();
    new.body.links = Some(Box::new(Links { dependencies, workflow: None }));
    new
}

fn unique(queue: &str, id: &str, now: u64) -> NewTask {
    let key = UniqueKey::new(&format!("key of {id}")).expect("a key");
    let unique = Unique { key, for_ms: None, on_conflict: OnConflict::Return };
    NewTask { unique: Some(Box::new(unique)), ..of(queue, id, now) }
}

/// Three tasks, each behind the one before.
fn graph(id: &str, queues: [&str; 3], now: u64) -> InsertWorkflow {
    let own = |text: &str| workflow::task_id(&name(id), &name(text)).expect("an id");
    let node = |queue: &str, text: &str, after: &[&str]| {
        let mut new = of(queue, own(text).as_str(), now);
        let dependencies = after.iter().map(|text| own(text)).collect();
        new.body.links = Some(Box::new(Links { dependencies, workflow: Some(name(id)) }));
        new
    };
    let [a, b, c] = queues;
    let tasks = vec![node(a, "a", &[]), node(b, "b", &["a"]), node(c, "c", &["a", "b"])];
    InsertWorkflow { id: name(id), created_at: now, fingerprint: [3; 16], tasks, max_depth: None }
}

/// Tasks of all queues, ready, running, delayed and waiting for each other: 33 of them.
async fn fill(store: &Arc<dyn Store>, clock: &ManualClock) {
    let now = clock.now().wall;
    for queue in queues() {
        let queue = queue.name.as_str();
        let id = |text: &str| format!("{queue}-{text}");
        let later = NewTask { scheduled_at: Some(now + 9000), ..of(queue, &id("later"), now) };
        let keyed = NewTask { key: Some(name("tenant")), ..of(queue, &id("keyed"), now) };
        let first = id("first");
        add(store, vec![of(queue, &first, now), unique(queue, &id("unique"), now), later, keyed]).await;
        add(store, vec![behind(queue, &id("child"), &[&first], now)]).await;
        let queues = vec![windlass_core::choice::Queue { name: name(queue), weight: 1 }];
        assert_eq!(ids(&store.claim(Claim { queues, ..claim() }).await.expect("claim")), [first]);
    }
    store.insert_workflow(graph("w", ["q", "q:x", "q"], now)).await.expect("insert_workflow");
    store.set_paused(&name("s"), true).await.expect("set_paused");
    let limit = Limit { max_concurrency: Some(2), ..Limit::default() };
    let set = SetLimit { scope: Scope::Queue, name: name("r"), limit: Some(limit) };
    store.set_limit(set).await.expect("set_limit");
    let order = Order { action: Action::Cancel, filter: "type:x".into(), by: None };
    let expected = Expected { count: 1, at_least: false };
    let operation = Box::new(Operation::new(name("op"), order, expected, now));
    let write = WriteOperation { id: name("op"), change: OperationChange::Start { operation } };
    store.write_operation(write).await.expect("write_operation");
}

async fn listed(store: &Arc<dyn Store>) -> Vec<String> {
    let page = store.list(List { limit: 100, ..List::default() }).await.expect("list");
    ids(&page.tasks).into_iter().map(str::to_owned).collect()
}

/// The tasks of a workflow, as whoever looks at it finds them.
async fn nodes(store: &Arc<dyn Store>, id: &str) -> Vec<String> {
    let workflow = store.workflow(&name(id)).await.expect("workflow").expect("it is there");
    let span = Span { from: workflow.first, end: workflow.end(), limit: 9 };
    let page = store.span(span).await.expect("span");
    ids(&page.tasks).into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_store_goes_through_clusters_and_stays_what_it_was() {
    let (clock, spread) = store().await;
    let now = clock.now().wall;
    let source: Arc<dyn Store> = MemoryStore::new(clock.clone());
    fill(&source, &clock).await;
    let dir = tempfile::tempdir().expect("a directory");
    let embedded = EmbeddedStore::open(embedded::Options::new(dir.path()), clock.clone()).await;
    let other_parts = open(&fresh_url("&shards=7"), clock.clone()).await;
    let on_redis = open(&fresh_server(), clock.clone()).await;
    let way = [source, spread, embedded.expect("open"), other_parts, on_redis];
    let mut digests = Vec::new();
    for pair in way.windows(2) {
        let (copied, verified) = moved(&pair[0], &pair[1], now).await.expect("moved");
        assert_eq!((copied.added, verified.tasks, verified.workflows), (33, 33, 1));
        assert_eq!(listed(&pair[1]).await, listed(&way[0]).await, "in the same order");
        assert_eq!(nodes(&pair[1], "w").await, ["w:a", "w:b", "w:c"]);
        digests.push(verified.digest);
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "{digests:?}");
    // Keys are held wherever they are asked for, and what is new stands behind all that is old.
    for store in &way[1..] {
        let contender = NewTask { unique: unique("q", "q-unique", now).unique, ..of("v", "contender", now) };
        let met = add(store, vec![contender, of("v", "new", now)]).await;
        assert!(matches!(met[..], [Inserted::Live(_), Inserted::New(_)]), "{met:?}");
        assert_eq!(listed(store).await[0], "new");
    }
    let refused = moved(&way[0], &way[1], now).await.expect_err("there is one more now");
    assert_eq!(refused.code(), "destination_not_empty", "{refused}");
    way[2].close().await.expect("close");
}

/// Two processes that have not heard of each other give numbers that lie among each other.
#[tokio::test]
async fn the_tasks_of_workflows_come_together_again() {
    let (clock, url) = (ManualClock::shared(), cluster().url(&fresh_prefix(), PARTS));
    let now = clock.now().wall;
    let (here, there) = (open(&url, clock.clone()).await, open(&url, clock.clone()).await);
    let (a, b) = two_apart(&open(&fresh_url(PARTS), clock.clone()).await, now).await;
    let (mut firsts, mut ends) = (Vec::new(), Vec::new());
    for (store, id, queue) in [(&here, "v", &a), (&there, "w", &b)] {
        let inserted = store.insert_workflow(graph(id, [queue; 3], now)).await.expect("insert_workflow");
        let WorkflowInserted::New(workflow, records) = inserted else { panic!("{inserted:?}") };
        firsts.push(workflow.first);
        ends.extend(records.last().map(|record| record.seq));
    }
    assert!(firsts.iter().max() < ends.iter().min(), "{firsts:?} {ends:?}");
    add(&here, vec![of("t", "last", now)]).await;
    let embedded = tempfile::tempdir().expect("a directory");
    let embedded = EmbeddedStore::open(embedded::Options::new(embedded.path()), clock.clone()).await;
    let embedded: Arc<dyn Store> = embedded.expect("open");
    let (copied, verified) = moved(&here, &embedded, now).await.expect("out of it");
    assert_eq!((copied.added, verified.tasks, verified.workflows), (7, 7, 2));
    let (again, _) = moved(&here, &embedded, now).await.expect("once more");
    assert_eq!((again.added, again.there), (0, 7), "a repeated copy changes nothing");
    for id in ["v", "w"] {
        assert_eq!(nodes(&embedded, id).await, ["a", "b", "c"].map(|node| format!("{id}:{node}")));
    }
    assert_eq!(listed(&embedded).await[0], "last");
    let onward = open(&fresh_url("&shards=3"), clock.clone()).await;
    moved(&here, &onward, now).await.expect("from one cluster into another");
    assert_eq!(listed(&onward).await, listed(&embedded).await);
    embedded.close().await.expect("close");
}

#[tokio::test]
async fn a_run_that_broke_off_goes_on() {
    let (clock, spread) = store().await;
    let now = clock.now().wall;
    let source: Arc<dyn Store> = MemoryStore::new(clock.clone());
    fill(&source, &clock).await;
    for fault in [Fault::Refuse, Fault::LoseAnswer] {
        let faulty = Faulty::new(Arc::clone(&spread));
        // Operations come first, then tasks.
        faulty.once(Verb::Restore, Fault::Delay(std::time::Duration::ZERO));
        faulty.once(Verb::Restore, fault);
        let to: Arc<dyn Store> = faulty;
        let broken = moved(&source, &to, now).await.expect_err("it breaks off");
        assert_eq!(broken.code(), "destination_failed", "{broken}");
    }
    let (copied, verified) = moved(&source, &spread, now).await.expect("it goes on");
    assert_eq!((copied.added, copied.there, verified.tasks), (0, 33, 33));
}

/// Before anything is written, with what is in the way.
#[tokio::test]
async fn what_a_cluster_would_keep_apart_is_not_moved() {
    let (clock, spread) = store().await;
    let now = clock.now().wall;
    let (a, b) = two_apart(&spread, now).await;
    let refused = async |source: Arc<dyn Store>, what: &str| {
        let error = moved(&source, &spread, now).await.expect_err("it reaches over");
        assert_eq!(error.code(), "unsupported_by_store", "{error}");
        assert!(error.to_string().starts_with(what), "{error}");
        assert_eq!(spread.ledger().await.expect("ledger").submitted, 0);
        assert!(spread.queues(None).await.expect("queues").is_empty(), "nothing is paused either");
    };
    let fresh = || -> Arc<dyn Store> { MemoryStore::new(clock.clone()) };
    let waits = fresh();
    add(&waits, vec![of(&a, "first", now), behind(&b, "second", &["first"], now), of(&a, "third", now)])
        .await;
    waits.set_paused(&name(&a), true).await.expect("set_paused");
    refused(waits, "task second needs commits over queues").await;
    // Of a workflow nobody waits for anybody here, and it is kept together all the same.
    let flow = fresh();
    let mut loose = graph("w", [&a, &a, &b], now);
    let links = |new: &mut NewTask| new.body.links = graph("w", [&a; 3], now).tasks[0].body.links.clone();
    loose.tasks.iter_mut().for_each(links);
    flow.insert_workflow(loose).await.expect("insert_workflow");
    refused(flow, "task w:c needs commits over queues").await;
    let counts = fresh();
    add(&counts, vec![of(&a, "first", now), of(&b, "second", now)]).await;
    let limit = Limit { max_concurrency: Some(2), ..Limit::default() };
    let set = SetLimit { scope: Scope::Type, name: name("t"), limit: Some(limit) };
    counts.set_limit(set).await.expect("set_limit");
    refused(counts, "task first, which the limit on type t counts, needs limits").await;
    // What is moved need not be named by its queue.
    for filter in [format!("queue:{a}"), "type:t".to_owned()] {
        let moves = fresh();
        add(&moves, vec![of(&a, "first", now)]).await;
        let order = Order { action: Action::Move(name(&b)), filter: filter.into(), by: None };
        let operation = Operation::new(name("op"), order, Expected { count: 1, at_least: false }, now);
        let change = OperationChange::Start { operation: Box::new(operation) };
        moves.write_operation(WriteOperation { id: name("op"), change }).await.expect("write_operation");
        refused(moves, "the operation op needs commits over queues").await;
    }
}

/// Whatever else is in a store, a limit on a type counts where its tasks are.
#[tokio::test]
async fn a_limit_that_can_be_counted_is_moved() {
    let (clock, spread) = store().await;
    let now = clock.now().wall;
    let source: Arc<dyn Store> = MemoryStore::new(clock.clone());
    let limit = Limit { max_concurrency: Some(2), ..Limit::default() };
    let set = SetLimit { scope: Scope::Type, name: name("t"), limit: Some(limit) };
    source.set_limit(set).await.expect("set_limit");
    add(&source, (0..5).map(|i| of("s", &format!("task-{i}"), now)).collect()).await;
    let queues = vec![windlass_core::choice::Queue { name: name("s"), weight: 1 }];
    let wanted = Claim { queues, max: 5, ..claim() };
    let one = Claim { max: 1, ..wanted.clone() };
    assert_eq!(source.claim(one).await.expect("claim").len(), 1);
    moved(&source, &spread, now).await.expect("into it");
    assert_eq!(spread.claim(wanted).await.expect("claim").len(), 1, "one of two runs already");
    let (back, at): (Arc<dyn Store>, u64) = (MemoryStore::new(clock.clone()), now);
    moved(&spread, &back, at).await.expect("out of it");
    let status = back.limit(Scope::Type, &name("t")).await.expect("limit").expect("it is there");
    assert_eq!((status.limit.max_concurrency, status.running, status.waiting), (Some(2), 2, 3));
}
