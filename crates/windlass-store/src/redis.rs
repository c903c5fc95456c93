//! A store on Redis (or Valkey), shared by any number of processes.
//!
//! # What is where
//!
//! All keys begin with `{<prefix>}:`. The braces are a hash tag: in a cluster these keys are in one slot, because the
//! contract promises things over all queues as one commit (an id is taken once, a unique key has one holder, a batch is
//! added whole, an end is told to tasks of other queues). A store in a cluster is made of several such parts, each with a
//! hash tag of its own, and gives up some of these promises between them (`spread.rs`).
//!
//! | key | type | holds |
//! |---|---|---|
//! | `meta` | hash | the format, the random name of the data set, the source of a migration that is filling it (`migration.rs`), and the last number of tasks, claims, beats, terms and events; of a part of a spread store the term of the first part for which it is led, and the call that last read its leases |
//! | `tasks`, `bodies`, `progress` | hashes | of all tasks by name: the line that scripts read and the record; the body; what the worker of a running one reported (`lua/row.lua`) |
//! | `held` | sorted set | the claims that hold running tasks, those of a claim in runs by number (`lua/held.lua`) |
//! | `ids`, `awaited` | hash, set | names by id; names of those whose end others wait for |
//! | `ready/<queue>/<type>`, `…/<key>` | sorted sets | pending tasks by priority and place in line; those of each key apart |
//! | `lanes/<queue>` | sorted set | the first task of every type and priority of a queue |
//! | `turns/…`, `ranks/…`, `tops/…`, `rounds/…`, `shares/<key>`, `parties/<queue>` | | how keys take turns (`lua/lanes.lua`) |
//! | `limits`, `limit_order`, `windows`, `alarms` | hash, sorted set, hash, sorted set | limits; by name; starts of late; when each has a token again |
//! | `waiting`, `running` | hashes | what counts towards types and keys |
//! | `shut/<limit>`, `opening` | sets | lanes that a closed limit keeps away; limits that are open and have more to put back (`lua/gates.lua`) |
//! | `turning`, `turning/<queue>` | sets | queues that began or ended to age, and shares that have yet to follow (`lua/lanes.lua`) |
//! | `age/<queue>` | sorted set | pending tasks by number, and so by when they were added (`lua/numbers.lua`) |
//! | `state/<n>` | sorted set | tasks of a state by number, for lists (the same) |
//! | `wakes`, `prunes` | sorted sets | tasks by the time at which somebody must look; those that are forgotten at one time in runs |
//! | `leases` | sorted set | the first tasks of `held` by beat (`leases.rs`) |
//! | `ended`, `waits/<name>` | sorted sets | tasks that have yet to tell their end, and who waits for each |
//! | `queues`, `queue/<queue>` | sorted set, hash | names in order; counters, and whether it was without tasks when names were last released (`names.rs`) |
//! | `ledger`, `unique` | hashes | counts that only grow; who took each unique key last |
//! | `schedules`, `operations` with `…_revisions` and `…_names` | hashes, sorted set | values, revisions, names in order |
//! | `schedule_wakes`, `operations_running` | sorted set, hash | schedules by their next slot; operations under way |
//! | `workflows`, `workflow_order`, `workflow/<id>` | hash, sorted set, hash | values; by first task; tasks by state |
//! | `leader` | string | who acts on time (`lead.rs`) |
//! | `processes` | hash | the last call of every process, and how far its clock is off (`notices.rs`) |
//! | `done/<number>` | string | what a call answered, for a while, in case it is sent again |
//! | `wait` | string | touched before replicas are asked (`replicas.rs`) |
//! | `homes`, `homes_gone` | hash, sorted set | of a store that is spread: in which part a name is; names to forget |
//! | `hints` | channel | what processes tell each other (`hints.rs`) |
//! | `events` | channel | what happened, while somebody listens (`exchange.rs`) |
//!
//! # How it is written
//!
//! Core decides, a script commits: rows are read, core makes their successors, and one script writes them under the revisions
//! that were seen (`commit.rs`). Where tasks look at others, what was seen becomes the guards of one transaction (`plan.rs`,
//! `transact.rs`). A script sees a task only by its line; what it changes by itself, which is the claim, stands beside the
//! record and is applied to it by core when the row is read (`row.rs`).
//!
//! What a call changes in orders, counters and ids is written at its end, by one command for all of its tasks (`settle` in
//! `lua/task.lua`). A usual task, that is one which nothing limits and nobody looks at, is claimed and ended by a shorter way that comes to
//! the same (`usual` in `lua/claim.lua`, `finish` in `lua/commit.lua`), and workers of one process report such ends together (`reports.rs`).
//!
//! Which task is next only a script can say, since it must be as things are at that moment. So the choice under limits, turns and
//! ageing is core's `flow` once more, in Lua (`lua/choice.lua`), and held against core by tests, draw by draw. A limit that
//! closes moves nothing: a claim that meets what it blocks takes that out of the order that claims look at, and it goes back
//! when the limit opens. So blocked work costs no look, and work without limits not even the question.
//!
//! # When something fails
//!
//! - An answer that is lost is asked for again with the same number (`link.rs`): a script that did its work tells so, by what it left
//!   behind, or by what it remembers where that may be forgotten by then.
//! - A process that dies holds nothing but leases, which run out, and perhaps the lead, which does too.
//! - A hint that is lost costs time: who waits looks again every few seconds.
//! - A primary that fails is replaced by one that sentinels or the cluster name (`target.rs`). It misses the scripts, which are
//!   loaded again, and whatever its predecessor answered without sending it on, which is lost.
//! - What a crash of Redis loses is for its configuration to say, and for `/health` to repeat ([`Capabilities::durability`]).

