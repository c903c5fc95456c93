//! The numbers of tasks at the destination.
//!
//! Mostly they are those of the source. A store that is spread has numbers that say where a task is (`Capabilities::number_for`), so every
//! number becomes another one there, in the same order. Out of such a store numbers could stay, but for workflows: elsewhere their tasks have
//! numbers next to each other, and in a part of a spread store these are a stride apart. So all numbers are multiplied by the size of the
//! largest workflow, which leaves *room* behind each of them, and the tasks of a workflow stand together behind its first one. They were
//! added by one commit, so that is where they belong. Places in line are only multiplied, and lines stay as they are.
//!
//! All of this follows from the source alone, so a run that goes on comes to the same numbers.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use windlass_core::operation::Operation;
use windlass_core::{Name, Record, State, Task, TaskId, Workflow, transition};

use super::walk::Tasks;
use super::{Error, Job, Running};
use crate::store::Store;

/// Numbers stay below this. It leaves Redis room for as many again, where a place in line is kept below 2^45 beside a priority (`ORDERS` in
/// `redis/lua/row.lua`), and a spread store room for what it writes beside them (`Spread::span`).
const NUMBER_MAX: u64 = 1 << 44;
/// Workflows whose first number is known without asking; beyond it they are asked for again.
const FIRSTS_MAX: usize = 10_000;

#[derive(Debug)]
pub(super) struct Numbers<'a> {
    job: &'a Job<'a>,
    room: u64,
    /// The numbers of the first tasks of workflows, in the source.
    firsts: Mutex<HashMap<Name, u64>>,
}

impl<'a> Numbers<'a> {
    pub(super) fn new(job: &'a Job<'a>, room: u64) -> Numbers<'a> {
        Numbers { job, room: room.max(1), firsts: Mutex::default() }
    }

    /// A task as it is to be at the destination.
    pub(super) async fn moved(&self, mut task: Task) -> Result<Task, Error> {
        let workflow = task.body.links.as_ref().and_then(|links| links.workflow.as_ref());
        let seq = self.between(&task.record, workflow).await?;
        let Record { queue, order, .. } = &task.record;
        let order = self.there(queue, self.apart(*order)?);
        (task.record.seq, task.record.order) = (self.there(queue, seq), order);
        if self.job.running == Running::Release
            && let State::Running(lease) = &task.record.state
        {
            let token = lease.token;
            // At a moment of the task's own, so that a run that goes on writes what the first one wrote.
            let at = task.record.updated_at;
            if let Ok(Some(change)) = transition::release(&task.record, token, None, at) {
                task.record.evolve(&change, order);
            }
        }
        Ok(task)
    }

    /// The number of a task of the source.
    pub(super) async fn of(&self, record: &Record) -> Result<u64, Error> {
        if self.room == 1 || !record.member {
            return Ok(self.there(&record.queue, self.apart(record.seq)?));
        }
        let task = self.job.from.get(&record.id).await.map_err(Error::From)?.ok_or(Error::Changed)?;
        let workflow = task.body.links.as_ref().and_then(|links| links.workflow.as_ref());
        Ok(self.there(&record.queue, self.between(record, workflow).await?))
    }

    /// A workflow with tasks of this queue.
    pub(super) fn workflow(&self, queue: &Name, mut workflow: Workflow) -> Result<Workflow, Error> {
        workflow.first = self.there(queue, self.apart(workflow.first)?);
        Ok(workflow)
    }

    /// Whether a workflow of the destination begins where that of the source does.
    pub(super) fn begin_alike(&self, ours: &Workflow, theirs: &Workflow) -> Result<bool, Error> {
        Ok(theirs.first / self.job.to.capabilities().parts == self.apart(ours.first)?)
    }

    /// It acts on the same tasks. One that stands in the middle of a workflow of a spread store looks at all of that once more.
    pub(super) fn operation(&self, mut operation: Operation) -> Result<Operation, Error> {
        let stride = self.job.to.capabilities().parts;
        operation.first = self.apart(operation.first)? * stride;
        operation.cursor = self.apart(operation.cursor)? * stride;
        Ok(operation)
    }

    /// With room behind it.
    fn apart(&self, number: u64) -> Result<u64, Error> {
        let most = NUMBER_MAX / self.job.to.capabilities().parts;
        match number.checked_mul(self.room) {
            Some(number) if number < most || self.room * self.job.to.capabilities().parts == 1 => Ok(number),
            _ => Err(Error::Numbers),
        }
    }

    fn there(&self, queue: &Name, number: u64) -> u64 {
        self.job.to.capabilities().number_for(queue, number)
    }

    /// Where the task would stand in a store whose numbers say nothing.
    async fn between(&self, record: &Record, workflow: Option<&Name>) -> Result<u64, Error> {
        let Some(workflow) = workflow.filter(|_| self.room > 1) else { return self.apart(record.seq) };
        let first = self.first(workflow).await?;
        Ok(self.apart(first)? + record.seq.saturating_sub(first) / self.job.from.capabilities().parts)
    }

    async fn first(&self, workflow: &Name) -> Result<u64, Error> {
        if let Some(first) = self.firsts.lock().get(workflow) {
            return Ok(*first);
        }
        let found = self.job.from.workflow(workflow).await.map_err(Error::From)?;
        let gone = || Error::Damaged(format!("the workflow {workflow} is not there"));
        let first = found.ok_or_else(gone)?.first;
        let mut firsts = self.firsts.lock();
        if firsts.len() >= FIRSTS_MAX {
            firsts.clear();
        }
        firsts.insert(workflow.clone(), first);
        Ok(first)
    }
}

/// The tasks of the source as they are to be, in the order of their new numbers.
#[derive(Debug)]
pub(super) struct InOrder<'a> {
    numbers: &'a Numbers<'a>,
    from: &'a dyn Store,
    tasks: Tasks<'a>,
    /// The next one of the source, and its number there.
    head: Option<(u64, Task)>,
    begun: bool,
    /// Tasks of workflows that come later than they stand in the source: as many as there are in those that spread tasks stand among.
    held: BTreeMap<u64, TaskId>,
}

impl<'a> InOrder<'a> {
    pub(super) fn new(numbers: &'a Numbers<'a>) -> InOrder<'a> {
        let from = numbers.job.from;
        let tasks = Tasks::new(from, &[]);
        InOrder { numbers, from, tasks, head: None, begun: false, held: BTreeMap::new() }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Task>, Error> {
        if !self.begun {
            self.begun = true;
            self.step().await?;
        }
        loop {
            // Whatever is still to come stands below this.
            let bound = match &self.head {
                Some((seq, task)) => Some(self.numbers.there(&task.record.queue, self.numbers.apart(*seq)?)),
                None => None,
            };
            if let Some(held) = self.held.last_entry()
                && bound.is_none_or(|bound| *held.key() > bound)
            {
                let task = self.from.get(&held.remove()).await.map_err(Error::From)?;
                return self.numbers.moved(task.ok_or(Error::Changed)?).await.map(Some);
            }
            let Some((_, task)) = self.head.take() else { return Ok(None) };
            self.step().await?;
            if bound.is_none_or(|bound| task.record.seq >= bound) {
                return Ok(Some(task));
            }
            self.held.insert(task.record.seq, task.record.id);
        }
    }

    async fn step(&mut self) -> Result<(), Error> {
        self.head = match self.tasks.next().await.map_err(Error::From)? {
            Some(task) => Some((task.record.seq, self.numbers.moved(task).await?)),
            None => None,
        };
        Ok(())
    }
}
