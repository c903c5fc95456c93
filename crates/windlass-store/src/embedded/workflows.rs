//! Workflows in the log and in their tables: what is kept of them beside their tasks.
//!
//! Rows that changed since the last checkpoint are in memory, all others in the tables, by the number of the first task and by
//! id. The tasks of a workflow have consecutive numbers, so the row of a node is the last one that does not begin behind it.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use redb::{ReadOnlyTable, ReadTransaction, TableDefinition, WriteTransaction};
use windlass_core::limits::PAGE_ROWS_MAX;
use windlass_core::{Name, StateName, Workflow};

use super::codec::{self, NewTaskMessage, Undecodable};
use super::command::Submits;
use super::overlay::{Overlay, Rows};
use super::tables::{failed, seal};
use crate::store::{Error, InsertWorkflow, ListWorkflows};

pub(super) const WORKFLOWS: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("workflows");
const WORKFLOW_IDS: TableDefinition<'static, &str, u64> = TableDefinition::new("workflow_ids");

/// What a row in memory takes, about.
const ROW_BYTES: usize = 2 * size_of::<Workflow>() + 256;

/// A submit as the log carries it. The tasks come apart, with their bodies in the form in which they are kept.
#[derive(Clone, PartialEq, Message)]
pub(super) struct WorkflowEntry {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(uint64, tag = "2")]
    created_at: u64,
    #[prost(bytes = "vec", tag = "3")]
    fingerprint: Vec<u8>,
    #[prost(uint64, optional, tag = "4")]
    max_depth: Option<u64>,
    #[prost(message, repeated, tag = "5")]
    tasks: Vec<NewTaskMessage>,
}

impl WorkflowEntry {
    pub(super) fn new(insert: &InsertWorkflow, tasks: &Submits) -> Self {
        Self {
            id: insert.id.as_str().to_owned(),
            created_at: insert.created_at,
            fingerprint: insert.fingerprint.to_vec(),
            max_depth: insert.max_depth,
            tasks: tasks.iter().map(|(task, body)| NewTaskMessage::new(task, body.clone())).collect(),
        }
    }

    pub(super) fn into_insert(self) -> Result<(InsertWorkflow, Submits), Undecodable> {
        let tasks = Submits::decode(self.tasks)?.detached();
        let insert = InsertWorkflow {
            id: codec::name(&self.id)?,
            created_at: self.created_at,
            fingerprint: fingerprint(&self.fingerprint)?,
            tasks: Vec::new(),
            max_depth: self.max_depth,
        };
        Ok((insert, tasks))
    }
}

#[derive(Clone, PartialEq, Message)]
struct WorkflowMessage {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(uint32, tag = "2")]
    size: u32,
    #[prost(uint64, tag = "3")]
    created_at: u64,
    #[prost(uint64, repeated, tag = "4")]
    by_state: Vec<u64>,
    #[prost(bytes = "vec", tag = "5")]
    fingerprint: Vec<u8>,
}

fn message(workflow: &Workflow) -> WorkflowMessage {
    WorkflowMessage {
        id: workflow.id.as_str().to_owned(),
        size: workflow.size,
        created_at: workflow.created_at,
        by_state: workflow.by_state.to_vec(),
        fingerprint: workflow.fingerprint.to_vec(),
    }
}

/// A workflow in the form in which it is kept, and back.
pub(super) fn encode(workflow: &Workflow) -> Vec<u8> {
    message(workflow).encode_to_vec()
}

pub(super) fn decode(first: u64, bytes: Bytes) -> Result<Workflow, Undecodable> {
    workflow(first, &WorkflowMessage::decode(bytes)?)
}

fn workflow(first: u64, message: &WorkflowMessage) -> Result<Workflow, Undecodable> {
    let by_state = message.by_state.as_slice().try_into();
    Ok(Workflow {
        id: codec::name(&message.id)?,
        first,
        size: message.size,
        created_at: message.created_at,
        by_state: by_state.map_err(|_| codec::wrong("a workflow without its counters"))?,
        fingerprint: fingerprint(&message.fingerprint)?,
    })
}

fn fingerprint(bytes: &[u8]) -> Result<[u8; 16], Undecodable> {
    bytes.try_into().map_err(|_| codec::wrong("fingerprint of a wrong length"))
}

/// The tables as of one checkpoint.
pub(super) struct Tables {
    rows: ReadOnlyTable<u64, &'static [u8]>,
    ids: ReadOnlyTable<&'static str, u64>,
}

impl Tables {
    pub(super) fn open(read: &ReadTransaction) -> Result<Tables, Error> {
        Ok(Tables {
            rows: read.open_table(WORKFLOWS).map_err(failed("open a table"))?,
            ids: read.open_table(WORKFLOW_IDS).map_err(failed("open a table"))?,
        })
    }

    fn row(&self, first: u64) -> Result<Option<Workflow>, Error> {
        let Some(value) = self.rows.get(first).map_err(failed("read a workflow"))? else { return Ok(None) };
        let bytes = seal::open(first, value.value())?;
        let message = WorkflowMessage::decode(bytes).map_err(|error| Error::Damaged(error.to_string()))?;
        workflow(first, &message).map(Some).map_err(|error| Error::Damaged(error.to_string()))
    }

