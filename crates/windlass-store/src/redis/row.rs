//! A task as Redis keeps it, and back. See `lua/row.lua` for what there is of one.
//!
//! Scripts know a task by its line and cannot read the record, so what they change by themselves stands beside it: a claim is
//! applied to the record here, by core, whenever a row is read.

use std::fmt::Write as _;

use bytes::{BufMut, Bytes};
use redis::Value;
use windlass_core::{Change, Name, NewTask, Priority, Progress, Record, State, Task, Token, Wakes};

use super::link::Args;
use super::reply::{self, wrong};
use super::wakes::wake_text;
use crate::embedded::codec;
use crate::store::Error;

/// Priority and order are one score: this many orders to a priority.
pub(super) const ORDERS: u64 = 1 << 45;

/// Stands for no key; no name has it.
const NO_KEY: &str = "/";

/// A row that was read: the record as it is now, and what stands beside it.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) record: Record,
    pub(super) held: Option<Held>,
    body: Option<Bytes>,
}

/// The lease of a running task, as those who watch it need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) beat: u64,
    pub(super) window_ms: u64,
    pub(super) worker: Name,
}

impl Row {
    /// `None` for a task that is not there.
    pub(super) fn read(value: Value) -> Result<Option<Row>, Error> {
        if matches!(value, Value::Nil) {
            return Ok(None);
        }
        let mut fields = reply::list(value)?;
        let name = fields.pop().ok_or_else(|| wrong("an empty row"))?;
        let mut fields = fields.into_iter();
        let mut field = || fields.next().unwrap_or(Value::Nil);
        let value = reply::bytes(field())?;
        let terms = optional(field())?.map(|text| Terms::read(&text)).transpose()?;
        let progress = maybe_bytes(field())?;
        let mut row = Row::of(reply::number(name)?, value, terms.as_ref(), maybe_bytes(field())?)?;
        row.record.progress =
            progress.map(|bytes| read_progress(&bytes)).transpose()?.or(row.record.progress);
        Ok(Some(row))
    }

    /// By its line and record, under the terms that it is held by.
    pub(super) fn of(
        seq: u64,
        value: Bytes,
        terms: Option<&Terms>,
        body: Option<Bytes>,
    ) -> Result<Row, Error> {
        let (line, record) = parts(value)?;
        let damaged = |error: codec::Undecodable| wrong(&format!("a record of task {seq} in which {error}"));
        let names = |_| Some((line.queue.clone(), line.kind.clone()));
        let mut record = codec::decode_record(seq, record, names).map_err(damaged)?;
        record.order = line.order;
        record.revision = line.revision;
        if let Some(terms) = terms {
            terms.apply(&mut record);
        }
        record.awaited = line.awaited;
        Ok(Row { record, held: terms.map(|terms| terms.held.clone()), body })
    }

    pub(super) fn task(self) -> Result<Task, Error> {
        let body = self.body.ok_or_else(|| wrong("a row without its body"))?;
        let body = codec::decode_body(body).map_err(|error| wrong(&format!("a body in which {error}")))?;
        Ok(Task { record: self.record, body })
    }
}

pub(super) fn rows(value: Value) -> Result<Vec<Row>, Error> {
    let rows = reply::list(value)?.into_iter().map(Row::read);
    rows.filter_map(Result::transpose).collect()
}

pub(super) fn tasks(value: Value) -> Result<Vec<Task>, Error> {
    rows(value)?.into_iter().map(Row::task).collect()
}

/// The name of a task: its number, padded so that equal times sort by it.
pub(super) fn name(seq: u64) -> String {
    format!("{seq:014}")
}

/// What scripts write at the side of a record is read from here.
#[derive(Debug)]
struct Line {
    revision: u64,
    order: u64,
    awaited: bool,
    queue: Name,
    kind: Name,
}

impl Line {
    fn read(text: &str) -> Result<Line, Error> {
        let fields: Vec<&str> = text.split(' ').collect();
        let [revision, order, _, _, _, _, _, _, _, awaited, _, _, queue, kind, _, _] = fields[..] else {
            return Err(wrong("a row of another shape"));
        };
        let number = |text: &str| text.parse().map_err(|_| wrong("a row with a wrong number"));
        let name = |text: &str| Name::new(text).map_err(|_| wrong("a row with a wrong name"));
        Ok(Line {
            revision: number(revision)?,
            order: number(order)?,
            awaited: awaited == "1",
            queue: name(queue)?,
            kind: name(kind)?,
        })
    }
}

fn optional(value: Value) -> Result<Option<String>, Error> {
    if matches!(value, Value::Nil) { Ok(None) } else { reply::text(value).map(Some) }
}

fn maybe_bytes(value: Value) -> Result<Option<Bytes>, Error> {
    if matches!(value, Value::Nil) { Ok(None) } else { reply::bytes(value).map(Some) }
}

fn parsed<T: std::str::FromStr>(text: &str) -> Result<T, Error> {
    text.parse().map_err(|_| wrong("a lease of another shape"))
}

