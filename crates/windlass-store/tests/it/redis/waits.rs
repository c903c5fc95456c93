//! Claims whose wait ends in the moment in which they are served.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use windlass_core::flow::{Limit, Rate, Scope};
use windlass_store::clock::{ManualClock, SystemClock};
use windlass_store::redis::Options;
use windlass_store::{Claim, Clock, SetLimit, Store};

use super::shared::{add, claim, name, task};
use super::{Server, fresh_url, open};

async fn connect(url: &str) -> redis::aio::MultiplexedConnection {
    let plain = url.split_once('?').map_or(url, |(plain, _)| plain);
    let client = redis::Client::open(plain).expect("a URL");
    client.get_multiplexed_async_connection().await.expect("a connection")
}

/// Redis is made to answer only after the wait is over.
#[tokio::test]
async fn a_claim_whose_wait_ends_while_redis_is_asked_gets_the_answer() {
    const ROUNDS: usize = 20;
    let server = Server::start(&[]);
    let url = format!("redis+unix://{}", server.socket.display());
    let clock = ManualClock::shared();
    let store = open(&url, clock.clone()).await;
    let mut connection = connect(&url).await;
    let mut client = async |words: &[&str]| {
        redis::cmd("CLIENT").arg(words).query_async::<redis::Value>(&mut connection).await.expect("done")
    };
    for round in 0..ROUNDS {
        add(&store, vec![task(&format!("task-{round}"), clock.now().wall)]).await;
        client(&["PAUSE", "60000", "WRITE"]).await;
        let began = Instant::now();
        let mut claiming = std::pin::pin!(store.claim(Claim { wait_ms: 20, ..claim() }));
        let early = tokio::time::timeout(Duration::from_millis(200), &mut claiming).await;
        client(&["UNPAUSE"]).await;
        let held_up = began.elapsed();
        let answer = match early {
            Ok(answer) => answer,
            Err(_) => claiming.await,
        };
        // An answer is not waited for without end: a round in which this machine stood still says nothing.
        if held_up < Duration::from_millis(600) {
            assert_eq!(answer.expect("claim").len(), 1, "what was leased reaches its claim");
            return;
        }
    }
    panic!("this machine stood still in each of {ROUNDS} rounds");
}

/// Gives out tokens when they come, as a broker does.
async fn open_gates(store: Arc<dyn Store>, clock: Arc<dyn Clock>) {
    loop {
        let nearer = store.signals().gates.notified();
        let next = store.open_gates().await.expect("open");
        let left = next.map_or(30_000, |at| at.saturating_sub(clock.now().wall).max(1));
        tokio::select! {
            () = nearer => {}
            // sleep: until the next token.
            () = tokio::time::sleep(Duration::from_millis(left)) => {}
        }
    }
}

/// Claims that wait as long as the window of a rate end when its tokens come. Each lease takes a token, so one that nobody gets
/// is a start that the limit allowed and that did not happen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_not_spent_on_claims_whose_wait_is_over() {
    const PER_MS: u64 = 50;
    const CLAIMERS: usize = 48;
    const STARTS: u64 = 500;
    let (url, clock) = (fresh_url(), SystemClock::shared());
    let (mut stores, mut gates) = (Vec::new(), JoinSet::new());
    for _ in 0..3 {
        let options = Options::parse(&url).expect("a URL");
        let store: Arc<dyn Store> =
            windlass_store::redis::open(options, Arc::clone(&clock)).await.expect("open");
        gates.spawn(open_gates(Arc::clone(&store), Arc::clone(&clock)));
        stores.push(store);
    }
    let limit = Some(Limit { rate: Some(Rate { count: 10, per_ms: PER_MS }), ..Limit::default() });
    stores[0].set_limit(SetLimit { scope: Scope::Queue, name: name("q"), limit }).await.expect("set");
    let now = clock.now().wall;
    add(&stores[0], (0..1000).map(|i| task(&format!("task-{i}"), now)).collect()).await;
    let (started, mut claimers) = (Arc::new(AtomicU64::new(0)), JoinSet::new());
    for claimer in 0..CLAIMERS {
        let (store, started) = (Arc::clone(&stores[claimer % stores.len()]), Arc::clone(&started));
        claimers.spawn(async move {
            while started.load(Ordering::SeqCst) < STARTS {
                let claim = Claim { wait_ms: PER_MS, lease_ms: 60_000, ..claim() };
                let tasks = store.claim(claim).await.expect("claim");
                started.fetch_add(tasks.len() as u64, Ordering::SeqCst);
            }
        });
    }
    claimers.join_all().await;
    let (_, prefix) = url.split_once("prefix=").expect("a prefix");
    let mut leases = redis::cmd("HGET");
    leases.arg(format!("{{{prefix}}}:meta")).arg("claims");
    let leased: u64 = leases.query_async(&mut connect(&url).await).await.expect("a number");
    let started = started.load(Ordering::SeqCst);
    assert!(started * 100 >= leased * 95, "{started} starts of {leased} that the limit allowed");
}
