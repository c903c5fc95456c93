//! Answers that wait for replicas, on a primary and a replica that are started for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::{Links, NewTask, OnConflict, TaskId, Transition, Unique, UniqueKey, transition};
use windlass_store::clock::ManualClock;
use windlass_store::store::Store;
use windlass_store::{Claim, Clock, Committed, Error, Insert, InsertWorkflow, Inserted, WorkflowInserted};

use super::shared::{claim, name, task};
use super::{Server, free_port, open};

const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn submit(store: &dyn Store, id: &str, at: u64) -> Result<Inserted, Error> {
    let mut task = task(id, at);
    task.body.fingerprint = Some([7; 16]);
    let insert = Insert { tasks: vec![task].into(), atomic: false, max_depth: None };
    store.insert(insert).await.map(|mut answers| answers.remove(0))
}

/// Submits until it is confirmed: nobody tells when a replica has caught up.
pub(super) async fn confirmed(store: &dyn Store, id: &str, at: u64) -> Inserted {
    until_confirmed(async || submit(store, id, at).await).await
}

/// Asks until the answer is confirmed: on a busy machine a replica that is there may take longer than an answer waits.
async fn until_confirmed<T>(ask: impl AsyncFn() -> Result<T, Error>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
}

async fn tell(server: &Server, words: &[&str]) {
    let client = redis::Client::open(format!("redis+unix://{}", server.socket.display())).expect("a URL");
    let mut connection = client.get_multiplexed_async_connection().await.expect("a connection");
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query_async::<redis::Value>(&mut connection).await.expect("an answer");
}

/// A primary with a replica, and a store there that waits for it.
struct Pair {
    port: String,
    _primary: Server,
    replica: Server,
    store: Arc<dyn Store>,
    now: u64,
}

impl Pair {
    async fn start() -> Pair {
        let port = free_port().to_string();
        let primary =
            Server::start(&["--port", &port, "--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0"]);
        let replica = Server::start(&["--replicaof", "127.0.0.1", &port]);
        let clock = ManualClock::shared();
        let url = format!("redis+unix://{}?prefix=r&wait_replicas=1&wait_ms=100", primary.socket.display());
        let store = open(&url, clock.clone()).await;
        let now = clock.now().wall;
        confirmed(&*store, "a", now).await;
        Pair { port, _primary: primary, replica, store, now }
    }

    /// Takes the replica away; returns what the submit of this task was refused with.
    async fn part(&self, id: &str) -> Error {
        tell(&self.replica, &["REPLICAOF", "NO", "ONE"]).await;
        loop {
            // The primary may not have noticed yet.
            if let Err(error) = submit(&*self.store, id, self.now).await {
                break error;
            }
        }
    }

    /// Brings it back, and waits until it has everything.
    async fn rejoin(&self) {
        tell(&self.replica, &["REPLICAOF", "127.0.0.1", &self.port]).await;
        confirmed(&*self.store, "a", self.now).await;
    }
}

#[tokio::test]
async fn an_answer_waits_for_replicas() {
    let pair = Pair::start().await;
    let (store, now) = (&pair.store, pair.now);
    assert_eq!(store.capabilities().replicas, 1);
    let refused = pair.part("b").await;
    assert!(matches!(refused, Error::Unconfirmed { confirmed: 0, wanted: 1, wait_ms: 100 }), "{refused}");
    assert!(refused.to_string().contains("0 of 1 replicas"), "{refused}");
    let id = TaskId::new("b").expect("an id");
    assert!(store.peek(&id).await.expect("peek").is_some(), "it was written all the same");
    // Work goes on to be handed out, and its end is not confirmed either.
    let held = store.claim(Claim { max: 1, ..claim() }).await.expect("claim").remove(0).record;
    let windlass_core::State::Running(lease) = &held.state else { panic!("{held:?}") };
    let change = transition::complete(&held, lease.token, None, now).expect("held").expect("a change");
    let done = Transition { id: held.id.clone(), seq: held.seq, revision: held.revision, change };
    let refused = store.commit(vec![done.clone()]).await.expect_err("nobody confirms it");
    assert!(matches!(refused, Error::Unconfirmed { .. }), "{refused}");

    pair.rejoin().await;
    let answer = confirmed(&**store, "b", now).await;
    assert!(matches!(answer, Inserted::Same(_)), "asked again it finds its own work: {answer:?}");
    let committed = until_confirmed(async || store.commit(vec![done.clone()]).await).await;
    assert_eq!(committed, [Committed::Conflict], "it was completed by the first call, and once");
}

