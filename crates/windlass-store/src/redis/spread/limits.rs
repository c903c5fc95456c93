//! Limits of a store that is spread.
//!
//! A limit on a queue is in the part of that queue, which decides by itself. One on a type or a key is written into every part. Where it
//! counts nothing (weight, pause) each part does by itself what it says. One that counts (how many run, how many start, how many
//! wait) counts in one part alone, its *home*: in all others it is *shut*, which no user can ask for: none may run and
//! none may wait. So whatever happens, tasks are counted together or not added at all.
//!
//! Which limits there are is written down in the first part (`far_limits`), and which part is the home of each
//! (`far_homes`). A limit is *settled* by a process that draws a turn, shuts it in all parts, looks where tasks of it are, and
//! opens it there; if there are none, in the part that somebody wants to add one to. A part refuses what comes with
//! an earlier turn than one that it has seen, so of two who settle at once the later one has its way and the other
//! begins anew. Whoever dies meanwhile leaves the limit shut and noted (`far_unsettled`), and the next one who needs it
//! settles it, or the sweep does. A home that has no tasks left is given up to the next part that wants one; the starts that its
//! rate remembers go along.
//!
//! Tasks are added and retried only where they can be counted (`reach.rs`). Two parts have tasks of a limit all the same if a
//! task was retried in the moment in which the limit was set. Then it stays noted, counts where tasks run, or in one of the parts as long as some
//! wait there, and the sweep takes it on to the next; while tasks run in both, it stays shut.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::try_join_all;
use windlass_core::flow::{Limit, Scope};

use super::super::limits::{known_as, read, write};
use super::super::{RedisStore, Shared, reply};
use super::Spread;
use crate::store::{Apart, Error, LimitWritten, SetLimit};

/// How often a limit is settled anew because somebody else began to.
const TURNS_MAX: usize = 50;
/// How many limits that somebody left are settled at a time.
const LEFTOVERS_MAX: usize = 1000;

pub(super) const LIMITS: &str = "far_limits";
const HOMES: &str = "far_homes";
pub(super) const UNSETTLED: &str = "far_unsettled";

/// Where a limit counts now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    /// It is gone, or counts nothing.
    Everywhere,
    Home(usize),
    /// There are tasks of it in several parts, so some of them have to wait.
    Spans,
    TooMany,
}

impl Spread {
    pub(super) async fn set_limit(&self, set: &SetLimit) -> Result<LimitWritten, Error> {
        self.check_open()?;
        if set.scope == Scope::Queue {
            return self.part(self.shard_of(&set.name)).set_limit(set).await;
        }
        let known = known_as(set.scope, &set.name);
        let apart = |limit: &Limit| {
            Error::LimitApart(Box::new(Apart {
                field: counts(limit),
                scope: set.scope,
                name: set.name.clone(),
            }))
        };
        if let Some(limit) = set.limit.as_ref().filter(|limit| !counts(limit).is_empty())
            && self.parts_with(&known).await?.len() > 1
        {
            return Err(apart(limit));
        }
        let before = self.far_limit(&known).await?;
        let done = LimitWritten::Done { existed: before.is_some() };
        if before.is_none() && set.limit.is_none() {
            return Ok(done);
        }
        self.far.store(true, Ordering::SeqCst);
        let era = self.part(0).link.era();
        self.write_far(&known, set.limit.as_ref()).await?;
        match self.settle_limit(&known, None).await? {
            // What is written down of it is no script that is waited for.
            Settled::Everywhere | Settled::Home(_) if !self.part(0).link.is_kept(era).await? => {
                Err(Error::Busy)
            }
            Settled::Everywhere | Settled::Home(_) => Ok(done),
            refused => {
                // As it was before.
                self.write_far(&known, before.as_ref()).await?;
                self.settle_limit(&known, None).await?;
                match &set.limit {
                    Some(limit) if refused == Settled::Spans => Err(apart(limit)),
                    _ => Ok(LimitWritten::TooMany),
                }
            }
        }
    }

    /// The parts that have tasks which a limit counts.
    pub(super) async fn parts_with(&self, known: &str) -> Result<Vec<Load>, Error> {
        let load = |(shard, part): (usize, &Arc<RedisStore>)| load(shard, Arc::clone(&part.shared), known);
        let mut loads = try_join_all(self.parts.iter().enumerate().map(load)).await?;
        loads.retain(|load| load.waits || load.runs);
        Ok(loads)
    }

