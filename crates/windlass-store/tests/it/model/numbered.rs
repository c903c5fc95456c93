//! A store that is spread, seen as one that counts by one.
//!
//! The numbers of its tasks, places in line and leases are its own, so they are told apart from those of the model and translated:
//! what comes new out of it gets the next number, as it would in a store of one piece. Lists are walked to their end here, which
//! checks what is promised of their order (newest first by its own numbers, and inside of a group in order of submit), and cut
//! into pages in the order of the model.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use windlass_core::flow::{Scope, Status};
use windlass_core::operation::Operation;
use windlass_core::schedule::Schedule;
use windlass_core::{Name, Record, Task, TaskId, Transition, Workflow};
use windlass_store::clock::ManualClock;
use windlass_store::{
    Capabilities, Claim, Clock, Committed, Due, DueSchedules, Ending, Error, Expire, Extend, Extended, Hold,
    Insert, InsertWorkflow, Inserted, Ledger, LimitWritten, List, ListLimits, ListOperations, ListSchedules,
    ListWorkflows, OperationChange, OperationWritten, Page, QueueCounts, Released, Restore, Restored, Scan,
    ScheduleWritten, SetLimit, Settle, Settled, Signals, Span, Store, WorkflowInserted, WriteOperation,
    WriteSchedule,
};

use super::commands::group_of;
use super::table::Table;

#[derive(Debug)]
pub(crate) struct Numbered {
    pub(super) clock: Arc<ManualClock>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) table: Arc<Mutex<Table>>,
}

impl Numbered {
    fn told(&self, tasks: Vec<Task>) -> Vec<Task> {
        let mut table = self.table.lock();
        tasks.into_iter().map(|task| table.task(task)).collect()
    }

    fn own_record(&self, record: &Record) -> Record {
        let table = self.table.lock();
        Record { seq: table.own(record.seq), order: table.own(record.order), ..record.clone() }
    }

    /// All that matches, from the first page to the last, in the order of the model.
    async fn walk(&self, list: &List) -> Result<Vec<Task>, Error> {
        let mut rest = List { before: None, ..list.clone() };
        let mut tasks: Vec<Task> = Vec::new();
        loop {
            let page = self.store.list(rest.clone()).await?;
            tasks.extend(page.tasks);
            match page.next {
                Some(next) => rest.before = Some(next),
                None => break,
            }
        }
        assert!(tasks.is_sorted_by(|a, b| a.record.seq > b.record.seq), "newest first, none twice");
        let tasks = self.told(tasks);
        let mut groups: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for Task { record, .. } in &tasks {
            groups.entry(group_of(&record.queue)).or_default().push(record.seq);
        }
        assert!(groups.values().all(|all| all.is_sorted_by(|a, b| a > b)), "in order of submit: {groups:?}");
        let mut tasks: Vec<Task> = tasks
            .into_iter()
            .filter(|task| list.before.is_none_or(|before| task.record.seq < before))
            .collect();
        tasks.sort_by_key(|task| std::cmp::Reverse(task.record.seq));
        Ok(tasks)
    }

    /// What came up, by time and number of the model.
    fn due(&self, due: Due, limit: usize, at: impl Fn(&Record) -> u64) -> Due {
        let mut tasks = self.told(due.tasks);
        tasks.sort_by_key(|task| (at(&task.record), task.record.seq));
        let left_out = tasks.get(limit).map(|task| at(&task.record));
        tasks.truncate(limit);
        Due { tasks, next: due.next.into_iter().chain(left_out).min() }
    }
}

/// More than there are.
const ALL: usize = 100_000;

#[async_trait]
impl Store for Numbered {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    async fn insert(&self, insert: Insert) -> Result<Vec<Inserted>, Error> {
        let answers = self.store.insert(insert).await?;
        Ok(self.table.lock().inserted(answers))
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Task>, Error> {
        Ok(self.told(self.store.claim(claim).await?))
    }

    async fn commit(&self, transitions: Vec<Transition>) -> Result<Vec<Committed>, Error> {
        let transitions = self.table.lock().transitions(transitions);
        let answers = self.store.commit(transitions).await?;
        Ok(self.table.lock().committed(answers))
    }