/// Who asks again finds its work done and writes nothing, and is answered only when that is confirmed.
#[tokio::test]
async fn what_is_found_done_waits_for_replicas_too() {
    let pair = Pair::start().await;
    let (store, now) = (&pair.store, pair.now);
    let key = UniqueKey::new("k").expect("a key");
    let unique = Unique { key, for_ms: None, on_conflict: OnConflict::Return };
    let mut holder = NewTask { unique: Some(Box::new(unique)), ..task("u", now) };
    holder.body.fingerprint = Some([7; 16]);
    let mut child = task("c", now);
    let dependencies = vec![TaskId::new("a").expect("an id")];
    child.body.links = Some(Box::new(Links { dependencies, workflow: None }));
    child.body.fingerprint = Some([7; 16]);
    let submit = |task: &NewTask| {
        let insert = Insert { tasks: vec![task.clone()].into(), atomic: false, max_depth: None };
        async move { store.insert(insert).await.map(|mut answers| answers.remove(0)) }
    };
    let mut node = task("n", now);
    node.body.links = Some(Box::new(Links { dependencies: Vec::new(), workflow: Some(name("w")) }));
    let graph = || InsertWorkflow {
        id: name("w"),
        created_at: now,
        fingerprint: [3; 16],
        tasks: vec![node.clone()],
        max_depth: None,
    };
    pair.part("b").await;
    let unconfirmed = |error: Error| assert!(matches!(error, Error::Unconfirmed { .. }), "{error}");
    for _ in 0..2 {
        // First it is written, then it is found.
        unconfirmed(submit(&holder).await.expect_err("nobody has the task"));
        unconfirmed(submit(&child).await.expect_err("nobody has the task"));
        unconfirmed(store.insert_workflow(graph()).await.expect_err("nobody has the workflow"));
    }
    let seen = store.peek(&TaskId::new("b").expect("an id")).await.expect("peek").expect("it is there");
    unconfirmed(store.are_kept(std::slice::from_ref(&seen)).await.expect_err("nobody has the record"));

    pair.rejoin().await;
    let other = NewTask { id: TaskId::new("v").expect("an id"), ..holder };
    let found = until_confirmed(async || submit(&other).await).await;
    assert!(matches!(found, Inserted::Live(_)), "{found:?}");
    let found = until_confirmed(async || submit(&child).await).await;
    assert!(matches!(found, Inserted::Same(_)), "{found:?}");
    let found = until_confirmed(async || store.insert_workflow(graph()).await).await;
    assert!(matches!(found, WorkflowInserted::Same(_)), "{found:?}");
    assert!(until_confirmed(async || store.are_kept(std::slice::from_ref(&seen)).await).await);
    let other = windlass_core::Record { revision: seen.revision + 1, ..seen };
    let kept = until_confirmed(async || store.are_kept(std::slice::from_ref(&other)).await).await;
    assert!(!kept, "it is not as it was seen");
}

/// The caller does not know whether it is written; who waits in the same process must look.
#[tokio::test]
async fn a_task_that_nobody_confirmed_is_given_out_all_the_same() {
    let pair = Pair::start().await;
    let store = &pair.store;
    pair.part("b").await;
    store.claim(Claim { max: 10, ..claim() }).await.expect("claim");
    let waiting = tokio::spawn({
        let store = Arc::clone(store);
        // It ends before it would look again by itself.
        async move { store.claim(Claim { wait_ms: 10_000, ..claim() }).await }
    });
    // It stands in line then; a submit lets it look first.
    tokio::task::yield_now().await;
    submit(&**store, "late", pair.now).await.expect_err("nobody confirms it");
    let given = waiting.await.expect("no panic").expect("claim");
    assert_eq!(given.iter().map(|task| task.record.id.as_str()).collect::<Vec<_>>(), ["late"]);
}
