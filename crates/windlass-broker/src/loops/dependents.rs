//! Tasks that wait for others learn of their ends.
//!
//! The store keeps who waits for whom and which ends have yet to be told. A step takes some pairs of both, puts together
//! what concerns the same task, and has all of it committed at once, each task under its own condition. However large a
//! fan-out or fan-in is, no commit is larger than a step, and whoever ends a task never waits for those who depend on it.

use std::collections::BTreeMap;
use std::time::Instant;

use tokio::sync::Notify;
use windlass_core::limits::LOOP_STEP_MAX;
use windlass_core::{Ended, Record, Stamp, transition};
use windlass_store::{Ending, Settle, Settled};

use super::{Next, SLEEP_MAX, SLEEP_STUCK};
use crate::broker::Broker;
use crate::change::Happened;
use crate::error::Error;

pub(super) fn wakeup(broker: &Broker) -> &Notify {
    &broker.inner.store.signals().dependents
}

pub(super) async fn step(broker: &Broker) -> Result<Next, Error> {
    let endings = broker.inner.store.endings(LOOP_STEP_MAX).await?;
    if endings.is_empty() {
        return Ok(Next::In(SLEEP_MAX));
    }
    let settles = decide(endings, broker.now().stamp());
    let happened: Vec<Option<Happened>> =
        settles.iter().map(|settle| settle.change.as_ref().map(Happened::of)).collect();
    let began = Instant::now();
    let settled = broker.inner.store.settle(settles).await;
    let now = broker.now();
    let settled = broker.progressed(settled, now)?;
    let changes = happened.into_iter().zip(&settled).filter_map(|pair| match pair {
        (Some(what), Settled::Changed(after)) => Some((what, &**after)),
        _ => None,
    });
    broker.happened(changes, Some(began.elapsed()), now);
    let done = settled.iter().filter(|outcome| **outcome != Settled::Conflict).count();
    // What changed under a decision is decided anew, and there may be more to tell.
    Ok(if done > 0 { Next::Now } else { Next::In(SLEEP_STUCK) })
}

/// One decision for each task that waits.
fn decide(endings: Vec<Ending>, now: Stamp) -> Vec<Settle> {
    type Ends = (Option<Record>, Vec<(u64, Ended)>);
    let mut children: BTreeMap<u64, Ends> = BTreeMap::new();
    for Ending { parent, ended, children: waiting } in endings {
        for child in waiting {
            let (_, ends) = children.entry(child.seq).or_insert_with(|| (child.record, Vec::new()));
            ends.push((parent, ended));
        }
    }
    let settle = |(child, (record, parents)): (u64, Ends)| {
        let ends: Vec<Ended> = parents.iter().map(|(_, ended)| *ended).collect();
        let change = record.as_ref().and_then(|record| transition::settle(record, &ends, now));
        Settle { child, seen: record.map(|record| record.revision), parents, change }
    };
    children.into_iter().map(settle).collect()
}
