//! The entries of the log. A command carries every number it needs (now, seeds), so that applying it again after a
//! restart, or on another machine, gives the same state.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use windlass_core::choice::{Mode, Queue};
use windlass_core::{Name, NewTask, Stamp, Transition};

use super::codec::{self, NewTaskMessage, TransitionMessage, Undecodable, Writer, nested, write_transition};
use super::flow::LimitEntry;
use super::operations::OperationEntry;
use super::restore::RestoreEntry;
use super::schedules::ScheduleEntry;
use super::settles::SettleEntry;
use super::workflows::WorkflowEntry;
use crate::store::{Claim, Insert, InsertWorkflow, Restore, SetLimit, Settle, WriteOperation, WriteSchedule};

/// Rare ones are boxed: every command that waits takes as much room as the largest.
#[derive(Debug)]
pub(super) enum Command {
    Insert {
        tasks: Submits,
        atomic: bool,
        max_depth: Option<u64>,
    },
    Claim {
        claim: Claim,
        now: Stamp,
    },
    Commit {
        transitions: Vec<Transition>,
    },
    Pause {
        queue: Name,
        paused: bool,
    },
    Limit {
        set: Box<SetLimit>,
        now: u64,
    },
    /// The tasks of a fire are beside it.
    Schedule {
        write: Box<WriteSchedule>,
        tasks: Submits,
    },
    Operate {
        write: Box<WriteOperation>,
    },
    /// The tasks are beside it.
    Workflow {
        insert: Box<InsertWorkflow>,
        tasks: Submits,
    },
    Settle {
        settles: Vec<Settle>,
    },
    Restore {
        restore: Box<Restore>,
    },
}

/// New tasks, and their bodies in the form in which they are kept: side by side, so that the tasks stay where they are.
#[derive(Debug, Default)]
pub(super) struct Submits {
    pub(super) tasks: Arc<Vec<NewTask>>,
    pub(super) bodies: Vec<Bytes>,
}

impl Submits {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&NewTask, &Bytes)> {
        self.tasks.iter().zip(&self.bodies)
    }

    pub(super) fn decode(messages: Vec<NewTaskMessage>) -> Result<Self, Undecodable> {
        let parts = messages.into_iter().map(NewTaskMessage::into_parts).collect::<Result<Vec<_>, _>>()?;
        let (tasks, bodies): (Vec<_>, _) = parts.into_iter().unzip();
        Ok(Self { tasks: tasks.into(), bodies })
    }

    /// Bodies that were read are slices of a large block; what is kept of it must not keep the block.
    pub(super) fn detached(self) -> Self {
        Self { bodies: self.bodies.iter().map(|body| Bytes::copy_from_slice(body)).collect(), ..self }
    }
}

impl From<Vec<NewTask>> for Submits {
    fn from(tasks: Vec<NewTask>) -> Self {
        Self {
            bodies: tasks.iter().map(|task| codec::encode_body(&task.body)).collect(),
            tasks: tasks.into(),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(message, optional, tag = "1")]
    insert: Option<InsertEntry>,
    #[prost(message, optional, tag = "2")]
    claim: Option<ClaimEntry>,
    #[prost(message, optional, tag = "3")]
    commit: Option<CommitEntry>,
    #[prost(message, optional, tag = "4")]
    pause: Option<PauseEntry>,
    #[prost(message, optional, tag = "5")]
    schedule: Option<ScheduleEntry>,
    #[prost(message, optional, tag = "6")]
    limit: Option<LimitEntry>,
    #[prost(message, optional, tag = "7")]
    settle: Option<SettleEntry>,
    #[prost(message, optional, tag = "8")]
    workflow: Option<WorkflowEntry>,
    #[prost(message, optional, tag = "9")]
    operation: Option<OperationEntry>,
    #[prost(message, optional, tag = "10")]
    restore: Option<RestoreEntry>,
}

#[derive(Clone, PartialEq, Message)]
struct InsertEntry {
    #[prost(message, repeated, tag = "1")]
    tasks: Vec<NewTaskMessage>,
    #[prost(bool, tag = "2")]
    atomic: bool,
    #[prost(uint64, optional, tag = "3")]
    max_depth: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct ClaimEntry {
    #[prost(string, tag = "1")]
    worker: String,
    #[prost(string, repeated, tag = "2")]
    queues: Vec<String>,
    #[prost(uint32, repeated, tag = "3")]
    weights: Vec<u32>,
    #[prost(bool, tag = "4")]
    strict: bool,
    #[prost(bool, tag = "5")]
    all_types: bool,
    #[prost(string, repeated, tag = "6")]
    types: Vec<String>,
    #[prost(uint32, tag = "7")]
    max: u32,
    #[prost(uint64, tag = "8")]
    lease_ms: u64,
    #[prost(fixed64, tag = "9")]
    seed: u64,
    #[prost(uint64, tag = "10")]
    now: u64,
    #[prost(sint64, tag = "11")]
    ahead: i64,
}

#[derive(Clone, PartialEq, Message)]
struct CommitEntry {
    #[prost(message, repeated, tag = "1")]
    transitions: Vec<TransitionMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct PauseEntry {
    #[prost(string, tag = "1")]
    queue: String,
    #[prost(bool, tag = "2")]
    paused: bool,
}

impl Command {
    /// An insert and its entry, of which the bodies are parts.
    pub(super) fn insert(insert: Insert) -> (Command, Bytes) {
        let Insert { tasks, atomic, max_depth } = insert;
        let writer = Writer::new(1, &tasks);
        let rest = InsertEntry { tasks: Vec::new(), atomic, max_depth };
        let len = writer.encoded_len() + rest.encoded_len();
        // For what stands in front, and what a head needs to be written in one piece.
        let mut buffer = Vec::with_capacity(len + 32);
        encode_key(1, WireType::LengthDelimited, &mut buffer);
        encode_varint(len as u64, &mut buffer);
        let bodies = writer.encode(&mut buffer);
        rest.encode_raw(&mut buffer);
        let entry = Bytes::from(buffer);
        let bodies = bodies.into_iter().map(|body| entry.slice(body)).collect();
        (Command::Insert { tasks: Submits { tasks, bodies }, atomic, max_depth }, entry)
    }

