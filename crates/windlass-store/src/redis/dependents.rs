//! Tasks that wait for others.

use futures_util::future::try_join_all;
use windlass_core::{Change, Ended, Record, StateName};

use super::Shared;
use super::commit::Decided;
use super::link::Args;
use super::read::By;
use super::row::{self, Row};
use super::transact::Transaction;
use super::{reply, script};
use crate::store::{Committed, Ending, Error, Settle, Settled, Waiting};

/// Children that are read by one call.
const CHILDREN_MAX: usize = 1000;
/// Those who are told at once, each by a commit of its own: enough to keep Redis busy.
const SETTLES_AT_ONCE: usize = 32;

impl Shared {
    pub(super) async fn endings(&self, limit: usize) -> Result<Vec<Ending>, Error> {
        self.check_open()?;
        if self.leading().await?.is_none() {
            return Ok(Vec::new());
        }
        let mut args = Args::new("");
        args.number(limit.min(CHILDREN_MAX) as u64);
        let answers = reply::list(self.link.run(&script::ENDINGS, &args).await?)?;
        answers.into_iter().map(ending).collect()
    }

    pub(super) async fn settle(&self, settles: Vec<Settle>) -> Result<Vec<Settled>, Error> {
        self.check_open()?;
        self.waits.settled().await;
        let rows = self.look_up(settles.iter().map(|settle| By::Number(settle.child)), false).await?;
        let mut answers = Vec::with_capacity(settles.len());
        let mut settling = settles.into_iter().zip(rows).peekable();
        while settling.peek().is_some() {
            let some = settling.by_ref().take(SETTLES_AT_ONCE);
            let some = some.map(|(settle, row)| self.settle_one(settle, row.map(|row| row.record)));
            answers.extend(try_join_all(some.collect::<Vec<_>>()).await?);
        }
        Ok(answers)
    }

    async fn settle_one(&self, settle: Settle, record: Option<Record>) -> Result<Settled, Error> {
        let child = row::name(settle.child);
        if record.as_ref().map(|record| record.revision) != settle.seen {
            return Ok(Settled::Conflict);
        }
        let mut transaction = Transaction::default();
        match &record {
            Some(record) => transaction.guard_at(record),
            None => transaction.guard("gone", &[&child]),
        }
        for (parent, ended) in &settle.parents {
            let state = match ended {
                Ended::Completed => StateName::Completed,
                Ended::Cancelled => StateName::Cancelled,
            };
            transaction.guard("ended", &[&row::name(*parent), &state.index().to_string()]);
            transaction.guard("waits", &[&row::name(*parent), &child]);
            transaction.act("told", &[&row::name(*parent), &child]);
        }
        let step = match (record, settle.change) {
            (Some(record), Some(change)) => Some(Decided::plain((record, change)).step()),
            _ => None,
        };
        if let Some(step) = &step {
            transaction.change("change", step, &child);
        }
        let Some(mut done) = self.transact(transaction).await? else { return Ok(Settled::Conflict) };
        let Some(step) = step else { return Ok(Settled::Dropped) };
        match self.written(step, None, done.answers.pop().unwrap_or_default())? {
            Committed::Done(record) => Ok(Settled::Changed(record)),
            _ => Err(reply::wrong("a change that was guarded and not made")),
        }
    }

    /// A retry that waits for others again: one that is gone by now is a conflict.
    pub(super) async fn requeue_behind(&self, decided: Decided) -> Result<Committed, Error> {
        let mut transaction = Transaction::default();
        decided.guard(&mut transaction);
        let name = row::name(decided.record.seq);
        let Some(parents) = self.parents_again(&decided.change).await? else {
            return Ok(Committed::Conflict);
        };
        let step = decided.step();
        transaction.change("change", &step, &name);
        transaction.wait_for(&parents, &name);
        let Some(done) = self.transact(transaction).await? else { return Ok(Committed::Conflict) };
        self.written(step, None, done.answers.into_iter().next().unwrap_or_default())
    }

    /// The names of those that a task waits for again; `None` if one is gone.
    pub(super) async fn parents_again(&self, change: &Change) -> Result<Option<Vec<String>>, Error> {
        let Change::Requeued { after, .. } = change else { return Ok(Some(Vec::new())) };
        let mut names = Vec::new();
        for parent in self.look_up(after.iter().map(By::Id), false).await? {
            let Some(Row { record, .. }) = parent else { return Ok(None) };
            names.push(row::name(record.seq));
        }
        Ok(Some(names))
    }
}

fn ending(answer: redis::Value) -> Result<Ending, Error> {
    let [parent, state, children] = reply::fixed(answer)?;
    let ended = match StateName::from_index(reply::number(state)? as usize) {
        Some(StateName::Completed) => Ended::Completed,
        Some(StateName::Cancelled) => Ended::Cancelled,
        _ => return Err(reply::wrong("a task among the ended that has not ended")),
    };
    let child = |child: redis::Value| {
        let [name, row] = reply::fixed(child)?;
        let record = Row::read(row)?.map(|row| row.record);
        Ok::<_, Error>(Waiting { seq: reply::number(name)?, record })
    };
    let children = reply::list(children)?.into_iter().map(child).collect::<Result<_, _>>()?;
    Ok(Ending { parent: reply::number(parent)?, ended, children })
}
