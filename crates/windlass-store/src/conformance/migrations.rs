//! What another store had. The other one is in memory; what follows the copy is done in both, with the same outcome.

use std::sync::Arc;

use bytes::Bytes;
use windlass_core::flow::{Limit, Scope};
use windlass_core::operation::{Action, Expected, Operation, Order};
use windlass_core::transition::{self, Failure};
use windlass_core::{
    Links, NewTask, OnConflict, Payload, Priority, State, StateName, Unique, UniqueKey, Workflow, workflow,
};

use super::Harness;
use super::steps::{claim, extension, failure, id, ids, name, token};
use crate::memory::MemoryStore;
use crate::migrate::{self, Copied, Job, Running, Verified};
use crate::store::{
    Claim, Extended, Feature, Insert, InsertWorkflow, Inserted, List, Moved, OperationChange, Restore,
    Restored, SetLimit, Store, WriteOperation,
};

fn other(h: &Harness) -> Harness {
    Harness::volatile(MemoryStore::new(h.clock.clone()), h.clock.clone())
}

async fn moved(from: &Harness, to: &Harness, running: Running) -> (Copied, Verified) {
    let job = Job { from: &*from.store, to: &*to.store, running, at: from.wall() };
    let survey = migrate::survey(&job, &mut |_| {}).await.expect("survey");
    let copied = migrate::copy(&job, &survey, &mut |_| {}).await.expect("copy");
    (copied, migrate::verify(&job, &survey, &mut |_| {}).await.expect("verify"))
}

fn with_key(h: &Harness, text: &str, key: &str) -> NewTask {
    let unique =
        Unique { key: UniqueKey::new(key).expect("a key"), for_ms: None, on_conflict: OnConflict::Return };
    NewTask { unique: Some(Box::new(unique)), ..h.task(text) }
}

fn behind(h: &Harness, text: &str, parents: &[&str]) -> NewTask {
    let mut task = h.task(text);
    let dependencies = parents.iter().map(|text| id(text)).collect();
    task.body.links = Some(Box::new(Links { dependencies, workflow: None }));
    task
}

impl Harness {
    /// Tasks in every state, tied to each other, and all that stands beside them. `able` has the features that may be used.
    pub async fn populate(&self, able: &dyn crate::store::Store) {
        let fatal = || Failure { retryable: false, ..failure() };
        self.add_named(&["done", "dead", "again", "saved", "gone"]).await;
        let tasks = self.take(Claim { max: 5, ..claim() }).await;
        let result = Some(Payload::Json(Bytes::from_static(b"{\"n\":1}")));
        let done = &tasks[0].record;
        self.done(done, transition::complete(done, token(done), result, self.wall())).await;
        self.fail(&tasks[1], fatal()).await;
        self.fail(&tasks[2], failure()).await;
        let saved = &tasks[3].record;
        let bytes = Bytes::from_static(b"page 4");
        self.done(saved, transition::save(saved, token(saved), bytes, self.wall())).await;
        self.cancel(&tasks[4].record).await;
        let later = NewTask { scheduled_at: Some(self.wall() + 90_000), ..self.task("later") };
        let high = NewTask { priority: Priority(200), ..self.task("high") };
        let elsewhere = NewTask { queue: name("other"), kind: name("u"), ..self.task("elsewhere") };
        let expires = NewTask { expires_at: Some(self.wall() + 80_000), ..self.task("expires") };
        self.add(vec![later, self.task("plain"), high, elsewhere, expires]).await;
        // One that took a new place behind the others.
        self.add_named(&["last"]).await;
        let dead = self.peek("dead").await;
        self.retry(&dead).await;
        self.add(vec![with_key(self, "holder", "k")]).await;
        self.pause("other", true).await;
        if able.capabilities().has(Feature::Dependencies) {
            // Waits for a task that runs, for one that is ready and for one whose end it was not told.
            self.add(vec![behind(self, "child", &["saved", "plain"]), behind(self, "orphan", &["last"])])
                .await;
            let last = self.peek("last").await;
            self.cancel(&last).await;
        }
        if able.capabilities().has(Feature::Workflows) {
            self.store.insert_workflow(graph(self)).await.expect("insert_workflow");
        }
        if able.capabilities().has(Feature::Flow) {
            let limit = Limit { max_concurrency: Some(3), ..Limit::default() };
            let set = SetLimit { scope: Scope::Key, name: name("tenant"), limit: Some(limit) };
            self.store.set_limit(set).await.expect("set_limit");
            let keyed = |text: &str| NewTask { key: Some(name("tenant")), ..self.task(text) };
            self.add(vec![keyed("keyed-1"), keyed("keyed-2")]).await;
        }
        if able.capabilities().has(Feature::Operations) {
            let order = Order { action: Action::Cancel, filter: "type:x".into(), by: None };
            let expected = Expected { count: 1, at_least: false };
            let operation = Box::new(Operation::new(name("op"), order, expected, self.wall()));
            let write = WriteOperation { id: name("op"), change: OperationChange::Start { operation } };
            self.store.write_operation(write).await.expect("write_operation");
        }
    }

