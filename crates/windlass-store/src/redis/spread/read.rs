//! Looking at all parts: sums and merges.

use std::collections::{BTreeMap, HashMap};

use futures_util::future::try_join_all;
use windlass_core::limits::{ANSWER_BYTES_MAX, PAGE_ROWS_MAX};
use windlass_core::{Change, Record, Task, TaskId, Transition};

use super::{Spread, apart};
use crate::store::{
    Committed, Due, Ending, Error, Expire, Extend, Extended, Ledger, List, Page, Scan, Settle, Settled,
};

impl Spread {
    pub(super) fn check_open(&self) -> Result<(), Error> {
        self.part(0).check_open()
    }

    /// Asks every part for its share of some items, and puts the answers back in order.
    pub(super) async fn deal<T, A, F>(
        &self,
        items: Vec<T>,
        shard_of: impl Fn(&T) -> usize,
        ask: impl Fn(usize, Vec<T>) -> F,
    ) -> Result<Vec<A>, Error>
    where
        F: Future<Output = Result<Vec<A>, Error>>,
    {
        let mut shares: BTreeMap<usize, (Vec<usize>, Vec<T>)> = BTreeMap::new();
        let many = items.len();
        for (i, item) in items.into_iter().enumerate() {
            let (places, share) = shares.entry(shard_of(&item)).or_default();
            places.push(i);
            share.push(item);
        }
        let asked = shares.into_iter().map(|(shard, (places, share))| {
            let answers = ask(shard, share);
            async move { Ok::<_, Error>((places, answers.await?)) }
        });
        let mut dealt: Vec<Option<A>> = (0..many).map(|_| None).collect();
        for (places, answers) in try_join_all(asked).await? {
            for (place, answer) in places.into_iter().zip(answers) {
                dealt[place] = Some(answer);
            }
        }
        Ok(dealt.into_iter().flatten().collect())
    }

    pub(super) async fn commit(&self, transitions: Vec<Transition>) -> Result<Vec<Committed>, Error> {
        let away = |it: &Transition| match &it.change {
            Change::Moved { queue, .. } => self.shard_of(queue) != self.shard_at(it.seq),
            _ => false,
        };
        if transitions.iter().any(away) {
            return Err(apart());
        }
        let requeued = self.requeued(&transitions).await?;
        self.check_counted(&requeued).await?;
        let (held, cut) = self.take_keys_back(transitions.len(), &requeued).await?;
        if let Some(cut) = cut {
            // Whether this one can have its key is known when what stands before it is done.
            let mut first = transitions;
            let rest = first.split_off(cut);
            let mut answers = Box::pin(self.commit(first)).await?;
            answers.extend(Box::pin(self.commit(rest)).await?);
            return Ok(answers);
        }
        let (mut answers, mut rest, mut removals) = (Vec::new(), Vec::new(), Vec::new());
        for (transition, held) in transitions.into_iter().zip(held) {
            removals.push(matches!(transition.change, Change::Removed { .. }));
            answers.push(held);
            if answers.last().is_some_and(Option::is_none) {
                rest.push(transition);
            }
        }
        let commit = |shard, share| async move { self.part(shard).commit(share).await };
        let mut committed = self.deal(rest, |it| self.shard_at(it.seq), commit).await?.into_iter();
        self.note_uncounted(&requeued).await?;
        let answers: Vec<Committed> =
            answers.into_iter().filter_map(|answer| answer.or_else(|| committed.next())).collect();
        let done = |answer: &Committed| match answer {
            Committed::Done(record) => Some(record.clone()),
            _ => None,
        };
        self.saw(answers.iter().filter_map(done).collect::<Vec<_>>().iter().map(|record| &**record));
        let gone = answers.iter().zip(removals).filter(|(_, removed)| *removed);
        let gone: Vec<Box<Record>> = gone.filter_map(|(answer, _)| done(answer)).collect();
        if !gone.is_empty() {
            self.let_go(&gone).await;
        }
        Ok(answers)
    }

