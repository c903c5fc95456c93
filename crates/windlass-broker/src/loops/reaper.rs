//! Leases that ran out, and leases of dead workers, go back.

use tokio::sync::Notify;
use windlass_core::limits::{LOOP_STEP_MAX, PAGE_ROWS_DEFAULT};
use windlass_core::{Name, Stamp, State, StateName, Task, transition};
use windlass_store::{Expire, List};

use super::Next;
use crate::broker::Broker;
use crate::change::Decision;
use crate::error::Error;
use crate::events::EventKind;
use crate::workers::Orphans;

/// Also rung by the broker itself when a worker leaves.
pub(super) fn wakeup(broker: &Broker) -> &Notify {
    &broker.inner.store.signals().leases
}

pub(super) async fn step(broker: &Broker) -> Result<Next, Error> {
    let now = broker.now();
    let verdict = broker.inner.workers.judge(now, broker.inner.clock.resumed_at(now));
    for name in &verdict.left {
        broker.inner.events.worker(EventKind::WorkerLeft, name, broker.now().wall);
    }
    for orphans in &verdict.orphans {
        take_back(broker, orphans).await?;
    }
    let dead_workers = verdict.dead.clone();
    let expired = broker.inner.store.expired(Expire { dead_workers, limit: LOOP_STEP_MAX }).await?;
    let now = broker.now();
    let lose = |task: &Task| lose(task, &verdict.dead, now.stamp());
    let changed = broker.change_due(&expired.tasks, lose).await?;
    let found = expired.tasks.len();
    if found < LOOP_STEP_MAX {
        broker.inner.workers.bury(&verdict.dead);
        if verdict.dead.len() == LOOP_STEP_MAX {
            return Ok(Next::Now);
        }
    }
    let next = expired.next.into_iter().chain(verdict.next).min();
    Ok(Next::after(found, changed, next, now.mono))
}

fn lose(task: &Task, dead: &[Name], now: Stamp) -> Decision {
    let error = match &task.record.state {
        State::Running(lease) if dead.contains(&lease.worker) => {
            format!(
                "worker {} is gone: it left, its connection broke or its heartbeats stopped",
                lease.worker
            )
        }
        State::Running(lease) => format!("the lease of worker {} ran out", lease.worker),
        _ => String::new(),
    };
    transition::lose_lease(&task.record, &task.body, &error, now)
}

/// Takes back what former lives of a living worker held.
async fn take_back(broker: &Broker, orphans: &Orphans) -> Result<(), Error> {
    let mut list = List {
        states: vec![StateName::Running],
        worker: Some(orphans.worker.clone()),
        limit: PAGE_ROWS_DEFAULT,
        ..List::default()
    };
    let error = format!(
        "worker {} is back without this task: it was started again or its connection broke",
        orphans.worker
    );
    loop {
        let mut page = broker.inner.store.list(list.clone()).await?;
        page.tasks.retain(|task| orphans.include(&task.record));
        let now = broker.now();
        let lose = |task: &Task| transition::lose_lease(&task.record, &task.body, &error, now);
        broker.change_due(&page.tasks, lose).await?;
        match page.next {
            Some(_) => list.before = page.next,
            None => break,
        }
    }
    broker.inner.workers.settle(orphans);
    Ok(())
}
