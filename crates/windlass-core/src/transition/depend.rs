//! Decisions about a task that waits for others.
//!
//! A task counts the dependencies that have not completed. Each of them is told once, when it ends: the store keeps who waits
//! for whom and takes a pair away in the commit that counts it, so that no end counts twice and none is lost. A task that
//! completed counts down, a cancelled one cancels; a dead letter decides nothing, because it may be retried and complete.

use std::collections::HashSet;

use crate::ids::TaskId;
use crate::state::{CancelReason, State};
use crate::task::Record;
use crate::time::Stamp;
use crate::transition::{Change, Refusal};

/// How a task ended that others wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Completed,
    Cancelled,
}

impl Ended {
    /// `None` while it says nothing to those who wait for it.
    pub fn of(record: &Record) -> Option<Ended> {
        match record.state {
            State::Completed { .. } => Some(Ended::Completed),
            State::Cancelled { .. } => Some(Ended::Cancelled),
            _ => None,
        }
    }
}

/// What the end of these tasks means for one that waits for them; `None` if it waits no more.
pub fn settle(record: &Record, ends: &[Ended], now: impl Into<Stamp>) -> Option<Change> {
    let now = now.into();
    if !matches!(record.state, State::Blocked { .. }) || ends.is_empty() {
        return None;
    }
    if ends.contains(&Ended::Cancelled) {
        return Some(Change::Cancelled { at: now, reason: CancelReason::Dependency });
    }
    Some(Change::Settled { at: now, count: ends.len() as u32 })
}

