//! Schedules fire when their slots come.
//!
//! The first step looks at every schedule, whatever its `wake_at` says: slots may wait for fires that ended while nobody
//! was there, and a new version may know other time zones. Later steps look at what is due, and at schedules whose
//! queued slot was let go.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use windlass_core::Name;
use windlass_core::limits::{LOOP_STEP_MAX, PAGE_ROWS_MAX};
use windlass_core::schedule::Schedule;
use windlass_store::ListSchedules;

use super::{Next, SLEEP_STUCK};
use crate::broker::Broker;
use crate::error::Error;
use crate::schedules::is_refusal;

/// Schedules that are fired side by side: they share the store's syncs.
const ABREAST: usize = 64;
/// The sleep after a look that found schedules which cannot fire.
const SLEEP_REFUSED: Duration = Duration::from_secs(1);
/// How long the fires that a slot waits for go without a look, in case the end of one was not told.
const LOOK: Duration = Duration::from_secs(2);

/// Also rung by the broker itself when a fire ends that a slot waits for.
pub(super) fn wakeup(broker: &Broker) -> &Notify {
    &broker.inner.store.signals().schedules
}

pub(super) async fn step(broker: &Broker) -> Result<Next, Error> {
    broker.watch_clock().await?;
    if !broker.inner.cron_began.load(Ordering::Acquire) {
        look_at_all(broker).await?;
        broker.inner.cron_began.store(true, Ordering::Release);
    }
    let awaited = broker.inner.awaited.tasks();
    for task in awaited.iter().take(LOOP_STEP_MAX) {
        if !broker.is_live(task).await? {
            broker.fire_ended(task);
        }
    }
    // Stuck ones stay due, and must not take the places of others.
    let limit = LOOP_STEP_MAX + broker.inner.stuck.count();
    let mut schedules = broker.inner.store.due_schedules(limit).await?.schedules;
    let found = schedules.len();
    for id in broker.inner.awaited.take_freed() {
        if !schedules.iter().any(|schedule| schedule.id == id) {
            schedules.extend(broker.inner.store.schedule(&id).await?);
        }
    }
    let ticked = tick(broker, schedules).await?;
    let is_stuck = !ticked.refused.is_empty();
    broker.inner.stuck.looked(ticked.refused, found < limit);
    if is_stuck {
        // Those that can fire are not late because of others, which are due all the time.
        let behind = broker.inner.store.due_schedules(limit).await?.next;
        let until_next = behind.map(|at| Duration::from_millis(at.saturating_sub(broker.now().wall)));
        return Ok(Next::In(until_next.unwrap_or(SLEEP_REFUSED).clamp(SLEEP_STUCK, SLEEP_REFUSED)));
    }
    if found > 0 && ticked.changed == 0 {
        return Ok(Next::In(SLEEP_STUCK));
    }
    // What fired has a next slot now, so the nearest one is asked for again.
    let next = broker.inner.store.due_schedules(0).await?.next;
    let next = Next::after(0, 0, next, broker.now().wall);
    let waits = !broker.inner.awaited.tasks().is_empty();
    Ok(match next {
        Next::In(sleep) if waits => Next::In(sleep.min(LOOK)),
        next => next,
    })
}

async fn look_at_all(broker: &Broker) -> Result<(), Error> {
    let mut list = ListSchedules { after: None, limit: PAGE_ROWS_MAX };
    loop {
        let page = broker.inner.store.schedules(list.clone()).await?;
        let Some(last) = page.last() else { return Ok(()) };
        list.after = Some(last.id.clone());
        let refused = tick(broker, page).await?.refused;
        broker.inner.stuck.looked(refused, false);
    }
}

/// What came of some schedules.
#[derive(Debug, Default)]
struct Ticked {
    changed: usize,
    /// Those that cannot fire.
    refused: Vec<(Name, Error)>,
}

async fn tick(broker: &Broker, schedules: Vec<Schedule>) -> Result<Ticked, Error> {
    let (mut ticked, mut failed) = (Ticked::default(), None);
    let mut left = schedules.into_iter();
    let mut running = JoinSet::new();
    loop {
        while running.len() < ABREAST
            && let Some(schedule) = left.next()
        {
            let broker = broker.clone();
            running.spawn(async move { (broker.tick_schedule(&schedule).await, schedule.id) });
        }
        // All of them come to their end first: a fire that is under way must not be dropped.
        let Some(joined) = running.join_next().await else { return failed.map_or(Ok(ticked), Err) };
        match joined {
            Ok((Ok(did), _)) => ticked.changed += usize::from(did),
            // One schedule that names a new type must not hold up the others.
            Ok((Err(error), id)) if is_refusal(&error) => ticked.refused.push((id, error)),
            Ok((Err(error), _)) => failed = Some(error),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}
