//! Giving tasks out.
//!
//! The store chooses and waits. What the broker adds is who may have work: a paused worker's claim is held back until it
//! is resumed, and a draining broker gives out none. Both may happen while a claim waits in the store; it is then
//! dropped, and by the store's contract a dropped claim takes no task with it.

use std::time::Duration;

use rand::Rng;
use tokio::time::Instant;
use windlass_core::choice::{Mode, Queue};
use windlass_core::limits::{CLAIM_TASKS_MAX, WAIT_MS_MAX};
use windlass_core::{Name, Task, trace};
use windlass_store::Claim;

use crate::broker::Broker;
use crate::change::Happened;
use crate::error::Error;
use crate::events::EventKind;

#[derive(Debug, Clone)]
pub struct ClaimRequest {
    pub worker: Name,
    pub queues: Vec<Queue>,
    pub mode: Mode,
    /// Only these types; `None` for all.
    pub types: Option<Vec<Name>>,
    pub max: u32,
    pub wait_ms: u64,
    pub lease_ms: Option<u64>,
}

impl Broker {
    /// Leases tasks to a worker, waiting for the first one. Empty when there was none, and at once when draining.
    pub async fn claim(&self, claim: ClaimRequest) -> Result<Vec<Task>, Error> {
        let now = self.now();
        if self.inner.workers.claims(&claim.worker, &claim.queues, claim.types.as_deref(), now) {
            self.inner.events.worker(EventKind::WorkerJoined, &claim.worker, now.wall);
        }
        let until = Instant::now() + Duration::from_millis(claim.wait_ms.min(WAIT_MS_MAX));
        let mut gate = self.inner.gate.subscribe();
        loop {
            if gate.borrow_and_update().draining {
                return Err(Error::Stopping);
            }
            if self.inner.workers.is_paused(&claim.worker) {
                if tokio::time::timeout_at(until, gate.changed()).await.is_err() {
                    return Ok(Vec::new());
                }
                continue;
            }
            let mut claiming = std::pin::pin!(self.claim_now(&claim, until));
            loop {
                tokio::select! {
                    biased;
                    tasks = &mut claiming => return tasks,
                    _ = gate.changed() => {
                        let draining = gate.borrow_and_update().draining;
                        if draining || self.inner.workers.is_paused(&claim.worker) {
                            break;
                        }
                    }
                }
            }
            if self.is_draining() {
                return Ok(Vec::new());
            }
        }
    }

    async fn claim_now(&self, claim: &ClaimRequest, until: Instant) -> Result<Vec<Task>, Error> {
        let left = until.saturating_duration_since(Instant::now());
        let tasks = self.inner.store.claim(Claim {
            worker: claim.worker.clone(),
            queues: claim.queues.clone(),
            mode: claim.mode,
            types: claim.types.clone(),
            max: claim.max.clamp(1, CLAIM_TASKS_MAX),
            lease_ms: self.lease_ms(claim.lease_ms),
            // Rounded, because a hair of the wait has passed already.
            wait_ms: left.as_micros().div_ceil(1000) as u64,
            seed: rand::rng().random(),
        });
        let tasks = tasks.await;
        let now = self.now();
        let mut tasks = self.progressed(tasks, now)?;
        self.lapsed(now);
        self.happened(tasks.iter().map(|task| (Happened::Started, &task.record)), None, now);
        if self.inner.settings.tracer.is_some() {
            for task in &mut tasks {
                trace::hand_over(&task.record, &mut task.body);
            }
        }
        Ok(tasks)
    }
}
