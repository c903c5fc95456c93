//! Operations go on, a page each in turn, until they are done; those that ended long ago are forgotten.

use tokio::sync::Notify;
use windlass_core::limits::{OPERATION_RETENTION_MS, OPERATIONS_MAX, OPERATIONS_RUNNING_MAX};
use windlass_store::{ListOperations, OperationChange, WriteOperation};

use super::{Next, SLEEP_MAX};
use crate::broker::Broker;
use crate::error::Error;

pub(super) fn wakeup(broker: &Broker) -> &Notify {
    &broker.inner.store.signals().operations
}

pub(super) async fn step(broker: &Broker) -> Result<Next, Error> {
    let running = ListOperations { before: None, running: true, limit: OPERATIONS_RUNNING_MAX };
    let running = broker.inner.store.operations(running).await?;
    if running.is_empty() {
        forget_old(broker).await?;
        return Ok(Next::In(SLEEP_MAX));
    }
    let (mut went_on, mut failed) = (false, None);
    for operation in running {
        // One that cannot go on now must not hold up the others.
        match broker.advance_operation(operation).await {
            Ok(()) => went_on = true,
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if !went_on => Err(error),
        _ => Ok(Next::Now),
    }
}

async fn forget_old(broker: &Broker) -> Result<(), Error> {
    let all = ListOperations { before: None, running: false, limit: OPERATIONS_MAX };
    let long_ago = broker.now().wall.saturating_sub(OPERATION_RETENTION_MS);
    for operation in broker.inner.store.operations(all).await? {
        if operation.ended_at().is_some_and(|at| at < long_ago) {
            let write = WriteOperation { id: operation.id, change: OperationChange::Remove };
            broker.progressed(broker.inner.store.write_operation(write).await, broker.now())?;
        }
    }
    Ok(())
}
