//! A store that is spread over a cluster.
//!
//! # The model
//!
//! A store of one hash tag is in one slot, so in one node. A store that is spread has a fixed number of *parts*, each of
//! them such a store (`redis.rs`) with a hash tag of its own, `{<prefix>/<part>}:`, and the parts are in different slots.
//! Queues are dealt out to the parts by *group*, which is the name of a queue up to its first colon, or all of it: `shop:mail`
//! and `shop:orders` are always together. All that belongs to a task is in the part of its queue, so every commit is one
//! script in one slot, as ever.
//!
//! - **Numbers** are unique over all parts: a part gives out only numbers that leave its own index when they are divided
//!   by the number of parts, so a number says where its task is. Every call carries the largest number that this process
//!   has seen, and a part goes on behind it; so lists that are merged from the parts are in order of submit, up to what
//!   processes have not heard of each other for a moment.
//! - **Ids, unique keys, workflows and schedules** have names that are good for the whole store. A directory, which is
//!   spread by name, says in which part each of them is (`spread/homes.rs`, `spread/keys.rs`).
//! - **A claim** of queues in several parts is several calls (`spread/claim.rs`), and never gets more than it asked for.
//! - **Whoever leads** the first part leads them all (`lead.rs`).
//! - **Operations** are kept by the first part. Their steps reach over all of them (`spread/named.rs`).
//! - Everything else is a sum, a merge, or one call to the part that it is about.
//!
//! # What it cannot stand
//!
//! A slot that is moved to another node while scripts run on it. Redis moves it key by key, a script names only one of its keys
//! beforehand, and it fails where it meets the first one that is away, with what it did before left standing. `docs/stores.md`
//! says so. The failure of a node is none of this: its replica has all of the slot.
//!
//! # What it refuses
//!
//! What must be one commit over several groups: a batch that is added whole, dependencies and workflows between them, a unique
//! key that is to be taken from a live task of another group, and moving a task there ([`Feature::Together`]); counting tasks of a
//! type or key in several parts ([`Feature::FlowTogether`], `spread/limits.rs`). Each is refused before anything is written. Who needs
//! them names the queues alike, or keeps the store in one slot (`?shards=1`), where nothing is refused. What another store had is put
//! in under numbers that say where it is (`spread/restore.rs`).

mod claim;
mod homes;
mod insert;
mod keys;
mod limits;
mod named;
mod reach;
mod read;
mod restore;
mod statuses;
mod store;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;
use windlass_core::{Name, Record};

use super::exchange::Voice;
use super::link::{Link, Part, failed};
use super::options::Options;
use super::replicas::Replicas;
use super::target::Wire;
use super::{RedisStore, Shared, open, reply};
use crate::clock::Clock;
use crate::store::{Durability, Error, Feature, Signals, Store};

/// Enough for the largest clusters that keep one store, few enough to ask all of them.
pub(super) const SHARDS_DEFAULT: usize = 16;
pub(super) const SHARDS_MAX: usize = 64;
/// How old what this process knows of the numbers of others may be when it adds tasks.
const NUMBERS_EVERY: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Spread {
    parts: Arc<Vec<Arc<RedisStore>>>,
    signals: Arc<Signals>,
    durability: Durability,
    /// That have what is answered.
    replicas: u32,
    clock: Arc<dyn Clock>,
    /// The largest number that was seen.
    floor: Arc<AtomicU64>,
    numbers_read: Mutex<Instant>,
    fence: Duration,
    known: homes::Known,
    /// Parts that had no queues, and when that was seen.
    calm: Mutex<HashMap<usize, Instant>>,
    /// Whether there may be limits on types or keys.
    far: Arc<AtomicBool>,
    /// One limit at a time is settled by this process.
    settling: tokio::sync::Mutex<()>,
    /// They end with the store.
    tasks: Mutex<JoinSet<()>>,
}

