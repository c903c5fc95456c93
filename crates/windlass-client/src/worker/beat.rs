//! The heartbeat: says that the worker lives, extends every lease in hand, and carries the broker's words to the handlers.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, timeout};

use super::Shared;

/// Beats until it is dropped.
pub(super) async fn keep(shared: &Shared) {
    let mut ticks = interval(every(shared));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut well = true;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            stops = shared.port.told() => {
                shared.hand.obey(&stops);
                continue;
            }
        }
        let answered = once(shared, false).await;
        if well && !answered {
            tracing::warn!(worker_id = %shared.options.id, "no answer to the heartbeat");
        }
        well = answered;
    }
}

/// A third of the lease, so that two beats may fail before a lease is lost.
fn every(shared: &Shared) -> Duration {
    shared.options.heartbeat.min(shared.options.lease / 3)
}

/// Whether the broker answered.
pub(super) async fn once(shared: &Shared, leaving: bool) -> bool {
    let held = shared.hand.held();
    match timeout(every(shared), shared.port.heartbeat(&held, leaving)).await {
        Ok(Ok(stops)) => {
            shared.hand.obey(&stops);
            true
        }
        Ok(Err(error)) => {
            tracing::debug!(worker_id = %shared.options.id, %error, "heartbeat refused");
            false
        }
        Err(_) => false,
    }
}