mod backup;
mod claim;
mod commit;
mod dependents;
mod ends;
mod exchange;
mod handover;
mod hints;
mod insert;
mod key_locks;
mod lead;
mod leases;
mod limits;
mod link;
mod listen;
pub mod migration;
mod named;
mod names;
mod notices;
mod open;
mod operations;
mod options;
mod outlook;
mod plan;
mod read;
mod recent;
mod replicas;
mod reply;
mod reports;
mod restore;
mod row;
mod schedules;
mod script;
mod spread;
mod taken;
mod target;
mod transact;
mod waits;
mod wakes;
mod workflows;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use windlass_core::flow::{Scope, Status};
use windlass_core::operation::Operation;
use windlass_core::schedule::Schedule;
use windlass_core::{Name, Record, Task, TaskId, Token, Transition, Workflow};

use crate::backup::Source;
use crate::clock::Clock;
use crate::store::{
    Capabilities, Claim, Committed, Due, DueSchedules, Durability, Ending, Error, Expire, Extend, Extended,
    Hold, Insert, InsertWorkflow, Inserted, Ledger, LimitWritten, List, ListLimits, ListOperations,
    ListQueues, ListSchedules, ListWorkflows, OperationWritten, Page, QueueCounts, Released, Restore,
    Restored, Scan, ScheduleWritten, SetLimit, Settle, Settled, Signals, Span, Store, WorkflowInserted,
    WriteOperation, WriteSchedule,
};
use hints::{Hint, Horizon, Loop};
pub use open::{exists, open, open_alone};
pub use options::{Options, PREFIX_DEFAULT};

#[derive(Debug)]
pub struct RedisStore {
    shared: Arc<Shared>,
    durability: Durability,
    /// That have what is answered.
    replicas: u32,
    /// They end with the store.
    _tasks: Mutex<JoinSet<()>>,
}

