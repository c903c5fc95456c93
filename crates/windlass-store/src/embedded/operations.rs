//! Operations in the log and in their table.
//!
//! The log carries a whole operation when it begins, and then only its steps, each with the transitions that belong to it. The
//! table holds operations as of the last checkpoint; memory holds all of them.

use std::collections::BTreeSet;

use prost::Message;
use redb::{ReadTransaction, WriteTransaction};
use windlass_core::operation::{Action, Expected, Operation, Order, Standing, Step};
use windlass_core::{Name, Transition};

use super::codec::{self, TransitionMessage, Undecodable};
pub(super) use super::tables::named::Changed;
use super::tables::named::{self, Rows};
use crate::operations::Operations;
use crate::store::{Committed, Error, OperationChange, WriteOperation};

pub(super) const OPERATIONS: Rows = Rows::new("operations");

/// A write as the log carries it: an operation to start, a step, a standing to end with, or none of them to remove.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OperationEntry {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(message, optional, tag = "2")]
    start: Option<OperationMessage>,
    #[prost(message, optional, tag = "3")]
    step: Option<StepMessage>,
    #[prost(message, repeated, tag = "4")]
    transitions: Vec<TransitionMessage>,
    #[prost(message, optional, tag = "5")]
    end: Option<StandingMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct OperationMessage {
    #[prost(uint64, tag = "1")]
    revision: u64,
    #[prost(string, tag = "2")]
    action: String,
    #[prost(uint32, tag = "3")]
    priority: u32,
    #[prost(string, tag = "4")]
    queue: String,
    #[prost(string, tag = "5")]
    filter: String,
    #[prost(string, optional, tag = "6")]
    by: Option<String>,
    #[prost(uint64, tag = "7")]
    created_at: u64,
    #[prost(uint64, tag = "8")]
    updated_at: u64,
    #[prost(message, optional, tag = "9")]
    standing: Option<StandingMessage>,
    #[prost(uint64, tag = "10")]
    first: u64,
    #[prost(uint64, tag = "11")]
    cursor: u64,
    #[prost(uint64, tag = "12")]
    expected: u64,
    #[prost(bool, tag = "13")]
    at_least: bool,
    #[prost(uint64, tag = "14")]
    changed: u64,
    #[prost(uint64, tag = "15")]
    skipped: u64,
    #[prost(uint64, tag = "16")]
    failed: u64,
    #[prost(string, repeated, tag = "17")]
    again: Vec<String>,
    #[prost(uint32, tag = "18")]
    tries: u32,
}

#[derive(Clone, PartialEq, Message)]
struct StandingMessage {
    #[prost(string, tag = "1")]
    word: String,
    #[prost(uint64, tag = "2")]
    at: u64,
    #[prost(string, tag = "3")]
    reason: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct StepMessage {
    #[prost(uint64, tag = "1")]
    revision: u64,
    #[prost(uint64, tag = "2")]
    at: u64,
    #[prost(uint64, tag = "3")]
    cursor: u64,
    #[prost(uint64, tag = "4")]
    skipped: u64,
    #[prost(uint64, tag = "5")]
    failed: u64,
}

impl OperationEntry {
    pub(super) fn new(write: &WriteOperation) -> Self {
        let mut entry = Self { id: write.id.as_str().to_owned(), ..Default::default() };
        match &write.change {
            OperationChange::Start { operation } => entry.start = Some(operation_message(operation)),
            OperationChange::Step { step, transitions } => {
                let Step { revision, at, cursor, skipped, failed } = *step;
                entry.step = Some(StepMessage { revision, at, cursor, skipped, failed });
                entry.transitions = transitions.iter().filter_map(TransitionMessage::new).collect();
            }
            OperationChange::End { standing } => entry.end = Some(standing_message(standing)),
            OperationChange::Remove => {}
        }
        entry
    }

