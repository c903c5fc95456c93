//! Slots, and asking for work to fill them.
//!
//! A pool is a number of slots and the types that may use them. The types without a number of their own share one pool;
//! a type with one has a pool for itself, so that neither side starves the other. A pool asks for as many tasks as it has
//! free slots and never for more, one claim at a time.
//!
//! A slot is free again when its handler has ended, not when the broker has answered: the answers of many tasks are on
//! their way while others run. What waits for its answer is bounded all the same: while it is too much, by number or by
//! bytes, a pool asks for nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;
use windlass_core::limits::{OUTCOMES_KEPT_BYTES_MAX, OUTCOMES_KEPT_MAX};

use super::port::{Claim, Which};
use super::{Shared, attempt, outbox};

#[derive(Debug)]
pub(super) struct Pool {
    pub(super) which: Which,
    /// Below zero only if a broker gives out more than it was asked for.
    free: AtomicI64,
    /// Told when a slot becomes free, or an outcome was answered.
    pub(super) room: Notify,
}

impl Pool {
    pub(super) fn new(which: Which, slots: u32) -> Self {
        Self { which, free: AtomicI64::new(slots.into()), room: Notify::new() }
    }

    pub(super) fn give_back(&self, slots: usize) {
        if slots > 0 {
            self.free.fetch_add(slots as i64, Ordering::AcqRel);
            self.room.notify_one();
        }
    }

    /// Slots to fill now. Only the pool's own loop takes, so what is free stays free until then.
    fn room(&self, shared: &Shared) -> u32 {
        if shared.outbox.bytes() >= OUTCOMES_KEPT_BYTES_MAX {
            return 0;
        }
        let places = (OUTCOMES_KEPT_MAX + shared.slots).saturating_sub(shared.hand.len()) as i64;
        self.free.load(Ordering::Acquire).clamp(0, places) as u32
    }
}

/// Claims until it is dropped.
pub(super) async fn keep(shared: &Arc<Shared>, pool: &Arc<Pool>, attempts: &TaskTracker) {
    let mut failures = 0;
    loop {
        let max = pool.room(shared);
        if max == 0 {
            pool.room.notified().await;
            continue;
        }
        let claim = Claim { which: pool.which.clone(), max, wait: shared.options.poll };
        match shared.port.claim(claim).await {
            Ok(jobs) => {
                if failures > 0 {
                    tracing::info!(worker_id = %shared.options.id, "the broker answers again");
                }
                failures = 0;
                pool.free.fetch_sub(jobs.len() as i64, Ordering::AcqRel);
                attempt::start(shared, pool, attempts, jobs);
            }
            Err(error) => {
                failures += 1;
                if failures == 1 {
                    tracing::warn!(worker_id = %shared.options.id, %error, "cannot claim; trying again");
                }
                // sleep: the backoff after a refused or unanswered claim.
                sleep(outbox::pause(failures, &error)).await;
            }
        }
    }
}
