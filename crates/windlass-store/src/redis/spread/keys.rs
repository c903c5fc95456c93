//! Unique keys, which are good for all queues.
//!
//! The directory says in which part a key may be taken; there it is a matter of that part alone. A key that nobody holds any
//! more may be wanted in another part, while somebody is still on the way to take it in the first. So the first part is
//! closed for the key before the entry is changed: a mark takes the place of the holder, and whoever comes with what it saw
//! before is turned away by its own guard. Who finds a mark in the part that the entry names (because its maker died, or
//! because the key came back) makes the entry a new one first, so that the maker of the mark fails if it is still there,
//! and takes away exactly the mark that it saw.
//!
//! A part that a key left keeps its mark, a few bytes, until the key comes back.

use futures_util::future::try_join_all;
use windlass_core::limits::CONFLICT_TRIES_MAX;
use windlass_core::{Change, Record, Task, Transition, transition};

use super::super::read::By;
use super::super::reply;
use super::super::transact::Transaction;
use super::Spread;
use super::homes::{Asked, Place, of_key};
use crate::store::Error;

const MARK: char = '~';

impl Spread {
    /// Makes sure that keys can be taken in the parts that they are wanted in; returns who holds each of them elsewhere.
    pub(super) async fn reach_keys(&self, keys: &[(&str, usize)]) -> Result<Vec<Option<Task>>, Error> {
        let asked: Vec<Asked> = keys.iter().map(|(key, shard)| Asked::want(of_key(key), *shard)).collect();
        let places = self.homes(&asked).await?;
        let reach = keys.iter().zip(places).map(|((key, shard), place)| self.reach_key(key, *shard, place));
        try_join_all(reach).await
    }

    async fn reach_key(
        &self,
        key: &str,
        shard: usize,
        mut place: Option<Place>,
    ) -> Result<Option<Task>, Error> {
        for _ in 0..CONFLICT_TRIES_MAX {
            let want = Asked::want(of_key(key), shard);
            let Some(there) = place.take().filter(|place| place.shard != shard) else {
                let mark = self.last_holder(key, shard).await?;
                if !mark.starts_with(MARK) {
                    return Ok(None);
                }
                place = self.homes(&[want]).await?.pop().flatten();
                if place.as_ref().is_some_and(|place| place.shard == shard)
                    && self.swap(key, shard, &mark, None).await?
                {
                    return Ok(None);
                }
                continue;
            };
            let seen = self.last_holder(key, there.shard).await?;
            if !seen.is_empty()
                && !seen.starts_with(MARK)
                && let Some(holder) = self.holder(key, there.shard).await?
            {
                if !self.is_expired(&holder.record, there.shard).await? {
                    return Ok(Some(holder));
                }
                place = self.homes(&[want]).await?.pop().flatten();
                continue;
            }
            let mark = format!("{MARK}{:016x}", rand::random::<u64>());
            let closed = self.swap(key, there.shard, &seen, Some(&mark)).await?;
            place = self.homes(&[if closed { want.instead_of(&there) } else { want }]).await?.pop().flatten();
        }
        Err(Error::Busy)
    }

    /// Who holds a unique key in a part, if somebody does now.
    pub(super) async fn holder(&self, key: &str, shard: usize) -> Result<Option<Task>, Error> {
        let row = self.part(shard).look_up([By::Key(key)], true).await?.pop().flatten();
        let holder = row.filter(|row| row.record.holds_key(self.clock.now()));
        holder.map(|row| row.task()).transpose()
    }

    /// Whether a holder expired. Then it is dead, only not noticed yet, and is cancelled as if its time had come up.
    pub(super) async fn is_expired(&self, record: &Record, shard: usize) -> Result<bool, Error> {
        let Ok(Some(change @ Change::Cancelled { .. })) = transition::tick(record, self.clock.now()) else {
            return Ok(false);
        };
        let Record { id, seq, revision, .. } = record;
        let expire = Transition { id: id.clone(), seq: *seq, revision: *revision, change };
        self.part(shard).commit(vec![expire]).await?;
        Ok(true)
    }

    /// Who took a key last in a part, as it stands there: a name, a mark or nothing.
    async fn last_holder(&self, key: &str, shard: usize) -> Result<String, Error> {
        let part = self.part(shard);
        match part.link.ask(redis::cmd("HGET").arg(part.key("unique")).arg(key)).await? {
            redis::Value::Nil => Ok(String::new()),
            value => reply::text(value),
        }
    }

    async fn swap(&self, key: &str, shard: usize, seen: &str, mark: Option<&str>) -> Result<bool, Error> {
        let mut transaction = Transaction::default();
        transaction.guard("holder", &[key, seen]);
        match mark {
            Some(mark) => transaction.put("unique", key, mark.as_bytes().to_vec()),
            None => transaction.act("take", &["unique", key]),
        }
        Ok(self.part(shard).transact(transaction).await?.is_some())
    }
}
