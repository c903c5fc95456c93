//! The contract between the broker and whatever keeps the tasks.
//!
//! A store never decides. `insert` and `claim` are the two verbs in which it also chooses (whether an id is taken; which
//! tasks are next); every other state change arrives as a [`Transition`] that was decided by `windlass_core` on the record
//! of a given revision, and is written only if the record is still at that revision. Of several transitions for one
//! revision exactly one is committed, the others get [`Committed::Conflict`].
//!
//! What every store promises:
//! - When a verb answers `Ok`, its effect is as durable as [`Capabilities::durability`] says, and visible to every later read.
//! - Within a queue, `claim` gives out the highest priority first, and within a priority the lowest `order` among the tasks
//!   without a key; keys take turns, and no limit is exceeded at any moment ([`windlass_core::flow`]).
//! - Lease and state are one record: `running` exactly while a lease exists.
//! - Counters agree with the records at every moment at which a caller can look.
//! - Batches keep their order: the i-th answer belongs to the i-th item.
//! - No answer holds much more than [`windlass_core::limits::ANSWER_BYTES_MAX`] of payloads: it ends early instead.
//! - Nothing is done for a caller that went away: a claim whose caller is gone gives its tasks back.
//!
//! Lease deadlines are kept on the monotonic clock, and are not durable: extending is cheap, and after a restart every
//! running lease gets one fresh window. Polling is the truth; a signal ([`Signals`]) is a hint that saves polling.

mod capabilities;
mod dependents;
mod error;
mod exchange;
mod groups;
mod insert;
mod lapsed;
mod ledger;
mod limits;
mod list;
mod observed;
mod operations;
mod restore;
mod schedules;
mod signals;
mod workflows;

use std::collections::HashSet;
use std::fmt::Debug;

use async_trait::async_trait;
use futures_util::future::join_all;
use windlass_core::choice::{Mode, Queue};
use windlass_core::flow::{Scope, Status};
use windlass_core::operation::Operation;
use windlass_core::schedule::Schedule;
use windlass_core::{Name, Progress, Record, Stamp, Task, TaskId, Token, Transition, Wakes, Workflow};

use crate::backup::Source;

pub use capabilities::{Capabilities, Durability, Feature};
pub(crate) use dependents::depends_on;
pub use dependents::{Ending, Settle, Settled, Waiting};
pub use error::Error;
pub use exchange::{Exchange, Hearer};
pub use groups::Groups;
pub use insert::{Insert, Inserted};
pub use lapsed::Lapsed;
pub use ledger::Ledger;
pub use limits::{Apart, Hold, LimitWritten, ListLimits, SetLimit};
pub use list::{List, ListQueues, Page, QueueCounts, Released};
pub use observed::{Observed, Observer};
pub use operations::{ListOperations, OperationChange, OperationWritten, Scan, WriteOperation};
pub use restore::{Moved, Restore, Restored};
pub use schedules::{DueSchedules, ListSchedules, ScheduleChange, ScheduleWritten, WriteSchedule};
pub use signals::Signals;
pub use workflows::{InsertWorkflow, ListWorkflows, Span, WorkflowInserted};