    /// The tasks that are retried by hand, and their places in the list.
    async fn requeued(&self, transitions: &[Transition]) -> Result<Vec<(usize, Record)>, Error> {
        let mut requeued = Vec::new();
        for (i, it) in transitions.iter().enumerate() {
            if let Change::Requeued { .. } = it.change {
                let part = self.part(self.shard_at(it.seq));
                let record = part.peek_all(std::slice::from_ref(&it.id)).await?.pop().flatten();
                requeued.extend(record.map(|record| (i, record)));
            }
        }
        Ok(requeued)
    }

    /// What is retried counts again.
    async fn check_counted(&self, requeued: &[(usize, Record)]) -> Result<(), Error> {
        for (_, record) in requeued {
            let counted = [(&record.kind, record.key.as_ref())];
            if let Some(apart) = self.reach_limits(self.shard_at(record.seq), counted).await?.pop() {
                return Err(Error::LimitApart(Box::new(apart)));
            }
        }
        Ok(())
    }

    /// A retry by hand takes the task's unique key back, which a task of another part may hold. If that is for something earlier
    /// in the list to decide, the place of the retry is returned.
    async fn take_keys_back(
        &self,
        many: usize,
        requeued: &[(usize, Record)],
    ) -> Result<(Vec<Option<Committed>>, Option<usize>), Error> {
        let mut answers: Vec<Option<Committed>> = (0..many).map(|_| None).collect();
        let now = self.clock.now();
        let mut wanted: HashMap<&str, usize> = HashMap::new();
        for (i, record) in requeued {
            let shard = self.shard_at(record.seq);
            let Some(hold) = record.unique.as_ref().filter(|hold| !hold.is_over(now)) else { continue };
            if *wanted.entry(hold.key.as_str()).or_insert(shard) != shard {
                return Ok((answers, Some(*i)));
            }
            let mut holders = self.reach_keys(&[(hold.key.as_str(), shard)]).await?;
            answers[*i] = holders.pop().flatten().map(|holder| Committed::KeyHeld(holder.record.id));
            if *i > 0 && answers[*i].is_some() {
                return Ok((answers, Some(*i)));
            }
        }
        Ok((answers, None))
    }

    pub(super) async fn get(&self, id: &TaskId) -> Result<Option<Task>, Error> {
        self.check_open()?;
        for _ in 0..2 {
            let Some(shard) = self.homes_of(&[id]).await?.pop().flatten() else { return Ok(None) };
            if let Some(task) = self.part(shard).get(id).await? {
                return Ok(Some(task));
            }
            self.known.forget(id);
        }
        Ok(None)
    }

    pub(super) async fn peek_all(&self, ids: &[TaskId]) -> Result<Vec<Option<Record>>, Error> {
        self.check_open()?;
        let mut records = self.peek_once(ids).await?;
        let missing: Vec<usize> = (0..ids.len()).filter(|i| records[*i].is_none()).collect();
        if !missing.is_empty() {
            // What was known of them may be out of date.
            missing.iter().for_each(|i| self.known.forget(&ids[*i]));
            let again: Vec<TaskId> = missing.iter().map(|i| ids[*i].clone()).collect();
            for (i, record) in missing.into_iter().zip(self.peek_once(&again).await?) {
                records[i] = record;
            }
        }
        Ok(records)
    }

    async fn peek_once(&self, ids: &[TaskId]) -> Result<Vec<Option<Record>>, Error> {
        let homes = self.homes_of(&ids.iter().collect::<Vec<_>>()).await?;
        let items: Vec<(TaskId, usize)> =
            ids.iter().zip(homes).map(|(id, home)| (id.clone(), home.unwrap_or(0))).collect();
        let peek = |shard: usize, share: Vec<(TaskId, usize)>| async move {
            let ids: Vec<TaskId> = share.into_iter().map(|(id, _)| id).collect();
            self.part(shard).peek_all(&ids).await
        };
        self.deal(items, |(_, shard)| *shard, peek).await
    }