    /// The last row below `end`.
    fn last(&self, end: u64) -> Result<Option<u64>, Error> {
        let mut range = self.rows.range(..end).map_err(failed("read the workflows"))?;
        let last = range.next_back().transpose().map_err(failed("read the workflows"))?;
        Ok(last.map(|(first, _)| first.value()))
    }
}

#[derive(Debug, Default)]
pub(super) struct Workflows {
    rows: Overlay<u64, Workflow>,
    ids: Overlay<Name, u64>,
}

/// What a checkpoint writes.
#[derive(Debug, Default)]
pub(super) struct Changed {
    rows: Arc<Rows<u64, Workflow>>,
    ids: Arc<Rows<Name, u64>>,
}

impl Workflows {
    pub(super) fn find(&self, tables: &Tables, id: &Name) -> Result<Option<Workflow>, Error> {
        let first = match self.ids.get(id) {
            Some(first) => *first,
            None => {
                let stored = tables.ids.get(id.as_str()).map_err(failed("look up a workflow"))?;
                stored.map(|first| first.value())
            }
        };
        first.map_or(Ok(None), |first| self.row(tables, first))
    }

    fn row(&self, tables: &Tables, first: u64) -> Result<Option<Workflow>, Error> {
        match self.rows.get(&first) {
            Some(row) => Ok(row.clone()),
            None => tables.row(first),
        }
    }

    /// Newest first.
    pub(super) fn list(&self, tables: &Tables, list: &ListWorkflows) -> Result<Vec<Workflow>, Error> {
        let mut found = Vec::new();
        let mut end = list.before.unwrap_or(u64::MAX);
        while found.len() < list.limit.min(PAGE_ROWS_MAX) {
            let known = self.rows.last(..end).map(|(first, _)| *first);
            let Some(first) = known.max(tables.last(end)?) else { break };
            found.extend(self.row(tables, first)?);
            end = first;
        }
        Ok(found)
    }

    /// Returns how many bytes memory grew by.
    pub(super) fn add(&mut self, workflow: Workflow) -> usize {
        self.ids.put(workflow.id.clone(), Some(workflow.first));
        self.rows.put(workflow.first, Some(workflow));
        ROW_BYTES
    }

    /// One of the tasks moved; a workflow without tasks is forgotten. Returns how many bytes memory grew by.
    pub(super) fn moved(
        &mut self,
        tables: &Tables,
        seq: u64,
        from: Option<StateName>,
        to: Option<StateName>,
    ) -> Result<usize, Error> {
        let strange = || Error::Damaged(format!("task {seq} is a node of no workflow"));
        let covers = |first: &u64, row: &Option<Workflow>| {
            row.as_ref().is_some_and(|workflow| (*first..workflow.end()).contains(&seq))
        };
        let known = self.rows.last(..=seq).filter(|(first, row)| covers(first, row)).map(|(first, _)| *first);
        let first = match known {
            Some(first) => first,
            None => tables.last(seq + 1)?.ok_or_else(strange)?,
        };
        let mut grown = 0;
        if self.rows.active_mut(&first).is_none() {
            let below = self.row(tables, first)?;
            self.rows.put(first, below);
            grown = ROW_BYTES;
        }
        let row = self.rows.active_mut(&first).ok_or_else(strange)?;
        let workflow = row.as_mut().filter(|workflow| seq < workflow.end()).ok_or_else(strange)?;
        workflow.moved(from, to);
        if workflow.kept() == 0 {
            let id = workflow.id.clone();
            *row = None;
            // The id may have been given anew only after this.
            self.ids.put(id, None);
        }
        Ok(grown)
    }

    pub(super) fn freeze(&mut self) -> Changed {
        Changed { rows: self.rows.freeze(), ids: self.ids.freeze() }
    }

    pub(super) fn thaw(&mut self) -> Changed {
        Changed { rows: self.rows.thaw(), ids: self.ids.thaw() }
    }
}

/// Writes what changed; with nothing to write it only sees to it that there are tables.
pub(super) fn write(write: &WriteTransaction, changed: &Changed) -> Result<(), Error> {
    let mut rows = write.open_table(WORKFLOWS).map_err(failed("open a table"))?;
    for (first, row) in changed.rows.iter() {
        match row {
            Some(workflow) => {
                let mut value = message(workflow).encode_to_vec();
                rows.insert(first, seal::close(*first, &mut value)).map_err(failed("write a workflow"))?;
            }
            None => drop(rows.remove(first).map_err(failed("remove a workflow"))?),
        }
    }
    let mut ids = write.open_table(WORKFLOW_IDS).map_err(failed("open a table"))?;
    for (id, first) in changed.ids.iter() {
        match first {
            Some(first) => drop(ids.insert(id.as_str(), first).map_err(failed("write a workflow"))?),
            None => drop(ids.remove(id.as_str()).map_err(failed("remove a workflow"))?),
        }
    }
    Ok(())
}
