//! Unique keys: at most one live task has a key.
//!
//! A key belongs to the whole store, not to a queue or a type. The task that was added with it holds it until it ends in
//! whichever way, or until the time that its submit asked for is over. A store keeps for every key the task that took it
//! last; what follows from meeting that task is decided here, so a task that ended or whose time is over never stands in
//! the way, even where it is still written down.

use std::fmt;
use std::sync::Arc;

use crate::limits::UNIQUE_KEY_BYTES_MAX;
use crate::state::{CancelReason, State};
use crate::task::Record;
use crate::time::Stamp;
use crate::transition::{Change, tick};

/// Any text of 1 to [`UNIQUE_KEY_BYTES_MAX`] bytes. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UniqueKey(Arc<str>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to {UNIQUE_KEY_BYTES_MAX} bytes long")]
pub struct InvalidKey;

impl UniqueKey {
    pub fn new(text: &str) -> Result<Self, InvalidKey> {
        if (1..=UNIQUE_KEY_BYTES_MAX).contains(&text.len()) {
            Ok(Self(Arc::from(text)))
        } else {
            Err(InvalidKey)
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for UniqueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a submit asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unique {
    pub key: UniqueKey,
    /// The key is free again this long after the submit, even if the task still lives.
    pub for_ms: Option<u64>,
    pub on_conflict: OnConflict,
}

/// What becomes of a submit whose key is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// The holder is the answer.
    #[default]
    Return,
    Reject,
    /// The holder is cancelled, and the new task takes its place.
    Replace,
}

impl OnConflict {
    pub const ALL: [OnConflict; 3] = [OnConflict::Return, OnConflict::Reject, OnConflict::Replace];

    pub fn as_str(self) -> &'static str {
        match self {
            OnConflict::Return => "return",
            OnConflict::Reject => "reject",
            OnConflict::Replace => "replace",
        }
    }

    pub fn parse(word: &str) -> Option<OnConflict> {
        OnConflict::ALL.into_iter().find(|rule| rule.as_str() == word)
    }
}

/// A key as the record of its task has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub key: UniqueKey,
    /// When the key is free again, on elapsed time. `None` for as long as the task lives.
    pub until: Option<u64>,
}

impl Hold {
    pub fn new(unique: &Unique, submitted: impl Into<Stamp>) -> Self {
        let submitted = submitted.into();
        let until = unique.for_ms.map(|ms| submitted.elapsed().saturating_add(ms));
        Self { key: unique.key.clone(), until }
    }

    /// Whether the time for which the key was asked is over.
    pub fn is_over(&self, now: impl Into<Stamp>) -> bool {
        let now = now.into();
        self.until.is_some_and(|until| until <= now.elapsed())
    }
}

/// What becomes of a submit with a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Contest {
    /// It is added and takes the key.
    Free,
    /// The holder is the answer.
    Return,
    /// It is refused.
    Reject,
    /// It is added and takes the key, and the holder goes through this change in the same commit.
    Evict(Change),
}

/// `holder` is the task that took the key last, whatever became of it since.
pub fn contend(rule: OnConflict, holder: Option<&Record>, now: impl Into<Stamp>) -> Contest {
    let now = now.into();
    let Some(holder) = holder.filter(|holder| holder.holds_key(now)) else { return Contest::Free };
    // A task that expired is dead, only not noticed yet.
    if let Ok(Some(change @ Change::Cancelled { .. })) = tick(holder, now) {
        return Contest::Evict(change);
    }
    match rule {
        OnConflict::Return => Contest::Return,
        OnConflict::Reject => Contest::Reject,
        OnConflict::Replace => Contest::Evict(Change::Cancelled { at: now, reason: CancelReason::Replaced }),
    }
}

impl Record {
    /// Whether nobody else may have this task's key.
    pub fn holds_key(&self, now: impl Into<Stamp>) -> bool {
        let now = now.into();
        !self.state.is_terminal() && self.unique.as_ref().is_some_and(|hold| !hold.is_over(now))
    }

