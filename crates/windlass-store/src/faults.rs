//! A store that misbehaves on demand, around one that does not.
//!
//! Faults come one by one when a test asks for them ([`Faulty::once`]) or by a seeded schedule ([`Faulty::begin`]), so a
//! run can be repeated. Each that fires is counted: a test in which none fired has shown nothing.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use windlass_core::choice::Draws;
use windlass_core::flow::{Scope, Status};
use windlass_core::operation::Operation;
use windlass_core::{Name, Record, Task, TaskId, Token, Transition, Workflow, schedule};

use crate::backup::Source;
use crate::store::{
    Capabilities, Claim, Committed, Due, DueSchedules, Ending, Error, Expire, Extend, Extended, Groups, Hold,
    Insert, InsertWorkflow, Inserted, Ledger, LimitWritten, List, ListLimits, ListOperations, ListQueues,
    ListSchedules, ListWorkflows, OperationWritten, Page, QueueCounts, Released, Restore, Restored, Scan,
    ScheduleWritten, SetLimit, Settle, Settled, Signals, Span, Store, WorkflowInserted, WriteOperation,
    WriteSchedule,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// [`Error::Busy`]; nothing is done.
    Refuse,
    /// [`Error::TooLarge`]; nothing is done.
    TooLarge,
    /// [`Error::TooManyLanes`]; nothing is done.
    TooManyLanes,
    /// [`Error::Failed`] after it was done: for the caller the outcome is unknown.
    LoseAnswer,
    /// It is done, and no answer ever comes.
    Silence,
    /// It begins this much later.
    Delay(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    Insert,
    Claim,
    Commit,
    Endings,
    Settle,
    Extend,
    Due,
    Prunable,
    ReleaseNames,
    Expired,
    Get,
    Peek,
    AreKept,
    List,
    Position,
    Queues,
    Ledger,
    SetPaused,
    Schedule,
    Schedules,
    DueSchedules,
    WriteSchedule,
    Operations,
    WriteOperation,
    SetLimit,
    Limits,
    Holds,
    OpenGates,
    InsertWorkflow,
    Workflow,
    Workflows,
    Span,
    Restore,
}

/// Faults at random: one call in `one_in` of the named verbs gets one of `faults`.
#[derive(Debug, Clone)]
pub struct Schedule {
    pub seed: u64,
    pub one_in: u64,
    pub verbs: Vec<Verb>,
    pub faults: Vec<Fault>,
}

#[derive(Debug)]
pub struct Faulty {
    inner: Arc<dyn Store>,
    plan: Mutex<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    once: HashMap<Verb, VecDeque<Fault>>,
    schedule: Option<(Schedule, Draws)>,
    fired: u64,
}

impl Faulty {
    pub fn new(inner: Arc<dyn Store>) -> Arc<Faulty> {
        Arc::new(Self { inner, plan: Mutex::default() })
    }

    /// The next call of `verb` gets `fault`; asked for several times, the next calls get one each.
    pub fn once(&self, verb: Verb, fault: Fault) {
        self.plan.lock().once.entry(verb).or_default().push_back(fault);
    }

    /// From here on faults come by `schedule`, in place of an earlier one.
    pub fn begin(&self, schedule: Schedule) {
        let draws = Draws::new(schedule.seed);
        self.plan.lock().schedule = Some((schedule, draws));
    }

    /// No more faults, of either kind.
    pub fn calm(&self) {
        let mut plan = self.plan.lock();
        plan.once.clear();
        plan.schedule = None;
    }

    /// How many faults fired so far.
    pub fn fired(&self) -> u64 {
        self.plan.lock().fired
    }

    async fn pass<T>(&self, verb: Verb, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let fault = self.plan.lock().next(verb);
        match fault {
            None => call.await,
            Some(Fault::Refuse) => Err(Error::Busy),
            Some(Fault::TooLarge) => Err(Error::TooLarge),
            Some(Fault::TooManyLanes) => Err(Error::TooManyLanes),
            Some(Fault::LoseAnswer) => {
                call.await?;
                Err(Error::Failed("the answer was lost on purpose".into()))
            }
            Some(Fault::Silence) => {
                drop(call.await); // What it answered matters to nobody.
                std::future::pending().await
            }
            Some(Fault::Delay(delay)) => {
                tokio::time::sleep(delay).await;
                call.await
            }
        }
    }
}

impl Plan {
    fn next(&mut self, verb: Verb) -> Option<Fault> {
        let asked = self.once.get_mut(&verb).and_then(VecDeque::pop_front);
        let fault = asked.or_else(|| self.scheduled(verb))?;
        self.fired += 1;
        Some(fault)
    }

    fn scheduled(&mut self, verb: Verb) -> Option<Fault> {
        let (schedule, draws) = self.schedule.as_mut()?;
        if schedule.faults.is_empty() || !schedule.verbs.contains(&verb) {
            return None;
        }
        if draws.next_u64() % schedule.one_in.max(1) != 0 {
            return None;
        }
        Some(schedule.faults[(draws.next_u64() % schedule.faults.len() as u64) as usize])
    }
}

#[async_trait]
impl Store for Faulty {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn problem(&self) -> Option<String> {
        self.inner.problem()
    }

    async fn insert(&self, insert: Insert) -> Result<Vec<Inserted>, Error> {
        self.pass(Verb::Insert, self.inner.insert(insert)).await
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Task>, Error> {
        self.pass(Verb::Claim, self.inner.claim(claim)).await
    }

    async fn commit(&self, transitions: Vec<Transition>) -> Result<Vec<Committed>, Error> {
        self.pass(Verb::Commit, self.inner.commit(transitions)).await
    }

    async fn endings(&self, limit: usize) -> Result<Vec<Ending>, Error> {
        self.pass(Verb::Endings, self.inner.endings(limit)).await
    }

    async fn settle(&self, settles: Vec<Settle>) -> Result<Vec<Settled>, Error> {
        self.pass(Verb::Settle, self.inner.settle(settles)).await
    }

    async fn extend(&self, extensions: Vec<Extend>) -> Result<Vec<Extended>, Error> {
        self.pass(Verb::Extend, self.inner.extend(extensions)).await
    }

    async fn due(&self, limit: usize) -> Result<Due, Error> {
        self.pass(Verb::Due, self.inner.due(limit)).await
    }

    async fn release_names(&self) -> Result<Released, Error> {
        self.pass(Verb::ReleaseNames, self.inner.release_names()).await
    }

    async fn prunable(&self, limit: usize) -> Result<Due, Error> {
        self.pass(Verb::Prunable, self.inner.prunable(limit)).await
    }

    async fn expired(&self, expire: Expire) -> Result<Due, Error> {
        self.pass(Verb::Expired, self.inner.expired(expire)).await
    }

    async fn get(&self, id: &TaskId) -> Result<Option<Task>, Error> {
        self.pass(Verb::Get, self.inner.get(id)).await
    }

    async fn peek_all(&self, ids: &[TaskId]) -> Result<Vec<Option<Record>>, Error> {
        self.pass(Verb::Peek, self.inner.peek_all(ids)).await
    }

    async fn peek_held(&self, ids: &[TaskId], tokens: &[Token]) -> Result<Vec<Option<Record>>, Error> {
        self.pass(Verb::Peek, self.inner.peek_held(ids, tokens)).await
    }

    async fn are_kept(&self, seen: &[Record]) -> Result<bool, Error> {
        self.pass(Verb::AreKept, self.inner.are_kept(seen)).await
    }

    async fn list(&self, list: List) -> Result<Page, Error> {
        self.pass(Verb::List, self.inner.list(list)).await
    }

    async fn scan(&self, list: List) -> Result<Scan, Error> {
        self.pass(Verb::List, self.inner.scan(list)).await
    }

    async fn position(&self, record: &Record) -> Result<Option<u64>, Error> {
        self.pass(Verb::Position, self.inner.position(record)).await
    }

    async fn queues(&self, name: Option<&Name>) -> Result<Vec<QueueCounts>, Error> {
        self.pass(Verb::Queues, self.inner.queues(name)).await
    }

    async fn queue_page(&self, list: ListQueues) -> Result<Vec<QueueCounts>, Error> {
        self.pass(Verb::Queues, self.inner.queue_page(list)).await
    }

    async fn depths(&self) -> Result<Vec<QueueCounts>, Error> {
        self.pass(Verb::Queues, self.inner.depths()).await
    }

    async fn ledger(&self) -> Result<Ledger, Error> {
        self.pass(Verb::Ledger, self.inner.ledger()).await
    }

    async fn set_paused(&self, queue: &Name, paused: bool) -> Result<(), Error> {
        self.pass(Verb::SetPaused, self.inner.set_paused(queue, paused)).await
    }

    async fn schedule(&self, id: &Name) -> Result<Option<schedule::Schedule>, Error> {
        self.pass(Verb::Schedule, self.inner.schedule(id)).await
    }

    async fn schedules(&self, list: ListSchedules) -> Result<Vec<schedule::Schedule>, Error> {
        self.pass(Verb::Schedules, self.inner.schedules(list)).await
    }

    async fn due_schedules(&self, limit: usize) -> Result<DueSchedules, Error> {
        self.pass(Verb::DueSchedules, self.inner.due_schedules(limit)).await
    }

    async fn write_schedule(&self, write: WriteSchedule) -> Result<ScheduleWritten, Error> {
        self.pass(Verb::WriteSchedule, self.inner.write_schedule(write)).await
    }

    async fn operation(&self, id: &Name) -> Result<Option<Operation>, Error> {
        self.pass(Verb::Operations, self.inner.operation(id)).await
    }

    async fn operations(&self, list: ListOperations) -> Result<Vec<Operation>, Error> {
        self.pass(Verb::Operations, self.inner.operations(list)).await
    }

    async fn write_operation(&self, write: WriteOperation) -> Result<OperationWritten, Error> {
        self.pass(Verb::WriteOperation, self.inner.write_operation(write)).await
    }

    async fn set_limit(&self, set: SetLimit) -> Result<LimitWritten, Error> {
        self.pass(Verb::SetLimit, self.inner.set_limit(set)).await
    }

    async fn limit(&self, scope: Scope, name: &Name) -> Result<Option<Status>, Error> {
        self.pass(Verb::Limits, self.inner.limit(scope, name)).await
    }

    async fn limits(&self, list: ListLimits) -> Result<Vec<Status>, Error> {
        self.pass(Verb::Limits, self.inner.limits(list)).await
    }

    async fn holds(&self, record: &Record) -> Result<Vec<Hold>, Error> {
        self.pass(Verb::Holds, self.inner.holds(record)).await
    }

    async fn open_gates(&self) -> Result<Option<u64>, Error> {
        self.pass(Verb::OpenGates, self.inner.open_gates()).await
    }

    async fn insert_workflow(&self, insert: InsertWorkflow) -> Result<WorkflowInserted, Error> {
        self.pass(Verb::InsertWorkflow, self.inner.insert_workflow(insert)).await
    }

    async fn workflow(&self, id: &Name) -> Result<Option<Workflow>, Error> {
        self.pass(Verb::Workflow, self.inner.workflow(id)).await
    }

    async fn workflows(&self, list: ListWorkflows) -> Result<Vec<Workflow>, Error> {
        self.pass(Verb::Workflows, self.inner.workflows(list)).await
    }

    async fn span(&self, span: Span) -> Result<Page, Error> {
        self.pass(Verb::Span, self.inner.span(span)).await
    }

    async fn restore(&self, restore: Restore) -> Result<Vec<Restored>, Error> {
        self.pass(Verb::Restore, self.inner.restore(restore)).await
    }

    fn groups(&self) -> Option<Groups> {
        self.inner.groups()
    }

    fn backup(&self) -> Result<Box<dyn Source>, Error> {
        self.inner.backup()
    }

    fn signals(&self) -> &Signals {
        self.inner.signals()
    }

    async fn failed(&self) -> String {
        self.inner.failed().await
    }

    async fn close(&self) -> Result<(), Error> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests;
