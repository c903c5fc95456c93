//! Connections that are cut anywhere, in the midst of a request, between it and its answer or in the midst of that, under several
//! processes that submit, claim and end at the same time.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::JoinSet;
use windlass_core::choice::Draws;
use windlass_core::{State, StateName, Task, Transition, transition};
use windlass_store::clock::ManualClock;
use windlass_store::{Claim, Clock, Committed, Insert, Inserted, Store};

use super::shared::{claim, name, task};
use super::{fresh_url, open, server};

const PROCESSES: u64 = 3;
const BATCHES: u64 = 60;
const BATCH: u64 = 12;
const ALL: u64 = PROCESSES * BATCHES * BATCH;
/// At most so many bytes of requests, and of answers, for one connection: some calls of this test, and more than any one of them.
const BYTES_MAX: u64 = 60_000;
/// Only a store that lost a task ever takes this long.
const PATIENCE: Duration = Duration::from_secs(120);

/// A way to Redis that cuts connections when they have carried a random number of bytes.
#[derive(Default)]
struct Way {
    cuts: AtomicU64,
    /// Opening a store sends all scripts, which is more than a connection may carry.
    begun: AtomicBool,
}

impl Way {
    async fn open(self: &Arc<Way>, socket: PathBuf) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let way = Arc::clone(self);
        tokio::spawn(async move {
            let mut draws = Draws::new(7);
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = UnixStream::connect(&socket).await else { return };
                let budgets = [draws.next_u64() % BYTES_MAX, draws.next_u64() % BYTES_MAX];
                tokio::spawn(Arc::clone(&way).carry(client, server, budgets));
            }
        });
        address
    }

    async fn carry(self: Arc<Way>, client: TcpStream, server: UnixStream, [up, down]: [u64; 2]) {
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        // Either end drops both.
        tokio::select! {
            () = self.copy(from_client, to_server, up) => {}
            () = self.copy(from_server, to_client, down) => {}
        }
    }

    async fn copy(&self, mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, mut budget: u64) {
        let mut buffer = vec![0; 4096];
        while let Ok(read @ 1..) = from.read(&mut buffer).await {
            let begun = self.begun.load(Ordering::SeqCst);
            let carried = if begun { read.min(budget as usize) } else { read };
            if to.write_all(&buffer[..carried]).await.is_err() {
                return;
            }
            if begun {
                budget -= carried as u64;
            }
            if begun && budget == 0 {
                self.cuts.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
    }
}

/// How often each task was given out, and how often its end was accepted.
type Told = Arc<Mutex<HashMap<String, [u32; 2]>>>;

async fn submit(store: Arc<dyn Store>, process: u64, now: u64) {
    for batch in 0..BATCHES {
        let id = |i| format!("task-{process}-{batch}-{i}");
        let new = |i| {
            let mut new = task(&id(i), now);
            new.body.fingerprint = Some([1; 16]);
            new
        };
        let insert = || Insert {
            tasks: (0..BATCH).map(new).collect::<Vec<_>>().into(),
            atomic: false,
            max_depth: None,
        };
        // One that got no answer at all is asked again under the same ids.
        let answers = loop {
            if let Ok(answers) = store.insert(insert()).await {
                break answers;
            }
        };
        let added = |answer: &Inserted| matches!(answer, Inserted::New(_) | Inserted::Same(_));
        assert!(answers.iter().all(added), "{answers:?}");
    }
}

/// A call that is cut off is sent again until it is answered.
async fn work(store: Arc<dyn Store>, process: u64, now: u64, told: Told, ended: Arc<AtomicU64>) {
    let mut seed = process;
    while ended.load(Ordering::SeqCst) < ALL {
        seed += PROCESSES;
        let types = Some(vec![name("t")]);
        // Leases never end: the clock stands still.
        let typed = Claim { types, max: 1 + (seed % 20) as u32, seed, ..claim() };
        let tasks = store.claim(typed).await.expect("within its patience");
        let mut ends = Vec::new();
        for Task { record, .. } in tasks {
            told.lock().entry(record.id.to_string()).or_default()[0] += 1;
            let State::Running(lease) = &record.state else { panic!("{record:?}") };
            let change =
                transition::complete(&record, lease.token, None, now).expect("held").expect("a change");
            ends.push(Transition { id: record.id, seq: record.seq, revision: record.revision, change });
        }
        if ends.is_empty() {
            // sleep: so that those who submit get on; that there is something is told only to those who wait.
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        }
        for (end, committed) in
            ends.iter().zip(store.commit(ends.clone()).await.expect("within its patience"))
        {
            assert!(matches!(committed, Committed::Done(_)), "{committed:?}");
            told.lock().entry(end.id.to_string()).or_default()[1] += 1;
            ended.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_cut_anywhere_neither_lose_nor_double_a_task() {
    let (clock, way, plain) = (ManualClock::shared(), Arc::<Way>::default(), fresh_url());
    let prefix = plain.split_once("prefix=").expect("a prefix").1;
    let address = way.open(server().socket.clone()).await;
    let url = format!("redis://{address}?prefix={prefix}");
    let (told, ended, now) = (Told::default(), Arc::<AtomicU64>::default(), clock.now().wall);
    let mut stores = Vec::new();
    for _ in 0..PROCESSES {
        stores.push(open(&url, clock.clone()).await);
    }
    way.begun.store(true, Ordering::SeqCst);
    let mut under_way = JoinSet::new();
    for (process, store) in stores.iter().enumerate() {
        let process = process as u64;
        under_way.spawn(submit(Arc::clone(store), process, now));
        for _ in 0..2 {
            let (told, ended) = (Arc::clone(&told), Arc::clone(&ended));
            under_way.spawn(work(Arc::clone(store), process, now, told, ended));
        }
    }
    let all_done = async {
        while let Some(done) = under_way.join_next().await {
            done.expect("no panic");
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, all_done).await;
    let looks = open(&plain, clock.clone()).await;
    let queues = looks.queues(None).await.expect("queues");
    assert!(in_time.is_ok(), "{} have ended: {queues:?}", ended.load(Ordering::SeqCst));
    let ledger = looks.ledger().await.expect("ledger");
    assert_eq!((ledger.submitted, ledger.completed), (ALL, ALL));
    let counts = looks.queues(Some(&name("q"))).await.expect("queues").remove(0);
    assert_eq!(counts.by_state[StateName::Completed.index()], ALL);
    let told = told.lock();
    let odd: Vec<_> = told.iter().filter(|(_, counts)| **counts != [1, 1]).collect();
    assert!(told.len() as u64 == ALL && odd.is_empty(), "{} tasks, of which {odd:?}", told.len());
    let cuts = way.cuts.load(Ordering::SeqCst);
    assert!(cuts > 10, "only {cuts} connections were cut, so little is shown");
}
