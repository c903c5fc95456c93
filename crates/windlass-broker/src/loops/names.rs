//! Queues and types without tasks are released.
//!
//! A name that two looks in a row find without tasks is released, so a look is also what time passes by. It sleeps longer than the other loops: names
//! that are many signal it, and a signal that is missed costs memory for some minutes and nothing else.

use std::time::Duration;

use tokio::sync::Notify;
use windlass_core::limits::NAMES_RELEASE_MS;

use super::Next;
use crate::broker::Broker;
use crate::error::Error;

pub(super) fn wakeup(broker: &Broker) -> &Notify {
    &broker.inner.store.signals().names
}

pub(super) async fn step(broker: &Broker) -> Result<Next, Error> {
    let released = broker.inner.store.release_names().await?;
    Ok(if released.more { Next::Now } else { Next::In(Duration::from_millis(NAMES_RELEASE_MS)) })
}