    async fn key_holder(&self, key: &str) -> Inserted {
        let tasks = vec![with_key(self, "contender", key)];
        let insert = Insert { tasks: tasks.into(), atomic: false, max_depth: None };
        self.store.insert(insert).await.expect("insert").remove(0)
    }
}

fn graph(h: &Harness) -> InsertWorkflow {
    let own = |text: &str| workflow::task_id(&name("w"), &name(text)).expect("an id");
    let node = |text: &str, after: &[&str]| {
        let mut task = h.task(own(text).as_str());
        let dependencies = after.iter().map(|text| own(text)).collect();
        task.body.links = Some(Box::new(Links { dependencies, workflow: Some(name("w")) }));
        task
    };
    InsertWorkflow {
        id: name("w"),
        created_at: h.wall(),
        fingerprint: [3; 16],
        tasks: vec![node("a", &[]), node("b", &["a"]), node("c", &["a", "b"])],
        max_depth: None,
    }
}

pub async fn what_another_store_had_goes_on_here(h: &mut Harness) {
    let source = other(h);
    source.populate(&*h.store).await;
    let (copied, verified) = moved(&source, h, Running::Keep).await;
    assert_eq!((copied.added, copied.there, verified.tasks), (verified.tasks, 0, copied.added));
    source.check().await;
    h.check().await;
    // The worker that holds a task goes on, within a fresh window.
    let held = h.peek("saved").await;
    assert_eq!(held.checkpoint.as_ref().map(|it| &it.bytes[..]), Some(&b"page 4"[..]));
    let Extended::Until { expires_at } = h.extend(extension(&held)).await else { panic!("{held:?}") };
    assert_eq!(expires_at, h.wall() + 30_000);
    for store in [&source, &*h] {
        let Inserted::Live(holder) = store.key_holder("k").await else { panic!("the key is held") };
        assert_eq!(holder.record.id, id("holder"));
        store.complete(&store.peek("saved").await).await;
        store.pause("other", false).await;
        store.add_named(&["newer"]).await;
    }
    // The same tasks are given out in the same order, and what is told of ends is the same.
    let all = || Claim { max: 100, queues: vec![super::steps::queue("q", 1)], ..claim() };
    let (ours, theirs) = (h.take(all()).await, source.take(all()).await);
    assert_eq!(ids(&ours), ids(&theirs));
    assert!(ours.len() >= 6, "{:?}", ids(&ours));
    let claims = ours.iter().map(|task| token(&task.record).number);
    assert!(claims.min() > Some(token(&held).number), "numbers of leases only grow");
    let told = |store: &Harness, number: fn(&dyn Store, u64) -> u64| {
        let (store, here) = (Arc::clone(&store.store), Arc::clone(&h.store));
        async move {
            let endings = store.endings(1000).await.expect("endings");
            let pairs = endings.into_iter().map(|ending| {
                let children = ending.children.iter().map(|child| number(&*here, child.seq));
                (number(&*here, ending.parent), ending.ended, children.collect::<Vec<u64>>())
            });
            pairs.collect::<Vec<_>>()
        }
    };
    let here = |store: &dyn Store, number| store.capabilities().number_for(&name("q"), number);
    assert_eq!(told(h, |_, number| number).await, told(&source, here).await);
    let newest = h.peek("newer").await.seq;
    let highest = h.walk(List { limit: 1000, ..List::default() }).await[0].record.seq;
    assert_eq!(newest, highest, "numbers of tasks only grow");
}

pub async fn a_repeated_copy_changes_nothing(h: &mut Harness) {
    let source = other(h);
    source.populate(&*h.store).await;
    let (first, before) = moved(&source, h, Running::Keep).await;
    let (again, after) = moved(&source, h, Running::Keep).await;
    assert_eq!((again.added, again.there), (0, first.added));
    assert_eq!((&before.digest, &before.queues), (&after.digest, &after.queues));
    assert_eq!(h.store.ledger().await.expect("ledger").submitted, first.added);
    // And back again, from this store into another.
    let back = other(h);
    let (_, last) = moved(h, &back, Running::Keep).await;
    assert_eq!(last.digest, before.digest);
    back.check().await;
}

