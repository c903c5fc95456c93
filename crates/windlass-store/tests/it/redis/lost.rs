//! Leases on a Redis that lost its last writes, or was away for long.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{Notify, watch};
use windlass_core::{NewTask, Priority, Task};
use windlass_store::clock::ManualClock;
use windlass_store::{Claim, Clock, Expire, Store};

use super::shared::{add, claim, name, task};
use super::{Server, fresh_url, open, server};

async fn expired(store: &Arc<dyn Store>) -> Vec<String> {
    let due = store.expired(Expire { dead_workers: Vec::new(), limit: 9 }).await.expect("expired");
    due.tasks.iter().map(|task| task.record.id.to_string()).collect()
}

fn ids(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| task.record.id.as_str()).collect()
}

/// There are as many beats again as were seen before, of which one is of the same task.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_whose_beats_are_given_again_are_timed_anew() {
    let server = Server::start(&[]);
    let url = format!("redis+unix://{}", server.socket.display());
    let clock = ManualClock::shared();
    let (leader, other) = (open(&url, clock.clone()).await, open(&url, clock.clone()).await);
    add(&leader, vec![task("a", clock.now().wall), task("b", clock.now().wall)]).await;
    server.say(&["SAVE"]);
    for id in ["a", "b"] {
        assert_eq!(ids(&leader.claim(claim()).await.expect("claim")), [id]);
    }
    assert!(expired(&leader).await.is_empty(), "the beats are seen");
    clock.advance_ms(600);

    let _server = server.crash(&[]);
    assert_eq!(ids(&other.claim(claim()).await.expect("claim")), ["a"], "that it was claimed is lost");
    let urgent = NewTask { priority: Priority(255), ..task("c", clock.now().wall) };
    add(&other, vec![urgent]).await;
    assert_eq!(ids(&other.claim(claim()).await.expect("claim")), ["c"]);
    // Whoever leads now: a slow machine may have taken longer than a lead lasts.
    let both = async || [expired(&leader).await, expired(&other).await].concat();
    assert!(both().await.is_empty(), "seen for the first time");
    clock.advance_ms(999);
    assert!(both().await.is_empty(), "each has its full length");
    clock.advance_ms(1);
    assert_eq!(both().await, ["a", "c"]);
}

/// A way to Redis on which answers wait, from a request with some word in it on, until they are let go.
struct Way {
    address: String,
    /// The request was sent.
    sent: Arc<Notify>,
    free: watch::Sender<bool>,
}

impl Way {
    async fn open(socket: PathBuf, word: &'static str) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (sent, free) = (Arc::new(Notify::new()), watch::Sender::new(false));
        let (told, freed) = (Arc::clone(&sent), free.subscribe());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = UnixStream::connect(&socket).await else { return };
                tokio::spawn(carry(client, server, word, Arc::clone(&told), freed.clone()));
            }
        });
        Way { address, sent, free }
    }
}

async fn carry(
    client: TcpStream,
    server: UnixStream,
    word: &'static str,
    sent: Arc<Notify>,
    mut free: watch::Receiver<bool>,
) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let holds = Arc::new(AtomicBool::new(false));
    let held = Arc::clone(&holds);
    let requests = tokio::spawn(async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
            let has = buffer[..read].windows(word.len()).any(|bytes| bytes == word.as_bytes());
            held.fetch_or(has, Ordering::SeqCst);
            if to_server.write_all(&buffer[..read]).await.is_err() {
                return;
            }
            if has {
                sent.notify_one();
            }
        }
    });
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
        if holds.load(Ordering::SeqCst) && free.wait_for(|free| *free).await.is_err() {
            break;
        }
        if to_client.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
    requests.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_begins_when_its_claim_is_answered() {
    let clock = ManualClock::shared();
    let way = Way::open(server().socket.clone(), "patient").await;
    let plain = fresh_url();
    let prefix = plain.split_once("prefix=").expect("a prefix").1;
    let store = open(&format!("redis://{}?prefix={prefix}", way.address), clock.clone()).await;
    add(&store, vec![task("a", clock.now().wall)]).await;
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.claim(Claim { worker: name("patient"), ..claim() }).await }
    });
    way.sent.notified().await;
    clock.advance_ms(900);
    way.free.send_replace(true);
    assert_eq!(ids(&waiting.await.expect("no panic").expect("claim")), ["a"]);
    clock.advance_ms(999);
    assert!(expired(&store).await.is_empty(), "it has its full length from the answer on");
    clock.advance_ms(1);
    assert_eq!(expired(&store).await, ["a"]);
}
