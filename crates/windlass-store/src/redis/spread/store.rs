//! Each verb, where it belongs.

use async_trait::async_trait;
use futures_util::future::try_join_all;
use windlass_core::flow::{Scope, Status};
use windlass_core::operation::Operation;
use windlass_core::schedule::Schedule;
use windlass_core::{Name, Record, Task, TaskId, Transition, Workflow};

use super::Spread;
use crate::backup::Source;
use crate::redis::backup;
use crate::store::{
    Capabilities, Claim, Committed, Due, DueSchedules, Ending, Error, Expire, Extend, Extended, Feature,
    Hold, Insert, InsertWorkflow, Inserted, Ledger, LimitWritten, List, ListLimits, ListOperations,
    ListSchedules, ListWorkflows, OperationWritten, Page, QueueCounts, Released, Restore, Restored, Scan,
    ScheduleWritten, SetLimit, Settle, Settled, Signals, Span, Store, WorkflowInserted, WriteOperation,
    WriteSchedule,
};

/// What this store can do beside the basics.
const FEATURES: [Feature; 7] = [
    Feature::UniqueKeys,
    Feature::Schedules,
    Feature::Operations,
    Feature::Dependencies,
    Feature::Workflows,
    Feature::Flow,
    Feature::Restore,
];

#[async_trait]
impl Store for Spread {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "redis",
            durability: self.durability,
            replicas: self.replicas,
            persistent: true,
            features: &FEATURES,
            parts: self.count() as u64,
        }
    }

    fn problem(&self) -> Option<String> {
        self.parts.iter().find_map(|part| part.shared.notices.problem())
    }

    async fn insert(&self, insert: Insert) -> Result<Vec<Inserted>, Error> {
        self.check_open()?;
        Spread::insert(self, insert).await
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Task>, Error> {
        self.check_open()?;
        Spread::claim(self, claim).await
    }

    async fn commit(&self, transitions: Vec<Transition>) -> Result<Vec<Committed>, Error> {
        self.check_open()?;
        Spread::commit(self, transitions).await
    }

    async fn endings(&self, limit: usize) -> Result<Vec<Ending>, Error> {
        Spread::endings(self, limit).await
    }

    async fn settle(&self, settles: Vec<Settle>) -> Result<Vec<Settled>, Error> {
        Spread::settle(self, settles).await
    }

    async fn extend(&self, extensions: Vec<Extend>) -> Result<Vec<Extended>, Error> {
        Spread::extend(self, extensions).await
    }

    async fn due(&self, limit: usize) -> Result<Due, Error> {
        Spread::due(self, limit).await
    }

    async fn release_names(&self) -> Result<Released, Error> {
        let mut all = Released::default();
        for part in self.parts.iter() {
            all.names += part.shared.release_names().await?.names;
        }
        Ok(all)
    }

    async fn prunable(&self, limit: usize) -> Result<Due, Error> {
        Spread::prunable(self, limit).await
    }

    async fn expired(&self, expire: Expire) -> Result<Due, Error> {
        Spread::expired(self, expire).await
    }

    async fn get(&self, id: &TaskId) -> Result<Option<Task>, Error> {
        Spread::get(self, id).await
    }

    async fn peek_all(&self, ids: &[TaskId]) -> Result<Vec<Option<Record>>, Error> {
        Spread::peek_all(self, ids).await
    }

    async fn are_kept(&self, seen: &[Record]) -> Result<bool, Error> {
        Spread::are_kept(self, seen).await
    }

    async fn list(&self, list: List) -> Result<Page, Error> {
        Spread::list(self, &list).await
    }

    async fn scan(&self, list: List) -> Result<Scan, Error> {
        Spread::scan(self, &list, true).await
    }

    async fn position(&self, record: &Record) -> Result<Option<u64>, Error> {
        self.part(self.shard_of(&record.queue)).position(record).await
    }

    async fn depths(&self) -> Result<Vec<QueueCounts>, Error> {
        Spread::depths(self).await
    }

    async fn queues(&self, name: Option<&Name>) -> Result<Vec<QueueCounts>, Error> {
        if let Some(queue) = name {
            return self.part(self.shard_of(queue)).queues(name).await;
        }
        let parts = try_join_all(self.parts.iter().map(|part| part.shared.queues(None))).await?;
        let mut queues: Vec<QueueCounts> = parts.into_iter().flatten().collect();
        queues.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(queues)
    }

    async fn ledger(&self) -> Result<Ledger, Error> {
        Spread::ledger(self).await
    }

    async fn set_paused(&self, queue: &Name, paused: bool) -> Result<(), Error> {
        self.part(self.shard_of(queue)).set_paused(queue, paused).await
    }

    async fn schedule(&self, id: &Name) -> Result<Option<Schedule>, Error> {
        Spread::schedule(self, id).await
    }

    async fn schedules(&self, list: ListSchedules) -> Result<Vec<Schedule>, Error> {
        Spread::schedules(self, &list).await
    }

    async fn due_schedules(&self, limit: usize) -> Result<DueSchedules, Error> {
        Spread::due_schedules(self, limit).await
    }

    async fn write_schedule(&self, write: WriteSchedule) -> Result<ScheduleWritten, Error> {
        Spread::write_schedule(self, write).await
    }

    async fn operation(&self, id: &Name) -> Result<Option<Operation>, Error> {
        self.part(0).operation(id).await
    }

    async fn operations(&self, list: ListOperations) -> Result<Vec<Operation>, Error> {
        self.part(0).operations(&list).await
    }

    async fn write_operation(&self, write: WriteOperation) -> Result<OperationWritten, Error> {
        self.check_open()?;
        Spread::write_operation(self, write).await
    }

    async fn set_limit(&self, set: SetLimit) -> Result<LimitWritten, Error> {
        Spread::set_limit(self, &set).await
    }

    async fn limit(&self, scope: Scope, name: &Name) -> Result<Option<Status>, Error> {
        Spread::limit(self, scope, name).await
    }

    async fn limits(&self, list: ListLimits) -> Result<Vec<Status>, Error> {
        Spread::limits(self, &list).await
    }

    async fn holds(&self, record: &Record) -> Result<Vec<Hold>, Error> {
        self.part(self.shard_at(record.seq)).holds(record).await
    }

    async fn open_gates(&self) -> Result<Option<u64>, Error> {
        Spread::open_gates(self).await
    }

    async fn insert_workflow(&self, insert: InsertWorkflow) -> Result<WorkflowInserted, Error> {
        Spread::insert_workflow(self, insert).await
    }

    async fn workflow(&self, id: &Name) -> Result<Option<Workflow>, Error> {
        Spread::workflow(self, id).await
    }

    async fn workflows(&self, list: ListWorkflows) -> Result<Vec<Workflow>, Error> {
        Spread::workflows(self, &list).await
    }

    async fn span(&self, span: Span) -> Result<Page, Error> {
        Spread::span(self, span).await
    }

    async fn restore(&self, restore: Restore) -> Result<Vec<Restored>, Error> {
        Spread::restore(self, restore).await
    }

    fn backup(&self) -> Result<Box<dyn Source>, Error> {
        Err(backup::NONE)
    }

    fn signals(&self) -> &Signals {
        &self.signals
    }

    async fn failed(&self) -> String {
        std::future::pending().await
    }

    async fn close(&self) -> Result<(), Error> {
        try_join_all(self.parts.iter().map(|part| part.close())).await.map(drop)
    }
}
