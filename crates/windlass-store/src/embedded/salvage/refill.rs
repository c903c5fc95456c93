//! Copies the intact rows of damaged tables into a new store, as of the last checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::{CancelReason, Change, State, StateName, Task, TaskId, Transition, Workflow};

use super::evidence::Evidence;
use super::report::{Loss, Origin, Report};
use super::rows::Rows;
use super::{Progress, Watch};
use crate::clock::Clock;
use crate::embedded::EmbeddedStore;
use crate::embedded::tables::block::BLOCK_TASKS;
use crate::store::{Error, List, Moved, Restore, Restored, ScheduleChange, Store, WriteSchedule};

/// The most tasks and bytes in one write.
const BATCH_TASKS: usize = 250;
const BATCH_BYTES: usize = 2 << 20;
/// How many lost workflows are remembered, to report each once. Beyond this some may be reported again.
const REPORTED_MAX: usize = 10_000;

/// The position and the claim number that the tables record.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Found {
    /// The last log entry that they contain.
    pub(super) applied: u64,
    pub(super) next_claim: u64,
}

pub(super) async fn refill(
    evidence: &Evidence,
    store: &Arc<EmbeddedStore>,
    clock: &Arc<dyn Clock>,
    watch: &mut dyn Watch,
    report: &mut Report,
) -> Result<Found, Error> {
    let Some(rows) = &evidence.rows else {
        let lost = Loss::Other { what: "the tables".to_owned(), why: "only the log can be read".to_owned() };
        report.count(&lost);
        watch.loss(lost);
        return Ok(Found::default());
    };
    let mut refill = Refill {
        rows,
        store,
        at: clock.now().wall,
        watch,
        report,
        tasks: Vec::new(),
        bytes: 0,
        workflows: BTreeMap::new(),
        reported: BTreeSet::new(),
    };
    refill.others().await?;
    refill.all_tasks().await?;
    refill.blocked().await?;
    refill.lost_ids();
    match &rows.state {
        Some(state) => Ok(Found { applied: state.applied, next_claim: state.next_claim }),
        None => {
            let why = "tasks that had ended and were removed may be back";
            refill
                .lose(Loss::Other { what: "the position of the checkpoint".to_owned(), why: why.to_owned() });
            Ok(Found::default())
        }
    }
}

struct Refill<'a> {
    rows: &'a Rows,
    store: &'a Arc<EmbeddedStore>,
    at: u64,
    watch: &'a mut dyn Watch,
    report: &'a mut Report,
    /// Tasks that are not written yet.
    tasks: Vec<Task>,
    bytes: usize,
    workflows: BTreeMap<u64, Workflow>,
    reported: BTreeSet<String>,
}

