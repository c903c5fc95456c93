//! What a Redis promises is read when it is opened, and one that cannot keep tasks is refused.

use std::net::TcpListener;

use windlass_store::clock::ManualClock;
use windlass_store::redis::{Options, RedisStore};
use windlass_store::{Durability, Error, Store};

use super::Server;

async fn opened(server: &Server) -> Result<Durability, Error> {
    let url = format!("redis+unix://{}", server.socket.display());
    let store = RedisStore::open(Options::parse(&url).expect("a URL"), ManualClock::shared()).await?;
    Ok(store.capabilities().durability)
}

#[tokio::test]
async fn durability_is_what_redis_is_set_to() {
    let kept = |fsync: &'static str| Server::start(&["--appendonly", "yes", "--appendfsync", fsync]);
    assert_eq!(opened(&kept("always")).await.expect("open"), Durability::Sync);
    assert_eq!(opened(&kept("everysec")).await.expect("open"), Durability::IntervalMs(1000));
    assert_eq!(opened(&kept("no")).await.expect("open"), Durability::Os);
    assert_eq!(opened(&Server::start(&["--appendonly", "no"])).await.expect("open"), Durability::Snapshots);
}

#[tokio::test]
async fn a_redis_that_drops_keys_is_refused() {
    for policy in ["allkeys-lru", "volatile-ttl"] {
        let server = Server::start(&["--maxmemory", "100mb", "--maxmemory-policy", policy]);
        let refused = opened(&server).await.expect_err("it would drop tasks").to_string();
        assert!(refused.contains(policy) && refused.contains("noeviction"), "{refused}");
    }
}

#[tokio::test]
async fn a_replica_is_refused() {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("a port").port();
    let port = port.to_string();
    let _primary = Server::start(&["--port", &port, "--bind", "127.0.0.1"]);
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port, "--replica-read-only", "no"]);
    let refused = opened(&replica).await.expect_err("it is a replica").to_string();
    assert!(refused.contains("name the primary"), "{refused}");
}