#[derive(Debug)]
struct Shared {
    link: link::Link,
    base: String,
    /// Who this process is, among those on one Redis.
    origin: String,
    clock: Arc<dyn Clock>,
    signals: Arc<Signals>,
    waits: waits::Waits,
    watch: Mutex<leases::Watch>,
    recent: recent::Recent,
    reports: reports::Reports,
    limits_mark: Mutex<limits::Mark>,
    key_locks: key_locks::KeyLocks,
    /// When all queues were last looked at because there were too many, and how many were released.
    made_room: tokio::sync::Mutex<Option<(std::time::Instant, usize)>>,
    leader: lead::Leader,
    /// It may be this process' turn to lead.
    turn: Notify,
    /// Whether something may have changed here since its counters were read.
    stirred: AtomicBool,
    /// Whether hints of other processes are heard.
    hears: AtomicBool,
    /// How often those who wait look without a hint, if not as usual.
    looks: OnceLock<Duration>,
    audience: exchange::Audience,
    due: Horizon,
    prune: Horizon,
    notices: notices::Notices,
    closed: AtomicBool,
}

impl Shared {
    fn check_open(&self) -> Result<(), Error> {
        if self.closed.load(Ordering::SeqCst) { Err(Error::Closed) } else { Ok(()) }
    }

    fn key(&self, rest: &str) -> String {
        format!("{}{rest}", self.base)
    }

    /// Does in this process what a hint asks of others.
    fn heed(&self, hint: &Hint) {
        self.stirred.store(true, Ordering::Relaxed);
        self.waits.wake(&hint.lanes);
        self.due.tell(hint.due, &self.signals.due);
        self.prune.tell(hint.prune, &self.signals.prunable);
        for wake in &hint.loops {
            match wake {
                Loop::Schedules => self.signals.schedules.notify_one(),
                Loop::Operations => self.signals.operations.notify_one(),
                Loop::Dependents => self.signals.dependents.notify_one(),
                Loop::Gates => self.signals.gates.notify_one(),
                Loop::Leader => self.turn.notify_one(),
                Loop::Listens => self.want_events(),
                Loop::WhoListens => self.audience.asked.notify_one(),
            }
        }
    }
}

