//! Adding tasks, each to the part of its queue.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;

use futures_util::future::try_join_all;
use windlass_core::flow::{Full, Scope};
use windlass_core::{NewTask, OnConflict, Record, TaskId};

use super::homes::{Asked, Place, of_id, of_key};
use super::{Spread, apart};
use crate::store::{Error, Insert, Inserted};

/// How often a batch is sent again because a limit came to count in another part meanwhile.
const SHUT_TRIES_MAX: usize = 4;

impl Spread {
    pub(super) async fn insert(&self, insert: Insert) -> Result<Vec<Inserted>, Error> {
        let Insert { tasks, atomic, max_depth } = insert;
        let shards: Vec<usize> = tasks.iter().map(|new| self.shard_of(&new.queue)).collect();
        if atomic && shards.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err(apart());
        }
        check_replaced(&tasks, &shards)?;
        self.check_dependencies(&tasks, &shards).await?;
        self.hear_of_numbers();
        let mut answers: Vec<Option<Inserted>> = vec![None; tasks.len()];
        let mut left: Vec<usize> = (0..tasks.len()).collect();
        let mut tries = 0;
        while !left.is_empty() {
            let (round, later) = split(&left, &tasks, &shards);
            for i in &round {
                answers[*i] = None;
            }
            let fences = self.fences(round.iter().map(|i| shards[*i])).await?;
            let begun = answers.iter().any(Option::is_some);
            let reserved = self.reserve(&round, &tasks, &shards).await.map_err(|error| match error {
                // Somebody took a key while a part was written. Asked again, it is refused before that.
                Error::Unsupported { .. } if begun => Error::Busy,
                error => error,
            });
            for (i, answer) in reserved? {
                answers[i] = Some(answer);
            }
            for (i, answer) in self.left_out_by_limits(&round, &answers, &tasks, &shards).await? {
                answers[i] = Some(answer);
            }
            if atomic && answers.iter().any(Option::is_some) {
                return Ok(answers.into_iter().map(|answer| answer.unwrap_or(Inserted::Aborted)).collect());
            }
            let mut by_shard: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
            for i in round.into_iter().filter(|i| answers[*i].is_none()) {
                by_shard.entry(shards[i]).or_default().push(i);
            }
            let add = |(shard, indices): (usize, Vec<usize>)| {
                let tasks = indices.iter().map(|i| tasks[*i].clone()).collect();
                let insert = Insert { tasks, atomic, max_depth };
                let fence = fences.get(&shard).copied();
                async move { Ok::<_, Error>((indices, self.part(shard).insert(insert, fence).await?)) }
            };
            let mut again = Vec::new();
            for (indices, inserted) in try_join_all(by_shard.into_iter().map(add)).await? {
                if tries < SHUT_TRIES_MAX && inserted.iter().any(is_shut) {
                    let anew = |(_, answer): &(&usize, &Inserted)| atomic || is_left_out(answer);
                    again.extend(indices.iter().zip(&inserted).filter(anew).map(|(i, _)| *i));
                }
                for (i, inserted) in indices.into_iter().zip(inserted) {
                    answers[i] = Some(inserted);
                }
            }
            if !again.is_empty() {
                // A limit was set that this process has not heard of, or it came to count elsewhere.
                self.far.store(true, Ordering::SeqCst);
                tries += 1;
            }
            left = [again, later].concat();
        }
        let answers: Vec<Inserted> = answers.into_iter().flatten().collect();
        self.saw(answers.iter().filter_map(added));
        answers.iter().filter_map(added).for_each(|new| self.known.put(&new.id, self.shard_at(new.seq)));
        Ok(answers)
    }

    /// The answers to those of a round that a limit would have to count which counts in another part.
    async fn left_out_by_limits(
        &self,
        round: &[usize],
        answers: &[Option<Inserted>],
        tasks: &[NewTask],
        shards: &[usize],
    ) -> Result<Vec<(usize, Inserted)>, Error> {
        if !self.far.load(Ordering::SeqCst) {
            return Ok(Vec::new());
        }
        let mut by_shard: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for i in round.iter().filter(|i| answers[**i].is_none()) {
            by_shard.entry(shards[*i]).or_default().push(*i);
        }
        let mut left_out = Vec::new();
        for (shard, indices) in by_shard {
            for (at, apart) in self.uncounted(shard, indices.iter().map(|i| &tasks[*i])).await? {
                left_out.push((indices[at], Inserted::LimitApart(Box::new(apart))));
            }
        }
        Ok(left_out)
    }

    /// Puts the names of some tasks down; returns the answers to those that meet a task of another part.
    async fn reserve(
        &self,
        round: &[usize],
        tasks: &[NewTask],
        shards: &[usize],
    ) -> Result<Vec<(usize, Inserted)>, Error> {
        let asked: Vec<Asked> = round.iter().map(|i| Asked::want(of_id(&tasks[*i].id), shards[*i])).collect();
        let mut answers: Vec<(usize, Inserted)> = Vec::new();
        let mut unique = Vec::new();
        for (place, i) in self.homes(&asked).await?.into_iter().zip(round.iter().copied()) {
            if let Some(place) = place.filter(|place| place.shard != shards[i]) {
                if let Some(taken) = self.taken(&tasks[i].id, &tasks[i], &place).await? {
                    // A taken id is told before a held key.
                    answers.push((i, taken));
                    continue;
                }
                if !self.take_over(of_id(&tasks[i].id), shards[i], &place).await? {
                    return Err(Error::Busy);
                }
            }
            unique.extend(tasks[i].unique.as_ref().map(|unique| (i, unique)));
        }
        let keys: Vec<(&str, usize)> =
            unique.iter().map(|(i, unique)| (unique.key.as_str(), shards[*i])).collect();
        for (holder, (i, unique)) in self.reach_keys(&keys).await?.into_iter().zip(&unique) {
            let Some(holder) = holder else { continue };
            let answer = match unique.on_conflict {
                OnConflict::Return => Inserted::Live(Box::new(holder)),
                OnConflict::Reject => Inserted::KeyHeld(holder.record.id),
                // To replace that one is no single commit.
                OnConflict::Replace => return Err(apart()),
            };
            answers.push((*i, answer));
        }
        Ok(answers)
    }

    /// The answer to a submit whose id is that of a task in another part.
    pub(super) async fn taken(
        &self,
        id: &TaskId,
        new: &NewTask,
        place: &Place,
    ) -> Result<Option<Inserted>, Error> {
        let stored = self.part(place.shard).get(id).await?;
        Ok(stored.map(|task| match task.body.repeats(&new.body) {
            true => Inserted::Same(Box::new(task)),
            false => Inserted::Clash,
        }))
    }

    /// Tasks wait only for tasks of their own part.
    async fn check_dependencies(&self, tasks: &[NewTask], shards: &[usize]) -> Result<(), Error> {
        let mut before: HashMap<&TaskId, usize> = HashMap::new();
        for (new, shard) in tasks.iter().zip(shards) {
            let dependencies: Vec<&TaskId> = new.body.dependencies().iter().collect();
            if !dependencies.is_empty() {
                for (id, home) in dependencies.iter().zip(self.homes_of(&dependencies).await?) {
                    let home = before.get(id).copied().or(home);
                    let Some(home) = home.filter(|home| home != shard) else { continue };
                    if before.contains_key(id) || self.part(home).get(id).await?.is_some() {
                        return Err(apart());
                    }
                }
            }
            before.entry(&new.id).or_insert(*shard);
        }
        Ok(())
    }
}

