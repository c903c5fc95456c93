//! What those who wait are told, in the log.

use prost::Message;
use windlass_core::{Change, Ended, Stamp};

use super::codec::{self, Undecodable};
use crate::store::Settle;

#[derive(Clone, PartialEq, Message)]
pub(super) struct SettleEntry {
    #[prost(message, repeated, tag = "1")]
    settles: Vec<SettleMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct SettleMessage {
    #[prost(uint64, tag = "1")]
    child: u64,
    #[prost(uint64, optional, tag = "2")]
    seen: Option<u64>,
    #[prost(uint64, repeated, tag = "3")]
    completed: Vec<u64>,
    #[prost(uint64, repeated, tag = "4")]
    cancelled: Vec<u64>,
    /// Counted down by this many…
    #[prost(uint32, optional, tag = "5")]
    count: Option<u32>,
    /// …or cancelled, or neither.
    #[prost(uint32, optional, tag = "6")]
    reason: Option<u32>,
    #[prost(uint64, tag = "7")]
    at: u64,
    #[prost(sint64, tag = "8")]
    ahead: i64,
}

impl SettleEntry {
    pub(super) fn new(settles: &[Settle]) -> Self {
        Self { settles: settles.iter().map(message).collect() }
    }

    pub(super) fn into_settles(self) -> Result<Vec<Settle>, Undecodable> {
        self.settles.into_iter().map(settle).collect()
    }
}

fn message(settle: &Settle) -> SettleMessage {
    let of = |wanted: Ended| {
        let some = settle.parents.iter().filter(move |(_, ended)| *ended == wanted);
        some.map(|(parent, _)| *parent).collect()
    };
    let mut message = SettleMessage {
        child: settle.child,
        seen: settle.seen,
        completed: of(Ended::Completed),
        cancelled: of(Ended::Cancelled),
        at: settle.change.as_ref().map_or(0, Change::at),
        ahead: settle.change.as_ref().map_or(0, |change| change.stamp().ahead),
        ..Default::default()
    };
    match &settle.change {
        Some(Change::Settled { count, .. }) => message.count = Some(*count),
        Some(Change::Cancelled { reason, .. }) => message.reason = Some(*reason as u32),
        _ => {}
    }
    message
}

fn settle(message: SettleMessage) -> Result<Settle, Undecodable> {
    let at = Stamp { wall: message.at, ahead: message.ahead };
    let change = match (message.count, message.reason) {
        (Some(count), _) => Some(Change::Settled { at, count }),
        (None, Some(reason)) => Some(Change::Cancelled { at, reason: codec::reason(reason)? }),
        (None, None) => None,
    };
    let completed = message.completed.into_iter().map(|parent| (parent, Ended::Completed));
    let cancelled = message.cancelled.into_iter().map(|parent| (parent, Ended::Cancelled));
    let parents = completed.chain(cancelled).collect();
    Ok(Settle { child: message.child, seen: message.seen, parents, change })
}
