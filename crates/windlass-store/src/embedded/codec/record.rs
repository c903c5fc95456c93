//! A task's record as the tables have it.
//!
//! Every checkpoint writes every task that changed, so a record is written from where it is; what is read back is an
//! ordinary message, and a test holds the two against each other.

use prost::encoding::message;
use windlass_core::{Attempt, Lease, Record, State, Token};

use super::field::{fixed, nested, number, present, text, zigzag};
use super::{CheckpointMessage, HoldMessage, PayloadMessage};

/// About as long as one without a result and an error.
const USUAL_BYTES: usize = 160;

/// Queue and type are kept as the number of their lane.
pub(crate) fn encode_record(record: &Record, lane: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(USUAL_BYTES);
    write_record(record, lane, &mut out);
    out
}

/// The fields of [`super::RecordMessage`], in their order.
pub(in crate::embedded) fn write_record(record: &Record, lane: u32, out: &mut Vec<u8>) {
    text(1, record.id.as_str(), out);
    number(2, u64::from(lane), out);
    number(3, record.revision, out);
    number(4, record.order, out);
    number(5, u64::from(record.priority.0), out);
    nested(6, out, |out| write_state(&record.state, out));
    number(7, u64::from(record.attempts), out);
    number(8, u64::from(record.crashes), out);
    if let Some(token) = record.ended {
        nested(9, out, |out| write_token(token, out));
    }
    number(10, record.created_at, out);
    number(11, record.updated_at, out);
    for (tag, at) in [(12, record.started_at), (13, record.scheduled_at), (14, record.expires_at)] {
        if let Some(at) = at {
            present(tag, at, out);
        }
    }
    number(15, record.retention_ms, out);
    if let Some(error) = &record.error {
        text(16, error, out);
    }
    if let Some(result) = &record.result {
        message::encode(17, &PayloadMessage::from(result), out);
    }
    for attempt in &record.history {
        nested(18, out, |out| write_attempt(attempt, out));
    }
    if let Some(key) = &record.key {
        text(19, key.as_str(), out);
    }
    if let Some(hold) = &record.unique {
        message::encode(21, &HoldMessage::from(&**hold), out);
    }
    if let Some(checkpoint) = &record.checkpoint {
        message::encode(22, &CheckpointMessage::from(&**checkpoint), out);
    }
    number(23, u64::from(record.awaited), out);
    number(24, u64::from(record.member), out);
    if record.ready_at != record.created_at {
        present(25, record.ready_at, out);
    }
    if let Some(ahead) = record.ahead {
        present(26, zigzag(ahead), out);
    }
}

fn write_state(state: &State, out: &mut Vec<u8>) {
    number(1, state.name().index() as u64 + 1, out);
    match state {
        State::Pending => {}
        State::Blocked { open } => number(7, u64::from(*open), out),
        State::Scheduled { at }
        | State::Retrying { at }
        | State::Completed { at }
        | State::DeadLetter { at } => number(2, *at, out),
        State::Cancelled { at, reason } => {
            number(2, *at, out);
            number(6, *reason as u64, out);
        }
        State::Running(Lease { token, worker, lease_ms, started_at, .. }) => {
            number(2, *started_at, out);
            nested(3, out, |out| write_token(*token, out));
            text(4, worker.as_str(), out);
            number(5, *lease_ms, out);
        }
    }
}

fn write_token(token: Token, out: &mut Vec<u8>) {
    number(1, token.number, out);
    fixed(2, token.secret, out);
}

fn write_attempt(attempt: &Attempt, out: &mut Vec<u8>) {
    number(1, u64::from(attempt.number), out);
    text(2, attempt.worker.as_str(), out);
    number(3, attempt.started_at, out);
    number(4, attempt.ended_at, out);
    number(5, attempt.outcome as u64, out);
    if let Some(error) = &attempt.error {
        text(6, error, out);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use prost::Message;
    use windlass_core::{
        CancelReason, Checkpoint, Hold, Name, Outcome, Payload, Priority, TaskId, Token, UniqueKey,
    };

    use super::super::{RecordMessage, decode_record};
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn state(number: usize) -> State {
        let long = "w".repeat(128);
        let lease = |worker: &str| Lease {
            token: Token { number: 7, secret: 1 << 60 },
            worker: name(worker),
            lease_ms: 30_000,
            started_at: 9,
            expires_at: 30_009,
        };
        match number % 10 {
            0 => State::Pending,
            1 => State::Blocked { open: 0 },
            2 => State::Blocked { open: 300 },
            3 => State::Scheduled { at: 0 },
            4 => State::Retrying { at: u64::MAX },
            5 => State::Completed { at: 1 },
            6 => State::DeadLetter { at: 2 },
            7 => State::Cancelled { at: 3, reason: CancelReason::ALL[number / 10 % CancelReason::ALL.len()] },
            8 => State::Running(lease("w")),
            _ => State::Running(lease(&long)),
        }
    }

    /// Each bit says whether one of the fields has something in it.
    fn record(bits: usize) -> Record {
        let has = |bit: usize| bits >> bit & 1 == 1;
        let attempt = |number: u32| Attempt {
            number,
            worker: name("worker"),
            started_at: 0,
            ended_at: 5,
            outcome: Outcome::ALL[number as usize % Outcome::ALL.len()],
            error: (number > 1).then(|| "e".repeat(300).into()),
        };
        let some = |bit: usize, number: u64| has(bit).then_some(number);
        Record {
            id: TaskId::new("an-id").unwrap(),
            queue: name("queue"),
            kind: name("kind"),
            seq: 11,
            revision: some(0, 300).unwrap_or(0),
            order: some(1, u64::MAX).unwrap_or(0),
            ready_at: some(2, 77).unwrap_or(1000),
            priority: Priority(if has(3) { 255 } else { 0 }),
            state: state(bits),
            ahead: has(20).then_some(if has(0) { -3_600_000 } else { 0 }),
            attempts: u32::from(has(4)),
            crashes: u32::from(has(5)),
            awaited: has(6),
            member: has(7),
            ended: has(8).then_some(Token { number: 0, secret: 3 }),
            created_at: 1000,
            updated_at: some(9, 2000).unwrap_or(0),
            started_at: some(10, 0),
            scheduled_at: some(11, 5),
            expires_at: some(12, 6),
            retention_ms: some(13, 7).unwrap_or(0),
            key: has(14).then(|| name("key")),
            error: has(15).then(|| "".into()),
            result: has(16).then(|| Payload::Json(Bytes::from("1".repeat(200)))),
            history: (0..if has(17) { 3 } else { 0 }).map(attempt).collect(),
            progress: None,
            unique: has(18).then(|| Box::new(Hold { key: UniqueKey::new("u").unwrap(), until: some(0, 0) })),
            checkpoint: has(19).then(|| Box::new(Checkpoint { bytes: Bytes::from("c"), saved_at: 0 })),
        }
    }

    #[test]
    fn what_is_written_field_by_field_is_the_message() {
        // Every field alone, all but one, and a walk over the rest.
        let single = (0..21).flat_map(|bit| [1 << bit, !(1 << bit) & 0x1f_ffff]);
        for bits in single.chain((0..4000).map(|step| step * 7919 % (1 << 21))) {
            let record = record(bits);
            let written = encode_record(&record, 3);
            let message = RecordMessage::decode(&written[..]).unwrap();
            assert_eq!(message.encode_to_vec(), written, "{record:?}");
            let names = |lane| (lane == 3).then(|| (name("queue"), name("kind")));
            let read = decode_record(11, Bytes::from(written), names).unwrap();
            assert_eq!(read, record);
        }
    }
}
