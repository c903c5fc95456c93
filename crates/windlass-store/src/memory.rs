//! The reference store: everything in memory, gone with the process.
//!
//! It is meant to be obviously right rather than fast. One lock guards plain ordered maps (`tables`); each verb takes
//! it once, so verbs happen one after another and every answer shows a moment between two of them. The other stores are
//! compared with this one, answer by answer, so what it does is the contract where prose leaves room:
//!
//! - One counter numbers the tasks that were added and the changes that give a new place in line; another numbers the
//!   leases.
//! - A claim serves one task after another: pick a queue, take its best task, draw the secret. A task that turns out to
//!   have expired is cancelled there, and the search begins again with the choice of a queue.
//! - No waiting claim ever stands beside a ready task that it wants: whatever makes a task ready also serves those who
//!   wait for it, within the same lock.

mod dependents;
mod insert;
mod leases;
mod limits;
mod names;
mod operations;
mod read;
mod ready;
mod restore;
mod schedules;
mod serving;
mod tables;
mod workflows;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use windlass_core::flow::{Scope, Status};
use windlass_core::operation::Operation;
use windlass_core::schedule::Schedule;
use windlass_core::{Name, Record, Task, TaskId, Transition, Workflow};

use crate::backup::Source;
use crate::clock::Clock;
use crate::depth::Room;
use crate::store::{
    Capabilities, Claim, Committed, Due, DueSchedules, Durability, Ending, Error, Expire, Extend, Extended,
    Hold, Insert, InsertWorkflow, Inserted, Ledger, LimitWritten, List, ListLimits, ListOperations,
    ListSchedules, ListWorkflows, OperationWritten, Page, QueueCounts, Released, Restore, Restored, Scan,
    ScheduleWritten, SetLimit, Settle, Settled, Signals, Span, Store, WorkflowInserted, WriteOperation,
    WriteSchedule,
};
use crate::waiting::Ticket;
use tables::Tables;

#[derive(Debug)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    signals: Arc<Signals>,
    tables: Mutex<Tables>,
}

impl MemoryStore {
    pub fn new(clock: Arc<dyn Clock>) -> Arc<MemoryStore> {
        let signals = Arc::new(Signals::observed());
        Arc::new(Self { clock, tables: Mutex::new(Tables::new(Arc::clone(&signals))), signals })
    }