    pub(super) fn into_write(self) -> Result<WriteOperation, Undecodable> {
        let id = codec::name(&self.id)?;
        let change = match (self.start, self.step, self.end) {
            (Some(start), _, _) => OperationChange::Start { operation: Box::new(operation(&id, start)?) },
            (None, Some(step), _) => {
                let StepMessage { revision, at, cursor, skipped, failed } = step;
                let transitions = self.transitions.into_iter().map(TransitionMessage::into_transition);
                let transitions: Vec<Transition> = transitions.collect::<Result<_, _>>()?;
                let step = Step { revision, at, cursor, skipped, failed };
                OperationChange::Step { step, transitions }
            }
            (None, None, Some(end)) => OperationChange::End { standing: standing(end)? },
            (None, None, None) => OperationChange::Remove,
        };
        Ok(WriteOperation { id, change })
    }
}

fn operation_message(operation: &Operation) -> OperationMessage {
    let Order { action, filter, by } = &operation.order;
    OperationMessage {
        revision: operation.revision,
        action: action.as_str().to_owned(),
        priority: match action {
            Action::SetPriority(priority) => u32::from(priority.0),
            _ => 0,
        },
        queue: match action {
            Action::Move(queue) => queue.as_str().to_owned(),
            _ => String::new(),
        },
        filter: filter.to_string(),
        by: by.as_deref().map(str::to_owned),
        created_at: operation.created_at,
        updated_at: operation.updated_at,
        standing: Some(standing_message(&operation.standing)),
        first: operation.first,
        cursor: operation.cursor,
        expected: operation.expected.count,
        at_least: operation.expected.at_least,
        changed: operation.changed,
        skipped: operation.skipped,
        failed: operation.failed,
        again: operation.again.iter().map(|id| id.as_str().to_owned()).collect(),
        tries: operation.tries,
    }
}

fn operation(id: &Name, message: OperationMessage) -> Result<Operation, Undecodable> {
    let action = match message.action.as_str() {
        "retry" => Action::Retry,
        "cancel" => Action::Cancel,
        "delete" => Action::Delete,
        "set_priority" => Action::SetPriority(codec::priority(message.priority)?),
        "move" => Action::Move(codec::name(&message.queue)?),
        _ => return Err(codec::wrong("unknown action")),
    };
    let missing = || codec::wrong("an operation without a standing");
    Ok(Operation {
        id: id.clone(),
        revision: message.revision,
        order: Order {
            action,
            filter: message.filter.into_boxed_str(),
            by: message.by.map(String::into_boxed_str),
        },
        created_at: message.created_at,
        updated_at: message.updated_at,
        standing: standing(message.standing.ok_or_else(missing)?)?,
        first: message.first,
        cursor: message.cursor,
        expected: Expected { count: message.expected, at_least: message.at_least },
        changed: message.changed,
        skipped: message.skipped,
        failed: message.failed,
        again: message.again.iter().map(|id| codec::id(id)).collect::<Result<_, _>>()?,
        tries: message.tries,
    })
}

/// An operation in the form in which it is kept, and back.
pub(crate) fn encode(operation: &Operation) -> Vec<u8> {
    operation_message(operation).encode_to_vec()
}

pub(crate) fn decode(id: &Name, bytes: bytes::Bytes) -> Result<Operation, Undecodable> {
    operation(id, OperationMessage::decode(bytes)?)
}

fn standing_message(standing: &Standing) -> StandingMessage {
    let mut message = StandingMessage { word: standing.as_str().to_owned(), ..Default::default() };
    match standing {
        Standing::Running => {}
        Standing::Done { at } | Standing::Cancelled { at } => message.at = *at,
        Standing::Failed { at, reason } => {
            message.at = *at;
            message.reason = reason.to_string();
        }
    }
    message
}

fn standing(message: StandingMessage) -> Result<Standing, Undecodable> {
    let at = message.at;
    Ok(match message.word.as_str() {
        "running" => Standing::Running,
        "done" => Standing::Done { at },
        "cancelled" => Standing::Cancelled { at },
        "failed" => Standing::Failed { at, reason: message.reason.into_boxed_str() },
        _ => return Err(codec::wrong("unknown standing")),
    })
}

/// The operations of the machine, and which of them the table does not know yet.
#[derive(Debug, Default)]
pub(super) struct Register {
    pub(super) all: Operations,
    changed: BTreeSet<Name>,
}

impl Register {
    pub(super) fn load(read: &ReadTransaction) -> Result<Register, Error> {
        let mut register = Register::default();
        named::read(read, OPERATIONS, |id, message: OperationMessage| {
            register.all.add(operation(&id, message)?);
            Ok(())
        })?;
        Ok(register)
    }

    pub(super) fn carry_out(
        &mut self,
        write: &WriteOperation,
        committed: &[Committed],
        next_number: u64,
    ) -> Option<Operation> {
        let (operation, forgotten) = self.all.carry_out(write, committed, next_number);
        self.changed.insert(write.id.clone());
        self.changed.extend(forgotten);
        operation
    }

    /// One that another store had.
    pub(super) fn restore(&mut self, operation: Operation) {
        self.changed.insert(operation.id.clone());
        self.all.add(operation);
    }

    pub(super) fn freeze(&mut self) -> Changed {
        let value = |id: &Name| self.all.get(id).map(|it| operation_message(it).encode_to_vec());
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|id| (id.clone(), value(&id))).collect()
    }
}

pub(super) fn write(write: &WriteTransaction, changed: &Changed) -> Result<(), Error> {
    named::write(write, OPERATIONS, changed)
}