/// The dependencies of a task as they are now; those that are forgotten are left out.
pub type Parents<'a> = &'a [(TaskId, &'a Record)];

/// A person asks for a finished task to run again. If it never ran it waits again for what it waited for.
pub fn retry_behind(
    record: &Record,
    parents: Parents<'_>,
    now: impl Into<Stamp>,
) -> Result<Option<Change>, Refusal> {
    let now = now.into();
    let change = super::retry(record, now)?;
    // Every dependency of a dead letter completed before it ran.
    if !matches!(record.state, State::Cancelled { .. }) {
        return Ok(change);
    }
    if parents.iter().any(|(_, parent)| Ended::of(parent) == Some(Ended::Cancelled)) {
        return Err(Refusal::DependencyCancelled);
    }
    // One that completed and has yet to tell some will tell this one too: it may still stand on the list.
    let open = |parent: &Record| Ended::of(parent) != Some(Ended::Completed) || parent.must_tell();
    let mut named = HashSet::new();
    let after = parents.iter().filter(|(_, parent)| open(parent)).map(|(id, _)| id);
    let after = after.filter(|id| named.insert(*id)).cloned().collect();
    Ok(change.map(|_| Change::Requeued { at: now, after }))
}

/// How many tasks these are: one that is named twice tells of its end once.
pub(super) fn distinct(ids: &[TaskId]) -> u32 {
    ids.iter().collect::<HashSet<_>>().len() as u32
}

#[cfg(test)]
mod tests {
    use super::super::tests::{new_task, token};
    use super::*;
    use crate::state::StateName;
    use crate::transition::{cancel, claim, complete, remove};

    fn blocked(open: u32, scheduled_at: Option<u64>) -> Record {
        let mut new = new_task();
        new.scheduled_at = scheduled_at;
        let mut record = Record::submitted(&new, 1);
        record.wait_for(open);
        record
    }

    fn after(mut record: Record, change: Change) -> Record {
        record.evolve(&change, 50);
        record
    }

    fn ended(how: Ended) -> Record {
        let record = Record::submitted(&new_task(), 1);
        match how {
            Ended::Cancelled => after(record.clone(), cancel(&record, 5).unwrap().unwrap()),
            Ended::Completed => {
                let input = super::super::Claim {
                    token: token(1),
                    worker: crate::Name::new("w").unwrap(),
                    lease_ms: 1,
                };
                let record = after(record.clone(), claim(&record, input, 4).unwrap());
                after(record.clone(), complete(&record, token(1), None, 5).unwrap().unwrap())
            }
        }
    }

    #[test]
    fn a_task_starts_when_the_last_dependency_completed() {
        let done = |count| vec![Ended::Completed; count];
        let record = blocked(3, None);
        let record = after(record.clone(), settle(&record, &done(2), 10).unwrap());
        assert_eq!(record.state, State::Blocked { open: 1 });
        let record = after(record.clone(), settle(&record, &done(1), 11).unwrap());
        assert_eq!((record.state.clone(), record.order, record.updated_at), (State::Pending, 50, 11));
        assert_eq!(settle(&record, &done(1), 12), None, "it waits no more");
        let early = blocked(1, Some(100));
        let early = after(early.clone(), settle(&early, &done(1), 10).unwrap());
        assert_eq!(early.state, State::Scheduled { at: 100 }, "its time has not come");
        let late = blocked(1, Some(100));
        let late = after(late.clone(), settle(&late, &done(1), 100).unwrap());
        assert_eq!(late.state, State::Pending);
    }

    #[test]
    fn a_cancelled_dependency_cancels() {
        let record = blocked(3, None);
        let change = settle(&record, &[Ended::Completed, Ended::Cancelled], 10).unwrap();
        let state = after(record, change).state;
        assert_eq!(state, State::Cancelled { at: 10, reason: CancelReason::Dependency });
    }

    #[test]
    fn a_dead_letter_says_nothing() {
        let mut record = Record::submitted(&new_task(), 1);
        record.state = State::DeadLetter { at: 1 };
        assert_eq!(Ended::of(&record), None);
    }

    #[test]
    fn what_others_wait_for_is_not_forgotten_before_they_know() {
        let mut pending = Record::submitted(&new_task(), 1);
        pending.awaited = true;
        let gone = after(pending.clone(), remove(&pending, 7).unwrap().unwrap());
        assert_eq!(gone.state, State::Cancelled { at: 7, reason: CancelReason::Forgotten });
        assert_eq!((gone.must_tell(), gone.prune_at()), (true, None));
        assert_eq!(remove(&gone, 8), Err(Refusal::WrongState(StateName::Cancelled)));
        let told = Record { awaited: false, ..gone };
        assert_eq!(told.prune_at(), Some(7), "and then at once");
        assert_eq!(remove(&told, 8), Ok(Some(Change::Removed { at: 8.into() })));
        let mut dead = pending;
        dead.state = State::DeadLetter { at: 1 };
        assert!(dead.prune_at().is_some(), "a dead letter is kept for its time only");
    }

    #[test]
    fn a_retry_waits_again_for_what_is_open() {
        let id = |text: &str| TaskId::new(text).unwrap();
        let child = blocked(3, None);
        let child = after(child.clone(), settle(&child, &[Ended::Cancelled], 9).unwrap());
        let done = ended(Ended::Completed);
        let telling = Record { awaited: true, ..done.clone() };
        let live = Record::submitted(&new_task(), 1);
        let parents = [(id("done"), &done), (id("telling"), &telling), (id("live"), &live)];
        let change = retry_behind(&child, &parents, 20).unwrap().unwrap();
        let names: Box<[TaskId]> = [id("telling"), id("live")].into();
        assert_eq!(change, Change::Requeued { at: 20.into(), after: names });
        assert_eq!(after(child.clone(), change).state, State::Blocked { open: 2 });
        let twice = retry_behind(&child, &[parents[2].clone(), parents[2].clone()], 20).unwrap().unwrap();
        assert_eq!(twice, Change::Requeued { at: 20.into(), after: [id("live")].into() });
        let twice = Change::Requeued { at: 20.into(), after: [id("live"), id("live")].into() };
        assert_eq!(after(child.clone(), twice).state, State::Blocked { open: 1 });
        let free = retry_behind(&child, &parents[..1], 20).unwrap().unwrap();
        assert_eq!(after(child.clone(), free).state, State::Pending);
        let cancelled = ended(Ended::Cancelled);
        let refused = retry_behind(&child, &[(id("no"), &cancelled)], 20);
        assert_eq!(refused, Err(Refusal::DependencyCancelled));
    }
}
