//! The default store: one directory, durable, with no other server.
//!
//! Every change is a command in a log (`crate::log`); when it is synced, it is applied to the state in memory
//! (`machine`), which keeps what a queue needs at speed: counters, leases, the front of every order. A checkpoint now
//! and then moves what changed into tables on disk (`checkpoint`, `tables`), and the log before it is used again. Opening is:
//! read the tables, replay the rest of the log. Memory does not grow with the backlog.
//!
//! Files: `LOCK` (held while open), `FORMAT` (the version of everything here), `log/` (segments), `index.redb` and `blocks/` (tables).
//! An error of the disk or an inconsistency ends the store (`Store::failed`): nothing is acknowledged after it.

mod answers;
mod backup;
pub(crate) mod catalogue;
mod checkpoint;
mod claims;
pub(crate) mod codec;
mod command;
mod desk;
mod dirty;
mod edges;
mod elapsed;
mod engine;
mod flow;
mod gauges;
mod handover;
mod here;
mod holders;
mod identity;
mod inbox;
mod index;
mod leases;
mod machine;
pub mod migration;
mod names;
mod open;
pub(crate) mod operations;
mod overlay;
mod pages;
mod removals;
mod restore;
pub mod salvage;
pub(crate) mod schedules;
mod settles;
mod shares;
mod space;
mod tables;
#[cfg(test)]
mod tests;
mod workflows;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use windlass_core::flow::{Scope, Status};
use windlass_core::operation::Operation;
use windlass_core::schedule::Schedule;
use windlass_core::{Name, Record, Task, TaskId, Transition, Workflow};

pub use backup::{Restored as RestoredBackup, restore as restore_backup};
pub use gauges::Activity;
pub use open::Options;
pub use space::reserve_bytes_min;

use claims::{Presence, Request, Waiter};
use command::{Command, Submits};
use desk::Desk;
use engine::Shared;
use inbox::Reply;
use machine::Machine;
use open::Threads;
use space::{Unsaved, saves};
use tables::ids::own_rows;

use crate::backup::Source;
use crate::store::{
    Capabilities, Claim, Committed, Due, DueSchedules, Durability, Ending, Error, Expire, Extend, Extended,
    Groups, Hold, Insert, InsertWorkflow, Inserted, Ledger, LimitWritten, List, ListLimits, ListOperations,
    ListQueues, ListSchedules, ListWorkflows, OperationWritten, Page, QueueCounts, Released, Restore,
    Restored, Scan, ScheduleChange, ScheduleWritten, SetLimit, Settle, Settled, Signals, Span, Store,
    WorkflowInserted, WriteOperation, WriteSchedule,
};

#[derive(Debug)]
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    durability: Durability,
    /// Gone with the threads that commit.
    desk: Weak<Desk>,
    /// Until it is closed.
    threads: Mutex<Option<Threads>>,
}

impl EmbeddedStore {
    pub fn activity(&self) -> Activity {
        self.shared.gauges.activity()
    }

    /// A read of the state, unless the store has ended.
    fn with<T>(&self, read: impl FnOnce(&mut Machine) -> Result<T, Error>) -> Result<T, Error> {
        if let Some(error) = self.shared.inbox.closed() {
            return Err(error);
        }
        // A damaged page can make the tables panic.
        let attempt = catch_unwind(AssertUnwindSafe(|| read(&mut self.shared.machine.lock())));
        let answer = attempt.unwrap_or_else(|_| Err(Error::Damaged("the index cannot be read".to_owned())));
        if let Err(error @ (Error::Damaged(_) | Error::Io { .. })) = &answer {
            self.shared.fail(error.to_string());
        }
        answer
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { name: "embedded", durability: self.durability, persistent: true, ..Capabilities::FULL }
    }

    async fn insert(&self, insert: Insert) -> Result<Vec<Inserted>, Error> {
        let ids = own_rows(insert.tasks.iter().map(|task| &task.id));
        let (command, entry) = Command::insert(insert);
        let _admitted = self.shared.admit(Unsaved { bytes: entry.len(), ids, blocks: 0 })?;
        self.send(command, entry, Reply::Inserted).await
    }

    async fn insert_here(&self, inserts: Vec<Insert>) -> Vec<Result<Vec<Inserted>, Error>> {
        self.write_here(inserts).await
    }

