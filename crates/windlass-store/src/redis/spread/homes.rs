//! The directory: in which part is what has this name?
//!
//! A name is put down *before* what it names is written. So there are three moments at which a process may die: before the
//! entry (nothing happened), behind it (an entry without a thing) and behind both. And two may want one name in different
//! parts: the entry is put down once, so the second one finds the part of the first and looks there. What it finds is the
//! answer (a taken id; for unique keys see `keys.rs`). If it finds nothing, the first one may be dead or on its way, and nobody can tell. But
//! nobody is on the way for ever: what a name was put down for must be written within [`FENCE`], or its part refuses it. So an
//! entry that nobody asked for during [`SETTLED_MS`] can be replaced, if it is still the same. Until then the second one is told to
//! come back. Whoever wants the name where it is already goes on at once, and makes the entry young again.
//!
//! The fence is a time of the clock of the part that is written to, and taken before the name is put down; the age of an entry is
//! told by the clock of its share of the directory. So neither two clocks nor that of the process are compared, and a process that
//! was stopped for an hour in between is refused like a packet that was on its way for so long. It relies on clocks of servers that
//! are not set forward or back by more than the difference of the two.
//!
//! Entries leave the same way: what is forgotten is noted, and when its entry is as old as that, it is dropped if it is still as it
//! was then and nothing has the name. A process that dies in between leaves an entry behind, which costs a few bytes and is replaced
//! by the next one who wants the name.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::try_join_all;
use parking_lot::Mutex;
use windlass_core::{Name, Record, TaskId};

use super::super::link::{Args, Fence};
use super::super::read::By;
use super::super::{RedisStore, Shared, reply, script};
use super::Spread;
use crate::store::Error;

/// Twice as long as what a name was put down for can still be written.
const SETTLED_MS: u64 = 60_000;
/// Twice as long as a call is tried, with the questions before it.
pub(in super::super) const FENCE: Duration = Duration::from_secs(30);
pub(super) const SWEEP_EVERY: Duration = Duration::from_secs(30);
const SWEEP_MAX: u64 = 1000;
/// Ids whose part is known without asking; beyond it all are forgotten, which costs one more call for each, once.
const KNOWN_MAX: usize = 50_000;

/// Where ids were last seen. An id may be elsewhere by now, so who misses it there asks the directory.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<HashMap<TaskId, usize>>);

impl Known {
    pub(super) fn put(&self, id: &TaskId, shard: usize) {
        let mut known = self.0.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(id.clone(), shard);
    }

    fn get(&self, id: &TaskId) -> Option<usize> {
        self.0.lock().get(id).copied()
    }

    pub(super) fn forget(&self, id: &TaskId) {
        self.0.lock().remove(id);
    }
}

pub(super) fn of_id(id: &TaskId) -> String {
    format!("i:{id}")
}

pub(super) fn of_key(key: &str) -> String {
    format!("u:{key}")
}

pub(super) fn of_workflow(id: &str) -> String {
    format!("w:{id}")
}

pub(super) fn of_schedule(id: &Name) -> String {
    format!("s:{id}")
}

/// What the directory says of a name.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) shard: usize,
    age_ms: u64,
    value: String,
}

impl Place {
    /// Whether nobody can be on the way any more who asked for it.
    pub(super) fn is_settled(&self) -> bool {
        self.age_ms >= SETTLED_MS
    }
}

/// A question to the directory.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) name: String,
    /// As in `lua/home.lua`.
    wanted: String,
    instead: String,
}

impl Asked {
    pub(super) fn look(name: String) -> Asked {
        Asked { name, wanted: String::new(), instead: String::new() }
    }

    pub(super) fn want(name: String, shard: usize) -> Asked {
        Asked { name, wanted: shard.to_string(), instead: String::new() }
    }

    /// In place of this entry, if it is still the same.
    pub(super) fn instead_of(self, place: &Place) -> Asked {
        Asked { instead: place.value.clone(), ..self }
    }

