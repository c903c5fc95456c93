//! Opening: what Redis promises is read first, and one that would drop tasks is refused.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::exchange::Voice;
use super::link::{Link, failed};
use super::replicas::Replicas;
use super::spread::{SHARDS_DEFAULT, Spread};
use super::target::Target;
use super::{Options, RedisStore, Shared, migration, reply};
use crate::clock::Clock;
use crate::store::{Durability, Error, Store};

/// The version of the layout that `redis.rs` describes.
const FORMAT: u32 = 5;
/// The version before, without times that count elapsed time. Its data is read as it is.
const FORMAT_BEFORE: u32 = 4;

/// The first version that keeps the lower of two scores by itself, which scripts rely on.
const OLDEST: (u32, u32) = (6, 2);

/// Connects, checks that Redis can keep tasks, and begins to serve: a store of one slot, or one that is spread over a cluster.
pub async fn open(options: Options, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>, Error> {
    let Opening { link, durability, shards } = Opening::look(&options).await?;
    if shards > 1 {
        return Ok(Spread::open(&options, link.wire, shards, durability, clock).await?);
    }
    Ok(RedisStore::whole(options, link, durability, clock).await?)
}

/// Opens a store for whoever wants to be alone with it; `None` if another process uses it, as far as Redis can tell. It may take as long as
/// one that died still leads.
pub async fn open_alone(options: Options, clock: Arc<dyn Clock>) -> Result<Option<Arc<dyn Store>>, Error> {
    let Opening { link, durability, shards } = Opening::look(&options).await?;
    let (store, others): (Arc<dyn Store>, u64) = if shards > 1 {
        let spread = Spread::open(&options, link.wire, shards, durability, clock).await?;
        let others = spread.others().await?;
        (spread, others)
    } else {
        let whole = RedisStore::whole(options, link, durability, clock).await?;
        let others = whole.shared.others().await?;
        (whole, others)
    };
    if others > 0 {
        store.close().await?;
        return Ok(None);
    }
    Ok(Some(store))
}

/// Whether somebody has made a store there. Nothing is written.
pub async fn exists(options: &Options) -> Result<bool, Error> {
    let wire = options.target.connect().await.map_err(|error| failed("connect", &error))?;
    let base = options.base();
    let link = Link::on(wire, &base, None);
    Ok(reply::number(link.ask(redis::cmd("EXISTS").arg(format!("{base}meta"))).await?)? > 0)
}

/// What is there.
struct Opening {
    link: Link,
    durability: Durability,
    shards: usize,
}

impl Opening {
    async fn look(options: &Options) -> Result<Opening, Error> {
        let base = options.base();
        let link = Link::open(&options.target, &base).await?;
        let durability = examine(&link, options).await?;
        migration::check(&link, options).await?;
        let shards = match options.target.is_cluster() {
            true => shards(&link, &base, options.shards).await?,
            false => 1,
        };
        Ok(Opening { link, durability, shards })
    }
}

impl RedisStore {
    /// A store of one slot, on one server, behind sentinels or in a cluster.
    pub async fn open(options: Options, clock: Arc<dyn Clock>) -> Result<Arc<RedisStore>, Error> {
        match Opening::look(&options).await? {
            Opening { shards: 1, link, durability } => {
                RedisStore::whole(options, link, durability, clock).await
            }
            Opening { shards, .. } => Err(Error::Io {
                context: "a store in one slot".into(),
                error: format!("this one is spread over {shards}"),
            }),
        }
    }

    async fn whole(
        options: Options,
        mut link: Link,
        durability: Durability,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<RedisStore>, Error> {
        let base = options.base();
        check_format(&link, &base).await?;
        resume(&link, &base, &*clock).await?;
        if let Some(wanted) = options.wanted {
            link.replicas = Some(Replicas::open(&options.target, wanted, &base).await?);
        }
        let voice = Voice::open(&link, &*clock).await?;
        let store = RedisStore::begin(link, base, options.target, clock, voice, durability).await?;
        if let Some(every) = options.looks {
            store.shared.looks.get_or_init(|| every);
        }
        Ok(store)
    }

    /// Checks Redis for problems now, so that tests need not wait for the next regular check.
    #[doc(hidden)]
    pub async fn look_around(&self) -> Result<(), Error> {
        self.shared.look_around().await
    }

    pub(super) async fn begin(
        link: Link,
        base: String,
        target: Target,
        clock: Arc<dyn Clock>,
        voice: Voice,
        durability: Durability,
    ) -> Result<Arc<RedisStore>, Error> {
        let replicas = link.replicas.as_ref().map_or(0, Replicas::wanted);
        let shared = Arc::new(Shared {
            link,
            base,
            origin: format!("{:016x}", rand::random::<u64>()),
            clock,
            signals: voice.signals,
            waits: Default::default(),
            watch: Default::default(),
            recent: Default::default(),
            reports: Default::default(),
            limits_mark: Default::default(),
            key_locks: Default::default(),
            made_room: Default::default(),
            leader: Default::default(),
            turn: Default::default(),
            stirred: Default::default(),
            hears: Default::default(),
            looks: Default::default(),
            audience: Default::default(),
            due: Default::default(),
            prune: Default::default(),
            notices: Default::default(),
            closed: Default::default(),
        });
        // Whoever leads the first part seizes the others when it acts there.
        if shared.link.is_first() {
            shared.lead().await?;
            shared.look().await;
        }
        let mut tasks = JoinSet::new();
        let (ready, listening) = tokio::sync::oneshot::channel();
        tasks.spawn(Arc::clone(&shared).listen(target.clone(), ready));
        if let Some(outgoing) = voice.outgoing {
            tasks.spawn(Arc::clone(&shared).hear_events(target));
            tasks.spawn(Arc::clone(&shared).tell_events(outgoing));
        }
        tasks.spawn(Arc::clone(&shared).serve_waiting());
        tasks.spawn(Arc::clone(&shared).serve_reports());
        if shared.link.is_first() {
            tasks.spawn(Arc::clone(&shared).keep_leading());
            tasks.spawn(Arc::clone(&shared).keep_looking());
        }
        // If it cannot listen it polls, and says so in the log.
        let _ = listening.await;
        Ok(Arc::new(RedisStore { shared, durability, replicas, _tasks: parking_lot::Mutex::new(tasks) }))
    }
}

/// Over how many slots a store in a cluster is spread. That is written down when it is made, and stays.
async fn shards(link: &Link, base: &str, wanted: Option<usize>) -> Result<usize, Error> {
    let meta = format!("{base}meta");
    let in_one = !matches!(link.ask(redis::cmd("HGET").arg(&meta).arg("format")).await?, redis::Value::Nil);
    let made = |number: usize| async move {
        match wanted {
            Some(wanted) if wanted != number => Err(Error::Io {
                context: "the URL of the store".into(),
                error: format!("shards is {wanted}, but the store was made with {number}"),
            }),
            _ => Ok(number),
        }
    };
    if in_one {
        return made(1).await;
    }
    let first = wanted.unwrap_or(SHARDS_DEFAULT);
    if first == 1 {
        return match link.ask(redis::cmd("HGET").arg(&meta).arg("shards")).await? {
            redis::Value::Nil => Ok(1),
            number => made(reply::number(number)? as usize).await,
        };
    }
    link.ask(redis::cmd("HSETNX").arg(&meta).arg("shards").arg(first)).await?;
    made(reply::number(link.ask(redis::cmd("HGET").arg(&meta).arg("shards")).await?)? as usize).await
}

/// What a crash of Redis may lose; refuses one that throws keys away when it is full. Of the nodes of a cluster the one that
/// promises least counts.
async fn examine(link: &Link, options: &Options) -> Result<Durability, Error> {
    let place = &options.place;
    let refused =
        |why: String| Err(Error::Io { context: format!("Redis at {place} cannot keep tasks"), error: why });
    let mut logged = true;
    for info in link.ask_all(&redis::cmd("INFO")).await? {
        let info = reply::text(info)?;
        let field = |name: &str| {
            let mut lines = info.lines();
            lines
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .map(|value| value.trim().to_owned())
        };
        match (field("cluster_enabled").as_deref() == Some("1"), options.target.is_cluster()) {
            (true, false) => {
                return refused("it is a node of a cluster; name it as redis+cluster://host:port".into());
            }
            (false, true) => return refused("it is no cluster; name it as redis://host:port".into()),
            _ => {}
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
            return refused(format!(
                "its maxmemory-policy is {policy}, which drops keys; set it to noeviction"
            ));
        }
        logged &= field("aof_enabled").as_deref() == Some("1");
    }
    let durability = if logged { synced(link).await } else { Durability::Snapshots };
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

/// How often the least careful of the servers syncs, as far as it may be read.
async fn synced(link: &Link) -> Durability {
    let pairs = link.ask_all(redis::cmd("CONFIG").arg("GET").arg("appendfsync")).await.unwrap_or_default();
    let value = |pair| match pair {
        redis::Value::Array(mut pair) => reply::text(pair.pop()?).ok(),
        redis::Value::Map(mut pairs) => reply::text(pairs.pop()?.1).ok(),
        _ => None,
    };
    let words: Vec<Option<String>> = pairs.into_iter().map(value).collect();
    let all = |known: &[&str]| {
        !words.is_empty()
            && words.iter().flatten().filter(|word| known.contains(&word.as_str())).count() == words.len()
    };
    if all(&["always"]) {
        Durability::Sync
    } else if all(&["always", "everysec"]) {
        Durability::IntervalMs(1000)
    } else {
        Durability::Os
    }
}

/// Continues elapsed time from the last value that the leader stored (`lua/lead.lua`).
pub(super) async fn resume(link: &Link, base: &str, clock: &dyn Clock) -> Result<(), Error> {
    let known = link.ask(redis::cmd("HGET").arg(format!("{base}meta")).arg("elapsed")).await?;
    if !matches!(known, redis::Value::Nil) {
        clock.resume(reply::number(known)?);
    }
    Ok(())
}

pub(super) async fn check_format(link: &Link, base: &str) -> Result<(), Error> {
    let meta = format!("{base}meta");
    link.ask(redis::cmd("HSETNX").arg(&meta).arg("format").arg(FORMAT)).await?;
    let found = reply::number(link.ask(redis::cmd("HGET").arg(&meta).arg("format")).await?)?;
    if found == u64::from(FORMAT_BEFORE) {
        link.ask(redis::cmd("HSET").arg(&meta).arg("format").arg(FORMAT)).await?;
        return Ok(());
    }
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
