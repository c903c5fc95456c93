//! What is written to disk, as protobuf messages: fields can be added later without a new format version.
//!
//! The same messages serve the log and the tables. A body is encoded once, at submit, and its bytes are used as they
//! are in the log, in memory and in the table. Decoding never guesses: an unknown state or a name that is not valid is
//! an error, because it means damage or a newer writer.

mod body;
mod field;
mod record;
mod submitted;
mod transition;

use bytes::Bytes;
use prost::Message;
use windlass_core::{
    Attempt, CancelReason, Checkpoint, Hold, Lease, Name, Outcome, Payload, Priority, Record, State, TaskId,
    Token, UniqueKey,
};

pub(crate) use body::{decode_body, encode_body};
pub(super) use field::nested;
pub(crate) use record::encode_record;
pub(super) use record::write_record;
pub(super) use submitted::{NewTaskMessage, Writer};
pub(super) use transition::{TransitionMessage, write_transition};

/// Bytes that cannot be what was written.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Undecodable(String);

impl Undecodable {
    pub(super) fn unknown_command() -> Self {
        wrong("unknown command")
    }
}

type Result<T> = std::result::Result<T, Undecodable>;

pub(super) fn wrong(what: &str) -> Undecodable {
    Undecodable(what.to_owned())
}

impl From<prost::DecodeError> for Undecodable {
    fn from(error: prost::DecodeError) -> Self {
        Undecodable(error.to_string())
    }
}

