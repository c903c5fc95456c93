//! Opening: what Redis promises is read first, and one that would drop tasks is refused.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::link::Link;
use super::replicas::Replicas;
use super::{Options, RedisStore, Shared, exchange, reply};
use crate::clock::Clock;
use crate::store::{Durability, Error, Signals};

/// The version of the layout that `redis.rs` describes.
const FORMAT: u32 = 2;

/// The first version that keeps the lower of two scores by itself, which scripts rely on.
const OLDEST: (u32, u32) = (6, 2);

impl RedisStore {
    /// Connects, checks that Redis can keep tasks, and begins to serve.
    pub async fn open(options: Options, clock: Arc<dyn Clock>) -> Result<Arc<RedisStore>, Error> {
        let base = options.base();
        let mut link = Link::open(options.client.clone(), &base).await?;
        let durability = examine(&link, &options.place).await?;
        check_format(&link, &base).await?;
        let replicas = options.wanted.map_or(0, |wanted| wanted.replicas);
        if let Some(wanted) = options.wanted {
            link.replicas = Some(Replicas::open(options.client.clone(), wanted, &base).await?);
        }
        let (exchange, outgoing) = exchange::open(&link, clock.now().wall).await?;
        let shared = Arc::new(Shared {
            link,
            base,
            origin: format!("{:016x}", rand::random::<u64>()),
            clock,
            signals: Signals { exchange: Some(Arc::new(exchange)), ..Signals::default() },
            waits: Default::default(),
            watch: Default::default(),
            recent: Default::default(),
            limits_mark: Default::default(),
            leader: Default::default(),
            turn: Default::default(),
            hears: Default::default(),
            audience: Default::default(),
            due: Default::default(),
            prune: Default::default(),
            closed: Default::default(),
        });
        shared.lead().await?;
        let mut tasks = JoinSet::new();
        let (ready, listening) = tokio::sync::oneshot::channel();
        tasks.spawn(Arc::clone(&shared).listen(options.client.clone(), ready));
        tasks.spawn(Arc::clone(&shared).hear_events(options.client));
        tasks.spawn(Arc::clone(&shared).tell_events(outgoing));
        tasks.spawn(Arc::clone(&shared).serve_waiting());
        tasks.spawn(Arc::clone(&shared).keep_leading());
        // If it cannot listen it polls, and says so in the log.
        let _ = listening.await;
        Ok(Arc::new(RedisStore { shared, durability, replicas, _tasks: parking_lot::Mutex::new(tasks) }))
    }
}

/// What a crash of Redis may lose; refuses one that throws keys away when it is full, or that spreads them over a cluster.
async fn examine(link: &Link, place: &str) -> Result<Durability, Error> {
    let refused =
        |why: String| Err(Error::Io { context: format!("Redis at {place} cannot keep tasks"), error: why });
    let info = reply::text(link.ask(&redis::cmd("INFO")).await?)?;
    let field = |name: &str| {
        let mut lines = info.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(|value| value.trim().to_owned())
    };
    if field("cluster_enabled").as_deref() == Some("1") {
        return refused("it is a node of a cluster, for which this version has no client".into());
    }
    if field("role").is_some_and(|role| role != "master") {
        return refused("it is a replica; name the primary".into());
    }
    let version = field("redis_version").unwrap_or_default();
    if is_older(&version, OLDEST) {
        let (major, minor) = OLDEST;
        return refused(format!("it is version {version}; scripts need {major}.{minor} at least"));
    }
    let policy = field("maxmemory_policy").unwrap_or_default();
    if !policy.is_empty() && policy != "noeviction" {
        return refused(format!("its maxmemory-policy is {policy}, which drops keys; set it to noeviction"));
    }
    let durability = match field("aof_enabled").as_deref() {
        Some("1") => match setting(link, "appendfsync").await.as_deref() {
            Some("always") => Durability::Sync,
            Some("everysec") => Durability::IntervalMs(1000),
            _ => Durability::Os,
        },
        _ => Durability::Snapshots,
    };
    match durability {
        Durability::Sync => {
            tracing::info!(place, "Redis syncs every write: an answered call survives its crash")
        }
        Durability::Snapshots => tracing::warn!(
            place,
            "Redis has appendonly off: a crash of it loses all that happened since its last snapshot"
        ),
        _ => tracing::warn!(
            place,
            ?durability,
            "a crash of Redis may lose the last writes; appendfsync always keeps them"
        ),
    }
    Ok(durability)
}

/// A server that does not tell its version is trusted.
fn is_older(version: &str, oldest: (u32, u32)) -> bool {
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    let Some(major) = numbers.next() else { return false };
    (major, numbers.next().unwrap_or(0)) < oldest
}

/// A setting of Redis, if it may be read.
async fn setting(link: &Link, name: &str) -> Option<String> {
    let answer = link.ask(redis::cmd("CONFIG").arg("GET").arg(name)).await.ok()?;
    match answer {
        redis::Value::Array(mut pair) => reply::text(pair.pop()?).ok(),
        redis::Value::Map(mut pairs) => reply::text(pairs.pop()?.1).ok(),
        _ => None,
    }
}

async fn check_format(link: &Link, base: &str) -> Result<(), Error> {
    let meta = format!("{base}meta");
    link.ask(redis::cmd("HSETNX").arg(&meta).arg("format").arg(FORMAT)).await?;
    let found = reply::number(link.ask(redis::cmd("HGET").arg(&meta).arg("format")).await?)?;
    if found != u64::from(FORMAT) {
        return Err(Error::Version { found: found as u32, known: FORMAT });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        for (version, older) in
            [("6.0.16", true), ("5", true), ("6.2.0", false), ("7.0.15", false), ("10.1", false), ("", false)]
        {
            assert_eq!(is_older(version, OLDEST), older, "{version}");
        }
    }
}