    fn open(&self) -> Result<MutexGuard<'_, Tables>, Error> {
        let tables = self.tables.lock();
        if tables.closed { Err(Error::Closed) } else { Ok(tables) }
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { name: "memory", durability: Durability::None, ..Capabilities::FULL }
    }

    async fn insert(&self, insert: Insert) -> Result<Vec<Inserted>, Error> {
        let mut tables = self.open()?;
        let room = Room::Bounded { max_depth: insert.max_depth };
        let answers =
            tables.insert(Arc::unwrap_or_clone(insert.tasks), insert.atomic, room, self.clock.now());
        tables.serve_waiting(self.clock.now());
        Ok(answers)
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Task>, Error> {
        let wait = Duration::from_millis(claim.wait_ms);
        let mut waiter = {
            let mut tables = self.open()?;
            let tasks = tables.serve(&claim, self.clock.now());
            if !tasks.is_empty() || wait.is_zero() || claim.max == 0 {
                return Ok(tasks);
            }
            let (reply, answer) = oneshot::channel();
            let ticket = tables.wait(claim, reply)?;
            Waiter { store: self, ticket, answer }
        };
        match tokio::time::timeout(wait, &mut waiter.answer).await {
            Ok(Ok(tasks)) => Ok(tasks),
            Ok(Err(_)) => Err(Error::Closed),
            Err(_) => Ok(waiter.leave()),
        }
    }

    async fn commit(&self, transitions: Vec<Transition>) -> Result<Vec<Committed>, Error> {
        let mut tables = self.open()?;
        let now = self.clock.now();
        let answers = transitions.iter().map(|transition| tables.commit(transition, now)).collect();
        tables.tell_names();
        tables.serve_waiting(now);
        Ok(answers)
    }

    async fn endings(&self, limit: usize) -> Result<Vec<Ending>, Error> {
        Ok(self.open()?.endings(limit))
    }

    async fn settle(&self, settles: Vec<Settle>) -> Result<Vec<Settled>, Error> {
        let mut tables = self.open()?;
        let now = self.clock.now();
        let answers = settles.iter().map(|settle| tables.settle(settle, now)).collect();
        tables.serve_waiting(now);
        Ok(answers)
    }

    async fn extend(&self, extensions: Vec<Extend>) -> Result<Vec<Extended>, Error> {
        let mut tables = self.open()?;
        let now = self.clock.now();
        Ok(extensions.into_iter().map(|extension| tables.extend(extension, now)).collect())
    }

    async fn due(&self, limit: usize) -> Result<Due, Error> {
        let tables = self.open()?;
        Ok(tables.due(limit, self.clock.now()))
    }

    async fn release_names(&self) -> Result<Released, Error> {
        Ok(self.open()?.release_names())
    }

    async fn prunable(&self, limit: usize) -> Result<Due, Error> {
        let tables = self.open()?;
        Ok(tables.prunable(limit, self.clock.now()))
    }

    async fn expired(&self, expire: Expire) -> Result<Due, Error> {
        let now = self.clock.now();
        let mut tables = self.open()?;
        tables.renew_leases(self.clock.resumed_at(now), now);
        Ok(tables.expired(&expire, now))
    }

    async fn get(&self, id: &TaskId) -> Result<Option<Task>, Error> {
        Ok(self.open()?.find(id).cloned())
    }

    async fn peek_all(&self, ids: &[TaskId]) -> Result<Vec<Option<Record>>, Error> {
        let tables = self.open()?;
        Ok(ids.iter().map(|id| tables.find(id).map(|task| task.record.clone())).collect())
    }

    async fn list(&self, list: List) -> Result<Page, Error> {
        Ok(self.open()?.list(&list))
    }

    async fn scan(&self, list: List) -> Result<Scan, Error> {
        let Page { tasks, next } = self.open()?.list(&list);
        let bare = |task: Task| Record { result: None, checkpoint: None, ..task.record };
        Ok(Scan { records: tasks.into_iter().map(bare).collect(), next })
    }

    async fn position(&self, record: &Record) -> Result<Option<u64>, Error> {
        Ok(self.open()?.position(&record.id))
    }

    async fn queues(&self, name: Option<&Name>) -> Result<Vec<QueueCounts>, Error> {
        Ok(self.open()?.queues(name))
    }

    async fn ledger(&self) -> Result<Ledger, Error> {
        Ok(self.open()?.ledger)
    }

    async fn set_paused(&self, queue: &Name, paused: bool) -> Result<(), Error> {
        let mut tables = self.open()?;
        tables.set_paused(queue, paused);
        self.signals.paused(queue, paused);
        tables.serve_waiting(self.clock.now());
        Ok(())
    }

    async fn schedule(&self, id: &Name) -> Result<Option<Schedule>, Error> {
        Ok(self.open()?.schedules.get(id).cloned())
    }

    async fn schedules(&self, list: ListSchedules) -> Result<Vec<Schedule>, Error> {
        Ok(self.open()?.schedules.list(&list))
    }

    async fn due_schedules(&self, limit: usize) -> Result<DueSchedules, Error> {
        Ok(self.open()?.schedules.due(limit, self.clock.now().stamp()))
    }

    async fn write_schedule(&self, write: WriteSchedule) -> Result<ScheduleWritten, Error> {
        let mut tables = self.open()?;
        let written = tables.write_schedule(write, self.clock.now());
        tables.serve_waiting(self.clock.now());
        Ok(written)
    }

    async fn operation(&self, id: &Name) -> Result<Option<Operation>, Error> {
        Ok(self.open()?.operations.get(id).cloned())
    }

    async fn operations(&self, list: ListOperations) -> Result<Vec<Operation>, Error> {
        Ok(self.open()?.operations.list(&list))
    }

    async fn write_operation(&self, write: WriteOperation) -> Result<OperationWritten, Error> {
        let mut tables = self.open()?;
        let written = tables.write_operation(&write, self.clock.now());
        tables.tell_names();
        tables.serve_waiting(self.clock.now());
        Ok(written)
    }

    async fn set_limit(&self, set: SetLimit) -> Result<LimitWritten, Error> {
        let mut tables = self.open()?;
        let now = self.clock.now();
        let paused = tables.is_paused_by_limit(&set);
        let written = tables.set_limit(&set, now);
        if tables.is_paused_by_limit(&set) != paused {
            self.signals.paused(&set.name, !paused);
        }
        tables.serve_waiting(now);
        tables.tell_gates();
        Ok(written)
    }

    async fn limit(&self, scope: Scope, name: &Name) -> Result<Option<Status>, Error> {
        Ok(self.open()?.ready.flow.status(scope, name))
    }

    async fn limits(&self, list: ListLimits) -> Result<Vec<Status>, Error> {
        Ok(self.open()?.limits(&list))
    }

    async fn holds(&self, record: &Record) -> Result<Vec<Hold>, Error> {
        Ok(self.open()?.holds(record, self.clock.now()))
    }

    async fn open_gates(&self) -> Result<Option<u64>, Error> {
        Ok(self.open()?.open_gates(self.clock.now()))
    }

    async fn insert_workflow(&self, insert: InsertWorkflow) -> Result<WorkflowInserted, Error> {
        let mut tables = self.open()?;
        let inserted = tables.insert_workflow(insert, self.clock.now());
        tables.serve_waiting(self.clock.now());
        Ok(inserted)
    }

    async fn workflow(&self, id: &Name) -> Result<Option<Workflow>, Error> {
        Ok(self.open()?.workflows.get(id).cloned())
    }

    async fn workflows(&self, list: ListWorkflows) -> Result<Vec<Workflow>, Error> {
        Ok(self.open()?.workflows.list(&list))
    }

    async fn span(&self, span: Span) -> Result<Page, Error> {
        Ok(self.open()?.span(&span))
    }

    async fn restore(&self, restore: Restore) -> Result<Vec<Restored>, Error> {
        let mut tables = self.open()?;
        let answers = tables.restore(restore, self.clock.now());
        tables.serve_waiting(self.clock.now());
        Ok(answers)
    }

    fn backup(&self) -> Result<Box<dyn Source>, Error> {
        let instead = "it keeps nothing on a disk; start the broker with store.url = embedded";
        Err(Error::NoBackup { store: "memory", instead })
    }

    fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Memory does not fail.
    async fn failed(&self) -> String {
        std::future::pending().await
    }

    async fn close(&self) -> Result<(), Error> {
        self.tables.lock().close();
        Ok(())
    }
}

/// A claim that waits, on the side of its caller. It leaves the line when it is dropped, and what it was served by then
/// goes back.
#[derive(Debug)]
struct Waiter<'a> {
    store: &'a MemoryStore,
    ticket: Ticket,
    answer: oneshot::Receiver<Vec<Task>>,
}

impl Waiter<'_> {
    /// Gives up waiting, unless it was served in the last moment.
    fn leave(&mut self) -> Vec<Task> {
        self.store.tables.lock().leave(self.ticket);
        // Answers are sent under the lock, so from here on there is one or there never will be.
        self.answer.try_recv().unwrap_or_default()
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let tasks = self.leave();
        if !tasks.is_empty() {
            self.store.tables.lock().give_back(&tasks, self.store.clock.now());
        }
    }
}