#[async_trait]
pub trait Store: Debug + Send + Sync + 'static {
    fn capabilities(&self) -> Capabilities;

    /// A problem that an operator should fix, although the store serves.
    fn problem(&self) -> Option<String> {
        None
    }

    /// Adds tasks. An id that is taken adds nothing: the answer says whether the submit repeats the stored one. Then a unique
    /// key is looked at, and `windlass_core::unique` decides; a holder that gives way does so in the same commit.
    /// A body without a fingerprint says that its id was just made and is free: a store need not look it up.
    /// A task waits for those of its dependencies that have not completed; they are in the store, or before it in the batch.
    async fn insert(&self, insert: Insert) -> Result<Vec<Inserted>, Error>;

    /// Several inserts in their order, by a caller whose thread has nothing else to do meanwhile: a store that [writes here](Store::writes_here)
    /// may write and sync there, all of them at once, which saves waking a thread of its own and being woken by it.
    async fn insert_here(&self, inserts: Vec<Insert>) -> Vec<Result<Vec<Inserted>, Error>> {
        join_all(inserts.into_iter().map(|insert| self.insert(insert))).await
    }

    /// Whether a thread of a caller's can be of use to this store.
    fn writes_here(&self) -> bool {
        false
    }

    /// Leases the next tasks to a worker, waiting up to `wait_ms` for at least one. Paused queues give out nothing;
    /// a task whose `expires_at` has passed is not given out.
    async fn claim(&self, claim: Claim) -> Result<Vec<Task>, Error>;

    /// Writes decided changes, each under its condition. A task that others wait for is not removed, and one that is to wait
    /// again for a task that is gone is not requeued: both are conflicts, to be decided anew.
    async fn commit(&self, transitions: Vec<Transition>) -> Result<Vec<Committed>, Error>;

    /// Tasks that ended while others wait for them, oldest first, with at most `limit` who wait in all.
    async fn endings(&self, limit: usize) -> Result<Vec<Ending>, Error>;

    /// Tells those who wait what was decided for them, each under its condition.
    async fn settle(&self, settles: Vec<Settle>) -> Result<Vec<Settled>, Error>;

    /// Moves lease deadlines to a full lease from now, and keeps progress reports.
    async fn extend(&self, extensions: Vec<Extend>) -> Result<Vec<Extended>, Error>;

    /// Live tasks whose [`Record::wakes`] have come on either time line, earliest first, at most `limit`.
    async fn due(&self, limit: usize) -> Result<Due, Error>;

    /// Finished tasks whose `prune_at` has come on elapsed time, earliest first, at most `limit`.
    async fn prunable(&self, limit: usize) -> Result<Due, Error>;

    /// Running tasks whose lease ran out or whose worker is named as dead, at most `limit`. Their leases cannot be extended
    /// any more from here on, so that the decision that follows is not overtaken by an extension.
    async fn expired(&self, expire: Expire) -> Result<Due, Error>;

    async fn get(&self, id: &TaskId) -> Result<Option<Task>, Error>;

    /// The records alone, for decisions that need no body.
    async fn peek_all(&self, ids: &[TaskId]) -> Result<Vec<Option<Record>>, Error>;

    /// The same for reports on leases, each with its token: a task that ran under that token when it was last seen may be answered
    /// as it was then. What is decided on it is committed under its revision, so an answer that is out of date is a conflict, and
    /// read anew after that.
    async fn peek_held(&self, ids: &[TaskId], _tokens: &[Token]) -> Result<Vec<Option<Record>>, Error> {
        self.peek_all(ids).await
    }

    async fn peek(&self, id: &TaskId) -> Result<Option<Record>, Error> {
        Ok(self.peek_all(std::slice::from_ref(id)).await?.pop().flatten())
    }

    /// Whether records that were read are as safe as an answered write; `false` if one has changed since. It is asked before a
    /// call that finds its work done already is answered.
    async fn are_kept(&self, _seen: &[Record]) -> Result<bool, Error> {
        Ok(true)
    }

    /// Tasks that match, newest first.
    async fn list(&self, list: List) -> Result<Page, Error>;

    /// The same without bodies, results and checkpoints: for walks that act on many tasks.
    async fn scan(&self, list: List) -> Result<Scan, Error>;

    /// The place in line of a pending task among those of its queue, type and key (and priority, if the queue ages): 0 is next.
    /// `None` if it is not pending or too far back to tell.
    async fn position(&self, record: &Record) -> Result<Option<u64>, Error>;

    /// The counters of all queues, in any order. What cannot be told without a search (`oldest_pending_at`) may be missing.
    async fn depths(&self) -> Result<Vec<QueueCounts>, Error> {
        self.queues(None).await
    }

    /// The counters of one queue, or of all in order of name. A queue exists from its first task or pause on, until it is released.
    async fn queues(&self, name: Option<&Name>) -> Result<Vec<QueueCounts>, Error>;

    /// Releases queues, and pairs of queue and type, that have had no task since the call before. A queue that is paused or
    /// limited stays, and so do all limits with their windows. Names that were not released before a restart may be there again after it.
    async fn release_names(&self) -> Result<Released, Error>;

    /// Some of them, in order of name. A store that has to look for what it tells does so only for these.
    async fn queue_page(&self, list: ListQueues) -> Result<Vec<QueueCounts>, Error> {
        let all = self.queues(None).await?.into_iter();
        let behind = |queue: &QueueCounts| list.after.as_ref().is_none_or(|after| queue.name > *after);
        Ok(all.filter(behind).take(list.limit).collect())
    }

    async fn ledger(&self) -> Result<Ledger, Error>;

    /// A paused queue accepts tasks and gives out none.
    async fn set_paused(&self, queue: &Name, paused: bool) -> Result<(), Error>;

    async fn schedule(&self, id: &Name) -> Result<Option<Schedule>, Error>;

    /// Schedules in order of id.
    async fn schedules(&self, list: ListSchedules) -> Result<Vec<Schedule>, Error>;

    /// Schedules whose next slot has come, earliest first, at most `limit`.
    async fn due_schedules(&self, limit: usize) -> Result<DueSchedules, Error>;

    /// Makes, changes, fires or forgets a schedule under the condition that it is still at the revision that was seen.
    /// The tasks of a fire and the advance of the schedule are one commit: there is never one without the other.
    async fn write_schedule(&self, write: WriteSchedule) -> Result<ScheduleWritten, Error>;

    async fn operation(&self, id: &Name) -> Result<Option<Operation>, Error>;

    async fn operations(&self, list: ListOperations) -> Result<Vec<Operation>, Error>;

    /// Starts, carries on, ends or forgets an operation. The transitions of a step and what the operation knows of them are
    /// one commit: there is never one without the other.
    async fn write_operation(&self, write: WriteOperation) -> Result<OperationWritten, Error>;

    /// Sets, changes or removes a limit. It holds from the next claim on; tasks that run already count towards it.
    async fn set_limit(&self, set: SetLimit) -> Result<LimitWritten, Error>;

    async fn limit(&self, scope: Scope, name: &Name) -> Result<Option<Status>, Error>;

    /// Limits in order of scope and name.
    async fn limits(&self, list: ListLimits) -> Result<Vec<Status>, Error>;

    /// The limits that keep a pending task from starting now, of its queue, its type and its key.
    async fn holds(&self, record: &Record) -> Result<Vec<Hold>, Error>;

    /// Serves those who wait for a rate limit whose next token has come; returns when the next one comes after that.
    async fn open_gates(&self) -> Result<Option<u64>, Error>;

    /// Adds a graph of tasks, all or nothing.
    async fn insert_workflow(&self, insert: InsertWorkflow) -> Result<WorkflowInserted, Error>;

    /// A workflow is kept as long as one of its tasks is.
    async fn workflow(&self, id: &Name) -> Result<Option<Workflow>, Error>;

    async fn workflows(&self, list: ListWorkflows) -> Result<Vec<Workflow>, Error>;

    /// The tasks of some numbers; `next` of the page is where to go on.
    async fn span(&self, span: Span) -> Result<Page, Error>;

    /// Puts tasks in as another store had them: with number, revision, place in line and attempts, and with their lease, which
    /// gets a fresh window. What is there already stays, so a repeated call does nothing. Nobody is told: nothing happened.
    async fn restore(&self, restore: Restore) -> Result<Vec<Restored>, Error>;

    /// Records how far elapsed time has come, for the next process. The broker calls it while the wall clock is behind.
    async fn keep_time(&self) {}

    /// How the writing goes, for a store that writes in groups.
    fn groups(&self) -> Option<Groups> {
        None
    }

    /// Begins a backup of the whole store, which the caller reads piece by piece. There is one backup at a time.
    fn backup(&self) -> Result<Box<dyn Source>, Error> {
        Err(Error::NoBackup { store: self.capabilities().name, instead: "use `windlass migrate`" })
    }

    fn signals(&self) -> &Signals;

    /// Resolves when the store has stopped for good (a failed fsync, damaged data): the process must end.
    async fn failed(&self) -> String;

    /// Writes everything down and lets go of files. Later calls get [`Error::Closed`].
    async fn close(&self) -> Result<(), Error>;
}

