//! Adding tasks under limits on types and keys: only where they can be counted (`limits.rs`).

use std::time::Duration;

use windlass_core::flow::Scope;
use windlass_core::{Name, NewTask, Record};

use super::super::limits::{known_as, read};
use super::super::reply;
use super::Spread;
use super::limits::{Settled, UNSETTLED, is_shut};
use crate::store::{Apart, Error};

/// How often somebody who meets a limit that is being settled looks again, and how long in between; then it settles it by itself.
const LOOKS_MAX: usize = 100;
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Spread {
    /// Those of some tasks that cannot be counted in a part, by their places.
    pub(super) async fn uncounted<'a>(
        &self,
        shard: usize,
        tasks: impl IntoIterator<Item = &'a NewTask>,
    ) -> Result<Vec<(usize, Apart)>, Error> {
        let tasks: Vec<&NewTask> = tasks.into_iter().collect();
        let counted = tasks.iter().map(|new| (&new.kind, new.key.as_ref()));
        let aparts = self.reach_limits(shard, counted).await?;
        let of = |new: &NewTask, apart: &Apart| match apart.scope {
            Scope::Key => new.key.as_ref() == Some(&apart.name),
            _ => new.kind == apart.name,
        };
        let refused = tasks.iter().enumerate().filter_map(|(i, new)| {
            let apart = aparts.iter().find(|apart| of(new, apart))?;
            Some((i, apart.clone()))
        });
        Ok(refused.collect())
    }

    /// Which of some types and keys cannot be counted in a part; those that can are made to be.
    pub(super) async fn reach_limits<'a>(
        &self,
        shard: usize,
        tasks: impl IntoIterator<Item = (&'a Name, Option<&'a Name>)>,
    ) -> Result<Vec<Apart>, Error> {
        let mut apart = Vec::new();
        for (scope, name) in self.shut_in(shard, tasks).await? {
            if !self.reach_limit(shard, scope, &name).await? {
                apart.push(Apart { field: scope.as_str(), scope, name });
            }
        }
        Ok(apart)
    }

    /// Makes a part the home of a limit, unless its tasks are in another one.
    async fn reach_limit(&self, shard: usize, scope: Scope, name: &Name) -> Result<bool, Error> {
        let known = known_as(scope, name);
        let first = self.part(0);
        for look in 0..LOOKS_MAX {
            if !self.is_shut_in(shard, &known).await? {
                return Ok(true);
            }
            let mut unsettled = redis::cmd("ZSCORE");
            unsettled.arg(first.key(UNSETTLED)).arg(&known);
            let unsettled = !matches!(first.link.ask(&unsettled).await?, redis::Value::Nil);
            if unsettled && look + 1 < LOOKS_MAX {
                // sleep: another process is about to settle it, and tells nobody when it has.
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            }
            if !unsettled && self.parts_with(&known).await?.iter().any(|load| load.shard != shard) {
                return Ok(false);
            }
            match self.settle_limit(&known, Some(shard)).await? {
                Settled::Everywhere => return Ok(true),
                Settled::Home(home) => return Ok(home == shard),
                Settled::Spans => return Ok(false),
                Settled::TooMany => return Err(Error::Busy),
            }
        }
        Err(Error::Busy)
    }

    /// A limit may have been set while tasks were on their way back that it would have to count: they are noted, and the sweep
    /// sees to them.
    pub(super) async fn note_uncounted(&self, requeued: &[(usize, Record)]) -> Result<(), Error> {
        let first = self.part(0);
        for (_, record) in requeued {
            let counted = [(&record.kind, record.key.as_ref())];
            for (scope, name) in self.shut_in(self.shard_at(record.seq), counted).await? {
                let mut note = redis::cmd("ZADD");
                note.arg(first.key(UNSETTLED)).arg(0).arg(known_as(scope, &name));
                first.link.ask(&note).await?;
            }
        }
        Ok(())
    }

    /// The limits on some types and keys that are shut in a part.
    async fn shut_in<'a>(
        &self,
        shard: usize,
        tasks: impl IntoIterator<Item = (&'a Name, Option<&'a Name>)>,
    ) -> Result<Vec<(Scope, Name)>, Error> {
        let mut names: Vec<(Scope, &Name)> = Vec::new();
        for (kind, key) in tasks {
            names.push((Scope::Type, kind));
            names.extend(key.map(|key| (Scope::Key, key)));
        }
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let part = self.part(shard);
        let mut command = redis::cmd("HMGET");
        command.arg(part.key("limits"));
        for (scope, name) in &names {
            command.arg(known_as(*scope, name));
        }
        let mut shut = Vec::new();
        for (line, (scope, name)) in reply::list(part.link.ask(&command).await?)?.into_iter().zip(names) {
            if !matches!(line, redis::Value::Nil) && is_shut(&read(&reply::text(line)?)?) {
                shut.push((scope, name.clone()));
            }
        }
        Ok(shut)
    }

    async fn is_shut_in(&self, shard: usize, known: &str) -> Result<bool, Error> {
        let part = self.part(shard);
        match part.link.ask(redis::cmd("HGET").arg(part.key("limits")).arg(known)).await? {
            redis::Value::Nil => Ok(false),
            line => Ok(is_shut(&read(&reply::text(line)?)?)),
        }
    }
}