    fn forgotten(name: String) -> Asked {
        Asked { name, wanted: "-".into(), instead: String::new() }
    }
}

impl Spread {
    pub(super) async fn homes(&self, asked: &[Asked]) -> Result<Vec<Option<Place>>, Error> {
        homes(&self.parts, asked).await
    }

    /// Takes a name for a part, in place of an entry that leads nowhere. `false` if somebody may still be on the way there.
    pub(super) async fn take_over(&self, name: String, shard: usize, place: &Place) -> Result<bool, Error> {
        if !place.is_settled() {
            return Ok(false);
        }
        let asked = Asked::want(name, shard).instead_of(place);
        let place = self.homes(&[asked]).await?.pop().flatten();
        Ok(place.is_some_and(|place| place.shard == shard))
    }

    /// Until when something can be written to a part for which a name is put down after this.
    pub(super) async fn fence(&self, shard: usize) -> Result<Fence, Error> {
        let link = &self.part(shard).link;
        if let Some(fence) = link.time_in(self.fence) {
            return Ok(Some(fence));
        }
        self.floor.fetch_max(link.hear().await?, Ordering::SeqCst);
        Ok(link.time_in(self.fence))
    }

    pub(super) async fn fences(
        &self,
        shards: impl Iterator<Item = usize>,
    ) -> Result<BTreeMap<usize, u64>, Error> {
        let mut fences = BTreeMap::new();
        for shard in shards {
            if let Entry::Vacant(vacant) = fences.entry(shard) {
                // It was heard in this moment.
                vacant.insert(self.fence(shard).await?.ok_or(Error::Busy)?);
            }
        }
        Ok(fences)
    }

    /// Where a thing is, if it is anywhere.
    pub(super) async fn home(&self, name: String) -> Result<Option<usize>, Error> {
        let place = self.homes(&[Asked::look(name)]).await?.pop().flatten();
        Ok(place.map(|place| place.shard))
    }

    /// Where tasks are, by what is known or by the directory.
    pub(super) async fn homes_of(&self, ids: &[&TaskId]) -> Result<Vec<Option<usize>>, Error> {
        let mut shards: Vec<Option<usize>> = ids.iter().map(|id| self.known.get(id)).collect();
        let unknown: Vec<usize> = (0..ids.len()).filter(|i| shards[*i].is_none()).collect();
        let asked: Vec<Asked> = unknown.iter().map(|i| Asked::look(of_id(ids[*i]))).collect();
        for (i, place) in unknown.into_iter().zip(self.homes(&asked).await?) {
            if let Some(place) = place {
                self.known.put(ids[i], place.shard);
                shards[i] = Some(place.shard);
            }
        }
        Ok(shards)
    }

    /// Notes that tasks are forgotten. Without it their entries stay, and do no harm.
    pub(super) async fn let_go(&self, records: &[Box<Record>]) {
        let mut names = Vec::new();
        for record in records {
            self.known.forget(&record.id);
            names.push(of_id(&record.id));
            names.extend(record.unique.as_ref().map(|hold| of_key(hold.key.as_str())));
            if let Some((workflow, _)) = record.id.as_str().rsplit_once(':').filter(|_| record.member) {
                names.push(of_workflow(workflow));
            }
        }
        self.let_go_of(names).await;
    }

    pub(super) async fn let_go_of(&self, names: Vec<String>) {
        let asked: Vec<Asked> = names.into_iter().map(Asked::forgotten).collect();
        if let Err(error) = self.homes(&asked).await {
            tracing::debug!(%error, "entries of the directory stay longer than what they name");
        }
    }
}