    pub(super) async fn are_kept(&self, seen: &[Record]) -> Result<bool, Error> {
        let kept = |shard: usize, share: Vec<Record>| async move {
            let kept = self.part(shard).are_kept(&share).await?;
            Ok(vec![kept; share.len()])
        };
        let kept = self.deal(seen.to_vec(), |record| self.shard_at(record.seq), kept).await?;
        Ok(kept.into_iter().all(|kept| kept))
    }

    pub(super) async fn extend(&self, extensions: Vec<Extend>) -> Result<Vec<Extended>, Error> {
        self.check_open()?;
        let homes = self.homes_of(&extensions.iter().map(|extend| &extend.id).collect::<Vec<_>>()).await?;
        let ids: Vec<TaskId> = extensions.iter().map(|extend| extend.id.clone()).collect();
        let items: Vec<(Extend, usize)> =
            extensions.into_iter().zip(homes).map(|(extend, home)| (extend, home.unwrap_or(0))).collect();
        let extend = |shard: usize, share: Vec<(Extend, usize)>| async move {
            self.part(shard).extend(share.into_iter().map(|(extend, _)| extend).collect()).await
        };
        let answers = self.deal(items, |(_, shard)| *shard, extend).await?;
        for (id, _) in ids.iter().zip(&answers).filter(|(_, answer)| **answer == Extended::Missing) {
            self.known.forget(id);
        }
        Ok(answers)
    }

    pub(super) async fn scan(&self, list: &List, bare: bool) -> Result<Scan, Error> {
        self.check_open()?;
        let limit = list.limit.min(PAGE_ROWS_MAX);
        let scan = |shard: usize| async move { self.part(shard).scan(list, usize::MAX).await };
        let scans = try_join_all(self.shards_of(list).into_iter().map(scan)).await?;
        let nexts = scans.iter().map(|scan| scan.next).collect::<Vec<_>>();
        let records: Vec<Record> = scans.into_iter().flat_map(|scan| scan.records).collect();
        let (mut records, next) = merge(records, &nexts, limit, |record| record.seq);
        if bare {
            records.iter_mut().for_each(|record| (record.result, record.checkpoint) = (None, None));
        }
        Ok(Scan { records, next })
    }

    pub(super) async fn list(&self, list: &List) -> Result<Page, Error> {
        self.check_open()?;
        let limit = list.limit.min(PAGE_ROWS_MAX);
        let page = |shard: usize| async move { self.part(shard).list(list).await };
        let pages = try_join_all(self.shards_of(list).into_iter().map(page)).await?;
        let nexts = pages.iter().map(|page| page.next).collect::<Vec<_>>();
        let tasks: Vec<Task> = pages.into_iter().flat_map(|page| page.tasks).collect();
        let (mut tasks, mut next) = merge(tasks, &nexts, limit, |task| task.record.seq);
        let mut bytes = 0;
        let fit = tasks.iter().take_while(|task| {
            let fits = bytes < ANSWER_BYTES_MAX;
            bytes += task.bytes();
            fits
        });
        let fit = fit.count();
        if fit < tasks.len() {
            tasks.truncate(fit);
            next = tasks.last().map(|task| task.record.seq);
        }
        Ok(Page { tasks, next })
    }

    fn shards_of(&self, list: &List) -> Vec<usize> {
        match &list.queue {
            Some(queue) => vec![self.shard_of(queue)],
            None => (0..self.count()).collect(),
        }
    }

    pub(super) async fn ledger(&self) -> Result<Ledger, Error> {
        let mut sum = Ledger::default();
        for ledger in try_join_all(self.parts.iter().map(|part| part.shared.ledger())).await? {
            sum.submitted += ledger.submitted;
            sum.completed += ledger.completed;
            sum.failed += ledger.failed;
            sum.crashed += ledger.crashed;
            sum.dead_lettered += ledger.dead_lettered;
            sum.cancelled += ledger.cancelled;
            sum.expired += ledger.expired;
            sum.removed += ledger.removed;
        }
        Ok(sum)
    }