impl Refill<'_> {
    fn lose(&mut self, loss: Loss) {
        self.report.count(&loss);
        self.watch.loss(loss);
    }

    /// Copies paused queues, limits, schedules and operations.
    async fn others(&mut self) -> Result<(), Error> {
        for (_, queue, paused) in self.rows.queues() {
            if paused {
                self.store.set_paused(&queue, true).await?;
            }
        }
        let mut lost = Vec::new();
        let mut lose = |what: String, why: String| lost.push(Loss::Other { what, why });
        let limits = self.rows.limits(&mut lose);
        let schedules = self.rows.schedules(&mut lose);
        let operations = self.rows.operations(&mut lose);
        lost.into_iter().for_each(|loss| self.lose(loss));
        for set in limits {
            self.store.set_limit(set).await?;
        }
        for schedule in schedules {
            let id = schedule.id.clone();
            let change = ScheduleChange::Put { schedule: Box::new(schedule), seen: None };
            self.store.write_schedule(WriteSchedule { id, change }).await?;
        }
        self.store.restore(Restore { at: self.at, operations, ..Restore::default() }).await?;
        Ok(())
    }

    /// Copies the blocks in ascending order. If the index is broken in between, it continues from the end downwards.
    async fn all_tasks(&mut self) -> Result<(), Error> {
        let mut from = 0;
        let why = loop {
            match self.rows.block_from(from) {
                Ok(Some((number, value))) => {
                    self.block(number, &value).await?;
                    let Some(next) = number.checked_add(1) else { break None };
                    from = next;
                }
                Ok(None) => break None,
                Err(why) => break Some(why),
            }
        };
        if let Some(why) = why {
            let mut before = u64::MAX;
            while let Ok(Some((number, value))) = self.rows.block_below(before) {
                if number < from {
                    break;
                }
                self.block(number, &value).await?;
                before = number;
            }
            let to = before.saturating_mul(BLOCK_TASKS).saturating_sub(1);
            self.lose(Loss::Numbers { from: from.saturating_mul(BLOCK_TASKS), to, why });
        }
        self.flush().await
    }

    async fn block(&mut self, number: u64, value: &[u8]) -> Result<(), Error> {
        for task in self.rows.tasks(number, value) {
            match task {
                Ok(task) => self.add(task).await?,
                Err((from, to, why)) => self.lose(Loss::Numbers { from, to, why }),
            }
        }
        Ok(())
    }

    async fn add(&mut self, mut task: Task) -> Result<(), Error> {
        if task.record.member {
            let named = task.body.links.as_ref().and_then(|links| links.workflow.clone());
            let workflow = self.rows.workflow(task.record.seq);
            match workflow.filter(|workflow| Some(&workflow.id) == named.as_ref()) {
                Some(workflow) => drop(self.workflows.insert(workflow.first, workflow)),
                None => self.leave_workflow(&mut task),
            }
        }
        self.bytes += task.bytes();
        self.tasks.push(task);
        match self.tasks.len() >= BATCH_TASKS || self.bytes >= BATCH_BYTES {
            true => self.flush().await,
            false => Ok(()),
        }
    }

    /// Detaches a task from a workflow that is lost.
    fn leave_workflow(&mut self, task: &mut Task) {
        task.record.member = false;
        let named = task.body.links.as_mut().and_then(|links| links.workflow.take());
        let what = named.map_or_else(|| "a workflow".to_owned(), |id| format!("workflow {id}"));
        if self.reported.insert(what.clone()) {
            let why = "its row is damaged; its tasks are kept without it".to_owned();
            self.lose(Loss::Other { what, why });
        }
        if self.reported.len() > REPORTED_MAX {
            self.reported.clear();
        }
    }

    async fn flush(&mut self) -> Result<(), Error> {
        let tasks = std::mem::take(&mut self.tasks);
        self.bytes = 0;
        let named: Vec<(TaskId, u64)> =
            tasks.iter().map(|task| (task.record.id.clone(), task.record.seq)).collect();
        let workflows = std::mem::take(&mut self.workflows).into_values().collect();
        let moved = |task| Moved { task, waits_for: Vec::new() };
        let tasks = tasks.into_iter().map(moved).collect();
        let restore = Restore { at: self.at, workflows, operations: Vec::new(), tasks };
        let answers = self.store.restore(restore).await?;
        for ((id, seq), answer) in named.into_iter().zip(answers) {
            match answer {
                Restored::Added | Restored::There => self.report.saved += 1,
                Restored::Clash => {
                    let why = "another task has its id or number".to_owned();
                    self.lose(Loss::Task { id, origin: Origin::Number(seq), why });
                }
            }
        }
        self.watch.progress(Progress { step: "copying tasks", done: self.report.saved });
        Ok(())
    }

    /// Restores the dependencies of blocked tasks. A task whose dependency is lost is cancelled: it would wait for ever.
    async fn blocked(&mut self) -> Result<(), Error> {
        let mut before = None;
        loop {
            let list =
                List { states: vec![StateName::Blocked], before, limit: BATCH_TASKS, ..List::default() };
            let page = self.store.list(list).await?;
            for task in page.tasks {
                self.wait(task).await?;
            }
            before = page.next;
            if before.is_none() {
                return Ok(());
            }
        }
    }

    async fn wait(&mut self, task: Task) -> Result<(), Error> {
        let State::Blocked { open } = task.record.state else { return Ok(()) };
        let (id, seq, revision) = (task.record.id.clone(), task.record.seq, task.record.revision);
        let parents = self.store.peek_all(task.body.dependencies()).await?;
        let parents: BTreeSet<u64> = parents.into_iter().flatten().map(|parent| parent.seq).collect();
        let waits_for: Vec<u64> =
            parents.into_iter().filter(|parent| self.rows.waits(*parent, seq)).collect();
        if waits_for.len() < open as usize {
            let change = Change::Cancelled { at: self.at.into(), reason: CancelReason::Dependency };
            self.store.commit(vec![Transition { id: id.clone(), seq, revision, change }]).await?;
            self.lose(Loss::Cancelled { id });
            return Ok(());
        }
        let tasks = vec![Moved { task, waits_for }];
        self.store.restore(Restore { at: self.at, tasks, ..Restore::default() }).await?;
        Ok(())
    }

    fn lost_ids(&mut self) {
        let (watch, report) = (&mut *self.watch, &mut *self.report);
        let walked = self.rows.lost_ids(&mut |id, seq, why| {
            if let Ok(id) = TaskId::new(&id) {
                let loss = Loss::Task { id, origin: Origin::Number(seq), why };
                report.count(&loss);
                watch.loss(loss);
            }
        });
        if let Err(why) = walked {
            let why = format!("{why}: tasks that are lost may not be named");
            self.lose(Loss::Other { what: "the index of ids".to_owned(), why });
        }
    }
}
