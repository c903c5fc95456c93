//! Schedules in the log and in their table.
//!
//! The log carries a whole schedule when its definition changes, and only how it moves on when it fires. The table holds
//! those that changed up to the last checkpoint; memory holds all of them.

use std::collections::BTreeSet;

use bytes::Bytes;
use prost::Message;
use redb::{ReadTransaction, WriteTransaction};
use windlass_core::schedule::{
    Advance, CatchUp, Definition, Fire, Overlap, Progress, Schedule, Template, Timing,
};
use windlass_core::{Body, Name, NewTask, Payload, TaskId};

use super::codec::{self, NewTaskMessage, Undecodable};
use super::command::Submits;
pub(super) use super::tables::named::Changed;
use super::tables::named::{self, Rows};
use crate::schedules::Schedules;
use crate::store::{Error, ScheduleChange, WriteSchedule};

pub(super) const SCHEDULES: Rows = Rows::new("schedules");

/// A write as the log carries it: a schedule to put, an advance with the tasks of a fire, or neither to remove.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ScheduleEntry {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(uint64, optional, tag = "2")]
    seen: Option<u64>,
    #[prost(message, optional, tag = "3")]
    put: Option<ScheduleMessage>,
    #[prost(message, optional, tag = "4")]
    progress: Option<ProgressMessage>,
    #[prost(message, repeated, tag = "5")]
    fires: Vec<FireMessage>,
    #[prost(message, repeated, tag = "6")]
    tasks: Vec<NewTaskMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct ScheduleMessage {
    #[prost(uint64, tag = "1")]
    revision: u64,
    #[prost(uint64, tag = "2")]
    created_at: u64,
    #[prost(uint64, tag = "3")]
    updated_at: u64,
    #[prost(string, tag = "4")]
    cron: String,
    #[prost(string, tag = "5")]
    zone: String,
    /// The template, as a task with the schedule's own id.
    #[prost(message, optional, tag = "6")]
    template: Option<NewTaskMessage>,
    #[prost(string, tag = "7")]
    overlap: String,
    #[prost(string, tag = "8")]
    catch_up: String,
    #[prost(uint64, tag = "9")]
    window_ms: u64,
    #[prost(uint64, tag = "10")]
    jitter_ms: u64,
    #[prost(uint64, optional, tag = "11")]
    starts_at: Option<u64>,
    #[prost(uint64, optional, tag = "12")]
    ends_at: Option<u64>,
    #[prost(bool, tag = "13")]
    paused: bool,
    #[prost(message, optional, tag = "14")]
    progress: Option<ProgressMessage>,
    #[prost(message, repeated, tag = "15")]
    fires: Vec<FireMessage>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct ProgressMessage {
    #[prost(uint64, tag = "1")]
    cursor: u64,
    #[prost(uint64, optional, tag = "2")]
    wake_at: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    queued: Option<u64>,
    #[prost(uint64, tag = "4")]
    fired: u64,
    #[prost(uint64, tag = "5")]
    skipped: u64,
}

#[derive(Clone, PartialEq, Message)]
struct FireMessage {
    #[prost(uint64, tag = "1")]
    slot: u64,
    #[prost(uint64, tag = "2")]
    fired_at: u64,
    #[prost(string, tag = "3")]
    task: String,
    #[prost(bool, tag = "4")]
    manual: bool,
}

impl ScheduleEntry {
    /// The tasks of a fire come apart, with their bodies in the form in which they are kept.
    pub(super) fn new(write: &WriteSchedule, tasks: &Submits) -> Self {
        let mut entry = Self { id: write.id.as_str().to_owned(), ..Default::default() };
        match &write.change {
            ScheduleChange::Put { schedule, seen } => {
                entry.seen = *seen;
                entry.put = Some(schedule_message(schedule));
            }
            ScheduleChange::Fire { advance, .. } => {
                entry.seen = Some(advance.revision);
                entry.progress = Some(advance.progress.into());
                entry.fires = advance.fires.iter().map(Into::into).collect();
                entry.tasks =
                    tasks.iter().map(|(task, body)| NewTaskMessage::new(task, body.clone())).collect();
            }
            ScheduleChange::Remove { seen } => entry.seen = Some(*seen),
        }
        entry
    }

    pub(super) fn into_write(self) -> Result<(WriteSchedule, Submits), Undecodable> {
        let id = codec::name(&self.id)?;
        let tasks = Submits::decode(self.tasks)?.detached();
        let unconditional = || codec::wrong("a schedule written without a revision");
        let change = match (self.put, self.progress) {
            (Some(put), _) => {
                let schedule = Box::new(schedule(&id, put)?);
                ScheduleChange::Put { schedule, seen: self.seen }
            }
            (None, Some(progress)) => {
                let fires = self.fires.into_iter().map(fire).collect::<Result<_, _>>()?;
                let revision = self.seen.ok_or_else(unconditional)?;
                let advance = Advance { revision, progress: progress.into(), fires };
                ScheduleChange::Fire { advance, tasks: Vec::new() }
            }
            (None, None) => ScheduleChange::Remove { seen: self.seen.ok_or_else(unconditional)? },
        };
        Ok((WriteSchedule { id, change }, tasks))
    }
}

fn schedule_message(schedule: &Schedule) -> ScheduleMessage {
    let Definition { timing, template, overlap, catch_up, .. } = &schedule.definition;
    let task = NewTask {
        id: TaskId::new(schedule.id.as_str()).expect("a name is a valid id"),
        queue: template.queue.clone(),
        kind: template.kind.clone(),
        priority: template.priority,
        created_at: 0,
        scheduled_at: None,
        expires_at: None,
        retention_ms: template.retention_ms,
        counted: windlass_core::Counted::default(),
        unique: None,
        key: template.key.clone(),
        body: template.body.clone(),
    };
    let body = codec::encode_body(&task.body);
    ScheduleMessage {
        revision: schedule.revision,
        created_at: schedule.created_at,
        updated_at: schedule.updated_at,
        cron: timing.cron().to_owned(),
        zone: timing.zone().to_owned(),
        template: Some(NewTaskMessage::new(&task, body)),
        overlap: overlap.as_str().to_owned(),
        catch_up: catch_up.as_str().to_owned(),
        window_ms: schedule.definition.window_ms,
        jitter_ms: schedule.definition.jitter_ms,
        starts_at: schedule.definition.starts_at,
        ends_at: schedule.definition.ends_at,
        paused: schedule.definition.paused,
        progress: Some(schedule.progress.into()),
        fires: schedule.fires.iter().map(Into::into).collect(),
    }
}

fn schedule(id: &Name, message: ScheduleMessage) -> Result<Schedule, Undecodable> {
    let template = message.template.ok_or_else(|| codec::wrong("a schedule without a task"))?;
    let (task, _) = template.into_parts()?;
    let timing = Timing::parse(&message.cron, &message.zone)
        .map_err(|error| codec::wrong(&format!("schedule {id}: {error}")))?;
    let definition = Definition {
        timing,
        template: Template {
            queue: task.queue,
            kind: task.kind,
            priority: task.priority,
            retention_ms: task.retention_ms,
            key: task.key,
            body: Body { payload: own(&task.body.payload), ..task.body },
        },
        overlap: Overlap::parse(&message.overlap).ok_or_else(|| codec::wrong("unknown overlap rule"))?,
        catch_up: CatchUp::parse(&message.catch_up).ok_or_else(|| codec::wrong("unknown catch-up rule"))?,
        window_ms: message.window_ms,
        jitter_ms: message.jitter_ms,
        starts_at: message.starts_at,
        ends_at: message.ends_at,
        paused: message.paused,
    };
    Ok(Schedule {
        id: id.clone(),
        revision: message.revision,
        created_at: message.created_at,
        updated_at: message.updated_at,
        definition,
        progress: message.progress.map(Into::into).unwrap_or_default(),
        fires: message.fires.into_iter().map(fire).collect::<Result<_, _>>()?,
    })
}

/// A schedule in the form in which it is kept, and back.
#[cfg(feature = "redis")]
pub(crate) fn encode(schedule: &Schedule) -> Vec<u8> {
    schedule_message(schedule).encode_to_vec()
}

pub(crate) fn decode(id: &Name, bytes: Bytes) -> Result<Schedule, Undecodable> {
    schedule(id, ScheduleMessage::decode(bytes)?)
}

/// A payload that does not keep the block alive from which it was read.
fn own(payload: &Payload) -> Payload {
    match payload {
        Payload::Json(bytes) => Payload::Json(Bytes::copy_from_slice(bytes)),
        Payload::Binary(bytes) => Payload::Binary(Bytes::copy_from_slice(bytes)),
    }
}

impl From<&Fire> for FireMessage {
    fn from(fire: &Fire) -> Self {
        let Fire { slot, fired_at, task, manual } = fire;
        Self { slot: *slot, fired_at: *fired_at, task: task.as_str().to_owned(), manual: *manual }
    }
}

fn fire(message: FireMessage) -> Result<Fire, Undecodable> {
    let FireMessage { slot, fired_at, task, manual } = message;
    Ok(Fire { slot, fired_at, task: codec::id(&task)?, manual })
}

impl From<Progress> for ProgressMessage {
    fn from(progress: Progress) -> Self {
        let Progress { cursor, wake_at, queued, fired, skipped } = progress;
        Self { cursor, wake_at, queued, fired, skipped }
    }
}

impl From<ProgressMessage> for Progress {
    fn from(message: ProgressMessage) -> Self {
        let ProgressMessage { cursor, wake_at, queued, fired, skipped } = message;
        Self { cursor, wake_at, queued, fired, skipped }
    }
}

/// The schedules of the machine, and which of them the table does not know yet.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) all: Schedules,
    changed: BTreeSet<Name>,
}

impl Book {
    pub(super) fn load(read: &ReadTransaction) -> Result<Book, Error> {
        let mut book = Book::default();
        named::read(read, SCHEDULES, |id, message: ScheduleMessage| {
            book.all.add(schedule(&id, message)?);
            Ok(())
        })?;
        Ok(book)
    }

    /// Returns whether the nearest slot is a nearer one now.
    pub(super) fn carry_out(&mut self, write: &WriteSchedule) -> bool {
        self.changed.insert(write.id.clone());
        self.all.carry_out(write)
    }

    pub(super) fn freeze(&mut self) -> Changed {
        let value = |id: &Name| self.all.get(id).map(|it| schedule_message(it).encode_to_vec());
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|id| (id.clone(), value(&id))).collect()
    }
}

pub(super) fn write(write: &WriteTransaction, changed: &Changed) -> Result<(), Error> {
    named::write(write, SCHEDULES, changed)
}
