//! The heartbeat: says that the worker lives, extends every lease in hand, and carries the broker's words to the handlers.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::job::Cause;
use super::port::{Beat, Pulse};

/// Beats until told to stop.
pub(super) async fn keep(shared: Arc<Shared>, stop: CancellationToken) {
    let mut ticks = interval(every(&shared));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut well = true;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stop.cancelled() => return,
        }
        let answered = once(&shared, false).await;
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
    let options = &shared.options;
    let held: Vec<_> = shared.held.lock().values().map(|context| context.held()).collect();
    let beat = Beat {
        worker: options.id.clone(),
        incarnation: shared.incarnation,
        host: super::host(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION"),
        queues: options.queues.iter().map(|queue| queue.name.clone()).collect(),
        types: shared.registry.types(),
        slots: options.concurrency,
        leases: held.clone(),
        leaving,
    };
    match timeout(every(shared), shared.port.heartbeat(beat)).await {
        Ok(Ok(pulse)) => {
            obey(shared, &held, &pulse);
            true
        }
        Ok(Err(error)) => {
            tracing::debug!(worker_id = %options.id, %error, "heartbeat refused");
            false
        }
        Err(_) => false,
    }
}

/// The answer speaks of the leases that were named; one that was claimed since is not touched.
fn obey(shared: &Shared, named: &[super::port::Held], pulse: &Pulse) {
    let now = shared.held.lock();
    let tell = |ids: &[windlass_core::TaskId], cause| {
        for held in named.iter().filter(|held| ids.contains(&held.id)) {
            if let Some(context) = now.get(&held.token) {
                context.stop(cause);
            }
        }
    };
    tell(&pulse.cancel, Cause::Cancelled);
    tell(&pulse.lost, Cause::LeaseLost);
}