    /// The entry of any other command.
    pub(super) fn encode(&self) -> Bytes {
        let mut entry = Entry::default();
        match self {
            Command::Insert { .. } => unreachable!("an insert is encoded when it is made"),
            Command::Claim { claim, now } => entry.claim = Some(claim_entry(claim, *now)),
            Command::Commit { transitions } => return commit_entry(transitions),
            Command::Pause { queue, paused } => {
                entry.pause = Some(PauseEntry { queue: queue.as_str().to_owned(), paused: *paused });
            }
            Command::Limit { set, now } => entry.limit = Some(LimitEntry::new(set, *now)),
            Command::Schedule { write, tasks } => entry.schedule = Some(ScheduleEntry::new(write, tasks)),
            Command::Operate { write } => entry.operation = Some(OperationEntry::new(write)),
            Command::Workflow { insert, tasks } => entry.workflow = Some(WorkflowEntry::new(insert, tasks)),
            Command::Settle { settles } => entry.settle = Some(SettleEntry::new(settles)),
            Command::Restore { restore } => entry.restore = Some(RestoreEntry::new(restore)),
        }
        entry.encode_to_vec().into()
    }

    pub(super) fn decode(bytes: Bytes) -> Result<Command, Undecodable> {
        let entry = Entry::decode(bytes)?;
        if let Some(insert) = entry.insert {
            let tasks = Submits::decode(insert.tasks)?;
            return Ok(Command::Insert { tasks, atomic: insert.atomic, max_depth: insert.max_depth });
        }
        if let Some(claim) = entry.claim {
            let now = Stamp { wall: claim.now, ahead: claim.ahead };
            return Ok(Command::Claim { claim: decode_claim(claim)?, now });
        }
        if let Some(commit) = entry.commit {
            let transitions = commit
                .transitions
                .into_iter()
                .map(TransitionMessage::into_transition)
                .collect::<Result<_, _>>()?;
            return Ok(Command::Commit { transitions });
        }
        if let Some(pause) = entry.pause {
            return Ok(Command::Pause { queue: codec::name(&pause.queue)?, paused: pause.paused });
        }
        if let Some(schedule) = entry.schedule {
            let (write, tasks) = schedule.into_write()?;
            return Ok(Command::Schedule { write: Box::new(write), tasks });
        }
        if let Some(operation) = entry.operation {
            return Ok(Command::Operate { write: Box::new(operation.into_write()?) });
        }
        if let Some(limit) = entry.limit {
            let (set, now) = limit.into_set()?;
            return Ok(Command::Limit { set: Box::new(set), now });
        }
        if let Some(workflow) = entry.workflow {
            let (insert, tasks) = workflow.into_insert()?;
            return Ok(Command::Workflow { insert: Box::new(insert), tasks });
        }
        if let Some(settle) = entry.settle {
            return Ok(Command::Settle { settles: settle.into_settles()? });
        }
        if let Some(restore) = entry.restore {
            return Ok(Command::Restore { restore: Box::new(restore.into_restore()?) });
        }
        Err(Undecodable::unknown_command())
    }
}

/// An [`Entry`] with a [`CommitEntry`], made without them: results come in hundreds.
fn commit_entry(transitions: &[Transition]) -> Bytes {
    const USUAL_BYTES: usize = 80;
    let mut entry = Vec::with_capacity(8 + transitions.len() * USUAL_BYTES);
    nested(3, &mut entry, |entry| {
        transitions.iter().for_each(|transition| write_transition(1, transition, entry));
    });
    entry.into()
}

fn claim_entry(claim: &Claim, now: Stamp) -> ClaimEntry {
    let text = |name: &Name| name.as_str().to_owned();
    ClaimEntry {
        worker: text(&claim.worker),
        queues: claim.queues.iter().map(|queue| text(&queue.name)).collect(),
        weights: claim.queues.iter().map(|queue| queue.weight).collect(),
        strict: claim.mode == Mode::Strict,
        all_types: claim.types.is_none(),
        types: claim.types.iter().flatten().map(text).collect(),
        max: claim.max,
        lease_ms: claim.lease_ms,
        seed: claim.seed,
        now: now.wall,
        ahead: now.ahead,
    }
}

fn decode_claim(entry: ClaimEntry) -> Result<Claim, Undecodable> {
    let queue = |(name, weight): (&String, &u32)| -> Result<Queue, Undecodable> {
        Ok(Queue { name: codec::name(name)?, weight: *weight })
    };
    let types = entry.types.iter().map(|name| codec::name(name)).collect::<Result<Vec<_>, _>>()?;
    Ok(Claim {
        worker: codec::name(&entry.worker)?,
        queues: entry.queues.iter().zip(&entry.weights).map(queue).collect::<Result<_, _>>()?,
        mode: if entry.strict { Mode::Strict } else { Mode::Weighted },
        types: (!entry.all_types).then_some(types),
        max: entry.max,
        lease_ms: entry.lease_ms,
        wait_ms: 0,
        seed: entry.seed,
    })
}
