//! Several processes on one Redis: here they are stores of one process that know nothing of each other.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use windlass_core::choice::{Mode, Queue};
use windlass_core::{Body, Name, NewTask, Payload, Priority, State, Task, TaskId, retry, transition};
use windlass_store::clock::ManualClock;
use windlass_store::redis::{Options, RedisStore};
use windlass_store::{Claim, Clock, Committed, Error, Expire, Extend, Extended, Insert, Inserted, Store};

use super::{fresh_url, open, raw};

/// Only a store that forgot somebody ever takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

pub(super) fn task(id: &str, now: u64) -> NewTask {
    NewTask {
        id: TaskId::new(id).expect("a valid id"),
        queue: name("q"),
        kind: name("t"),
        priority: Priority::default(),
        created_at: now,
        scheduled_at: None,
        expires_at: None,
        retention_ms: 60_000,
        counted: windlass_core::Counted::default(),
        unique: None,
        key: None,
        body: Body {
            payload: Payload::Json(Bytes::from_static(b"1")),
            metadata: Vec::new(),
            timeout_ms: 5000,
            max_retries: 2,
            max_crashes: 3,
            retry: retry::Policy::default(),
            fingerprint: None,
            links: None,
        },
    }
}

pub(super) fn claim() -> Claim {
    Claim {
        worker: name("w"),
        queues: vec![Queue { name: name("q"), weight: 1 }],
        mode: Mode::Weighted,
        types: None,
        max: 1,
        lease_ms: 1000,
        wait_ms: 0,
        seed: 1,
    }
}

pub(super) async fn add(store: &Arc<dyn Store>, tasks: Vec<NewTask>) -> Vec<Inserted> {
    store.insert(Insert { tasks: tasks.into(), atomic: false, max_depth: None }).await.expect("insert")
}

async fn two() -> (Arc<ManualClock>, Arc<dyn Store>, Arc<dyn Store>) {
    let (clock, url) = (ManualClock::shared(), fresh_url());
    let first = open(&url, clock.clone()).await;
    (clock.clone(), first, open(&url, clock).await)
}

#[tokio::test]
async fn what_one_adds_another_who_waits_gets() {
    let (clock, url) = (ManualClock::shared(), fresh_url());
    let here = open(&url, clock.clone()).await;
    // It never looks by itself, so it is served by what it is told or not at all.
    let told = Options::parse(&url).expect("a URL").looking_every(100 * PATIENCE);
    let there = windlass_store::redis::open(told, clock.clone()).await.expect("open");
    let waiting = tokio::spawn({
        let there = Arc::clone(&there);
        async move { there.claim(Claim { wait_ms: 60_000, ..claim() }).await }
    });
    // It stands in line when it was polled, and had its first look when one that came after it is answered.
    tokio::task::yield_now().await;
    let behind = Claim { queues: vec![Queue { name: name("other"), weight: 1 }], ..claim() };
    assert!(there.claim(behind).await.expect("claim").is_empty());
    add(&here, vec![task("a", clock.now().wall)]).await;
    let served = tokio::time::timeout(PATIENCE, waiting).await.expect("in time").expect("no panic");
    let Task { record, .. } = served.expect("claim").remove(0);
    let State::Running(lease) = &record.state else { panic!("{record:?}") };
    let done = transition::complete(&record, lease.token, None, clock.now().wall);
    let change = done.expect("held").expect("a change");
    let transition = windlass_core::Transition {
        id: record.id.clone(),
        seq: record.seq,
        revision: record.revision,
        change,
    };
    assert!(matches!(here.commit(vec![transition]).await.expect("commit")[..], [Committed::Done(_)]));
    assert_eq!(there.ledger().await.expect("ledger").completed, 1);
}

#[tokio::test]
async fn one_of_them_acts_on_time_and_the_next_takes_over() {
    let (clock, first, second) = two().await;
    let later = NewTask { scheduled_at: Some(clock.now().wall + 10), ..task("a", clock.now().wall) };
    add(&second, vec![later]).await;
    clock.advance_ms(10);
    assert!(second.due(9).await.expect("due").tasks.is_empty(), "it does not lead");
    assert_eq!(first.due(9).await.expect("due").tasks.len(), 1);
    first.close().await.expect("close");
    tokio::time::timeout(PATIENCE, async {
        while second.due(9).await.expect("due").tasks.is_empty() {
            second.signals().due.notified().await;
        }
    })
    .await
    .expect("nobody leads");
}

#[tokio::test]
async fn who_lost_the_lead_notices_before_it_acts() {
    let (clock, url) = (ManualClock::shared(), fresh_url());
    let store = open(&url, clock.clone()).await;
    add(&store, vec![NewTask { expires_at: Some(clock.now().wall + 1), ..task("a", clock.now().wall) }])
        .await;
    clock.advance_ms(1);
    raw(&url, &["SET", "leader", "somebody:99"]).await;
    assert!(store.due(9).await.expect("due").tasks.is_empty(), "another term has begun");
}

