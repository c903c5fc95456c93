//! Decided changes, as the log carries them.

use bytes::Bytes;
use prost::Message;
use windlass_core::{Change, Stamp, Transition};

use super::field::{nested, number, text};
use super::{PayloadMessage, Result, id, name, priority, reason, wrong};

#[derive(Clone, PartialEq, Message)]
pub(in crate::embedded) struct TransitionMessage {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(uint64, tag = "2")]
    seq: u64,
    #[prost(uint64, tag = "3")]
    revision: u64,
    /// Which change, see [`TransitionMessage::new`].
    #[prost(uint32, tag = "4")]
    change: u32,
    #[prost(uint64, tag = "5")]
    at: u64,
    #[prost(uint64, optional, tag = "6")]
    next_at: Option<u64>,
    #[prost(string, tag = "7")]
    error: String,
    #[prost(bool, tag = "8")]
    flag: bool,
    #[prost(message, optional, tag = "9")]
    result: Option<PayloadMessage>,
    #[prost(uint32, tag = "10")]
    reason: u32,
    #[prost(bytes = "bytes", tag = "11")]
    checkpoint: Bytes,
    #[prost(uint32, tag = "12")]
    priority: u32,
    #[prost(string, tag = "13")]
    queue: String,
    #[prost(string, repeated, tag = "14")]
    after: Vec<String>,
    #[prost(uint32, tag = "15")]
    count: u32,
    #[prost(sint64, tag = "16")]
    ahead: i64,
}

const COMPLETED: u32 = 1;

/// Adds a transition as a field of the message around it; nothing for a claim. What most of them are is written from where
/// it is.
pub(in crate::embedded) fn write_transition(tag: u32, transition: &Transition, out: &mut Vec<u8>) {
    let Transition { id, seq, revision, change } = transition;
    if let Change::Completed { at: Stamp { wall, ahead: 0 }, result: None } = change {
        return nested(tag, out, |out| {
            text(1, id.as_str(), out);
            number(2, *seq, out);
            number(3, *revision, out);
            number(4, u64::from(COMPLETED), out);
            number(5, *wall, out);
        });
    }
    if let Some(message) = TransitionMessage::new(transition) {
        prost::encoding::message::encode(tag, &message, out);
    }
}

impl TransitionMessage {
    /// `None` for a claim: those are written as the command that made them.
    pub(in crate::embedded) fn new(transition: &Transition) -> Option<Self> {
        let mut message = Self {
            id: transition.id.as_str().to_owned(),
            seq: transition.seq,
            revision: transition.revision,
            at: transition.change.at(),
            ahead: transition.change.stamp().ahead,
            ..Default::default()
        };
        message.change = match &transition.change {
            Change::Claimed { .. } => return None,
            Change::Completed { result, .. } => {
                message.result = result.as_ref().map(Into::into);
                COMPLETED
            }
            Change::Failed { error, retry_at, .. } => {
                message.error = error.to_string();
                message.next_at = *retry_at;
                2
            }
            Change::LeaseLost { error, dead, .. } => {
                message.error = error.to_string();
                message.flag = *dead;
                3
            }
            Change::Released { until, .. } => {
                message.next_at = *until;
                4
            }
            Change::Cancelled { reason, .. } => {
                message.reason = *reason as u32;
                5
            }
            Change::Promoted { .. } => 6,
            Change::Requeued { after, .. } => {
                message.after = after.iter().map(|id| id.as_str().to_owned()).collect();
                7
            }
            Change::Removed { .. } => 8,
            Change::Reprioritised { priority, .. } => {
                message.priority = u32::from(priority.0);
                9
            }
            Change::Moved { queue, .. } => {
                message.queue = queue.as_str().to_owned();
                10
            }
            Change::Settled { count, .. } => {
                message.count = *count;
                11
            }
            Change::Checkpointed { bytes, .. } => {
                message.checkpoint = bytes.clone();
                12
            }
        };
        Some(message)
    }

    pub(in crate::embedded) fn into_transition(self) -> Result<Transition> {
        let at = Stamp { wall: self.at, ahead: self.ahead };
        let change = match self.change {
            COMPLETED => Change::Completed { at, result: self.result.map(Into::into) },
            2 => Change::Failed { at, error: self.error.into_boxed_str(), retry_at: self.next_at },
            3 => Change::LeaseLost { at, error: self.error.into_boxed_str(), dead: self.flag },
            4 => Change::Released { at, until: self.next_at },
            5 => Change::Cancelled { at, reason: reason(self.reason)? },
            6 => Change::Promoted { at },
            7 => {
                let after = self.after.iter().map(|text| id(text)).collect::<Result<_>>()?;
                Change::Requeued { at, after }
            }
            8 => Change::Removed { at },
            9 => Change::Reprioritised { at, priority: priority(self.priority)? },
            10 => Change::Moved { at, queue: name(&self.queue)? },
            11 => Change::Settled { at, count: self.count },
            12 => Change::Checkpointed { at, bytes: self.checkpoint },
            _ => return Err(wrong("unknown change")),
        };
        Ok(Transition { id: id(&self.id)?, seq: self.seq, revision: self.revision, change })
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::{Payload, TaskId};

    use super::*;

    #[test]
    fn a_completion_written_field_by_field_is_the_message() {
        for (seq, revision, wall, ahead) in [(0, 0, 0, 0), (1, 300, u64::MAX, 0), (1, 300, 7, -3_600_000)] {
            let at = Stamp { wall, ahead };
            for result in [None, Some(Payload::Json(Bytes::from_static(b"1")))] {
                let id = TaskId::new(&"i".repeat(128)).unwrap();
                let change = Change::Completed { at, result };
                let transition = Transition { id, seq, revision, change };
                let mut written = Vec::new();
                write_transition(1, &transition, &mut written);
                let mut message = Vec::new();
                let made = TransitionMessage::new(&transition).unwrap();
                prost::encoding::message::encode(1, &made, &mut message);
                assert_eq!(written, message);
            }
        }
    }
}