    /// Live tasks whose time has come, in all parts that this process leads.
    pub(super) async fn due(&self, limit: usize) -> Result<Due, Error> {
        let parts = try_join_all(self.parts.iter().map(|part| part.shared.due(limit))).await?;
        let now = self.clock.now().stamp();
        Ok(first_of(parts, limit, |record| record.wakes().first(now).unwrap_or(0)))
    }

    pub(super) async fn prunable(&self, limit: usize) -> Result<Due, Error> {
        let parts = try_join_all(self.parts.iter().map(|part| part.shared.prunable(limit))).await?;
        let now = self.clock.now().stamp();
        Ok(first_of(parts, limit, |record| now.shown(record.kept_until().unwrap_or(0))))
    }

    pub(super) async fn expired(&self, expire: Expire) -> Result<Due, Error> {
        let mut all = Due::default();
        for part in self.parts.iter() {
            let limit = expire.limit.saturating_sub(all.tasks.len());
            if limit == 0 {
                all.next = Some(self.clock.now().mono);
                break;
            }
            let some = Expire { dead_workers: expire.dead_workers.clone(), limit };
            let due = part.shared.expired(&some).await?;
            all.tasks.extend(due.tasks);
            all.next = all.next.into_iter().chain(due.next).min();
        }
        Ok(all)
    }

    pub(super) async fn endings(&self, limit: usize) -> Result<Vec<Ending>, Error> {
        let mut left = limit;
        let mut all: Vec<Ending> = Vec::new();
        for part in self.parts.iter().take_while(|_| limit > 0) {
            if left == 0 {
                break;
            }
            let endings = part.shared.endings(left).await?;
            left = left.saturating_sub(endings.iter().map(|ending| ending.children.len()).sum());
            all.extend(endings);
        }
        all.sort_by_key(|ending| ending.parent);
        Ok(all)
    }

    pub(super) async fn settle(&self, settles: Vec<Settle>) -> Result<Vec<Settled>, Error> {
        let settle = |shard, share| async move { self.part(shard).settle(share).await };
        self.deal(settles, |settle| self.shard_at(settle.child), settle).await
    }
}

/// Merges pages that go from large numbers to small ones. Only what lies beyond the end of no page is complete; the rest is for
/// the next one.
fn merge<T>(
    mut all: Vec<T>,
    nexts: &[Option<u64>],
    limit: usize,
    number: impl Fn(&T) -> u64,
) -> (Vec<T>, Option<u64>) {
    all.sort_by_key(|item| std::cmp::Reverse(number(item)));
    let frontier = nexts.iter().flatten().max().copied();
    if let Some(frontier) = frontier {
        all.retain(|item| number(item) >= frontier);
    }
    if all.len() > limit {
        all.truncate(limit);
        let next = all.last().map(number);
        return (all, next);
    }
    (all, frontier)
}

/// Merges the due tasks of all parts, earliest first.
fn first_of(parts: Vec<Due>, limit: usize, at: impl Fn(&Record) -> u64) -> Due {
    let next = parts.iter().filter_map(|due| due.next).min();
    let mut tasks: Vec<Task> = parts.into_iter().flat_map(|due| due.tasks).collect();
    tasks.sort_by_key(|task| (at(&task.record), task.record.seq));
    let left_out = tasks.get(limit).map(|task| at(&task.record));
    tasks.truncate(limit);
    Due { tasks, next: next.into_iter().chain(left_out).min() }
}

#[cfg(test)]
mod tests {
    use super::merge;

    #[test]
    fn pages_are_merged_as_far_as_they_are_complete() {
        let number = |item: &u64| *item;
        assert_eq!(merge(vec![9, 3, 8, 7], &[None, None], 9, number), (vec![9, 8, 7, 3], None));
        // One page ends at 7 and may go on below it, so 3 has to wait.
        assert_eq!(merge(vec![9, 3, 8, 7], &[None, Some(7)], 9, number), (vec![9, 8, 7], Some(7)));
        assert_eq!(merge(vec![9, 3, 8, 7], &[None, None], 2, number), (vec![9, 8], Some(8)));
        assert_eq!(merge(Vec::new(), &[Some(5), Some(2)], 2, number), (Vec::new(), Some(5)));
    }
}
