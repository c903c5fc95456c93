//! Who waits for a rate limit is served when its next token comes.

use tokio::sync::Notify;

use super::Next;
use crate::broker::Broker;
use crate::error::Error;

pub(super) fn wakeup(broker: &Broker) -> &Notify {
    &broker.inner.store.signals().gates
}

pub(super) async fn step(broker: &Broker) -> Result<Next, Error> {
    let next = broker.inner.store.open_gates().await?;
    Ok(Next::after(0, 0, next, broker.now().wall))
}
