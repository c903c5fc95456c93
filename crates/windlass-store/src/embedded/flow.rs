//! Limits in the log, and everything that the choice of the next task depends on in its table.
//!
//! Claims are in the log without the tasks that they gave out, so a replay must choose the same ones. What decides besides the tasks
//! themselves is what each key has paid in its rounds, the counts and windows of the limits, and the time of the last
//! claim: a checkpoint saves what changed of it, under the name of its kind.

use std::collections::HashSet;

use prost::Message;
use redb::{ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};
use windlass_core::Name;
use windlass_core::flow::{Ageing, Delta, Flow, Gate, Limit, Rate, RoundState, Scope, ShareState, Window};

use super::codec::{self, Undecodable};
use super::shares;
use super::tables::{failed, seal};
use crate::store::{Error, SetLimit};

/// Everything but the shares, by its name.
pub(super) const FLOW: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("flow");

/// A limit as the log carries it, without one to remove it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct LimitEntry {
    #[prost(string, tag = "1")]
    scope: String,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, optional, tag = "3")]
    limit: Option<LimitMessage>,
    #[prost(uint64, tag = "4")]
    now: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct LimitMessage {
    #[prost(uint32, optional, tag = "1")]
    max_concurrency: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    rate_count: Option<u32>,
    #[prost(uint64, tag = "3")]
    rate_ms: u64,
    #[prost(uint32, tag = "4")]
    weight: u32,
    #[prost(uint64, optional, tag = "5")]
    max_depth: Option<u64>,
    #[prost(bool, tag = "6")]
    paused: bool,
    #[prost(uint64, optional, tag = "7")]
    ageing_ms: Option<u64>,
}

