//! Whom a blocked task still waits for.
//!
//! A record only counts them. Those are the tasks it depends on that are marked as waited for and have not told it their end. Of one
//! that has not ended that is certain. One that was cancelled has not told, for else the task would have been cancelled with it. Of
//! several that completed, some may have told and others not; which of them it is makes no difference to what follows.

use std::cmp::Reverse;

use windlass_core::{Ended, Record, State, Task};

use super::numbers::Numbers;
use super::{Error, task_name};
use crate::store::Store;

/// Their numbers are those of the destination.
pub(super) async fn waits_for(
    store: &dyn Store,
    numbers: &Numbers<'_>,
    task: &Task,
) -> Result<Vec<u64>, Error> {
    let State::Blocked { open } = task.record.state else { return Ok(Vec::new()) };
    let parents = store.peek_all(task.body.dependencies()).await.map_err(Error::From)?;
    let mut parents: Vec<Record> = parents.into_iter().flatten().filter(|parent| parent.awaited).collect();
    parents.sort_by_key(|parent| (certainty(parent, task.record.seq), Reverse(parent.seq)));
    parents.dedup_by_key(|parent| parent.seq);
    if parents.len() < open as usize {
        let (what, found) = (task_name(&task.record.id), parents.len());
        return Err(Error::Damaged(format!("{what} waits for {open} tasks, of which {found} are there")));
    }
    parents.truncate(open as usize);
    let mut waits_for = Vec::with_capacity(parents.len());
    for parent in &parents {
        waits_for.push(numbers.of(parent).await?);
    }
    Ok(waits_for)
}

/// How likely it is that a task still waits for another, the likeliest first. An id may have been given to a younger task after the one
/// that was waited for had told its end and was forgotten.
fn certainty(parent: &Record, child: u64) -> u8 {
    match Ended::of(parent) {
        None if parent.seq < child => 0,
        Some(Ended::Cancelled) => 1,
        Some(Ended::Completed) => 2,
        None => 3,
    }
}
