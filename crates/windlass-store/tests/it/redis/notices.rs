//! Problems of a Redis that still serves are reported.

use std::sync::Arc;

use windlass_store::clock::ManualClock;
use windlass_store::redis::{Options, RedisStore};
use windlass_store::{Expire, Store};

use super::cluster::cluster;
use super::shared::{add, task};
use super::{Server, ask, fresh_prefix, open};

/// Opens a store on this server.
async fn store(server: &Server, clock: &Arc<ManualClock>) -> Arc<RedisStore> {
    let url = format!("redis+unix://{}?prefix=notices", server.socket.display());
    RedisStore::open(Options::parse(&url).expect("a URL"), clock.clone()).await.expect("open")
}

async fn problem(store: &RedisStore) -> String {
    store.look_around().await.expect("a look");
    store.problem().unwrap_or_default()
}

#[tokio::test]
async fn clocks_that_differ_are_noticed_by_both() {
    let server = Server::start(&[]);
    let (clock, other) = (ManualClock::shared(), ManualClock::shared());
    let (first, second) = (store(&server, &clock).await, store(&server, &other).await);
    for _ in 0..3 {
        assert_eq!((problem(&first).await, problem(&second).await), (String::new(), String::new()));
    }
    other.jump_wall_ms(3_600_000);
    // The clocks are measured, stored, seen once, and seen again.
    for _ in 0..4 {
        second.look_around().await.expect("a look");
        first.look_around().await.expect("a look");
    }
    let ahead = first.problem().expect("the other one is ahead");
    assert!(ahead.contains("3600 s ahead of") || ahead.contains("3601 s ahead of"), "{ahead}");
    assert!(ahead.contains(&format!("process {}", std::process::id())), "{ahead}");
    let behind = second.problem().expect("the other one is behind");
    assert!(behind.contains(" s behind the clock of this process"), "{behind}");
    other.jump_wall_ms(-3_600_000);
    for store in [&second, &second, &first, &second] {
        store.look_around().await.expect("a look");
    }
    assert_eq!((first.problem(), second.problem()), (None, None));
}

#[tokio::test]
async fn an_eviction_policy_is_noticed_and_so_is_its_end() {
    let server = Server::start(&[]);
    let store = store(&server, &ManualClock::shared()).await;
    assert_eq!(problem(&store).await, "");
    server.say(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let evicts = problem(&store).await;
    assert!(evicts.contains("maxmemory-policy is allkeys-lru"), "{evicts}");
    server.say(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    assert_eq!(problem(&store).await, "");
}

#[tokio::test]
async fn a_flushed_redis_is_noticed_by_all_though_it_is_filled_again() {
    let server = Server::start(&[]);
    let clock = ManualClock::shared();
    let (first, second) = (store(&server, &clock).await, store(&server, &clock).await);
    server.say(&["FLUSHALL"]);
    let refill: Vec<_> = (0..50).map(|i| task(&format!("t{i}"), 1)).collect();
    add(&(first.clone() as Arc<dyn Store>), refill).await;
    for store in [&first, &second] {
        let lost = problem(store).await;
        assert!(lost.contains("Redis lost its data set"), "{lost}");
        assert_eq!(problem(store).await, lost, "and it stays");
    }
    // A store that is opened afterwards finds no problem.
    let fresh = self::store(&server, &clock).await;
    assert_eq!(problem(&fresh).await, "");
}

#[tokio::test]
async fn a_redis_that_came_back_without_its_data_or_with_older_data_is_noticed() {
    let server = Server::start(&[]);
    let clock = ManualClock::shared();
    let store = store(&server, &clock).await;
    assert_eq!(problem(&store).await, "");
    server.say(&["SAVE"]);
    assert_eq!(problem(&store).await, "");
    let server = server.crash(&[]);
    let older = problem(&store).await;
    assert!(older.contains("older data set"), "{older}");
    let fresh = self::store(&server, &clock).await;
    std::fs::remove_file(server.dir.path().join("dump.rdb")).expect("a snapshot");
    let _server = server.crash(&[]);
    let empty = problem(&fresh).await;
    assert!(empty.contains("Redis lost its data set"), "{empty}");
}

/// The leader checks each part of a spread store when it reads its leases.
#[tokio::test]
async fn a_lost_part_of_a_spread_store_is_noticed() {
    let prefix = fresh_prefix();
    let store = open(&cluster().url(&prefix, "&shards=4"), ManualClock::shared()).await;
    let expire = || Expire { dead_workers: Vec::new(), limit: 10 };
    for _ in 0..2 {
        store.expired(expire()).await.expect("expired");
    }
    assert_eq!(store.problem(), None);
    ask(cluster().ports[0], &["-c", "DEL", &format!("{{{prefix}/2}}:meta")]);
    store.expired(expire()).await.expect("expired");
    let lost = store.problem().expect("a part is lost");
    assert!(lost.contains("Redis lost its data set"), "{lost}");
}
