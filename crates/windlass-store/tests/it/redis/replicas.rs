//! Answers that wait for replicas, on a primary and a replica that are started for it.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::{TaskId, Transition, transition};
use windlass_store::clock::ManualClock;
use windlass_store::store::Store;
use windlass_store::{Claim, Clock, Committed, Error, Insert, Inserted};

use super::shared::{claim, task};
use super::{Server, open};

const PATIENCE: Duration = Duration::from_secs(30);

async fn submit(store: &dyn Store, id: &str, at: u64) -> Result<Inserted, Error> {
    let mut task = task(id, at);
    task.body.fingerprint = Some([7; 16]);
    let insert = Insert { tasks: vec![task], atomic: false, max_depth: None };
    store.insert(insert).await.map(|mut answers| answers.remove(0))
}

/// Submits until it is confirmed: nobody tells when a replica has caught up.
async fn confirmed(store: &dyn Store, id: &str, at: u64) -> Inserted {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match submit(store, id, at).await {
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

#[tokio::test]
async fn an_answer_waits_for_replicas() {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("a port").port();
    let port = port.to_string();
    let primary = Server::start(&["--port", &port, "--bind", "127.0.0.1"]);
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port]);
    let clock = ManualClock::shared();
    let url = format!("redis+unix://{}?prefix=r&wait_replicas=1&wait_ms=100", primary.socket.display());
    let store: Arc<dyn Store> = open(&url, clock.clone()).await;
    assert_eq!(store.capabilities().replicas, 1);
    let now = clock.now().wall;
    confirmed(&*store, "a", now).await;

    tell(&replica, &["REPLICAOF", "NO", "ONE"]).await;
    let refused = loop {
        // The primary may not have noticed yet.
        if let Err(error) = submit(&*store, "b", now).await {
            break error;
        }
    };
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

    tell(&replica, &["REPLICAOF", "127.0.0.1", &port]).await;
    let answer = confirmed(&*store, "b", now).await;
    assert!(matches!(answer, Inserted::Same(_)), "asked again it finds its own work: {answer:?}");
    let committed = store.commit(vec![done]).await.expect("commit");
    assert_eq!(committed, [Committed::Conflict], "it was completed by the first call, and once");
}