    fn writes_here(&self) -> bool {
        true
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Task>, Error> {
        if claim.max == 0 {
            return Ok(Vec::new());
        }
        let (sender, mut receiver) = oneshot::channel();
        let (request, call) = Request::new(sender);
        let wait = Duration::from_millis(claim.wait_ms);
        let presence = Presence { shared: Arc::clone(&self.shared), call };
        self.with(|machine| {
            if machine.has_work(&claim) {
                self.shared.serve(claim, request);
            } else {
                self.shared.wait(claim, request);
            }
            Ok(())
        })?;
        let answer = tokio::select! {
            answer = &mut receiver => answer,
            () = tokio::time::sleep(wait), if !wait.is_zero() => {
                if self.shared.leave(&presence.call) {
                    return Ok(Vec::new());
                }
                receiver.await
            }
        };
        Ok(answer.unwrap_or_else(|_| Err(self.gone()))?.take())
    }

    async fn commit(&self, transitions: Vec<Transition>) -> Result<Vec<Committed>, Error> {
        // The last room is for finishing work, and a checkpoint finishes nothing.
        if transitions.iter().any(saves) && self.shared.is_short() {
            return Err(Error::NoSpace);
        }
        self.commit_paced(transitions).await
    }

    async fn endings(&self, limit: usize) -> Result<Vec<Ending>, Error> {
        self.with(|machine| machine.endings(limit))
    }

    async fn settle(&self, settles: Vec<Settle>) -> Result<Vec<Settled>, Error> {
        let command = Command::Settle { settles };
        let entry = command.encode();
        self.send(command, entry, Reply::Settled).await
    }

    async fn extend(&self, extensions: Vec<Extend>) -> Result<Vec<Extended>, Error> {
        self.with(|machine| extensions.iter().map(|input| machine.extend(input)).collect())
    }

    async fn due(&self, limit: usize) -> Result<Due, Error> {
        self.with(|machine| machine.due(limit))
    }

    async fn release_names(&self) -> Result<Released, Error> {
        self.release_idle()
    }

    async fn prunable(&self, limit: usize) -> Result<Due, Error> {
        self.with(|machine| machine.prunable(limit))
    }

    async fn expired(&self, expire: Expire) -> Result<Due, Error> {
        self.with(|machine| machine.expired(&expire))
    }

    async fn get(&self, id: &TaskId) -> Result<Option<Task>, Error> {
        self.with(|machine| machine.get(id))
    }

    async fn peek_all(&self, ids: &[TaskId]) -> Result<Vec<Option<Record>>, Error> {
        self.with(|machine| {
            let mut found = Vec::with_capacity(ids.len());
            for id in ids {
                found.push(machine.peek(id)?);
            }
            Ok(found)
        })
    }

    async fn list(&self, list: List) -> Result<Page, Error> {
        let (listing, stored) = self.look_through(list).await?;
        self.with(|machine| machine.end_list(listing, stored?))
    }

    async fn scan(&self, list: List) -> Result<Scan, Error> {
        let (listing, stored) = self.look_through(list).await?;
        self.with(|machine| machine.end_scan(listing, stored?))
    }

    async fn position(&self, record: &Record) -> Result<Option<u64>, Error> {
        self.with(|machine| Ok(machine.position(record)))
    }

    async fn queues(&self, name: Option<&Name>) -> Result<Vec<QueueCounts>, Error> {
        self.with(|machine| machine.queues(name))
    }

    async fn queue_page(&self, list: ListQueues) -> Result<Vec<QueueCounts>, Error> {
        self.with(|machine| machine.queue_page(&list))
    }

    async fn depths(&self) -> Result<Vec<QueueCounts>, Error> {
        self.with(|machine| Ok(machine.depths()))
    }

    async fn ledger(&self) -> Result<Ledger, Error> {
        self.with(|machine| Ok(machine.ledger()))
    }

    async fn set_paused(&self, queue: &Name, paused: bool) -> Result<(), Error> {
        let command = Command::Pause { queue: queue.clone(), paused };
        let entry = command.encode();
        self.send(command, entry, Reply::Paused).await
    }

    async fn schedule(&self, id: &Name) -> Result<Option<Schedule>, Error> {
        self.with(|machine| Ok(machine.schedule(id)))
    }

    async fn schedules(&self, list: ListSchedules) -> Result<Vec<Schedule>, Error> {
        self.with(|machine| Ok(machine.schedules(&list)))
    }

    async fn due_schedules(&self, limit: usize) -> Result<DueSchedules, Error> {
        self.with(|machine| Ok(machine.due_schedules(limit)))
    }

    async fn write_schedule(&self, mut write: WriteSchedule) -> Result<ScheduleWritten, Error> {
        let removes = matches!(write.change, ScheduleChange::Remove { .. });
        if !removes && self.shared.is_short() {
            return Err(Error::NoSpace);
        }
        let tasks = match &mut write.change {
            ScheduleChange::Fire { tasks, .. } => std::mem::take(tasks),
            _ => Vec::new(),
        };
        let tasks = Submits::from(tasks);
        let command = Command::Schedule { write: Box::new(write), tasks };
        let entry = command.encode();
        self.send(command, entry, Reply::Scheduled).await
    }

    async fn operation(&self, id: &Name) -> Result<Option<Operation>, Error> {
        self.with(|machine| Ok(machine.operation(id)))
    }

    async fn operations(&self, list: ListOperations) -> Result<Vec<Operation>, Error> {
        self.with(|machine| Ok(machine.operations(&list)))
    }

    async fn write_operation(&self, write: WriteOperation) -> Result<OperationWritten, Error> {
        self.shared.permit_step(&write.change).await?;
        let command = Command::Operate { write: Box::new(write) };
        let entry = command.encode();
        self.send(command, entry, Reply::Operated).await
    }

    async fn set_limit(&self, set: SetLimit) -> Result<LimitWritten, Error> {
        // The writer stamps it, in the order of the claims: an older time would take the windows back.
        self.send(Command::Limit { set: Box::new(set), now: 0 }, Bytes::new(), Reply::Limited).await
    }

    async fn limit(&self, scope: Scope, name: &Name) -> Result<Option<Status>, Error> {
        self.with(|machine| Ok(machine.limit(scope, name)))
    }

    async fn limits(&self, list: ListLimits) -> Result<Vec<Status>, Error> {
        self.with(|machine| Ok(machine.limits(&list)))
    }

    async fn holds(&self, record: &Record) -> Result<Vec<Hold>, Error> {
        self.with(|machine| machine.holds(record))
    }

    /// One claim is enough to move the time on: what opens then serves the others who wait.
    async fn open_gates(&self) -> Result<Option<u64>, Error> {
        self.with(|machine| {
            let now = self.shared.clock.now().wall;
            if self.shared.has_waiters()
                && let Some(Waiter { claim, request }) = self.shared.take_awaiting(machine.due_gates(now))
            {
                self.shared.serve_woken(claim, request);
            }
            Ok(machine.await_gate(now))
        })
    }

    async fn insert_workflow(&self, mut insert: InsertWorkflow) -> Result<WorkflowInserted, Error> {
        if let Some(refused) = insert.refusal() {
            return Ok(refused);
        }
        let tasks = Submits::from(std::mem::take(&mut insert.tasks));
        let ids = own_rows(tasks.tasks.iter().map(|task| &task.id));
        let command = Command::Workflow { insert: Box::new(insert), tasks };
        let entry = command.encode();
        let _admitted = self.shared.admit(Unsaved { bytes: entry.len(), ids, blocks: 0 })?;
        self.send(command, entry, Reply::Workflow).await
    }

    async fn workflow(&self, id: &Name) -> Result<Option<Workflow>, Error> {
        self.with(|machine| machine.workflow(id))
    }

    async fn workflows(&self, list: ListWorkflows) -> Result<Vec<Workflow>, Error> {
        self.with(|machine| machine.list_workflows(&list))
    }

    async fn span(&self, span: Span) -> Result<Page, Error> {
        self.with(|machine| machine.span(&span))
    }

    async fn restore(&self, restore: Restore) -> Result<Vec<Restored>, Error> {
        let ids = own_rows(restore.tasks.iter().map(|moved| &moved.task.record.id));
        let command = Command::Restore { restore: Box::new(restore) };
        let entry = command.encode();
        let _admitted = self.shared.admit(Unsaved { bytes: entry.len(), ids, blocks: 0 })?;
        self.send(command, entry, Reply::Restored).await
    }

    fn groups(&self) -> Option<Groups> {
        Some(self.shared.gauges.groups())
    }

    fn signals(&self) -> &Signals {
        &self.shared.signals
    }

    async fn failed(&self) -> String {
        let mut failure = self.shared.failure.subscribe();
        let message =
            failure.wait_for(Option::is_some).await.map(|message| message.clone().unwrap_or_default());
        match message {
            Ok(message) => message,
            Err(_) => std::future::pending().await,
        }
    }

    async fn keep_time(&self) {
        let shared = Arc::clone(&self.shared);
        if let Err(error) = tokio::task::spawn_blocking(move || elapsed::keep(&shared)).await {
            tracing::warn!(%error, "cannot record elapsed time");
        }
    }

    fn backup(&self) -> Result<Box<dyn Source>, Error> {
        Ok(Box::new(backup::Stream::begin(&self.shared)?))
    }

    async fn close(&self) -> Result<(), Error> {
        self.keep_time().await;
        self.shared.inbox.close(Error::Closed);
        self.shared.backups.close();
        self.shared.dismiss(&Error::Closed);
        let threads = self.threads.lock().take();
        if let Some(threads) = threads {
            let joined = tokio::task::spawn_blocking(move || threads.join()).await;
            joined.map_err(|error| Error::Failed(error.to_string()))?;
        }
        self.shared.failed().map_or(Ok(()), Err)
    }
}