async fn homes(parts: &[Arc<RedisStore>], asked: &[Asked]) -> Result<Vec<Option<Place>>, Error> {
    let mut by_share: HashMap<usize, Vec<usize>> = HashMap::new();
    for (i, asked) in asked.iter().enumerate() {
        by_share.entry(crc32fast::hash(asked.name.as_bytes()) as usize % parts.len()).or_default().push(i);
    }
    let ask = |(share, indices): (usize, Vec<usize>)| async move {
        let mut args = Args::new("");
        args.number(indices.len() as u64);
        for i in &indices {
            args.text(&asked[*i].name).text(&asked[*i].wanted).text(&asked[*i].instead);
        }
        let link = &parts[share].shared.link;
        // Without its entry nobody would find what it names; one that stays too long does no harm.
        let puts = indices.iter().any(|i| !matches!(asked[*i].wanted.as_str(), "" | "-"));
        let answers = match puts {
            true => link.run(&script::HOME, &args).await?,
            false => link.look(&script::HOME, &args).await?,
        };
        let answers = reply::list(answers)?;
        let places = answers.into_iter().map(place).collect::<Result<Vec<_>, _>>()?;
        Ok::<_, Error>(indices.into_iter().zip(places).collect::<Vec<_>>())
    };
    let mut places: Vec<Option<Place>> = vec![None; asked.len()];
    for (i, place) in try_join_all(by_share.into_iter().map(ask)).await?.into_iter().flatten() {
        places[i] = place.filter(|place| place.shard < parts.len());
    }
    Ok(places)
}

fn place(answer: redis::Value) -> Result<Option<Place>, Error> {
    if matches!(answer, redis::Value::Nil) {
        return Ok(None);
    }
    let [shard, age, value] = reply::fixed(answer)?;
    let shard = reply::number(shard)? as usize;
    Ok(Some(Place { shard, age_ms: reply::number(age)?, value: reply::text(value)? }))
}

/// Drops entries of what is forgotten, until the store is closed. Whoever leads a part looks after its share, and whoever leads the
/// first one after limits that somebody left unsettled.
pub(super) async fn sweep(spread: Weak<Spread>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(spread) = spread.upgrade() else { return };
        for part in spread.parts.iter().filter(|part| part.shared.leader.mark().is_some()) {
            if let Err(error) = sweep_share(&spread.parts, &part.shared).await {
                tracing::debug!(%error, "the directory is not swept");
            }
        }
        if spread.part(0).leader.mark().is_some()
            && let Err(error) = spread.settle_leftovers().await
        {
            tracing::debug!(%error, "limits stay unsettled");
        }
    }
}

/// An entry is dropped as it was when it was settled: who asks for it in between makes it another one.
async fn sweep_share(parts: &[Arc<RedisStore>], share: &Shared) -> Result<(), Error> {
    let mut args = Args::new("");
    args.number(SETTLED_MS).number(SWEEP_MAX);
    let mut asked = Vec::new();
    for answer in reply::list(share.link.run(&script::GONE, &args).await?)? {
        let [name, value] = reply::fixed(answer)?;
        let (name, value) = (reply::text(name)?, reply::text(value)?);
        let Some((shard, _)) = value.split_once(' ') else { continue };
        let Some(part) = shard.parse().ok().and_then(|shard: usize| parts.get(shard)) else { continue };
        if !is_there(&part.shared, &name).await? {
            asked.push(Asked { instead: value, ..Asked::forgotten(name) });
        }
    }
    homes(parts, &asked).await.map(drop)
}

/// Whether something in a part has a name of the directory.
async fn is_there(part: &Shared, name: &str) -> Result<bool, Error> {
    let Some((kind, name)) = name.split_once(':') else { return Ok(true) };
    match kind {
        "i" => {
            let Ok(id) = TaskId::new(name) else { return Ok(true) };
            Ok(part.look_up([By::Id(&id)], false).await?.pop().flatten().is_some())
        }
        // A mark of `keys.rs` is nobody.
        "u" => Ok(part.look_up([By::Key(name)], false).await?.pop().flatten().is_some()),
        "w" | "s" => {
            let Ok(id) = Name::new(name) else { return Ok(true) };
            let found = if kind == "w" {
                part.workflow(&id).await?.is_some()
            } else {
                part.schedule(&id).await?.is_some()
            };
            Ok(found)
        }
        _ => Ok(true),
    }
}