impl Spread {
    pub(super) async fn open(
        options: &Options,
        wire: Wire,
        shards: usize,
        durability: Durability,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Spread>, Error> {
        let floor = Arc::new(AtomicU64::new(0));
        let waiting = match options.wanted {
            Some(wanted) => {
                let apart =
                    options.target.connect_apart().await.map_err(|error| failed("connect", &error))?;
                Some((apart, wanted))
            }
            None => None,
        };
        let link = |shard: usize| {
            let base = format!("{{{}/{shard}}}:", options.prefix);
            let part = Part { shard, shards, floor: Arc::clone(&floor) };
            let mut link = Link::on(wire.clone(), &base, Some(part));
            let replicas =
                |(apart, wanted): &(Wire, _)| Replicas::on(apart.clone(), &options.target, *wanted, &base);
            link.replicas = waiting.as_ref().map(replicas);
            (link, base)
        };
        let first = Voice::open(&link(0).0, &*clock).await?;
        let signals = Arc::clone(&first.signals);
        let mut voices: Vec<Voice> = (1..shards).map(|_| Voice::beside(&signals)).collect();
        voices.insert(0, first);
        let begin = |(shard, voice): (usize, Voice)| {
            let (link, base) = link(shard);
            let clock = Arc::clone(&clock);
            async move {
                open::check_format(&link, &base).await?;
                open::resume(&link, &base, &*clock).await?;
                RedisStore::begin(link, base, options.target.clone(), clock, voice, durability).await
            }
        };
        let parts = Arc::new(try_join_all(voices.into_iter().enumerate().map(begin)).await?);
        for part in &parts[1..] {
            part.shared.leader.follow(&parts[0].shared);
        }
        try_join_all(parts[1..].iter().map(|part| part.shared.leading())).await?;
        let spread = Arc::new(Spread {
            parts,
            signals,
            durability,
            replicas: options.wanted.map_or(0, |wanted| wanted.replicas),
            clock,
            floor,
            numbers_read: Mutex::new(Instant::now()),
            fence: options.fence.unwrap_or(homes::FENCE),
            known: homes::Known::default(),
            calm: Mutex::default(),
            far: Arc::default(),
            settling: Default::default(),
            tasks: Mutex::default(),
        });
        spread.news().read().await?;
        if let Some(wanted) = options.wanted {
            let replicas = spread.parts.iter().filter_map(|part| part.shared.link.replicas.as_ref());
            let found = try_join_all(replicas.map(Replicas::found)).await?;
            wanted.announce(found.into_iter().min().unwrap_or(0));
        }
        let every = options.swept.unwrap_or(homes::SWEEP_EVERY);
        spread.tasks.lock().spawn(homes::sweep(Arc::downgrade(&spread), every));
        Ok(spread)
    }

    /// How many other processes use the store: each of them hears the hints of the first part.
    pub(super) async fn others(&self) -> Result<u64, Error> {
        self.part(0).others().await
    }

    fn count(&self) -> usize {
        self.parts.len()
    }

    fn part(&self, shard: usize) -> &Arc<Shared> {
        &self.parts[shard].shared
    }

    /// Where the tasks of a queue are.
    fn shard_of(&self, queue: &Name) -> usize {
        self.capabilities().part_of(queue) as usize
    }

    /// Where a task of this number is.
    fn shard_at(&self, number: u64) -> usize {
        (number % self.count() as u64) as usize
    }

    fn saw<'a>(&self, records: impl IntoIterator<Item = &'a Record>) {
        let largest = records.into_iter().map(|record| record.seq.max(record.order)).max();
        self.floor.fetch_max(largest.unwrap_or(0), Ordering::SeqCst);
    }

    fn news(&self) -> News {
        let (parts, floor) = (Arc::clone(&self.parts), Arc::clone(&self.floor));
        News { parts, floor, far: Arc::clone(&self.far) }
    }

    /// Others may have added tasks and limits meanwhile. Nobody waits for this: it is about the order of lists, and a limit that
    /// is not known here is known where tasks are added.
    fn hear_of_numbers(&self) {
        let mut read = self.numbers_read.lock();
        if read.elapsed() > NUMBERS_EVERY {
            *read = Instant::now();
            let news = self.news();
            tokio::spawn(async move {
                if let Err(error) = news.read().await {
                    tracing::debug!(%error, "cannot read what other processes did");
                }
            });
        }
    }
}

/// What this process knows of the work of others.
struct News {
    parts: Arc<Vec<Arc<RedisStore>>>,
    floor: Arc<AtomicU64>,
    far: Arc<AtomicBool>,
}

impl News {
    async fn read(&self) -> Result<(), Error> {
        let numbers = self.parts.iter().map(|part| part.shared.link.hear());
        for number in try_join_all(numbers).await? {
            self.floor.fetch_max(number, Ordering::SeqCst);
        }
        let first = &self.parts[0].shared;
        let limits = first.link.ask(redis::cmd("HLEN").arg(first.key(limits::LIMITS))).await?;
        if reply::number(limits)? > 0 {
            self.far.store(true, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// What would have to be one commit over queues that are kept apart.
fn apart() -> Error {
    Error::Unsupported { store: "redis", feature: Feature::Together }
}
