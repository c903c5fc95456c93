//! What is saved beside the tasks: counters, queues, lanes.

use prost::Message;

use crate::embedded::flow;
use crate::embedded::operations::Register;
use crate::embedded::schedules::Book;
use crate::store::Ledger;

#[derive(Debug)]
pub(in crate::embedded) struct Saved {
    pub(in crate::embedded) schedules: Book,
    pub(in crate::embedded) flow: flow::Book,
    pub(in crate::embedded) operations: Register,
    pub(in crate::embedded) state: MetaMessage,
    /// By number.
    pub(in crate::embedded) queues: Vec<(u32, QueueMessage)>,
    pub(in crate::embedded) lanes: Vec<(u32, LaneMessage)>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::embedded) struct MetaMessage {
    /// The last log entry that the tables contain.
    #[prost(uint64, tag = "1")]
    pub(in crate::embedded) applied: u64,
    #[prost(uint64, tag = "2")]
    pub(in crate::embedded) next_number: u64,
    #[prost(uint64, tag = "3")]
    pub(in crate::embedded) next_claim: u64,
    /// The fields of [`Ledger`] in order.
    #[prost(uint64, repeated, tag = "4")]
    ledger: Vec<u64>,
}

impl MetaMessage {
    pub(in crate::embedded) fn first() -> Self {
        Self { applied: 0, next_number: 1, next_claim: 1, ledger: Vec::new() }
    }

    pub(in crate::embedded) fn new(applied: u64, next_number: u64, next_claim: u64, ledger: &Ledger) -> Self {
        let Ledger { submitted, completed, failed, crashed, dead_lettered, cancelled, expired, removed } =
            *ledger;
        let ledger = vec![submitted, completed, failed, crashed, dead_lettered, cancelled, expired, removed];
        Self { applied, next_number, next_claim, ledger }
    }

    pub(in crate::embedded) fn ledger(&self) -> Ledger {
        let at = |i: usize| self.ledger.get(i).copied().unwrap_or(0);
        Ledger {
            submitted: at(0),
            completed: at(1),
            failed: at(2),
            crashed: at(3),
            dead_lettered: at(4),
            cancelled: at(5),
            expired: at(6),
            removed: at(7),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::embedded) struct QueueMessage {
    #[prost(string, tag = "1")]
    pub(in crate::embedded) name: String,
    #[prost(bool, tag = "2")]
    pub(in crate::embedded) paused: bool,
    #[prost(uint64, repeated, tag = "3")]
    pub(in crate::embedded) by_state: Vec<u64>,
    #[prost(uint64, repeated, tag = "4")]
    pub(in crate::embedded) pending_by_class: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::embedded) struct LaneMessage {
    #[prost(uint32, tag = "1")]
    pub(in crate::embedded) queue: u32,
    #[prost(string, tag = "2")]
    pub(in crate::embedded) kind: String,
    /// How many tasks it has, finished ones too. Absent in tables of earlier versions.
    #[prost(uint64, optional, tag = "3")]
    pub(in crate::embedded) tasks: Option<u64>,
}