/// To replace a task that the same batch adds in another part would be no single commit.
fn check_replaced(tasks: &[NewTask], shards: &[usize]) -> Result<(), Error> {
    let mut takers: HashMap<&str, usize> = HashMap::new();
    for (new, shard) in tasks.iter().zip(shards) {
        let Some(unique) = &new.unique else { continue };
        let taker = takers.insert(unique.key.as_str(), *shard);
        if unique.on_conflict == OnConflict::Replace && taker.is_some_and(|taker| taker != *shard) {
            return Err(apart());
        }
    }
    Ok(())
}

/// Those that can be added at once, and those that meet one of these in another part and come after them.
fn split(left: &[usize], tasks: &[NewTask], shards: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let mut homes: HashMap<String, Option<usize>> = HashMap::new();
    let (mut round, mut later) = (Vec::new(), Vec::new());
    for i in left.iter().copied() {
        let key = tasks[i].unique.as_ref().map(|unique| of_key(unique.key.as_str()));
        let names: Vec<String> = std::iter::once(of_id(&tasks[i].id)).chain(key).collect();
        let fits = names.iter().all(|name| homes.get(name).is_none_or(|home| *home == Some(shards[i])));
        for name in names {
            // Behind one that has to wait everybody with its name does.
            homes.insert(name, fits.then_some(shards[i]));
        }
        if fits { round.push(i) } else { later.push(i) }
    }
    (round, later)
}

/// Refused as by a limit that counts elsewhere, or that lets nobody wait.
fn is_shut(answer: &Inserted) -> bool {
    let Inserted::LimitFull(full) = answer else { return false };
    matches!(**full, Full { max: 0, scope: Scope::Type | Scope::Key, .. })
}

/// It, or what may depend on it.
fn is_left_out(answer: &Inserted) -> bool {
    is_shut(answer) || matches!(answer, Inserted::Dependency { .. })
}

fn added(answer: &Inserted) -> Option<&Record> {
    match answer {
        Inserted::New(record) => Some(record),
        Inserted::Replaced { new, .. } => Some(new),
        _ => None,
    }
}