/// A limit with the starts of its window.
#[derive(Clone, PartialEq, Message)]
struct GateMessage {
    #[prost(message, optional, tag = "1")]
    limit: Option<LimitMessage>,
    #[prost(uint64, repeated, tag = "2")]
    taken_at: Vec<u64>,
    #[prost(uint32, repeated, tag = "3")]
    taken: Vec<u32>,
    #[prost(uint64, tag = "4")]
    began: u64,
    #[prost(uint64, optional, tag = "5")]
    drained_until: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct RoundsMessage {
    #[prost(message, repeated, tag = "1")]
    rounds: Vec<RoundMessage>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct RoundMessage {
    #[prost(uint64, tag = "1")]
    priority: u64,
    #[prost(uint64, tag = "2")]
    level: u64,
    #[prost(uint64, tag = "3")]
    front: u64,
    #[prost(uint64, tag = "4")]
    plain: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct CountsMessage {
    #[prost(uint64, tag = "1")]
    waiting: u64,
    #[prost(uint64, tag = "2")]
    running: u64,
}

impl LimitEntry {
    pub(super) fn new(set: &SetLimit, now: u64) -> Self {
        Self {
            scope: set.scope.as_str().to_owned(),
            name: set.name.as_str().to_owned(),
            limit: set.limit.map(Into::into),
            now,
        }
    }

    pub(super) fn into_set(self) -> Result<(SetLimit, u64), Undecodable> {
        let scope = Scope::parse(&self.scope).ok_or_else(|| codec::wrong("unknown scope of a limit"))?;
        let set = SetLimit { scope, name: codec::name(&self.name)?, limit: self.limit.map(Into::into) };
        Ok((set, self.now))
    }
}

impl From<Limit> for LimitMessage {
    fn from(limit: Limit) -> Self {
        let Limit { max_concurrency, rate, weight, max_depth, paused, ageing } = limit;
        Self {
            max_concurrency,
            rate_count: rate.map(|rate| rate.count),
            rate_ms: rate.map_or(0, |rate| rate.per_ms),
            weight,
            max_depth,
            paused,
            ageing_ms: ageing.map(|ageing| ageing.every_ms),
        }
    }
}

impl From<LimitMessage> for Limit {
    fn from(message: LimitMessage) -> Self {
        Self {
            max_concurrency: message.max_concurrency,
            rate: message.rate_count.map(|count| Rate { count, per_ms: message.rate_ms }),
            weight: message.weight,
            max_depth: message.max_depth,
            paused: message.paused,
            ageing: message.ageing_ms.map(|every_ms| Ageing { every_ms }),
        }
    }
}

impl From<&Gate> for GateMessage {
    fn from(gate: &Gate) -> Self {
        let (taken_at, taken) = gate.window.entries().unzip();
        let began = gate.window.began();
        Self { limit: Some(gate.limit.into()), taken_at, taken, began, drained_until: gate.drained_until }
    }
}

impl From<GateMessage> for Gate {
    fn from(message: GateMessage) -> Self {
        let entries = message.taken_at.into_iter().zip(message.taken);
        Self {
            limit: message.limit.map(Into::into).unwrap_or_default(),
            window: Window::restore(entries, message.began),
            drained_until: message.drained_until,
        }
    }
}

fn rounds_message(rounds: &[RoundState]) -> RoundsMessage {
    let message = |round: &RoundState| {
        let RoundState { priority, level, front, plain } = *round;
        RoundMessage { priority, level, front, plain }
    };
    RoundsMessage { rounds: rounds.iter().map(message).collect() }
}

fn rounds(message: RoundsMessage) -> Vec<RoundState> {
    let state = |round: RoundMessage| {
        let RoundMessage { priority, level, front, plain } = round;
        RoundState { priority, level, front, plain }
    };
    message.rounds.into_iter().map(state).collect()
}

/// Writes what changed; with nothing to write it only sees to it that there is a table.
pub(super) fn write(write: &WriteTransaction, delta: &Delta) -> Result<(), Error> {
    let mut table = write.open_table(FLOW).map_err(failed("open a table"))?;
    let mut put = |key: String, value: Option<Vec<u8>>| -> Result<(), Error> {
        match value {
            Some(mut value) => {
                let sealed = seal::close(key.as_str(), &mut value);
                table.insert(key.as_str(), sealed).map_err(failed("write the flow"))?;
            }
            None => drop(table.remove(key.as_str()).map_err(failed("write the flow"))?),
        }
        Ok(())
    };
    for (word, changed) in [("queue", &delta.queues), ("lane", &delta.lanes)] {
        for (number, states) in changed {
            let value = (!states.is_empty()).then(|| rounds_message(states).encode_to_vec());
            put(format!("{word}/{number}"), value)?;
        }
    }
    for (name, waiting, running) in &delta.kinds {
        let counts = CountsMessage { waiting: *waiting, running: *running };
        let value = (counts != CountsMessage::default()).then(|| counts.encode_to_vec());
        put(format!("type/{name}"), value)?;
    }
    for (scope, name, gate) in &delta.gates {
        let value = gate.as_ref().map(|gate| GateMessage::from(gate).encode_to_vec());
        put(format!("limit/{}/{name}", scope.as_str()), value)?;
    }
    if delta.clock > 0 {
        let clock = CountsMessage { waiting: delta.clock, running: 0 };
        put("clock".to_owned(), Some(clock.encode_to_vec()))?;
    }
    shares::write(write, &delta.shares)
}

/// Decodes the limit in a row; `None` if the row holds something else.
pub(super) fn limit_of(key: &str, bytes: &[u8]) -> Result<Option<SetLimit>, Undecodable> {
    let mut book = Book::default();
    book.add(key, bytes)?;
    let gate = book.gates.pop();
    Ok(gate.map(|(scope, name, gate)| SetLimit { scope, name, limit: Some(gate.limit) }))
}

/// A table as it was read, part by part: they are restored in another order than they are stored.
#[derive(Debug, Default)]
pub(super) struct Book {
    clock: u64,
    shares: Vec<(u32, ShareState)>,
    queues: Vec<(u32, Vec<RoundState>)>,
    lanes: Vec<(u32, Vec<RoundState>)>,
    kinds: Vec<(Name, CountsMessage)>,
    gates: Vec<(Scope, Name, Gate)>,
}

impl Book {
    pub(super) fn load(read: &ReadTransaction) -> Result<Book, Error> {
        let table = read.open_table(FLOW).map_err(failed("open a table"))?;
        let mut book = Book::default();
        for entry in table.iter().map_err(failed("read the flow"))? {
            let (key, value) = entry.map_err(failed("read the flow"))?;
            let bytes = seal::open(key.value(), value.value())?;
            book.add(key.value(), bytes).map_err(|error| Error::Damaged(error.to_string()))?;
        }
        book.shares = shares::load(read)?;
        Ok(book)
    }

    fn add(&mut self, key: &str, bytes: &[u8]) -> Result<(), Undecodable> {
        let unknown = || codec::wrong("an unknown row of the flow");
        let (word, rest) = key.split_once('/').unwrap_or((key, ""));
        let number = || rest.parse().map_err(|_| unknown());
        match word {
            "clock" => self.clock = CountsMessage::decode(bytes)?.waiting,
            "queue" => self.queues.push((number()?, rounds(RoundsMessage::decode(bytes)?))),
            "lane" => self.lanes.push((number()?, rounds(RoundsMessage::decode(bytes)?))),
            "type" => self.kinds.push((codec::name(rest)?, CountsMessage::decode(bytes)?)),
            "limit" => {
                let (scope, name) = rest.split_once('/').ok_or_else(unknown)?;
                let scope = Scope::parse(scope).ok_or_else(unknown)?;
                self.gates.push((scope, codec::name(name)?, GateMessage::decode(bytes)?.into()));
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    /// The queues that have a limit.
    pub(super) fn limited_queues(&self) -> HashSet<Name> {
        let queues = self.gates.iter().filter(|(scope, _, _)| *scope == Scope::Queue);
        queues.map(|(_, name, _)| name.clone()).collect()
    }

    /// Puts everything back into a flow that has its queues (with their counts) and lanes.
    pub(super) fn restore(self, flow: &mut Flow) -> Result<(), Error> {
        let lost = |what: &str| Error::Damaged(format!("{what} of the flow that does not exist"));
        flow.restore_clock(self.clock);
        for (name, counts) in &self.kinds {
            flow.restore_kind(name, counts.waiting, counts.running);
        }
        for (number, states) in &self.queues {
            if !flow.has_queue(*number) {
                return Err(lost("a queue"));
            }
            flow.restore_queue_rounds(*number, states);
        }
        for (number, states) in &self.lanes {
            if !flow.has_lane(*number) {
                return Err(lost("a lane"));
            }
            flow.restore_lane_rounds(*number, states);
        }
        for (number, state) in &self.shares {
            if !flow.has_lane(state.lane) {
                return Err(lost("a lane"));
            }
            flow.restore_share(*number, state);
        }
        for (scope, name, gate) in self.gates {
            flow.restore_gate(scope, &name, gate);
        }
        flow.restored();
        Ok(())
    }
}
