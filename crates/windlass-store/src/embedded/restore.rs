//! What another store had, in the log.
//!
//! An earlier version of the program knows no such entry and says so when it opens the directory, as long as no checkpoint has
//! moved the tasks into the tables, where they are like all others. So it is no new format.

use bytes::Bytes;
use prost::Message;
use windlass_core::{Task, Workflow};

use super::codec::{self, Undecodable};
use super::{operations, workflows};
use crate::store::{Moved, Restore};

#[derive(Clone, PartialEq, Message)]
pub(super) struct RestoreEntry {
    #[prost(uint64, tag = "1")]
    at: u64,
    #[prost(message, repeated, tag = "2")]
    workflows: Vec<WorkflowRow>,
    #[prost(message, repeated, tag = "3")]
    operations: Vec<OperationRow>,
    #[prost(message, repeated, tag = "4")]
    tasks: Vec<MovedMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct WorkflowRow {
    #[prost(uint64, tag = "1")]
    first: u64,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct OperationRow {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct MovedMessage {
    #[prost(uint64, tag = "1")]
    seq: u64,
    #[prost(string, tag = "2")]
    queue: String,
    #[prost(string, tag = "3")]
    kind: String,
    #[prost(bytes = "bytes", tag = "4")]
    record: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    body: Bytes,
    #[prost(uint64, repeated, tag = "6")]
    waits_for: Vec<u64>,
}

impl RestoreEntry {
    pub(super) fn new(restore: &Restore) -> Self {
        let workflow =
            |row: &Workflow| WorkflowRow { first: row.first, value: workflows::encode(row).into() };
        let operation = |row: &windlass_core::operation::Operation| OperationRow {
            id: row.id.as_str().to_owned(),
            value: operations::encode(row).into(),
        };
        Self {
            at: restore.at,
            workflows: restore.workflows.iter().map(workflow).collect(),
            operations: restore.operations.iter().map(operation).collect(),
            tasks: restore.tasks.iter().map(message).collect(),
        }
    }

    pub(super) fn into_restore(self) -> Result<Restore, Undecodable> {
        let workflow = |row: WorkflowRow| workflows::decode(row.first, row.value);
        let operation = |row: OperationRow| operations::decode(&codec::name(&row.id)?, row.value);
        Ok(Restore {
            at: self.at,
            workflows: self.workflows.into_iter().map(workflow).collect::<Result<_, _>>()?,
            operations: self.operations.into_iter().map(operation).collect::<Result<_, _>>()?,
            tasks: self.tasks.into_iter().map(moved).collect::<Result<_, _>>()?,
        })
    }
}

fn message(moved: &Moved) -> MovedMessage {
    let Task { record, body } = &moved.task;
    MovedMessage {
        seq: record.seq,
        queue: record.queue.as_str().to_owned(),
        kind: record.kind.as_str().to_owned(),
        record: codec::encode_record(record, 0).into(),
        body: codec::encode_body(body),
        waits_for: moved.waits_for.clone(),
    }
}

fn moved(message: MovedMessage) -> Result<Moved, Undecodable> {
    let names = (codec::name(&message.queue)?, codec::name(&message.kind)?);
    // Parts of the record are kept, and must not keep the block of the log.
    let bytes = Bytes::copy_from_slice(&message.record);
    let record = codec::decode_record(message.seq, bytes, |_| Some(names))?;
    let body = codec::decode_body(message.body)?;
    Ok(Moved { task: Task { record, body }, waits_for: message.waits_for })
}