    async fn release_names(&self) -> Result<Released, Error> {
        self.store.release_names().await
    }

    async fn endings(&self, limit: usize) -> Result<Vec<Ending>, Error> {
        let mut endings = self.store.endings(ALL).await?;
        let mut table = self.table.lock();
        for ending in &mut endings {
            ending.parent = table.tell(ending.parent);
            for child in &mut ending.children {
                child.seq = table.tell(child.seq);
                if let Some(record) = &mut child.record {
                    table.record(record);
                }
            }
            ending.children.sort_by_key(|child| child.seq);
        }
        endings.sort_by_key(|ending| ending.parent);
        let mut left = limit;
        endings.retain_mut(|ending| {
            let some = left > 0;
            ending.children.truncate(left);
            left -= ending.children.len();
            some
        });
        Ok(endings)
    }

    async fn settle(&self, mut settles: Vec<Settle>) -> Result<Vec<Settled>, Error> {
        {
            let table = self.table.lock();
            for settle in &mut settles {
                settle.child = table.own(settle.child);
                settle.parents.iter_mut().for_each(|(parent, _)| *parent = table.own(*parent));
            }
        }
        let mut answers = self.store.settle(settles).await?;
        let mut table = self.table.lock();
        for answer in &mut answers {
            if let Settled::Changed(record) = answer {
                table.record(record);
            }
        }
        Ok(answers)
    }

    async fn extend(&self, mut extensions: Vec<Extend>) -> Result<Vec<Extended>, Error> {
        {
            let table = self.table.lock();
            for extend in &mut extensions {
                extend.token = table.own_token(extend.token);
            }
        }
        self.store.extend(extensions).await
    }

    async fn due(&self, limit: usize) -> Result<Due, Error> {
        let now = self.clock.now().stamp();
        let due = self.store.due(ALL).await?;
        Ok(self.due(due, limit, |record| record.wakes().first(now).unwrap_or(0)))
    }

    async fn prunable(&self, limit: usize) -> Result<Due, Error> {
        let now = self.clock.now().stamp();
        let due = self.store.prunable(ALL).await?;
        Ok(self.due(due, limit, |record| now.shown(record.kept_until().unwrap_or(0))))
    }

    async fn expired(&self, expire: Expire) -> Result<Due, Error> {
        let Due { tasks, next } = self.store.expired(expire).await?;
        Ok(Due { tasks: self.told(tasks), next })
    }

    async fn get(&self, id: &TaskId) -> Result<Option<Task>, Error> {
        let task = self.store.get(id).await?;
        Ok(task.map(|task| self.table.lock().task(task)))
    }

    async fn peek_all(&self, ids: &[TaskId]) -> Result<Vec<Option<Record>>, Error> {
        let mut records = self.store.peek_all(ids).await?;
        let mut table = self.table.lock();
        records.iter_mut().flatten().for_each(|record| table.record(record));
        Ok(records)
    }

    async fn list(&self, list: List) -> Result<Page, Error> {
        let mut tasks = self.walk(&list).await?;
        let more = tasks.len() > list.limit;
        tasks.truncate(list.limit);
        let next = tasks.last().filter(|_| more).map(|task| task.record.seq);
        Ok(Page { tasks, next })
    }

    async fn scan(&self, list: List) -> Result<Scan, Error> {
        let mut rest = List { before: None, ..list.clone() };
        let mut records: Vec<Record> = Vec::new();
        loop {
            let page = self.store.scan(rest.clone()).await?;
            records.extend(page.records);
            match page.next {
                Some(next) => rest.before = Some(next),
                None => break,
            }
        }
        assert!(records.is_sorted_by(|a, b| a.seq > b.seq), "newest first, none twice");
        let mut table = self.table.lock();
        records.iter_mut().for_each(|record| table.record(record));
        records.retain(|record| list.before.is_none_or(|before| record.seq < before));
        records.sort_by_key(|record| std::cmp::Reverse(record.seq));
        let more = records.len() > list.limit;
        records.truncate(list.limit);
        let next = records.last().filter(|_| more).map(|record| record.seq);
        Ok(Scan { records, next })
    }

