//! Putting in what another store had.

use windlass_core::State;

use super::link::Fence;
use super::transact::Transaction;
use super::workflows::encode;
use super::{Shared, operations, reply, row};
use crate::embedded::codec;
use crate::store::{Error, Moved, Restore, Restored};

impl Shared {
    /// A part of a spread store takes it until the fence.
    pub(super) async fn restore(&self, restore: Restore, fence: Fence) -> Result<Vec<Restored>, Error> {
        self.check_open()?;
        self.waits.settled().await;
        let mut transaction = Transaction::default();
        transaction.fence = fence;
        for workflow in &restore.workflows {
            if self.workflow(&workflow.id).await?.is_none() {
                let value = encode(workflow.size as usize, workflow.created_at, &workflow.fingerprint);
                transaction.put("workflows", workflow.id.as_str(), value);
                let first = workflow.first.to_string();
                transaction.act("rank", &["workflow_order", &first, workflow.id.as_str()]);
            }
        }
        for operation in &restore.operations {
            if self.operation(&operation.id).await?.is_none() {
                operations::keep(&mut transaction, operation, false);
            }
        }
        transaction.act("reach", &[&restore.last_number().to_string()]);
        // An answer for every task is at its place among those of all acts.
        let mut places = Vec::with_capacity(restore.tasks.len());
        let now = self.clock.now().wall;
        for moved in &restore.tasks {
            places.push(transaction.restore(moved, restore.at, now));
        }
        let Some(done) = self.transact(transaction).await? else {
            return Ok(vec![Restored::Clash; restore.tasks.len()]);
        };
        let answer = |place: usize| match done.answers.get(place) {
            Some(answer) if reply::is_text(answer, "added") => Ok(Restored::Added),
            Some(answer) if reply::is_text(answer, "there") => Ok(Restored::There),
            Some(answer) if reply::is_text(answer, "clash") => Ok(Restored::Clash),
            _ => Err(reply::wrong("a task that was neither taken nor refused")),
        };
        places.into_iter().map(answer).collect()
    }
}

impl Transaction {
    /// The place of its answer.
    fn restore(&mut self, moved: &Moved, at: u64, now: u64) -> usize {
        let task = moved.begun();
        let (record, name) = (&task.record, row::name(task.record.seq));
        let held = record.unique.as_ref().filter(|_| record.holds_key(at));
        let lease = match &record.state {
            State::Running(lease) => Some(lease),
            _ => None,
        };
        let head = lease.map_or(String::new(), |lease| {
            let ends = now.saturating_add(lease.lease_ms);
            let (token, length) = (lease.token, lease.lease_ms);
            let revision = record.revision;
            format!("{revision} {} {:016x} - {length} - {length} {ends}", token.number, token.secret)
        });
        let place = self.len();
        self.act("back", &[&name, record.id.as_str(), &row::line(&task)]);
        self.arg(codec::encode_record(record, 0));
        self.arg(codec::encode_body(&task.body));
        let rest = [
            held.map_or("", |hold| hold.key.as_str()),
            &moved.last_number().to_string(),
            &moved.last_claim().to_string(),
            &head,
            lease.map_or("", |lease| lease.worker.as_str()),
        ];
        rest.iter().for_each(|word| self.arg(word.as_bytes().to_vec()));
        self.hint.add(record);
        for parent in &moved.waits_for {
            let parent = row::name(*parent);
            self.guard("there", &[&parent]);
            self.act("await", &[&parent, &name]);
        }
        place
    }
}