#[tokio::test]
async fn a_lease_is_timed_by_the_clock_of_who_leads() {
    let url = fresh_url();
    let (clock, elsewhere) = (ManualClock::shared(), ManualClock::shared());
    elsewhere.advance_ms(5_000_000);
    let leader = open(&url, clock.clone()).await;
    let other = open(&url, elsewhere.clone()).await;
    add(&other, vec![task("a", clock.now().wall)]).await;
    let Task { record, .. } = other.claim(claim()).await.expect("claim").remove(0);
    let expired = async || {
        let expire = Expire { dead_workers: Vec::new(), limit: 9 };
        leader.expired(expire).await.expect("expired").tasks.len()
    };
    assert_eq!(expired().await, 0, "seen for the first time");
    clock.advance_ms(999);
    assert_eq!(expired().await, 0);
    let State::Running(lease) = &record.state else { panic!("{record:?}") };
    let extend = Extend { id: record.id.clone(), token: lease.token, lease_ms: None, progress: None };
    let extended = other.extend(vec![extend]).await.expect("extend");
    assert!(matches!(extended[..], [Extended::Until { .. }]));
    clock.advance_ms(1);
    assert_eq!(expired().await, 0, "it beat in time");
    clock.advance_ms(1000);
    assert_eq!(expired().await, 1);
}

/// As when Redis was killed and lost its last writes.
#[tokio::test]
async fn leases_end_also_after_redis_forgot_some_of_their_beats() {
    let (clock, url) = (ManualClock::shared(), fresh_url());
    let (leader, other) = (open(&url, clock.clone()).await, open(&url, clock.clone()).await);
    add(&leader, ["a", "b", "c"].map(|id| task(id, clock.now().wall)).into()).await;
    let expired = async || {
        let expire = Expire { dead_workers: Vec::new(), limit: 9 };
        leader.expired(expire).await.expect("expired").tasks.len()
    };
    other.claim(Claim { max: 2, lease_ms: 60_000, ..claim() }).await.expect("claim");
    assert_eq!(expired().await, 0, "the beats are seen");
    raw(&url, &["HSET", "meta", "beat", "0"]).await;
    other.claim(claim()).await.expect("claim");
    assert_eq!(expired().await, 0, "seen for the first time");
    clock.advance_ms(1000);
    assert_eq!(expired().await, 1);
}

#[tokio::test]
async fn scripts_that_redis_forgot_are_loaded_again() {
    let (clock, url) = (ManualClock::shared(), fresh_url());
    let store = open(&url, clock.clone()).await;
    raw(&url, &["SCRIPT", "FLUSH"]).await;
    assert!(matches!(add(&store, vec![task("a", clock.now().wall)]).await[..], [Inserted::New(_)]));
}

#[tokio::test]
async fn another_format_is_refused() {
    let url = fresh_url();
    raw(&url, &["HSET", "meta", "format", "99"]).await;
    let refused = RedisStore::open(Options::parse(&url).expect("a URL"), ManualClock::shared()).await;
    assert!(matches!(refused, Err(Error::Version { found: 99, .. })), "{refused:?}");
}

#[tokio::test]
async fn a_redis_that_drops_keys_is_refused() {
    let server = super::Server::start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let options = Options::parse(&format!("redis+unix://{}", server.socket.display())).expect("a URL");
    let refused = RedisStore::open(options, ManualClock::shared()).await.map(drop);
    assert!(refused.as_ref().is_err_and(|error| error.to_string().contains("allkeys-lru")), "{refused:?}");
}

/// A queue stays for good, so there is a bound to them, as in the embedded store.
#[tokio::test]
async fn too_many_queues_are_refused() {
    // Queues that are paused are in use, though they have no tasks.
    const FILL: &str = "for j = 1, 1000 do local name = 'n' .. (1000 * ARGV[1] + j) \
        redis.call('ZADD', KEYS[1] .. 'queues', 0, name) \
        redis.call('HSET', KEYS[1] .. 'queue/' .. name, 'paused', ARGV[2]) end";
    let server = super::Server::start(&[]);
    let (clock, url) = (ManualClock::shared(), format!("redis+unix://{}", server.socket.display()));
    let store = open(&url, clock.clone()).await;
    let client = redis::Client::open(url.clone()).expect("a URL");
    // A script that writes a thousand queues may take a while on a busy machine.
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(60)));
    let connection = client.get_multiplexed_async_connection_with_config(&patient).await;
    let connection = connection.expect("a connection");
    let fill = async |part: usize, paused: &str| {
        let mut fill = redis::cmd("EVAL");
        fill.arg(FILL).arg(1).arg("{windlass}:").arg(part).arg(paused);
        fill.query_async::<redis::Value>(&mut connection.clone()).await.expect("an answer");
    };
    for part in 1..=1000 {
        fill(part, "1").await;
    }
    let one = |queue: &str| NewTask { queue: name(queue), ..task(queue, clock.now().wall) };
    for atomic in [false, true] {
        let tasks = vec![one("n1001"), one("new")];
        let refused = store.insert(Insert { tasks: tasks.into(), atomic, max_depth: None }).await;
        assert!(matches!(refused, Err(Error::TooManyLanes)), "{refused:?}");
    }
    let refused = store.set_paused(&name("new"), true).await;
    assert!(matches!(refused, Err(Error::TooManyLanes)), "{refused:?}");
    assert_eq!(store.ledger().await.expect("ledger").submitted, 0, "nothing was added");
    assert!(matches!(add(&store, vec![one("n1001")]).await[..], [Inserted::New(_)]));
    // Those that nothing holds any more make room, at once for a process that did not just look.
    fill(500, "0").await;
    let other = open(&url, clock.clone()).await;
    let tasks = vec![one("new"), one("n1002")];
    let added = other.insert(Insert { tasks: tasks.into(), atomic: true, max_depth: None }).await;
    assert!(matches!(added.expect("insert")[..], [Inserted::New(_), Inserted::New(_)]));
    let known: usize = redis::cmd("ZCARD")
        .arg("{windlass}:queues")
        .query_async(&mut connection.clone())
        .await
        .expect("an answer");
    assert_eq!(known, 1_000_000 - 1000 + 1);
}
