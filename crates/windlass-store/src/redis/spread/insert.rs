//! Adding tasks, each to the part of its queue.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;

use futures_util::future::try_join_all;
use windlass_core::flow::{Full, Scope};
use windlass_core::{Ended, NewTask, OnConflict, Record, TaskId};

use super::homes::{Asked, of_id, of_key};
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
        self.check_dependencies(&tasks, &shards).await?;
        self.check_replaced(&tasks, &shards).await?;
        self.hear_of_numbers();
        let mut answers: Vec<Option<Inserted>> = vec![None; tasks.len()];
        let mut left: Vec<usize> = (0..tasks.len()).collect();
        let mut tries = 0;
        while !left.is_empty() {
            let (round, later) = split(&left, &tasks, &shards, atomic);
            for i in &round {
                answers[*i] = None;
            }
            let fences = self.fences(round.iter().map(|i| shards[*i])).await?;
            let begun = answers.iter().any(Option::is_some);
            let reserved = self.reserve(&round, &tasks, &shards, atomic).await.map_err(|error| match error {
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
            if atomic && answers.iter().flatten().any(refuses) {
                let answers: Vec<Inserted> =
                    answers.into_iter().map(|answer| answer.unwrap_or(Inserted::Aborted)).collect();
                self.forget_refused(&tasks, &answers).await;
                return Ok(answers);
            }
            let mut by_shard: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
            for i in round.into_iter().filter(|i| answers[*i].is_none()) {
                by_shard.entry(shards[i]).or_default().push(i);
            }
            let add = |(shard, indices): (usize, Vec<usize>)| {
                let tasks: Vec<_> = indices.iter().map(|i| tasks[*i].clone()).collect();
                let insert = Insert { tasks: tasks.into(), atomic, max_depth };
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
        self.forget_refused(&tasks, &answers).await;
        self.saw(answers.iter().filter_map(added));
        answers.iter().filter_map(added).for_each(|new| self.known.put(&new.id, self.shard_at(new.seq)));
        Ok(answers)
    }

    /// Names were put down for tasks that are not added.
    async fn forget_refused(&self, tasks: &[NewTask], answers: &[Inserted]) {
        use Inserted::{Aborted, Dependency, KeyHeld, LimitApart, LimitFull, QueueFull};
        let mut names = Vec::new();
        for (new, answer) in tasks.iter().zip(answers) {
            if let Aborted | Dependency { .. } | KeyHeld(_) | LimitApart(_) | LimitFull(_) | QueueFull =
                answer
            {
                names.push(of_id(&new.id));
                names.extend(new.unique.as_ref().map(|unique| of_key(unique.key.as_str())));
            }
        }
        if !names.is_empty() {
            self.let_go_of(names).await;
        }
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
        atomic: bool,
    ) -> Result<Vec<(usize, Inserted)>, Error> {
        let asked: Vec<Asked> = round.iter().map(|i| Asked::want(of_id(&tasks[*i].id), shards[*i])).collect();
        let mut answers: Vec<(usize, Inserted)> = Vec::new();
        let mut unique = Vec::new();
        for (place, i) in self.homes(&asked).await?.into_iter().zip(round.iter().copied()) {
            if let Some(place) = place.filter(|place| place.shard != shards[i]) {
                if let Some(taken) = self.taken(&tasks[i], place.shard).await? {
                    // A taken id is told before a held key.
                    answers.push((i, taken));
                    continue;
                }
                if !self.take_over(of_id(&tasks[i].id), shards[i], &place).await? {
                    return Err(Error::Busy);
                }
            }
            // Who has the id of another one of a batch that is added whole is never added, so it takes no key.
            let repeats = atomic && tasks[..i].iter().any(|other| other.id == tasks[i].id);
            unique.extend(tasks[i].unique.as_ref().filter(|_| !repeats).map(|unique| (i, unique)));
        }
        let keys: Vec<(&str, usize)> =
            unique.iter().map(|(i, unique)| (unique.key.as_str(), shards[*i])).collect();
        for (holder, (i, unique)) in self.reach_keys(&keys).await?.into_iter().zip(&unique) {
            let Some(holder) = holder else { continue };
            let before = if atomic { &tasks[..*i] } else { &[] };
            if let Some(told) = self.told_before_keys(&tasks[*i], shards[*i], before).await? {
                answers.push((*i, told));
                continue;
            }
            let answer = match unique.on_conflict {
                OnConflict::Return => Inserted::Live(Box::new(holder)),
                OnConflict::Reject => Inserted::KeyHeld(holder.record.id),
                // To replace that one is no single commit.
                OnConflict::Replace => return Err(apart()),
            };
            answers.push((*i, answer));
        }
        let relied = answers.iter().filter_map(|(_, answer)| match answer {
            Inserted::Same(task) | Inserted::Live(task) => Some(task.record.clone()),
            _ => None,
        });
        let relied: Vec<Record> = relied.collect();
        // Nothing is written for these; what they rely on may have been by a call that nobody confirmed.
        if !relied.is_empty() && !self.are_kept(&relied).await? {
            return Err(Error::Busy);
        }
        Ok(answers)
    }

    /// The answer to a submit whose id is that of a task in this part.
    pub(super) async fn taken(&self, new: &NewTask, shard: usize) -> Result<Option<Inserted>, Error> {
        let stored = self.part(shard).get(&new.id).await?;
        Ok(stored.map(|task| match task.body.repeats(&new.body) {
            true => Inserted::Same(Box::new(task)),
            false => Inserted::Clash,
        }))
    }

    /// What is told of a task whatever its unique key: that its id is taken, or that it cannot wait for what it depends on.
    /// `before` are the tasks that are added with it or not at all.
    async fn told_before_keys(
        &self,
        new: &NewTask,
        shard: usize,
        before: &[NewTask],
    ) -> Result<Option<Inserted>, Error> {
        if let Some(taken) = self.taken(new, shard).await? {
            return Ok(Some(taken));
        }
        let dependencies = new.body.dependencies();
        let stored = self.part(shard).peek_all(dependencies).await?;
        let broken = dependencies.iter().zip(stored).find_map(|(id, stored)| match stored {
            Some(record) => (Ended::of(&record) == Some(Ended::Cancelled)).then(|| (id.clone(), true)),
            None => (!before.iter().any(|other| other.id == *id)).then(|| (id.clone(), false)),
        });
        Ok(broken.map(|(id, cancelled)| Inserted::Dependency { id, cancelled }))
    }

    /// To replace a task of another part, which is there or comes with the same batch, would be no single commit.
    async fn check_replaced(&self, tasks: &[NewTask], shards: &[usize]) -> Result<(), Error> {
        let mut takers: HashMap<&str, usize> = HashMap::new();
        for (i, new) in tasks.iter().enumerate() {
            let Some(unique) = &new.unique else { continue };
            let (key, shard) = (unique.key.as_str(), shards[i]);
            let taker = takers.insert(key, shard);
            if unique.on_conflict != OnConflict::Replace {
                continue;
            }
            if taker.is_some_and(|taker| taker != shard) {
                return Err(apart());
            }
            let Some(home) = self.home(of_key(key)).await?.filter(|home| *home != shard) else { continue };
            let Some(holder) = self.holder(key, home).await? else { continue };
            if !self.is_expired(&holder.record, home).await?
                && self.told_before_keys(new, shard, &tasks[..i]).await?.is_none()
                && self.get(&new.id).await?.is_none()
            {
                return Err(apart());
            }
        }
        Ok(())
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

/// Those that can be added at once, and those that come after them: who meets one of these in another part, who has a key and may have to be
/// told of one of these first, and all of the same part behind them, for a part adds its tasks in their order.
fn split(left: &[usize], tasks: &[NewTask], shards: &[usize], atomic: bool) -> (Vec<usize>, Vec<usize>) {
    let mut homes: HashMap<String, Option<usize>> = HashMap::new();
    let mut waiting: BTreeSet<usize> = BTreeSet::new();
    let (mut round, mut later) = (Vec::new(), Vec::new());
    for i in left.iter().copied() {
        let (new, shard) = (&tasks[i], shards[i]);
        let key = new.unique.as_ref().map(|unique| of_key(unique.key.as_str()));
        let mut looked_at = std::iter::once(&new.id).chain(new.body.dependencies());
        let looks = !atomic && key.is_some() && looked_at.any(|id| homes.contains_key(&of_id(id)));
        let names: Vec<String> = std::iter::once(of_id(&new.id)).chain(key).collect();
        let free = |name: &String| homes.get(name).is_none_or(|home| *home == Some(shard));
        let fits = !looks && !waiting.contains(&shard) && names.iter().all(free);
        for name in names {
            // Behind one that has to wait everybody with its name does.
            homes.insert(name, fits.then_some(shard));
        }
        if fits {
            round.push(i);
        } else {
            waiting.insert(shard);
            later.push(i);
        }
    }
    (round, later)
}

/// Whether a batch that is added whole cannot be, because of one of its tasks. Who meets a task of another part that is the same, or
/// that holds its key and is to be returned, has what it wants.
fn refuses(answer: &Inserted) -> bool {
    !matches!(answer, Inserted::Same(_) | Inserted::Live(_))
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