fn secret(text: &str) -> Result<u64, Error> {
    u64::from_str_radix(text, 16).map_err(|_| wrong("a lease with a wrong secret"))
}

/// The line, and the record behind it.
fn parts(value: Bytes) -> Result<(Line, Bytes), Error> {
    let end = value.iter().position(|byte| *byte == b'\n').ok_or_else(|| wrong("a row without its line"))?;
    let line = std::str::from_utf8(&value[..end]).map_err(|_| wrong("a row of another shape"))?;
    Ok((Line::read(line)?, value.slice(end + 1..)))
}

/// What Redis holds of a running task (`lua/held.lua`).
#[derive(Debug)]
pub(super) struct Terms {
    revision: u64,
    pub(super) token: Token,
    /// When it was claimed, unless the record has the claim.
    at: Option<u64>,
    lease_ms: u64,
    ends: u64,
    held: Held,
}

impl Terms {
    pub(super) fn read(text: &str) -> Result<Terms, Error> {
        let mut fields = text.split(' ');
        let mut field = || fields.next().ok_or_else(|| wrong("a lease of another shape"));
        let revision = parsed(field()?)?;
        let token = Token { number: parsed(field()?)?, secret: secret(field()?)? };
        let _call = field()?;
        let lease_ms = parsed(field()?)?;
        let at = Some(field()?).filter(|at| *at != "-").map(parsed).transpose()?;
        let (window_ms, ends) = (parsed(field()?)?, parsed(field()?)?);
        let held = Held { window_ms, beat: parsed(field()?)?, worker: parsed(field()?)? };
        Ok(Terms { revision, token, at, lease_ms, ends, held })
    }

    /// The claim, unless the record has it, and its lease.
    fn apply(&self, record: &mut Record) {
        let &Terms { revision, token, at, lease_ms, ends, ref held } = self;
        if let Some(at) = at {
            let claimed = Change::Claimed { at: at.into(), token, worker: held.worker.clone(), lease_ms };
            record.evolve(&claimed, record.order);
        }
        record.revision = revision;
        if let State::Running(lease) = &mut record.state {
            lease.expires_at = ends;
        }
    }
}

/// Eight bytes of the fraction, and the note if there is one.
pub(super) fn write_progress(progress: &Progress) -> Vec<u8> {
    let mut bytes = progress.fraction.to_be_bytes().to_vec();
    if let Some(note) = &progress.note {
        bytes.put_u8(1);
        bytes.extend_from_slice(note.as_bytes());
    }
    bytes
}

fn read_progress(bytes: &[u8]) -> Result<Progress, Error> {
    let damaged = || wrong("a progress of another shape");
    let (fraction, rest) = bytes.split_first_chunk::<8>().ok_or_else(damaged)?;
    let note = rest.split_first().map(|(_, note)| std::str::from_utf8(note)).transpose();
    let note = note.map_err(|_| damaged())?.map(Box::from);
    Ok(Progress { fraction: f64::from_be_bytes(*fraction), note })
}

/// What a script must know of a new task beside its own bytes. Tasks that are submitted together mostly share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Shape<'a> {
    state: usize,
    priority: Priority,
    created_at: u64,
    wakes: Wakes,
    expires_at: Option<u64>,
    group: Option<&'a Name>,
    queue: &'a Name,
    kind: &'a Name,
    ready_at: u64,
    key: Option<&'a Name>,
}

impl<'a> Shape<'a> {
    /// `record` is the new task's, whatever its number.
    pub(super) fn of(new: &'a NewTask, record: &'a Record) -> Shape<'a> {
        Shape {
            state: record.state_name().index(),
            priority: record.priority,
            created_at: record.created_at,
            wakes: record.wakes(),
            expires_at: record.expires_at,
            group: new.body.links.as_ref().and_then(|links| links.workflow.as_ref()),
            queue: &record.queue,
            kind: &record.kind,
            ready_at: record.ready_at,
            key: record.key.as_ref(),
        }
    }

    /// The arguments of `read_shape` in `lua/task.lua`.
    pub(super) fn args(&self, args: &mut Args) {
        args.number(self.state as u64);
        places(args, self.priority);
        args.number(self.created_at).text(&wake_text(self.wakes)).maybe(self.expires_at);
        args.text(self.group.map_or("-", Name::as_str)).text(self.queue.as_str()).text(self.kind.as_str());
        args.number(self.ready_at).text(self.key.map_or(NO_KEY, Name::as_str));
    }
}

/// The arguments of `write_new` in `lua/task.lua`.
pub(super) fn new_args(args: &mut Args, new: &NewTask, record: &Record) {
    args.text(record.id.as_str());
    args.bytes(codec::encode_record(record, 0)).bytes(codec::encode_body(&new.body));
}

/// The line of a task as another store had it; see `lua/row.lua` for its fields.
pub(super) fn line(task: &Task) -> String {
    let group = task.body.links.as_ref().and_then(|links| links.workflow.as_ref());
    // No call has made it.
    line_of(&task.record, group, "-")
}

