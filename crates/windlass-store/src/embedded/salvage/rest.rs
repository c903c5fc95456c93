//! The intact part of the log that cannot simply be replayed: entries after a hole, or after damaged tables.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::{CancelReason, Change, NewTask, Stamp, TaskId, Transition};

use super::report::{Loss, Origin, Report};
use super::{Progress, Watch, damaged_log};
use crate::embedded::command::{Command, Submits};
use crate::log::Intact;
use crate::store::{
    Committed, Error, Insert, InsertWorkflow, Inserted, OperationChange, OperationWritten, Restored,
    ScheduleChange, ScheduleWritten, SetLimit, Store, WorkflowInserted, WriteOperation, WriteSchedule,
};

/// How many ids are remembered, to report each once. Beyond this some may be reported again.
const IDS_MAX: usize = 100_000;
/// Attempts to add one task: without its unique key, with limits lifted, without its lost dependencies.
const TRIES_MAX: usize = 8;

pub(super) struct Rest<'a> {
    store: &'a dyn Store,
    /// When the salvage began.
    now: Stamp,
    watch: &'a mut dyn Watch,
    report: &'a mut Report,
    /// Tasks that the log changes and that are missing, each with its first such entry.
    lost: BTreeMap<TaskId, u64>,
    older: BTreeSet<TaskId>,
    /// Limits that were lifted to add tasks, to be set again at the end.
    lifted: Vec<SetLimit>,
}

impl<'a> Rest<'a> {
    pub(super) fn new(
        store: &'a dyn Store,
        now: Stamp,
        watch: &'a mut dyn Watch,
        report: &'a mut Report,
    ) -> Self {
        Self { store, now, watch, report, lost: BTreeMap::new(), older: BTreeSet::new(), lifted: Vec::new() }
    }

    /// Applies the remaining entries. Missing entries are reported.
    pub(super) async fn take(&mut self, mut intact: Intact) -> Result<(), Error> {
        let mut expected = intact.expected();
        while let Some((index, entry)) = intact.next().map_err(damaged_log)? {
            if index > expected {
                self.lose(Loss::Entries { from: expected, to: Some(index - 1) });
            }
            expected = index + 1;
            match Command::decode(entry) {
                Ok(command) => self.apply(index, command).await?,
                Err(error) => {
                    self.lose(Loss::Other { what: format!("log entry {index}"), why: error.to_string() });
                }
            }
            if index.is_multiple_of(256) {
                self.watch.progress(Progress { step: "reading the log", done: index });
            }
        }
        if let Some((from, to)) = intact.missing_at_end() {
            self.lose(Loss::Entries { from, to });
        }
        for set in std::mem::take(&mut self.lifted) {
            self.store.set_limit(set).await?;
        }
        self.flush();
        Ok(())
    }

    fn lose(&mut self, loss: Loss) {
        self.report.count(&loss);
        self.watch.loss(loss);
    }

    fn flush(&mut self) {
        for (id, index) in std::mem::take(&mut self.lost) {
            let why = "the log changes it, but its submit is lost".to_owned();
            self.lose(Loss::Task { id, origin: Origin::Entry(index), why });
        }
        self.older.clear();
    }

