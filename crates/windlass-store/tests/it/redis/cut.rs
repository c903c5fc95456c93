//! Answers that are lost: a proxy cuts the connection after a request has reached Redis and before its answer comes back. That it is cut anywhere
//! is in `torn.rs`.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use windlass_core::{Record, State, Task, Transition, transition};
use windlass_store::clock::ManualClock;
use windlass_store::{Claim, Clock, Committed, Inserted};

use super::shared::{add, claim, name, task};
use super::{fresh_url, open, server};

/// Every so many answers one is lost, and the connection with it.
const LOSE_EVERY: u64 = 7;

/// A way to Redis that loses answers; how many it lost.
async fn lossy(socket: PathBuf) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (answers, lost) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&lost);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let Ok(server) = UnixStream::connect(&socket).await else { return };
            tokio::spawn(carry(client, server, Arc::clone(&answers), Arc::clone(&counted)));
        }
    });
    (address, lost)
}

async fn carry(client: TcpStream, server: UnixStream, answers: Arc<AtomicU64>, lost: Arc<AtomicU64>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let requests = tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    let mut buffer = vec![0; 64 * 1024];
    // The first answers of a connection greet; losing them is only a connection that failed.
    let mut greeted = 0;
    while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
        greeted += 1;
        if greeted > 3 && answers.fetch_add(1, Ordering::SeqCst) % LOSE_EVERY == LOSE_EVERY - 1 {
            lost.fetch_add(1, Ordering::SeqCst);
            break;
        }
        if to_client.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
    requests.abort();
}

fn end(record: &Record, clock: &ManualClock) -> Transition {
    let State::Running(lease) = &record.state else { panic!("{record:?}") };
    let decided = transition::complete(record, lease.token, None, clock.now().wall);
    let change = decided.expect("held").expect("a change");
    Transition { id: record.id.clone(), seq: record.seq, revision: record.revision, change }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_neither_loses_nor_doubles_a_task() {
    let clock = ManualClock::shared();
    let (address, lost) = lossy(server().socket.clone()).await;
    let plain = fresh_url();
    let prefix = plain.split_once("prefix=").expect("a prefix").1;
    let store = open(&format!("redis://{address}?prefix={prefix}"), clock.clone()).await;
    let mut claimed = HashSet::new();
    for round in 0..40 {
        let ids: Vec<String> = (0..3).map(|i| format!("task-{round}-{i}")).collect();
        let new = ids.iter().map(|id| task(id, clock.now().wall)).collect();
        let answers = add(&store, new).await;
        assert!(answers.iter().all(|answer| matches!(answer, Inserted::New(_))), "{answers:?}");
        let tasks = store.claim(Claim { max: 3, seed: round, ..claim() }).await.expect("claim");
        assert_eq!(
            tasks.len(),
            3,
            "what was leased by a call whose answer was lost is handed out by the next"
        );
        for Task { record, .. } in tasks {
            assert!(claimed.insert(record.id.clone()), "{} was handed out twice", record.id);
            assert_eq!(record.attempts, 1);
            let committed = store.commit(vec![end(&record, &clock)]).await.expect("commit");
            assert!(matches!(committed[..], [Committed::Done(_)]), "{committed:?}");
        }
    }
    let ledger = store.ledger().await.expect("ledger");
    assert_eq!((ledger.submitted, ledger.completed), (120, 120));
    assert!(lost.load(Ordering::SeqCst) > 10, "nothing was lost, so nothing is shown");
}

/// The same of claims that are served in runs, and of ends that are written together, more and fewer than go by the short way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_many_tasks_that_are_claimed_and_ended_together() {
    let clock = ManualClock::shared();
    let (address, lost) = lossy(server().socket.clone()).await;
    let plain = fresh_url();
    let prefix = plain.split_once("prefix=").expect("a prefix").1;
    let store = open(&format!("redis://{address}?prefix={prefix}"), clock.clone()).await;
    let mut claimed = HashSet::new();
    let typed = Claim { types: Some(vec![name("t")]), max: 30, ..claim() };
    for round in 0..40 {
        let new = (0..30).map(|i| task(&format!("task-{round}-{i}"), clock.now().wall)).collect();
        let answers = add(&store, new).await;
        assert!(answers.iter().all(|answer| matches!(answer, Inserted::New(_))), "{answers:?}");
        let tasks = store.claim(Claim { seed: round, ..typed.clone() }).await.expect("claim");
        assert_eq!(tasks.len(), 30, "what a lost answer leased is in the next one");
        for Task { record, .. } in &tasks {
            assert!(claimed.insert(record.id.clone()), "{} was handed out twice", record.id);
            assert_eq!(record.attempts, 1);
        }
        // A run is cut in two, and its second part ends first.
        let (few, many) = tasks.split_at(10);
        for part in [many, few] {
            let ends = part.iter().map(|task| end(&task.record, &clock)).collect();
            let committed = store.commit(ends).await.expect("commit");
            assert!(committed.iter().all(|one| matches!(one, Committed::Done(_))), "{committed:?}");
        }
    }
    let ledger = store.ledger().await.expect("ledger");
    assert_eq!((ledger.submitted, ledger.completed), (1200, 1200));
    assert!(lost.load(Ordering::SeqCst) > 10, "nothing was lost, so nothing is shown");
}
