//! Finished tasks are forgotten when their retention ends; dead letters also when there are too many of them.

use std::time::Duration;

use tokio::sync::Notify;
use windlass_core::limits::LOOP_STEP_MAX;
use windlass_core::{StateName, Transition, transition};
use windlass_store::{Committed, List};

use super::Next;
use crate::broker::Broker;
use crate::change;
use crate::error::Error;

/// How often the dead letters are counted, where there is a most.
const COUNT_EVERY: Duration = Duration::from_secs(5);
/// The part of the most by which it may be exceeded: finding the oldest takes a walk past all that stay, so it is done for
/// many at once.
const SLACK: u64 = 10;

pub(super) fn wakeup(broker: &Broker) -> &Notify {
    &broker.inner.store.signals().prunable
}

pub(super) async fn step(broker: &Broker) -> Result<Next, Error> {
    let old = broker.inner.store.prunable(LOOP_STEP_MAX).await?;
    let now = broker.now();
    let changed = broker.change_due(&old.tasks, |task| transition::remove(&task.record, now)).await?;
    let next = Next::after(old.tasks.len(), changed, old.next, now.wall);
    match (broker.inner.settings.dead_letters_max, next) {
        (Some(most), Next::In(sleep)) => {
            trim(broker, most).await?;
            Ok(Next::In(sleep.min(COUNT_EVERY)))
        }
        _ => Ok(next),
    }
}

/// Forgets the dead letters that were submitted first. Brokers on one store may do so at once: what one has forgotten the
/// other does not find.
async fn trim(broker: &Broker, most: u64) -> Result<(), Error> {
    let store = &broker.inner.store;
    let dead = |queue: &windlass_store::QueueCounts| queue.by_state[StateName::DeadLetter.index()];
    let count: u64 = store.depths().await?.iter().map(dead).sum();
    if count <= most.saturating_add(most / SLACK) {
        return Ok(());
    }
    let now = broker.now();
    let (mut passed, mut forgotten, mut before) = (0, 0, None);
    loop {
        let list =
            List { states: vec![StateName::DeadLetter], before, limit: LOOP_STEP_MAX, ..List::default() };
        let page = store.scan(list).await?;
        let stay = most.saturating_sub(passed).min(page.records.len() as u64);
        passed += stay;
        let surplus = page.records.iter().skip(stay as usize);
        let decided = surplus.filter_map(|record| {
            let change = transition::remove(record, now).ok().flatten()?;
            Some(change::transition(record, change))
        });
        let transitions: Vec<Transition> = decided.collect();
        let committed = broker.commit(transitions).await?;
        forgotten += committed.iter().filter(|it| matches!(it, Committed::Done(_))).count();
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    tracing::warn!(
        count,
        most,
        forgotten,
        "there were too many dead letters; those submitted first are forgotten"
    );
    Ok(())
}
