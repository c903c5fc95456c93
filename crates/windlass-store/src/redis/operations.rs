//! Operations, and the tasks that they change.
//!
//! What an operation knows of a step is counted from what became of its transitions, and both are one commit. So the whole step
//! is decided on rows that were just read, and every row is a guard: if one of them changed, the step is decided again.

use bytes::Bytes;
use windlass_core::limits::{CONFLICT_TRIES_MAX, OPERATIONS_MAX, OPERATIONS_RUNNING_MAX, PAGE_ROWS_MAX};
use windlass_core::operation::Operation;
use windlass_core::{Name, Record, Transition};

use super::Shared;
use super::commit::Fate;
use super::hints::Loop;
use super::reply;
use super::row;
use super::transact::Transaction;
use crate::embedded::operations as codec;
use crate::operations::tally;
use crate::store::{Committed, Error, ListOperations, OperationChange, OperationWritten, WriteOperation};

const KIND: &str = "operations";
/// The ids of those under way.
const RUNNING: &str = "operations_running";

impl Shared {
    pub(super) async fn operation(&self, id: &Name) -> Result<Option<Operation>, Error> {
        self.named(KIND, id).await?.map(|value| decode(id, value)).transpose()
    }

    pub(super) async fn operations(&self, list: &ListOperations) -> Result<Vec<Operation>, Error> {
        self.check_open()?;
        let limit = list.limit.min(PAGE_ROWS_MAX);
        if !list.running {
            let rows = self.page_of_named(KIND, false, list.before.as_ref(), limit).await?;
            return rows.into_iter().map(|(id, value)| decode(&id, value)).collect();
        }
        let mut ids = self.running_ids().await?;
        ids.retain(|id| list.before.as_ref().is_none_or(|before| id < before));
        ids.sort_unstable_by(|a, b| b.cmp(a));
        let mut running = Vec::new();
        for id in ids.into_iter().take(limit) {
            running.extend(self.operation(&id).await?);
        }
        Ok(running)
    }

    async fn running_ids(&self) -> Result<Vec<Name>, Error> {
        let ids = reply::list(self.link.ask(redis::cmd("HKEYS").arg(self.key(RUNNING))).await?)?;
        let name = |id| Name::new(&reply::text(id)?).map_err(|_| reply::wrong("a wrong id of an operation"));
        ids.into_iter().map(name).collect()
    }

    pub(super) async fn write_operation(&self, write: WriteOperation) -> Result<OperationWritten, Error> {
        self.check_open()?;
        self.waits.settled().await;
        for _ in 0..CONFLICT_TRIES_MAX {
            let stored = self.operation(&write.id).await?;
            if let Some(refusal) = self.refusal(&write, stored.as_ref()).await? {
                return Ok(refusal);
            }
            let mut transaction = Transaction::default();
            transaction.guard_named(KIND, &write.id, stored.as_ref().map(|operation| operation.revision));
            let mut committed = Vec::new();
            let operation = match (&write.change, stored) {
                (OperationChange::Start { operation }, _) => {
                    self.begin(&mut transaction, (**operation).clone()).await?
                }
                (OperationChange::Step { step, transitions }, Some(mut stored)) => {
                    committed = self.take_step(&mut transaction, transitions).await?;
                    stored.advance(step, tally(transitions, &committed));
                    stored
                }
                (OperationChange::End { standing }, Some(mut stored)) => {
                    stored.end(standing);
                    stored
                }
                (_, Some(stored)) => stored,
                (_, None) => return Ok(OperationWritten::Missing),
            };
            keep(&mut transaction, &operation, matches!(write.change, OperationChange::Remove));
            let seqs = committed.iter().filter_map(done).map(|record| record.seq);
            // As in `written`: behind the commit a task may be leased to somebody else.
            let beats = self.beats(seqs);
            if self.transact(transaction).await?.is_some() {
                self.forget_leases(&committed, beats);
                let committed = self.numbered(committed).await?;
                return Ok(OperationWritten::Done { operation: Box::new(operation), committed });
            }
        }
        Err(Error::Busy)
    }