    /// Whether the task waits in its queue, and so counts towards the depth of it.
    pub fn waits(&self) -> bool {
        !self.state.is_terminal() && !matches!(self.state, State::Running(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Body, Lease, Name, NewTask, Payload, Priority, TaskId, Token, retry};

    const NOW: u64 = 10_000;

    fn holder(state: State, for_ms: Option<u64>, expires_at: Option<u64>) -> Record {
        let new = NewTask {
            id: TaskId::new("t").unwrap(),
            queue: Name::new("q").unwrap(),
            kind: Name::new("k").unwrap(),
            priority: Priority::default(),
            created_at: 0,
            scheduled_at: None,
            expires_at,
            retention_ms: 1000,
            counted: crate::task::Counted::default(),
            key: None,
            unique: Some(Box::new(Unique {
                key: UniqueKey::new("k").unwrap(),
                for_ms,
                on_conflict: OnConflict::Return,
            })),
            body: Body {
                payload: Payload::Json(bytes::Bytes::from_static(b"1")),
                metadata: Vec::new(),
                timeout_ms: 1000,
                max_retries: 0,
                max_crashes: 1,
                retry: retry::Policy::default(),
                fingerprint: None,
                links: None,
            },
        };
        Record { state, ..Record::submitted(&new, 1) }
    }

    fn running() -> State {
        State::Running(Lease {
            token: Token { number: 1, secret: 2 },
            worker: Name::new("w").unwrap(),
            lease_ms: 1000,
            started_at: 0,
            expires_at: 1000,
        })
    }

    #[test]
    fn keys_have_a_length() {
        assert!(UniqueKey::new("user 7 / ünïcode").is_ok());
        assert_eq!(UniqueKey::new(""), Err(InvalidKey));
        assert!(UniqueKey::new(&"k".repeat(UNIQUE_KEY_BYTES_MAX)).is_ok());
        assert_eq!(UniqueKey::new(&"k".repeat(UNIQUE_KEY_BYTES_MAX + 1)), Err(InvalidKey));
    }

    #[test]
    fn every_live_state_holds_and_every_end_frees() {
        let at = NOW;
        let live = [
            State::Scheduled { at },
            State::Blocked { open: 1 },
            State::Pending,
            running(),
            State::Retrying { at },
        ];
        for state in live {
            let record = holder(state, None, None);
            assert_eq!(contend(OnConflict::Return, Some(&record), NOW), Contest::Return);
            assert_eq!(contend(OnConflict::Reject, Some(&record), NOW), Contest::Reject);
            let replaced = Change::Cancelled { at: NOW.into(), reason: CancelReason::Replaced };
            assert_eq!(contend(OnConflict::Replace, Some(&record), NOW), Contest::Evict(replaced));
        }
        let reason = CancelReason::Asked;
        for state in [State::Completed { at }, State::DeadLetter { at }, State::Cancelled { at, reason }] {
            let record = holder(state, None, None);
            for rule in OnConflict::ALL {
                assert_eq!(contend(rule, Some(&record), NOW), Contest::Free);
            }
        }
        assert_eq!(contend(OnConflict::Reject, None, NOW), Contest::Free);
    }

    #[test]
    fn a_key_is_held_for_its_time() {
        let record = holder(running(), Some(NOW), None);
        assert_eq!(contend(OnConflict::Reject, Some(&record), NOW - 1), Contest::Reject);
        assert_eq!(contend(OnConflict::Reject, Some(&record), NOW), Contest::Free);
    }

    #[test]
    fn what_expired_gives_way_whatever_the_rule() {
        let record = holder(State::Pending, None, Some(NOW));
        assert_eq!(contend(OnConflict::Reject, Some(&record), NOW - 1), Contest::Reject);
        let expired = Change::Cancelled { at: NOW.into(), reason: CancelReason::Expired };
        for rule in OnConflict::ALL {
            assert_eq!(contend(rule, Some(&record), NOW), Contest::Evict(expired.clone()));
        }
        let started = holder(running(), None, Some(NOW));
        assert_eq!(contend(OnConflict::Reject, Some(&started), NOW), Contest::Reject, "it did start in time");
    }
}