#[derive(Clone, PartialEq, Message)]
struct RecordMessage {
    /// Text, but checked and copied once, when it becomes an id.
    #[prost(bytes = "bytes", tag = "1")]
    id: Bytes,
    #[prost(uint32, tag = "2")]
    lane: u32,
    #[prost(uint64, tag = "3")]
    revision: u64,
    #[prost(uint64, tag = "4")]
    order: u64,
    #[prost(uint32, tag = "5")]
    priority: u32,
    #[prost(message, optional, tag = "6")]
    state: Option<StateMessage>,
    #[prost(uint32, tag = "7")]
    attempts: u32,
    #[prost(uint32, tag = "8")]
    crashes: u32,
    #[prost(message, optional, tag = "9")]
    ended: Option<TokenMessage>,
    #[prost(uint64, tag = "10")]
    created_at: u64,
    #[prost(uint64, tag = "11")]
    updated_at: u64,
    #[prost(uint64, optional, tag = "12")]
    started_at: Option<u64>,
    #[prost(uint64, optional, tag = "13")]
    scheduled_at: Option<u64>,
    #[prost(uint64, optional, tag = "14")]
    expires_at: Option<u64>,
    #[prost(uint64, tag = "15")]
    retention_ms: u64,
    #[prost(string, optional, tag = "16")]
    error: Option<String>,
    #[prost(message, optional, tag = "17")]
    result: Option<PayloadMessage>,
    #[prost(message, repeated, tag = "18")]
    history: Vec<AttemptMessage>,
    #[prost(string, optional, tag = "19")]
    key: Option<String>,
    #[prost(bool, tag = "23")]
    awaited: bool,
    #[prost(bool, tag = "24")]
    member: bool,
    #[prost(message, optional, tag = "21")]
    unique: Option<HoldMessage>,
    #[prost(message, optional, tag = "22")]
    checkpoint: Option<CheckpointMessage>,
    /// Absent while it has the place in line that it was submitted to.
    #[prost(uint64, optional, tag = "25")]
    ready_at: Option<u64>,
    #[prost(sint64, optional, tag = "26")]
    ahead: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct HoldMessage {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(uint64, optional, tag = "2")]
    until: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct CheckpointMessage {
    #[prost(bytes = "bytes", tag = "1")]
    bytes: Bytes,
    #[prost(uint64, tag = "2")]
    saved_at: u64,
}

#[derive(Clone, PartialEq, Message)]
struct StateMessage {
    /// [`windlass_core::StateName::index`] + 1, so that a missing field is not a state.
    #[prost(uint32, tag = "1")]
    name: u32,
    #[prost(uint64, tag = "2")]
    at: u64,
    #[prost(message, optional, tag = "3")]
    token: Option<TokenMessage>,
    #[prost(string, tag = "4")]
    worker: String,
    #[prost(uint64, tag = "5")]
    lease_ms: u64,
    /// The place in [`CancelReason::ALL`].
    #[prost(uint32, tag = "6")]
    reason: u32,
    /// Dependencies that have not completed.
    #[prost(uint32, tag = "7")]
    open: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct TokenMessage {
    #[prost(uint64, tag = "1")]
    number: u64,
    #[prost(fixed64, tag = "2")]
    secret: u64,
}

#[derive(Clone, PartialEq, Message)]
struct PayloadMessage {
    #[prost(bytes = "bytes", tag = "1")]
    bytes: Bytes,
    #[prost(bool, tag = "2")]
    binary: bool,
}

#[derive(Clone, PartialEq, Message)]
struct AttemptMessage {
    #[prost(uint32, tag = "1")]
    number: u32,
    #[prost(string, tag = "2")]
    worker: String,
    #[prost(uint64, tag = "3")]
    started_at: u64,
    #[prost(uint64, tag = "4")]
    ended_at: u64,
    #[prost(uint32, tag = "5")]
    outcome: u32,
    #[prost(string, optional, tag = "6")]
    error: Option<String>,
}

/// The part of a record that says where it belongs.
#[derive(Clone, Copy, PartialEq, Message)]
struct LaneOnlyMessage {
    #[prost(uint32, tag = "2")]
    lane: u32,
}

/// The lane of a record, without reading the rest.
pub(super) fn lane_of_record(bytes: Bytes) -> Result<u32> {
    Ok(LaneOnlyMessage::decode(bytes)?.lane)
}

/// `names` gives queue and type of a lane.
pub(crate) fn decode_record(
    seq: u64,
    bytes: Bytes,
    names: impl FnOnce(u32) -> Option<(Name, Name)>,
) -> Result<Record> {
    let message = RecordMessage::decode(bytes)?;
    let (queue, kind) = names(message.lane).ok_or_else(|| wrong("a lane that does not exist"))?;
    let attempt = |attempt: AttemptMessage| -> Result<Attempt> {
        let outcome = Outcome::ALL.into_iter().find(|outcome| *outcome as u32 == attempt.outcome);
        Ok(Attempt {
            number: attempt.number,
            worker: name(&attempt.worker)?,
            started_at: attempt.started_at,
            ended_at: attempt.ended_at,
            outcome: outcome.ok_or_else(|| wrong("unknown outcome"))?,
            error: attempt.error.map(String::into_boxed_str),
        })
    };
    Ok(Record {
        id: id(std::str::from_utf8(&message.id).map_err(|_| wrong("an id that is no text"))?)?,
        queue,
        kind,
        seq,
        revision: message.revision,
        order: message.order,
        ready_at: message.ready_at.unwrap_or(message.created_at),
        priority: priority(message.priority)?,
        state: state(message.state.ok_or_else(|| wrong("a record without a state"))?)?,
        ahead: message.ahead,
        attempts: message.attempts,
        crashes: message.crashes,
        awaited: message.awaited,
        member: message.member,
        ended: message.ended.map(Into::into),
        created_at: message.created_at,
        updated_at: message.updated_at,
        started_at: message.started_at,
        scheduled_at: message.scheduled_at,
        expires_at: message.expires_at,
        retention_ms: message.retention_ms,
        key: message.key.as_deref().map(name).transpose()?,
        error: message.error.map(String::into_boxed_str),
        result: message.result.map(Into::into),
        history: message.history.into_iter().map(attempt).collect::<Result<_>>()?,
        progress: None,
        unique: message.unique.map(hold).transpose()?.map(Box::new),
        checkpoint: message.checkpoint.map(|it| Box::new(it.into())),
    })
}

fn state(message: StateMessage) -> Result<State> {
    let at = message.at;
    Ok(match message.name {
        1 => State::Scheduled { at },
        2 => State::Blocked { open: message.open },
        3 => State::Pending,
        4 => State::Running(Lease {
            token: message.token.ok_or_else(|| wrong("a running task without a lease"))?.into(),
            worker: name(&message.worker)?,
            lease_ms: message.lease_ms,
            started_at: at,
            expires_at: at.saturating_add(message.lease_ms),
        }),
        5 => State::Retrying { at },
        6 => State::Completed { at },
        7 => State::DeadLetter { at },
        8 => State::Cancelled { at, reason: reason(message.reason)? },
        _ => return Err(wrong("unknown state")),
    })
}

pub(super) fn reason(number: u32) -> Result<CancelReason> {
    let known = CancelReason::ALL.into_iter().find(|reason| *reason as u32 == number);
    known.ok_or_else(|| wrong("unknown reason of a cancel"))
}

impl From<&Checkpoint> for CheckpointMessage {
    fn from(checkpoint: &Checkpoint) -> Self {
        Self { bytes: checkpoint.bytes.clone(), saved_at: checkpoint.saved_at }
    }
}

impl From<CheckpointMessage> for Checkpoint {
    fn from(message: CheckpointMessage) -> Self {
        Self { bytes: message.bytes, saved_at: message.saved_at }
    }
}

impl From<&Hold> for HoldMessage {
    fn from(hold: &Hold) -> Self {
        Self { key: hold.key.as_str().to_owned(), until: hold.until }
    }
}

fn hold(message: HoldMessage) -> Result<Hold> {
    Ok(Hold { key: key(&message.key)?, until: message.until })
}

impl From<TokenMessage> for Token {
    fn from(message: TokenMessage) -> Self {
        Self { number: message.number, secret: message.secret }
    }
}

impl From<&Payload> for PayloadMessage {
    fn from(payload: &Payload) -> Self {
        Self { bytes: payload.bytes().clone(), binary: matches!(payload, Payload::Binary(_)) }
    }
}

impl From<PayloadMessage> for Payload {
    fn from(message: PayloadMessage) -> Self {
        if message.binary { Payload::Binary(message.bytes) } else { Payload::Json(message.bytes) }
    }
}

pub(super) fn name(text: &str) -> Result<Name> {
    Name::new(text).map_err(|error| Undecodable(format!("a name that {error}")))
}

pub(super) fn id(text: &str) -> Result<TaskId> {
    TaskId::new(text).map_err(|error| Undecodable(format!("an id that {error}")))
}

pub(super) fn key(text: &str) -> Result<UniqueKey> {
    UniqueKey::new(text).map_err(|error| Undecodable(format!("a unique key that {error}")))
}

pub(super) fn priority(number: u32) -> Result<Priority> {
    u8::try_from(number).map(Priority).map_err(|_| wrong("a priority above 255"))
}