    pub(super) async fn far_limit(&self, known: &str) -> Result<Option<Limit>, Error> {
        let first = self.part(0);
        match first.link.ask(redis::cmd("HGET").arg(first.key(LIMITS)).arg(known)).await? {
            redis::Value::Nil => Ok(None),
            line => Ok(Some(read(&reply::text(line)?)?)),
        }
    }

    /// Writes down what is to be settled.
    async fn write_far(&self, known: &str, limit: Option<&Limit>) -> Result<(), Error> {
        let first = self.part(0);
        first.link.ask(redis::cmd("ZADD").arg(first.key(UNSETTLED)).arg(0).arg(known)).await?;
        let key = first.key(LIMITS);
        match limit {
            Some(limit) => {
                first.link.ask(redis::cmd("HSET").arg(key).arg(known).arg(write(limit))).await?;
            }
            None => {
                first.link.ask(redis::cmd("HDEL").arg(key).arg(known)).await?;
                first.link.ask(redis::cmd("HDEL").arg(first.key(HOMES)).arg(known)).await?;
            }
        }
        Ok(())
    }

    /// Brings a limit into all parts as it is written down, with a home if it counts.
    pub(super) async fn settle_limit(&self, known: &str, wanted: Option<usize>) -> Result<Settled, Error> {
        let _one = self.settling.lock().await;
        let first = self.part(0);
        for _ in 0..TURNS_MAX {
            let mut draw = redis::cmd("HINCRBY");
            let turn =
                reply::number(first.link.ask(draw.arg(first.key("meta")).arg("far_turn").arg(1)).await?)?;
            first.link.ask(redis::cmd("ZADD").arg(first.key(UNSETTLED)).arg(turn).arg(known)).await?;
            // What is read behind the turn is what all who come later will read, or older.
            if let Some(settled) = self.take_turn(known, wanted, turn).await? {
                if matches!(settled, Settled::Everywhere | Settled::Home(_)) {
                    let mut done = redis::cmd("ZREMRANGEBYSCORE");
                    first.link.ask(done.arg(first.key(UNSETTLED)).arg(turn).arg(turn)).await?;
                }
                return Ok(settled);
            }
            // sleep: whoever had the later turn tells nobody, and two must not go on in step.
            tokio::time::sleep(Duration::from_millis(rand::random_range(1..20))).await;
        }
        Err(Error::Busy)
    }

    /// `None` if somebody else has had a later turn.
    async fn take_turn(
        &self,
        known: &str,
        wanted: Option<usize>,
        turn: u64,
    ) -> Result<Option<Settled>, Error> {
        let limit = self.far_limit(known).await?;
        let counting = limit.as_ref().filter(|limit| !counts(limit).is_empty());
        let shut = counting.map(|limit| Limit { max_concurrency: Some(0), max_depth: Some(0), ..*limit });
        let everywhere = shut.as_ref().or(limit.as_ref());
        let written =
            try_join_all(self.parts.iter().map(|part| part.shared.write_limit(known, everywhere, turn)))
                .await?;
        if written.iter().any(Option::is_none) {
            return Ok(None);
        }
        if written.contains(&Some(LimitWritten::TooMany)) {
            return Ok(Some(Settled::TooMany));
        }
        let Some(limit) = counting else { return Ok(Some(Settled::Everywhere)) };
        let loads = self.parts_with(known).await?;
        let wanted = match wanted {
            Some(wanted) => wanted,
            None => self.far_home(known).await?.unwrap_or(0),
        };
        let Some(home) = home(&loads, wanted) else { return Ok(Some(Settled::Spans)) };
        if limit.rate.is_some() {
            self.bring_window(known, home).await?;
        }
        let first = self.part(0);
        first.link.ask(redis::cmd("HSET").arg(first.key(HOMES)).arg(known).arg(home)).await?;
        let written = self.part(home).write_limit(known, Some(limit), turn).await?;
        Ok(written.map(|_| if loads.len() > 1 { Settled::Spans } else { Settled::Home(home) }))
    }

