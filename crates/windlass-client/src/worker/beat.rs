//! The heartbeat: says that the worker lives, extends every lease in hand, and carries the broker's words to the handlers.
//!
//! A worker whose slots are all taken and that has nothing to report makes no other call, so the heartbeat is also what
//! brings a broken connection back: at once, and with growing pauses when that fails or does not last until the next
//! regular beat.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::Shared;
use super::outbox::pause;
use super::port::Error;

/// Beats until it is dropped.
pub(super) async fn keep(shared: &Shared) {
    let mut ticks = interval(every(shared));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut well = true;
    // Tries to come back since the last regular beat that was answered, and when the next one is due.
    let (mut tries, mut back_at) = (0, None);
    loop {
        let regular = tokio::select! {
            _ = ticks.tick() => true,
            // sleep: the pause between two tries to come back.
            () = sleep_until(back_at.unwrap_or_else(Instant::now)), if back_at.is_some() => false,
            () = shared.port.broke(), if back_at.is_none() => {
                back_at = Some(Instant::now() + pause_before(tries));
                continue;
            }
            stops = shared.port.told() => {
                shared.hand.obey(&stops);
                continue;
            }
        };
        let answered = once(shared, false).await;
        if well && !answered {
            tracing::warn!(worker_id = %shared.options.id, "no answer to the heartbeat");
        }
        well = answered;
        tries = if regular && answered { 0 } else { tries + 1 };
        back_at = (!answered).then(|| Instant::now() + pause_before(tries));
    }
}

/// None before the first try.
fn pause_before(tries: u32) -> Duration {
    match tries {
        0 => Duration::ZERO,
        _ => pause(tries, &Error::unavailable("the connection broke")),
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