    async fn apply(&mut self, index: u64, command: Command) -> Result<(), Error> {
        match command {
            Command::Insert { tasks, .. } => self.add_all(index, &tasks).await,
            Command::Claim { .. } => {
                self.report.claims += 1;
                Ok(())
            }
            Command::Commit { transitions } => self.change_all(index, transitions).await,
            Command::Pause { queue, paused } => self.store.set_paused(&queue, paused).await,
            Command::Limit { set, .. } => {
                self.lifted.retain(|lifted| (lifted.scope, &lifted.name) != (set.scope, &set.name));
                self.store.set_limit(*set).await.map(drop)
            }
            Command::Schedule { write, tasks } => self.schedule(index, *write, tasks).await,
            Command::Operate { write } => self.operate(index, *write).await,
            Command::Workflow { insert, tasks } => self.workflow(index, *insert, tasks).await,
            // The broker settles what is not settled here, because the dependencies are kept.
            Command::Settle { settles } => self.store.settle(settles).await.map(drop),
            Command::Restore { restore } => {
                let ids: Vec<TaskId> =
                    restore.tasks.iter().map(|moved| moved.task.record.id.clone()).collect();
                let answers = self.store.restore(*restore).await?;
                for (id, answer) in ids.into_iter().zip(answers) {
                    self.report.submitted += u64::from(answer == Restored::Added);
                    if answer == Restored::Clash && self.store.peek(&id).await?.is_none() {
                        let why = "its number is taken".to_owned();
                        self.lose(Loss::Task { id, origin: Origin::Entry(index), why });
                    }
                }
                Ok(())
            }
        }
    }

    async fn add_all(&mut self, index: u64, submits: &Submits) -> Result<(), Error> {
        for new in submits.tasks.iter() {
            self.add(index, new.clone()).await?;
        }
        Ok(())
    }

    /// Adds a task as it was submitted, unless its id exists. The task was accepted once. If it is refused now, that is due to
    /// data that was lost or changes that cannot be replayed.
    async fn add(&mut self, index: u64, mut new: NewTask) -> Result<(), Error> {
        if self.store.peek(&new.id).await?.is_some() {
            return Ok(());
        }
        let (id, mut orphan) = (new.id.clone(), false);
        for _ in 0..TRIES_MAX {
            let insert = Insert { tasks: vec![new.clone()].into(), atomic: false, max_depth: None };
            match self.store.insert(insert).await?.pop() {
                Some(Inserted::New(_) | Inserted::Replaced { .. }) => {
                    self.report.submitted += 1;
                    self.lost.remove(&id);
                    return if orphan { self.cancel(id).await } else { Ok(()) };
                }
                Some(Inserted::Live(_) | Inserted::KeyHeld(_)) => {
                    let why = "an earlier state of another task holds it";
                    self.lose(Loss::Other {
                        what: format!("the unique key of task {id}"),
                        why: why.to_owned(),
                    });
                    new.unique = None;
                }
                Some(Inserted::LimitFull(full)) => self.lift(full.scope, &full.name).await?,
                Some(Inserted::Dependency { id: gone, .. }) => {
                    orphan = true;
                    if let Some(links) = &mut new.body.links {
                        links.dependencies.retain(|id| *id != gone);
                    }
                }
                _ => break,
            }
        }
        let why = "it cannot be added again".to_owned();
        self.lose(Loss::Task { id, origin: Origin::Entry(index), why });
        Ok(())
    }

    /// Cancels a task whose dependency is lost.
    async fn cancel(&mut self, id: TaskId) -> Result<(), Error> {
        if let Some(record) = self.store.peek(&id).await? {
            let change = Change::Cancelled { at: self.now, reason: CancelReason::Dependency };
            let (seq, revision) = (record.seq, record.revision);
            self.store.commit(vec![Transition { id: id.clone(), seq, revision, change }]).await?;
            self.lose(Loss::Cancelled { id });
        }
        Ok(())
    }

    async fn lift(
        &mut self,
        scope: windlass_core::flow::Scope,
        name: &windlass_core::Name,
    ) -> Result<(), Error> {
        let Some(status) = self.store.limit(scope, name).await? else { return Ok(()) };
        let mut limit = status.limit;
        let (name, before) = (name.clone(), Some(limit));
        self.lifted.push(SetLimit { scope, name: name.clone(), limit: before });
        limit.max_depth = None;
        self.store.set_limit(SetLimit { scope, name, limit: Some(limit) }).await.map(drop)
    }