#[async_trait]
impl Store for RedisStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "redis",
            durability: self.durability,
            replicas: self.replicas,
            persistent: true,
            ..Capabilities::FULL
        }
    }

    fn problem(&self) -> Option<String> {
        self.shared.notices.problem()
    }

    async fn insert(&self, insert: Insert) -> Result<Vec<Inserted>, Error> {
        self.shared.insert(insert, None).await
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Task>, Error> {
        self.shared.claim(claim).await
    }

    async fn commit(&self, transitions: Vec<Transition>) -> Result<Vec<Committed>, Error> {
        self.shared.commit(transitions).await
    }

    async fn endings(&self, limit: usize) -> Result<Vec<Ending>, Error> {
        self.shared.endings(limit).await
    }

    async fn settle(&self, settles: Vec<Settle>) -> Result<Vec<Settled>, Error> {
        self.shared.settle(settles).await
    }

    async fn extend(&self, extensions: Vec<Extend>) -> Result<Vec<Extended>, Error> {
        self.shared.extend(extensions).await
    }

    async fn due(&self, limit: usize) -> Result<Due, Error> {
        self.shared.due(limit).await
    }

    async fn release_names(&self) -> Result<Released, Error> {
        self.shared.release_names().await
    }

    async fn prunable(&self, limit: usize) -> Result<Due, Error> {
        self.shared.prunable(limit).await
    }

    async fn expired(&self, expire: Expire) -> Result<Due, Error> {
        self.shared.expired(&expire).await
    }

    async fn get(&self, id: &TaskId) -> Result<Option<Task>, Error> {
        self.shared.get(id).await
    }

    async fn peek_all(&self, ids: &[TaskId]) -> Result<Vec<Option<Record>>, Error> {
        self.shared.peek_all(ids).await
    }

    async fn peek_held(&self, ids: &[TaskId], tokens: &[Token]) -> Result<Vec<Option<Record>>, Error> {
        self.shared.peek_held(ids, tokens).await
    }

    async fn are_kept(&self, seen: &[Record]) -> Result<bool, Error> {
        self.shared.are_kept(seen).await
    }

    async fn list(&self, list: List) -> Result<Page, Error> {
        self.shared.list(&list).await
    }

    async fn scan(&self, list: List) -> Result<Scan, Error> {
        let Scan { records, next } = self.shared.scan(&list, usize::MAX).await?;
        let bare = |record| Record { result: None, checkpoint: None, ..record };
        Ok(Scan { records: records.into_iter().map(bare).collect(), next })
    }

    async fn position(&self, record: &Record) -> Result<Option<u64>, Error> {
        self.shared.position(record).await
    }

    async fn queues(&self, name: Option<&Name>) -> Result<Vec<QueueCounts>, Error> {
        self.shared.queues(name).await
    }

    async fn queue_page(&self, list: ListQueues) -> Result<Vec<QueueCounts>, Error> {
        self.shared.queue_page(list).await
    }

    async fn ledger(&self) -> Result<Ledger, Error> {
        self.shared.ledger().await
    }

    async fn set_paused(&self, queue: &Name, paused: bool) -> Result<(), Error> {
        self.shared.set_paused(queue, paused).await
    }

    async fn schedule(&self, id: &Name) -> Result<Option<Schedule>, Error> {
        self.shared.schedule(id).await
    }

    async fn schedules(&self, list: ListSchedules) -> Result<Vec<Schedule>, Error> {
        self.shared.schedules(&list).await
    }

    async fn due_schedules(&self, limit: usize) -> Result<DueSchedules, Error> {
        self.shared.due_schedules(limit).await
    }

    async fn write_schedule(&self, write: WriteSchedule) -> Result<ScheduleWritten, Error> {
        self.shared.write_schedule(write, None).await
    }

    async fn operation(&self, id: &Name) -> Result<Option<Operation>, Error> {
        self.shared.operation(id).await
    }

    async fn operations(&self, list: ListOperations) -> Result<Vec<Operation>, Error> {
        self.shared.operations(&list).await
    }

    async fn write_operation(&self, write: WriteOperation) -> Result<OperationWritten, Error> {
        self.shared.write_operation(write).await
    }

    async fn set_limit(&self, set: SetLimit) -> Result<LimitWritten, Error> {
        self.shared.set_limit(&set).await
    }

    async fn limit(&self, scope: Scope, name: &Name) -> Result<Option<Status>, Error> {
        self.shared.limit(scope, name).await
    }

    async fn limits(&self, list: ListLimits) -> Result<Vec<Status>, Error> {
        self.shared.limits(&list).await
    }

    async fn holds(&self, record: &Record) -> Result<Vec<Hold>, Error> {
        self.shared.holds(record).await
    }

    async fn open_gates(&self) -> Result<Option<u64>, Error> {
        self.shared.open_gates().await
    }

    async fn insert_workflow(&self, insert: InsertWorkflow) -> Result<WorkflowInserted, Error> {
        self.shared.insert_workflow(insert, None).await
    }

    async fn workflow(&self, id: &Name) -> Result<Option<Workflow>, Error> {
        self.shared.workflow(id).await
    }

    async fn workflows(&self, list: ListWorkflows) -> Result<Vec<Workflow>, Error> {
        self.shared.workflows(&list).await
    }

    async fn span(&self, span: Span) -> Result<Page, Error> {
        self.shared.span(&span).await
    }

    async fn restore(&self, restore: Restore) -> Result<Vec<Restored>, Error> {
        self.shared.restore(restore, None).await
    }

    fn backup(&self) -> Result<Box<dyn Source>, Error> {
        Err(backup::NONE)
    }

    fn signals(&self) -> &Signals {
        &self.shared.signals
    }

    /// Redis may come back, so its absence is an error of each verb and never the end.
    async fn failed(&self) -> String {
        std::future::pending().await
    }

    async fn close(&self) -> Result<(), Error> {
        if self.shared.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        self.shared.waits.close();
        // Without a word the lead ends a little later by itself.
        if let Err(error) = self.shared.resign(0).await {
            tracing::warn!(%error, "cannot tell Redis that this process ends");
        }
        Ok(())
    }
}