pub async fn released_tasks_are_ready_at_once(h: &mut Harness) {
    let source = other(h);
    source.add_named(&["a", "b"]).await;
    let held = source.take_one().await.record;
    moved(&source, h, Running::Release).await;
    assert_eq!((h.state("a").await, h.peek("a").await.attempts), (StateName::Pending, 0));
    assert_eq!(h.extend(extension(&held)).await, Extended::LeaseLost);
    assert_eq!(ids(&h.take(Claim { max: 5, ..claim() }).await), ["a", "b"]);
    assert_eq!(source.state("a").await, StateName::Running, "the source stays as it was");
}

pub async fn what_is_in_the_way_is_a_clash(h: &mut Harness) {
    let source = other(h);
    source.add_named(&["a", "b"]).await;
    h.add_named(&["x", "b"]).await;
    let mut tasks = source.walk(List { limit: 10, ..List::default() }).await;
    // Whatever numbers this store gives: b is the same task, and a comes with the number of x.
    for (task, own) in tasks.iter_mut().zip([h.peek("b").await, h.peek("x").await]) {
        (task.record.seq, task.record.order) = (own.seq, own.order);
    }
    let restore = |waits_for: &[u64]| {
        let moved = |task: &windlass_core::Task| Moved { task: task.clone(), waits_for: waits_for.to_vec() };
        Restore { at: h.wall(), tasks: tasks.iter().map(moved).collect(), ..Restore::default() }
    };
    let answers = h.store.restore(restore(&[])).await.expect("restore");
    assert_eq!(answers, [Restored::There, Restored::Clash], "newest first: the number of a is taken by x");
    assert_eq!(h.store.peek(&id("a")).await.expect("peek"), None);
    let nobody = tasks[0].record.seq + 77 * h.store.capabilities().parts;
    let answers = h.store.restore(restore(&[nobody])).await.expect("restore");
    assert_eq!(answers, [Restored::Clash, Restored::Clash], "nobody can wait for what is not there");
    let job = Job { from: &*source.store, to: &*h.store, running: Running::Keep, at: h.wall() };
    let refused = migrate::survey(&job, &mut |_| {}).await.expect_err("x is not of the source");
    assert_eq!(refused.code(), "destination_not_empty", "{refused}");
}

pub async fn what_was_put_in_outlives_a_reopen(h: &mut Harness) {
    let source = other(h);
    source.populate(&*h.store).await;
    moved(&source, h, Running::Keep).await;
    if !h.reopen().await {
        return;
    }
    let job = Job { from: &*source.store, to: &*h.store, running: Running::Keep, at: h.wall() };
    let survey = migrate::survey(&job, &mut |_| {}).await.expect("survey");
    migrate::verify(&job, &survey, &mut |_| {}).await.expect("verify");
    assert!(matches!(h.peek("saved").await.state, State::Running(_)));
    let Inserted::Live(holder) = h.key_holder("k").await else { panic!("the key is held") };
    assert_eq!(holder.record.id, id("holder"));
}

/// An operation acts on tasks below a number and a workflow is made of some, whether or not they are still there.
pub async fn numbers_of_tasks_that_are_gone_are_not_given_again(h: &mut Harness) {
    let order = Order { action: Action::Cancel, filter: "type:t".into(), by: None };
    let mut operation = Operation::new(name("op"), order, Expected { count: 1, at_least: false }, h.wall());
    operation.begin(50);
    let restore = Restore { at: h.wall(), operations: vec![operation], ..Restore::default() };
    h.store.restore(restore).await.expect("restore");
    h.add_named(&["a"]).await;
    assert!(h.peek("a").await.seq >= 50, "the operation would cancel it");
    let workflow = Workflow {
        id: name("w"),
        first: 70,
        size: 10,
        created_at: h.wall(),
        by_state: [0; 8],
        fingerprint: [3; 16],
    };
    let restore = Restore { at: h.wall(), workflows: vec![workflow], ..Restore::default() };
    h.store.restore(restore).await.expect("restore");
    h.reopen().await;
    h.add_named(&["b"]).await;
    assert!(h.peek("b").await.seq >= 80, "it is no part of the workflow");
}