    /// Why a write cannot be carried out, if it cannot.
    async fn refusal(
        &self,
        write: &WriteOperation,
        stored: Option<&Operation>,
    ) -> Result<Option<OperationWritten>, Error> {
        let fits = match (&write.change, stored) {
            (OperationChange::Start { .. }, None) => {
                let full = self.count_named(RUNNING).await? >= OPERATIONS_RUNNING_MAX;
                return Ok(full.then_some(OperationWritten::TooMany));
            }
            (_, None) => return Ok(Some(OperationWritten::Missing)),
            (OperationChange::Start { .. }, Some(_)) => false,
            (OperationChange::Step { step, .. }, Some(stored)) => {
                stored.is_running() && stored.revision == step.revision
            }
            (OperationChange::End { .. }, Some(stored)) => stored.is_running(),
            (OperationChange::Remove, Some(stored)) => !stored.is_running(),
        };
        Ok((!fits).then_some(OperationWritten::Conflict))
    }

    /// It takes the tasks that are there now. If there are as many operations as there can be, the oldest that ended makes room.
    async fn begin(
        &self,
        transaction: &mut Transaction,
        mut operation: Operation,
    ) -> Result<Operation, Error> {
        transaction.guard("few", &[RUNNING, &OPERATIONS_RUNNING_MAX.to_string()]);
        transaction.hint.loops.insert(Loop::Operations);
        let last = match self.link.ask(redis::cmd("HGET").arg(self.key("meta")).arg("number")).await? {
            redis::Value::Nil => 0,
            number => reply::number(number)?,
        };
        operation.begin(last.max(self.link.floor()) + 1);
        if self.count_named(KIND).await? >= OPERATIONS_MAX {
            let running = self.running_ids().await?;
            let rows = self.page_of_named(KIND, true, None, OPERATIONS_RUNNING_MAX + 1).await?;
            if let Some((ended, _)) = rows.iter().find(|(id, _)| !running.contains(id)) {
                transaction.take_named(KIND, ended);
            }
        }
        Ok(operation)
    }

    /// What becomes of the transitions, if nothing changes before the commit.
    async fn take_step(
        &self,
        transaction: &mut Transaction,
        transitions: &[Transition],
    ) -> Result<Vec<Committed>, Error> {
        let mut committed = Vec::with_capacity(transitions.len());
        let mut behind = Vec::with_capacity(transitions.len());
        for transition in transitions {
            behind.push(self.parents_again(&transition.change).await?);
        }
        let fates = self.weigh_transitions(transitions, |i| behind[i].is_none()).await?;
        for (fate, parents) in fates.into_iter().zip(&behind) {
            let decided = match fate {
                Fate::Answer(answer) => {
                    committed.push(answer);
                    continue;
                }
                Fate::Write(decided) => decided,
            };
            decided.guard(transaction);
            let name = row::name(decided.record.seq);
            let step = decided.step();
            transaction.change("change", &step, &name);
            transaction.wait_for(parents.as_deref().unwrap_or_default(), &name);
            committed.push(Committed::Done(Box::new(step.after)));
        }
        Ok(committed)
    }

    /// The beats are those of what was done, in its order.
    fn forget_leases(&self, committed: &[Committed], beats: Vec<Option<u64>>) {
        for (record, beat) in committed.iter().filter_map(done).zip(beats) {
            if let Some(beat) = beat {
                self.forget_lease(record.seq, beat);
            }
        }
    }

    /// Places in line are given by the commit; the records are read again to tell them.
    async fn numbered(&self, committed: Vec<Committed>) -> Result<Vec<Committed>, Error> {
        let ids: Vec<_> = committed.iter().filter_map(done).map(|record| record.id.clone()).collect();
        let mut rows = self.peek_all(&ids).await?.into_iter();
        let numbered = |outcome| match outcome {
            Committed::Done(mut record) => {
                let current = rows.next().flatten();
                // One that was removed, or changed again meanwhile, is told as it was decided.
                if let Some(current) = current.filter(|current| current.revision == record.revision) {
                    record.order = current.order;
                }
                Committed::Done(record)
            }
            other => other,
        };
        Ok(committed.into_iter().map(numbered).collect())
    }
}

fn done(outcome: &Committed) -> Option<&Record> {
    match outcome {
        Committed::Done(record) => Some(record),
        _ => None,
    }
}

pub(super) fn keep(transaction: &mut Transaction, operation: &Operation, removed: bool) {
    if removed {
        transaction.take_named(KIND, &operation.id);
    } else {
        transaction.put_named(KIND, &operation.id, operation.revision, codec::encode(operation));
    }
    if operation.is_running() {
        transaction.put(RUNNING, operation.id.as_str(), &b"1"[..]);
    } else {
        transaction.act("take", &[RUNNING, operation.id.as_str()]);
    }
}

fn decode(id: &Name, value: Bytes) -> Result<Operation, Error> {
    codec::decode(id, value).map_err(|error| reply::wrong(&format!("an operation in which {error}")))
}
