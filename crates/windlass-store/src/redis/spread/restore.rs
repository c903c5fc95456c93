//! Putting in what another store had. Its tasks come with the numbers of their parts (`Capabilities::number_for`), so that lists, places in
//! line and workflows mean what they meant there. As ever names are put down before what they name is written (`homes.rs`), so a
//! copy that was killed leaves nothing that its next run does not find.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::try_join_all;
use windlass_core::{Name, Record, Workflow, flow};

use super::super::RedisStore;
use super::super::transact::Transaction;
use super::homes::{Asked, of_id, of_workflow};
use super::{Spread, apart};
use crate::store::{Error, Moved, Restore, Restored};

/// What goes to one part: workflows, and the places of tasks.
type Share = (Vec<Workflow>, Vec<usize>);

impl Spread {
    pub(super) async fn restore(&self, restore: Restore) -> Result<Vec<Restored>, Error> {
        self.check_open()?;
        self.give_no_more(&restore).await?;
        let Restore { at, workflows, operations, tasks } = restore;
        if !operations.is_empty() {
            self.part(0).restore(Restore { at, operations, ..Restore::default() }, None).await?;
        }
        let shards = tasks.iter().map(|moved| self.shard_at(moved.task.record.seq)).collect::<Vec<_>>();
        let homes = workflows.iter().map(|workflow| self.shard_at(workflow.first));
        let fences = self.fences(shards.iter().copied().chain(homes)).await?;
        let mut answers = self.put_names(&tasks, &shards, at).await?;
        let mut shares: BTreeMap<usize, Share> = BTreeMap::new();
        for workflow in workflows {
            let shard = self.shard_at(workflow.first);
            if !self.take_name(of_workflow(workflow.id.as_str()), shard).await? {
                return Err(Error::Busy);
            }
            shares.entry(shard).or_default().0.push(workflow);
        }
        for i in (0..tasks.len()).filter(|i| answers[*i].is_none()) {
            shares.entry(shards[i]).or_default().1.push(i);
        }
        let put = |(shard, (workflows, indices)): (usize, Share)| {
            let tasks: Vec<Moved> = indices.iter().map(|i| tasks[*i].clone()).collect();
            let share = Restore { at, workflows, operations: Vec::new(), tasks };
            let fence = fences.get(&shard).copied();
            async move { Ok::<_, Error>((indices, self.part(shard).restore(share, fence).await?)) }
        };
        for (indices, restored) in try_join_all(shares.into_iter().map(put)).await? {
            for (i, restored) in indices.into_iter().zip(restored) {
                answers[i] = Some(restored);
            }
        }
        self.saw(tasks.iter().map(|moved| &moved.task.record));
        Ok(answers.into_iter().map(|answer| answer.unwrap_or(Restored::Clash)).collect())
    }

    /// No part gives out numbers any more that something beside the tasks speaks of.
    async fn give_no_more(&self, restore: &Restore) -> Result<(), Error> {
        let ends = restore.workflows.iter().map(|it| it.first + u64::from(it.size) * self.count() as u64);
        let operations = restore.operations.iter().map(|operation| operation.first);
        let Some(end) = ends.chain(operations).max().filter(|end| *end > 0) else { return Ok(()) };
        let reach = |part: &Arc<RedisStore>| {
            let shared = Arc::clone(&part.shared);
            let mut transaction = Transaction::default();
            transaction.act("reach", &[&(end - 1).to_string()]);
            async move { shared.transact(transaction).await.map(drop) }
        };
        try_join_all(self.parts.iter().map(reach)).await?;
        self.floor.fetch_max(end - 1, Ordering::SeqCst);
        Ok(())
    }

    /// Puts the names of tasks down, and makes sure that limits can count them; those that cannot be put in are answered.
    async fn put_names(
        &self,
        tasks: &[Moved],
        shards: &[usize],
        at: u64,
    ) -> Result<Vec<Option<Restored>>, Error> {
        let mut answers: Vec<Option<Restored>> = vec![None; tasks.len()];
        let records: Vec<&Record> = tasks.iter().map(|moved| &moved.task.record).collect();
        let asked = records.iter().zip(shards).map(|(record, shard)| Asked::want(of_id(&record.id), *shard));
        let places = self.homes(&asked.collect::<Vec<_>>()).await?;
        for (i, (record, place)) in records.iter().zip(places).enumerate() {
            let shard = shards[i];
            if tasks[i].waits_for.iter().any(|parent| self.shard_at(*parent) != shard) {
                return Err(apart());
            }
            if shard != self.shard_of(&record.queue) {
                answers[i] = Some(Restored::Clash);
            } else if let Some(place) = place.filter(|place| place.shard != shard) {
                if self.part(place.shard).get(&record.id).await?.is_some() {
                    answers[i] = Some(Restored::Clash);
                } else if !self.take_over(of_id(&record.id), shard, &place).await? {
                    return Err(Error::Busy);
                }
            }
        }
        self.count_in(&records, shards).await?;
        let mut keys = Vec::new();
        for (i, record) in records.iter().enumerate().filter(|(i, _)| answers[*i].is_none()) {
            let held = record.unique.as_ref().filter(|_| record.holds_key(at));
            keys.extend(held.map(|hold| (i, (hold.key.as_str(), shards[i]))));
        }
        let asked: Vec<(&str, usize)> = keys.iter().map(|(_, key)| *key).collect();
        for (holder, (i, _)) in self.reach_keys(&asked).await?.into_iter().zip(keys) {
            if holder.is_some() {
                answers[i] = Some(Restored::Clash);
            }
        }
        Ok(answers)
    }

    /// A limit on types or keys counts in the part of their tasks.
    async fn count_in(&self, records: &[&Record], shards: &[usize]) -> Result<(), Error> {
        if !self.far.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut counted: BTreeMap<usize, Vec<(&Name, Option<&Name>)>> = BTreeMap::new();
        for (record, shard) in records.iter().zip(shards) {
            if flow::load(record.state_name()).is_some() {
                counted.entry(*shard).or_default().push((&record.kind, record.key.as_ref()));
            }
        }
        for (shard, counted) in counted {
            if let Some(apart) = self.reach_limits(shard, counted).await?.pop() {
                return Err(Error::LimitApart(Box::new(apart)));
            }
        }
        Ok(())
    }

    /// Takes a name for a part. `false` if another one has it, or may have.
    async fn take_name(&self, name: String, shard: usize) -> Result<bool, Error> {
        let place = self.homes(&[Asked::want(name.clone(), shard)]).await?.pop().flatten();
        match place.filter(|place| place.shard != shard) {
            Some(place) => self.take_over(name, shard, &place).await,
            None => Ok(true),
        }
    }
}