/// `call` is the number of the one that writes it.
fn line_of(record: &Record, group: Option<&Name>, call: &str) -> String {
    let mut line = String::with_capacity(160);
    let number = |line: &mut String, number: u64| {
        let _ = write!(line, "{number} ");
    };
    number(&mut line, record.revision);
    number(&mut line, record.order);
    number(&mut line, record.state_name().index() as u64);
    number(&mut line, u64::from(record.priority.0));
    number(&mut line, record.priority.class() as u64);
    number(&mut line, record.created_at);
    let _ = write!(line, "{} ", wake_text(record.wakes()));
    for time in [record.kept_until(), record.expires_at] {
        match time {
            Some(time) => number(&mut line, time),
            None => line.push_str("- "),
        }
    }
    let awaited = if record.awaited { "1" } else { "0" };
    let group = group.map_or("-", Name::as_str);
    let key = record.key.as_ref().map_or(NO_KEY, Name::as_str);
    let (queue, kind, ready_at) = (&record.queue, &record.kind, record.ready_at);
    let _ = write!(line, "{awaited} {group} {call} {queue} {kind} {ready_at} {key}");
    line
}

fn places(args: &mut Args, priority: Priority) {
    args.number(u64::from(priority.0)).number(priority.class() as u64);
}

/// What a change does to the unique key of its task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeyFate {
    Kept,
    Freed,
    /// Taken, if this task (by name, empty for none) took it last.
    Taken {
        from: String,
    },
}

/// A decided change, ready to be written.
#[derive(Debug)]
pub(super) struct Step {
    /// As it was seen.
    pub(super) before: Record,
    /// As it will be; its order is not known before it is written.
    pub(super) after: Record,
    pub(super) change: Change,
    pub(super) key: KeyFate,
}

impl Step {
    /// The arguments of `change` in `lua/task.lua`, for the task of this name.
    pub(super) fn args(&self, args: &mut Args, name: &str) {
        let Step { before, after, change, key } = self;
        let act = match change {
            Change::Checkpointed { .. } => "keep",
            Change::Removed { .. } => "drop",
            _ => "move",
        };
        args.text(name).text(before.id.as_str()).number(before.revision).text(act);
        let place = match change {
            // The last of those that it waits for has yet to end.
            Change::Settled { .. } if matches!(after.state, State::Blocked { .. }) => "2",
            change if change.takes_place() => "1",
            _ => "0",
        };
        args.text(place).number(after.state_name().index() as u64);
        places(args, after.priority);
        // Whether others wait for it is for the script to look at: it can change without a new revision.
        args.text(&wake_text(after.wakes()))
            .maybe(after.kept_until())
            .maybe(after.expires_at)
            .text(after.queue.as_str());
        let record = if act == "drop" { Vec::new() } else { codec::encode_record(after, 0) };
        args.bytes(record).text(&ledger(change));
        let own = before.unique.as_ref().map_or("", |hold| hold.key.as_str());
        match key {
            KeyFate::Kept => args.text("").text("").text(""),
            KeyFate::Freed => args.text(own).text("free").text(""),
            KeyFate::Taken { from } => args.text(own).text("take").text(from),
        };
        args.number(after.ready_at);
    }
}

/// What tasks share that end in the same way: see `finish` in `lua/commit.lua`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Fate<'a> {
    state: usize,
    prune_at: u64,
    queue: &'a Name,
    kind: &'a Name,
}

impl Fate<'_> {
    /// The arguments of `read_fate`.
    pub(super) fn args(self, args: &mut Args) {
        args.number(self.state as u64).number(self.prune_at).text("completed");
        args.text(self.queue.as_str()).text(self.kind.as_str());
    }
}

impl Step {
    /// A task that completes, and of which nothing else depends on that; as far as is known here.
    pub(super) fn fate(&self) -> Option<(Fate<'_>, Token)> {
        let Step { before, after, change, key } = self;
        let (State::Running(lease), Change::Completed { .. }) = (&before.state, change) else { return None };
        if *key != KeyFate::Kept || before.key.is_some() || before.awaited || before.member {
            return None;
        }
        let prune_at = after.kept_until()?;
        let state = after.state_name().index();
        Some((Fate { state, prune_at, queue: &after.queue, kind: &after.kind }, lease.token))
    }

    /// What the arguments of `finish` have of each task, in the call of this number.
    pub(super) fn end_args(&self, args: &mut Args, call: &str) {
        let Step { before, after, .. } = self;
        args.text(&name(before.seq));
        let mut value = line_of(after, None, call).into_bytes();
        value.push(b'\n');
        value.extend_from_slice(&codec::encode_record(after, 0));
        args.bytes(value);
    }
}

/// The counters of the ledger that a change moves, by name.
fn ledger(change: &Change) -> String {
    let mut counted = crate::store::Ledger::default();
    counted.count(change);
    let fields = super::read::ledger_fields(&counted);
    let moved = fields.iter().filter(|(_, count)| *count > 0).map(|(field, _)| *field);
    moved.collect::<Vec<_>>().join(" ")
}