    async fn change_all(&mut self, index: u64, transitions: Vec<Transition>) -> Result<(), Error> {
        let answers = self.store.commit(transitions.clone()).await?;
        for (transition, answer) in transitions.iter().zip(answers) {
            self.judge(index, transition, answer).await?;
        }
        Ok(())
    }

    async fn judge(&mut self, index: u64, transition: &Transition, answer: Committed) -> Result<(), Error> {
        if self.lost.len() + self.older.len() > IDS_MAX {
            self.flush();
        }
        let id = &transition.id;
        match answer {
            Committed::Done(_) => self.report.changes += 1,
            Committed::Conflict | Committed::KeyHeld(_) => {
                // A change on a lower revision is already contained, or had no effect.
                let seen = self.store.peek(id).await?;
                let newer = seen.is_some_and(|record| transition.revision >= record.revision);
                if newer && self.older.insert(id.clone()) {
                    self.lose(Loss::Older { id: id.clone(), origin: Origin::Entry(index) });
                }
            }
            // The change would have removed the task anyway.
            Committed::Missing if matches!(transition.change, Change::Removed { .. }) => {
                self.lost.remove(id);
            }
            Committed::Missing => drop(self.lost.entry(id.clone()).or_insert(index)),
        }
        Ok(())
    }

    async fn schedule(
        &mut self,
        index: u64,
        mut write: WriteSchedule,
        submits: Submits,
    ) -> Result<(), Error> {
        if let ScheduleChange::Fire { tasks, .. } = &mut write.change {
            *tasks = submits.tasks.to_vec();
        }
        let id = write.id.clone();
        match self.store.write_schedule(write).await? {
            ScheduleWritten::Done(answers) => {
                let new = answers.iter().filter(|answer| matches!(answer, Inserted::New(_)));
                self.report.submitted += new.count() as u64;
                self.report.changes += 1;
                Ok(())
            }
            ScheduleWritten::Conflict | ScheduleWritten::Missing | ScheduleWritten::TooMany => {
                let why = format!("its change in log entry {index} cannot be repeated");
                self.lose(Loss::Other { what: format!("schedule {id}"), why });
                self.add_all(index, &submits).await
            }
        }
    }

    async fn operate(&mut self, index: u64, write: WriteOperation) -> Result<(), Error> {
        let transitions = match &write.change {
            OperationChange::Step { transitions, .. } => transitions.clone(),
            _ => Vec::new(),
        };
        let id = write.id.clone();
        match self.store.write_operation(write).await? {
            OperationWritten::Done { committed, .. } => {
                for (transition, answer) in transitions.iter().zip(committed) {
                    self.judge(index, transition, answer).await?;
                }
                Ok(())
            }
            OperationWritten::Conflict | OperationWritten::Missing | OperationWritten::TooMany => {
                let why = format!("its change in log entry {index} cannot be repeated");
                self.lose(Loss::Other { what: format!("operation {id}"), why });
                self.change_all(index, transitions).await
            }
        }
    }

    async fn workflow(
        &mut self,
        index: u64,
        mut insert: InsertWorkflow,
        submits: Submits,
    ) -> Result<(), Error> {
        insert.tasks = submits.tasks.to_vec();
        insert.max_depth = None;
        let (id, tasks) = (insert.id.clone(), insert.tasks.clone());
        match self.store.insert_workflow(insert).await? {
            WorkflowInserted::New(_, records) => {
                self.report.submitted += records.len() as u64;
                Ok(())
            }
            WorkflowInserted::Same(_) => Ok(()),
            WorkflowInserted::Clash | WorkflowInserted::Refused(_) => {
                let why = "it cannot be added again; its tasks are kept without it".to_owned();
                self.lose(Loss::Other { what: format!("workflow {id}"), why });
                for mut new in tasks {
                    if let Some(links) = &mut new.body.links {
                        links.workflow = None;
                    }
                    self.add(index, new).await?;
                }
                Ok(())
            }
        }
    }
}