    async fn position(&self, record: &Record) -> Result<Option<u64>, Error> {
        self.store.position(&self.own_record(record)).await
    }

    async fn queues(&self, name: Option<&Name>) -> Result<Vec<QueueCounts>, Error> {
        self.store.queues(name).await
    }

    async fn ledger(&self) -> Result<Ledger, Error> {
        self.store.ledger().await
    }

    async fn set_paused(&self, queue: &Name, paused: bool) -> Result<(), Error> {
        self.store.set_paused(queue, paused).await
    }

    async fn schedule(&self, id: &Name) -> Result<Option<Schedule>, Error> {
        self.store.schedule(id).await
    }

    async fn schedules(&self, list: ListSchedules) -> Result<Vec<Schedule>, Error> {
        self.store.schedules(list).await
    }

    async fn due_schedules(&self, limit: usize) -> Result<DueSchedules, Error> {
        self.store.due_schedules(limit).await
    }

    async fn write_schedule(&self, write: WriteSchedule) -> Result<ScheduleWritten, Error> {
        Ok(match self.store.write_schedule(write).await? {
            ScheduleWritten::Done(answers) => ScheduleWritten::Done(self.table.lock().inserted(answers)),
            other => other,
        })
    }

    async fn operation(&self, id: &Name) -> Result<Option<Operation>, Error> {
        let operation = self.store.operation(id).await?;
        Ok(operation.map(|operation| self.table.lock().operation(operation)))
    }

    async fn operations(&self, list: ListOperations) -> Result<Vec<Operation>, Error> {
        let operations = self.store.operations(list).await?;
        let mut table = self.table.lock();
        Ok(operations.into_iter().map(|operation| table.operation(operation)).collect())
    }

    async fn write_operation(&self, mut write: WriteOperation) -> Result<OperationWritten, Error> {
        let starts = matches!(write.change, OperationChange::Start { .. });
        if let OperationChange::Step { transitions, .. } = &mut write.change {
            *transitions = self.table.lock().transitions(std::mem::take(transitions));
        }
        let written = self.store.write_operation(write).await?;
        let OperationWritten::Done { operation, committed } = written else { return Ok(written) };
        let mut table = self.table.lock();
        if starts {
            table.begin(&operation);
        }
        let committed = table.committed(committed);
        Ok(OperationWritten::Done { operation: Box::new(table.operation(*operation)), committed })
    }

    async fn set_limit(&self, set: SetLimit) -> Result<LimitWritten, Error> {
        self.store.set_limit(set).await
    }

    async fn limit(&self, scope: Scope, name: &Name) -> Result<Option<Status>, Error> {
        self.store.limit(scope, name).await
    }

    async fn limits(&self, list: ListLimits) -> Result<Vec<Status>, Error> {
        self.store.limits(list).await
    }

    async fn holds(&self, record: &Record) -> Result<Vec<Hold>, Error> {
        self.store.holds(&self.own_record(record)).await
    }

    async fn open_gates(&self) -> Result<Option<u64>, Error> {
        self.store.open_gates().await
    }

    async fn insert_workflow(&self, insert: InsertWorkflow) -> Result<WorkflowInserted, Error> {
        self.store.insert_workflow(insert).await
    }

    async fn workflow(&self, id: &Name) -> Result<Option<Workflow>, Error> {
        self.store.workflow(id).await
    }

    async fn workflows(&self, list: ListWorkflows) -> Result<Vec<Workflow>, Error> {
        self.store.workflows(list).await
    }

    async fn span(&self, span: Span) -> Result<Page, Error> {
        self.store.span(span).await
    }

    async fn restore(&self, restore: Restore) -> Result<Vec<Restored>, Error> {
        self.store.restore(restore).await
    }

    fn signals(&self) -> &Signals {
        self.store.signals()
    }

    async fn failed(&self) -> String {
        self.store.failed().await
    }

    async fn close(&self) -> Result<(), Error> {
        self.store.close().await
    }
}
