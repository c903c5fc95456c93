//! The states of a task, each with the data that only it has.

use crate::ids::{Name, Token};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Waits for its time.
    Scheduled {
        at: u64,
    },
    /// Waits for its dependencies, of which this many have not completed.
    Blocked {
        open: u32,
    },
    /// Ready to be claimed.
    Pending,
    Running(Lease),
    /// Failed, and waits for its backoff.
    Retrying {
        at: u64,
    },
    Completed {
        at: u64,
    },
    DeadLetter {
        at: u64,
    },
    Cancelled {
        at: u64,
        reason: CancelReason,
    },
}

/// Who holds a running task. State and lease are one value, so they cannot disagree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub token: Token,
    pub worker: Name,
    pub lease_ms: u64,
    pub started_at: u64,
    /// When it ends, for people to read. What decides is the store's deadline on the monotonic clock; neither is
    /// durable, so a restart gives every lease a fresh window.
    pub expires_at: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelReason {
    Asked,
    /// `expires_at` passed before it started.
    Expired,
    /// A submit with the same unique key took its place.
    Replaced,
    /// A task that it depends on was cancelled.
    Dependency,
    /// It was to be forgotten while others wait for it: it stays until they have been told.
    Forgotten,
}

impl CancelReason {
    pub const ALL: [CancelReason; 5] = [
        CancelReason::Asked,
        CancelReason::Expired,
        CancelReason::Replaced,
        CancelReason::Dependency,
        CancelReason::Forgotten,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            CancelReason::Asked => "asked",
            CancelReason::Expired => "expired",
            CancelReason::Replaced => "replaced",
            CancelReason::Dependency => "dependency",
            CancelReason::Forgotten => "forgotten",
        }
    }
}

/// A state without its data: for filters, counters and indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum StateName {
    Scheduled = 0,
    Blocked = 1,
    Pending = 2,
    Running = 3,
    Retrying = 4,
    Completed = 5,
    DeadLetter = 6,
    Cancelled = 7,
}

impl StateName {
    pub const ALL: [StateName; 8] = [
        StateName::Scheduled,
        StateName::Blocked,
        StateName::Pending,
        StateName::Running,
        StateName::Retrying,
        StateName::Completed,
        StateName::DeadLetter,
        StateName::Cancelled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            StateName::Scheduled => "scheduled",
            StateName::Blocked => "blocked",
            StateName::Pending => "pending",
            StateName::Running => "running",
            StateName::Retrying => "retrying",
            StateName::Completed => "completed",
            StateName::DeadLetter => "dead_letter",
            StateName::Cancelled => "cancelled",
        }
    }

    pub fn is_terminal(self) -> bool {
        matches!(self, StateName::Completed | StateName::DeadLetter | StateName::Cancelled)
    }

    pub fn index(self) -> usize {
        self as usize
    }

    pub fn from_index(index: usize) -> Option<StateName> {
        StateName::ALL.get(index).copied()
    }

    /// The states a filter word stands for: our own names and those that other queues use. `None` if unknown.
    pub fn parse_filter(word: &str) -> Option<&'static [StateName]> {
        Some(match word {
            "scheduled" => &[StateName::Scheduled],
            "blocked" => &[StateName::Blocked],
            "pending" | "queued" => &[StateName::Pending],
            "running" | "active" | "in_progress" => &[StateName::Running],
            "retrying" | "retry" => &[StateName::Retrying],
            "completed" | "done" => &[StateName::Completed],
            "dead_letter" | "archived" | "dead" => &[StateName::DeadLetter],
            "cancelled" => &[StateName::Cancelled],
            "failed" => &[StateName::Retrying, StateName::DeadLetter],
            _ => return None,
        })
    }
}

impl State {
    pub fn name(&self) -> StateName {
        match self {
            State::Scheduled { .. } => StateName::Scheduled,
            State::Blocked { .. } => StateName::Blocked,
            State::Pending => StateName::Pending,
            State::Running(_) => StateName::Running,
            State::Retrying { .. } => StateName::Retrying,
            State::Completed { .. } => StateName::Completed,
            State::DeadLetter { .. } => StateName::DeadLetter,
            State::Cancelled { .. } => StateName::Cancelled,
        }
    }

    pub fn is_terminal(&self) -> bool {
        self.name().is_terminal()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_its_own_filter_word_and_index() {
        for (index, name) in StateName::ALL.into_iter().enumerate() {
            assert_eq!(StateName::parse_filter(name.as_str()), Some(&[name][..]));
            assert_eq!(name.index(), index);
            assert_eq!(StateName::from_index(index), Some(name));
        }
        assert_eq!(StateName::parse_filter("Pending"), None);
        assert_eq!(StateName::from_index(8), None);
    }
}
