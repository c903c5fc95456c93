//! Scheduled and retrying tasks become pending when their time comes; tasks that expired first are cancelled.

use tokio::sync::Notify;
use windlass_core::limits::LOOP_STEP_MAX;
use windlass_core::transition;

use super::Next;
use crate::broker::Broker;
use crate::error::Error;

pub(super) fn wakeup(broker: &Broker) -> &Notify {
    &broker.inner.store.signals().due
}

pub(super) async fn step(broker: &Broker) -> Result<Next, Error> {
    broker.lapsed(broker.now());
    let due = broker.inner.store.due(LOOP_STEP_MAX).await?;
    let now = broker.now();
    let changed = broker.change_due(&due.tasks, |task| transition::tick(&task.record, now)).await?;
    Ok(Next::after(due.tasks.len(), changed, due.next, now.wall))
}
