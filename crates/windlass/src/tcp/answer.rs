//! Answers as frames: ACK for what was done, NACK with the problem for what was refused.

use serde::Serialize;
use windlass_broker::Look;
use windlass_core::limits::FRAME_ANSWERS_BYTES_MAX;
use windlass_proto::rest::Shown;
use windlass_proto::tcp::{self, Kind, TaskAnswer};

use super::job::Done;
use crate::api::problem::Refused;

/// ACK with `{}`.
const DONE: [u8; 7] = [0, 0, 0, 3, Kind::Ack as u8, b'{', b'}'];

/// What answers to neighbours may differ by.
const ROOM_BETWEEN: usize = 16;

/// Adds the frames of a job, one for each of its requests.
pub(super) fn write(out: &mut Vec<u8>, done: Done) {
    match done {
        Done::Submitted(outcomes, _) => submitted(out, outcomes.looks()),
        Done::Finished(outcomes) => outcomes.into_iter().for_each(|outcome| match outcome {
            Ok(()) => out.extend_from_slice(&DONE),
            Err(error) => refuse(out, error.into()),
        }),
        // Usually nothing else waits, and the frame is sent from where it was written.
        Done::Written(frame, _) if out.is_empty() => *out = frame,
        Done::Written(frame, _) => out.extend_from_slice(&frame),
        Done::Refused(refused, requests) => refuse_all(out, refused, requests),
    }
}

/// Mostly they are as long as the first, for which there is room: growing step by step would copy them again and again.
pub(super) fn submitted<'a>(out: &mut Vec<u8>, mut outcomes: impl ExactSizeIterator<Item = Look<'a>>) {
    let one = |out: &mut Vec<u8>, outcome: Look<'_>| match outcome {
        Ok((record, body)) => accept(out, |out| TaskAnswer::write(Shown::of(record, body), out)),
        Err(error) => refuse(out, error.into()),
    };
    let start = out.len();
    if let Some(first) = outcomes.next() {
        one(out, first);
    }
    let room = (out.len() - start + ROOM_BETWEEN) * outcomes.len();
    out.reserve(room.min(FRAME_ANSWERS_BYTES_MAX));
    outcomes.for_each(|outcome| one(out, outcome));
}

/// The same for each of so many requests.
pub(super) fn refuse_all(out: &mut Vec<u8>, refused: Refused, requests: usize) {
    let start = out.len();
    refuse(out, refused);
    let end = out.len();
    (1..requests).for_each(|_| out.extend_from_within(start..end));
}

/// A frame of its own, about `room` long.
pub(super) fn frame(body: &impl Serialize, room: usize) -> Result<Vec<u8>, Refused> {
    frame_with(room, |out| serde_json::to_writer(out, body))
}

pub(super) fn frame_with(
    room: usize,
    body: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()>,
) -> Result<Vec<u8>, Refused> {
    let mut out = Vec::with_capacity(room + tcp::HEAD_BYTES);
    tcp::write_with(&mut out, Kind::Ack, body).map_err(Refused::unwritable)?;
    Ok(out)
}

fn accept(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()>) {
    if let Err(error) = tcp::write_with(out, Kind::Ack, body) {
        refuse(out, Refused::unwritable(error));
    }
}

pub(super) fn refuse(out: &mut Vec<u8>, refused: Refused) {
    let problem = refused.into_problem();
    // 503 is the answer to overload: a log line for each would add to it.
    if problem.status >= 500 && problem.status != 503 {
        tracing::warn!(code = problem.code, detail = problem.detail, "refused");
    }
    tcp::write(out, Kind::Nack, &problem).expect("a problem is plain text and becomes JSON");
}
