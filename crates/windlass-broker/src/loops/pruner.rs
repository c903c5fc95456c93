//! Finished tasks are forgotten when their retention ends.

use tokio::sync::Notify;
use windlass_core::limits::LOOP_STEP_MAX;
use windlass_core::transition;

use super::Next;
use crate::broker::Broker;
use crate::error::Error;

pub(super) fn wakeup(broker: &Broker) -> &Notify {
    &broker.inner.store.signals().prunable
}

pub(super) async fn step(broker: &Broker) -> Result<Next, Error> {
    let old = broker.inner.store.prunable(LOOP_STEP_MAX).await?;
    let now = broker.now().wall;
    let changed = broker.change_due(&old.tasks, |task| transition::remove(&task.record, now)).await?;
    Ok(Next::after(old.tasks.len(), changed, old.next, now))
}