    async fn far_home(&self, known: &str) -> Result<Option<usize>, Error> {
        let first = self.part(0);
        match first.link.ask(redis::cmd("HGET").arg(first.key(HOMES)).arg(known)).await? {
            redis::Value::Nil => Ok(None),
            home => Ok(Some(reply::number(home)? as usize).filter(|home| *home < self.count())),
        }
    }

    /// The starts that a rate remembers are in the part that was home last: in the one with the latest of them.
    async fn bring_window(&self, known: &str, home: usize) -> Result<(), Error> {
        let mut latest: Option<(u64, usize, String)> = None;
        for (shard, part) in self.parts.iter().enumerate() {
            let part = &part.shared;
            let window = part.link.ask(redis::cmd("HGET").arg(part.key("windows")).arg(known)).await?;
            if matches!(window, redis::Value::Nil) {
                continue;
            }
            let window = reply::text(window)?;
            // As in `lua/gates.lua`: until when it is used up, when the last entry began, and the entries.
            let began = window.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
            if latest.as_ref().is_none_or(|(last, ..)| began > *last) {
                latest = Some((began, shard, window));
            }
        }
        if let Some((began, shard, window)) = latest
            && began > 0
            && shard != home
        {
            let part = self.part(home);
            part.link.ask(redis::cmd("HSET").arg(part.key("windows")).arg(known).arg(window)).await?;
        }
        Ok(())
    }

    /// Settles what somebody began to settle and did not end.
    pub(super) async fn settle_leftovers(&self) -> Result<(), Error> {
        let first = self.part(0);
        let mut left = redis::cmd("ZRANGE");
        left.arg(first.key(UNSETTLED)).arg(0).arg(LEFTOVERS_MAX - 1);
        for known in reply::list(first.link.ask(&left).await?)? {
            let known = reply::text(known)?;
            if let Settled::Spans = self.settle_limit(&known, None).await? {
                tracing::warn!(
                    limit = known,
                    "tasks of a limit are in parts that cannot be counted together"
                );
            }
        }
        Ok(())
    }
}

/// What a limit counts in a part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) shard: usize,
    waits: bool,
    runs: bool,
}

async fn load(shard: usize, part: Arc<Shared>, known: &str) -> Result<Load, Error> {
    let counts =
        async |hash: &str| match part.link.ask(redis::cmd("HGET").arg(part.key(hash)).arg(known)).await? {
            redis::Value::Nil => Ok(false),
            number => reply::number(number).map(|number| number > 0),
        };
    Ok(Load { shard, waits: counts("waiting").await?, runs: counts("running").await? })
}

/// The part in which a limit is to count: where its tasks are. If they are in several, none may run in two of them.
fn home(loads: &[Load], wanted: usize) -> Option<usize> {
    let running: Vec<&Load> = loads.iter().filter(|load| load.runs).collect();
    match (loads, &running[..]) {
        ([], _) => Some(wanted),
        (_, [one]) => Some(one.shard),
        (_, []) => {
            let there = loads.iter().find(|load| load.shard == wanted);
            Some(there.unwrap_or(&loads[0]).shard)
        }
        _ => None,
    }
}

/// The first field of a limit that counts tasks over all queues; nothing if none does.
fn counts(limit: &Limit) -> &'static str {
    let Limit { max_concurrency, rate, max_depth, .. } = limit;
    match (max_concurrency, rate, max_depth) {
        (Some(_), ..) => "max_concurrency",
        (None, Some(_), _) => "rate",
        (None, None, Some(_)) => "max_depth",
        (None, None, None) => "",
    }
}

/// No user can ask for a limit under which nothing ever runs.
pub(super) fn is_shut(limit: &Limit) -> bool {
    limit.max_concurrency == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_counts_where_its_tasks_are() {
        let load = |shard, runs| Load { shard, waits: true, runs };
        assert_eq!(home(&[], 3), Some(3));
        assert_eq!(home(&[load(1, false)], 3), Some(1));
        assert_eq!(home(&[load(1, false), load(2, true)], 1), Some(2));
        assert_eq!(home(&[load(1, false), load(3, false)], 3), Some(3));
        assert_eq!(home(&[load(1, false), load(2, false)], 3), Some(1));
        assert_eq!(home(&[load(1, true), load(2, true)], 1), None);
    }
}