#[derive(Debug, Clone)]
pub struct Claim {
    pub worker: Name,
    pub queues: Vec<Queue>,
    pub mode: Mode,
    /// Only these types; `None` for all.
    pub types: Option<Vec<Name>>,
    pub max: u32,
    pub lease_ms: u64,
    pub wait_ms: u64,
    /// For the choice between queues and for the secrets of the tokens.
    pub seed: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Committed {
    /// The record after the change (for a removal: before it).
    Done(Box<Record>),
    /// The task is no longer at that revision.
    Conflict,
    Missing,
    /// The task cannot become live again, because this other one has its unique key.
    KeyHeld(TaskId),
}

#[derive(Debug, Clone)]
pub struct Extend {
    pub id: TaskId,
    pub token: Token,
    /// `None` for the length of the claim.
    pub lease_ms: Option<u64>,
    pub progress: Option<Progress>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extended {
    Until { expires_at: u64 },
    CancelRequested,
    LeaseLost,
    Missing,
}

/// Records that a loop must act on.
#[derive(Debug, Default)]
pub struct Due {
    pub tasks: Vec<Task>,
    /// When the next one is due, as far as it is known: on the monotonic clock for `expired`, otherwise on the present wall
    /// clock.
    pub next: Option<u64>,
}

impl Due {
    /// Merges the due tasks of the two time lines, at most `limit` of each. `next` is when the next ones are due.
    pub(crate) fn of_both(
        on_wall: Vec<Task>,
        counted: Vec<Task>,
        next: Wakes,
        now: Stamp,
        limit: usize,
    ) -> Due {
        let mut due = Due { tasks: on_wall, next: next.first(now) };
        if counted.is_empty() {
            return due;
        }
        // A task that has expired as well is found on both.
        let seen: HashSet<u64> = due.tasks.iter().map(|task| task.record.seq).collect();
        due.tasks.extend(counted.into_iter().filter(|task| !seen.contains(&task.record.seq)));
        due.tasks.sort_by_cached_key(|task| (task.record.wakes().first(now), task.record.seq));
        if due.tasks.len() > limit {
            due.tasks.truncate(limit);
            due.next = Some(now.wall);
        }
        due
    }
}

#[derive(Debug)]
pub struct Expire {
    pub dead_workers: Vec<Name>,
    pub limit: usize,
}
