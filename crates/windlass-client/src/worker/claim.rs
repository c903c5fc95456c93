//! Asking for work.
//!
//! A claim reserves the slots it asks for, so whatever comes back has a place. Usually one claim for all types is under
//! way. A type with a limit of its own is left out while it is full; when it has room again it must not wait for the end
//! of a long poll for the other types, so it gets a claim beside it. No two claims under way name the same type.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;
use windlass_core::Name;

use super::job::Job;
use super::port::{Claim, Error};
use super::{Shared, attempt, report};

/// Claims until it is dropped.
pub(super) async fn keep(shared: &Arc<Shared>, attempts: &TaskTracker) {
    let mut under_way = FuturesUnordered::new();
    let mut asked: Vec<Name> = Vec::new();
    let mut failures = 0;
    loop {
        let freed = shared.freed.notified();
        if let Some((types, slots)) = room(shared, &asked) {
            asked.extend(types.iter().cloned());
            under_way.push(ask(shared, types, slots));
            continue;
        }
        let (types, slots, answer) = tokio::select! {
            Some(answered) = under_way.next() => answered,
            () = freed => continue,
        };
        asked.retain(|kind| !types.contains(kind));
        match answer {
            Ok(jobs) => {
                if failures > 0 {
                    tracing::info!(worker_id = %shared.options.id, "the broker answers again");
                }
                failures = 0;
                start_all(shared, attempts, jobs, slots);
            }
            Err(error) => {
                drop(slots);
                failures += 1;
                if failures == 1 {
                    tracing::warn!(worker_id = %shared.options.id, %error, "cannot claim; trying again");
                }
                sleep(report::pause(failures, &error)).await;
            }
        }
    }
}

/// The types that nobody asks for now and that have room, with slots reserved for them.
fn room(shared: &Shared, asked: &[Name]) -> Option<(Vec<Name>, OwnedSemaphorePermit)> {
    let free = shared.slots.available_permits() as u32;
    let (types, max) = shared.registry.room(free, asked);
    if max == 0 {
        return None;
    }
    let slots = shared.slots.clone().try_acquire_many_owned(max).ok()?;
    Some((types, slots))
}

async fn ask(
    shared: &Shared,
    types: Vec<Name>,
    slots: OwnedSemaphorePermit,
) -> (Vec<Name>, OwnedSemaphorePermit, Result<Vec<Job>, Error>) {
    let options = &shared.options;
    let claim = Claim {
        worker: options.id.clone(),
        queues: options.queues.clone(),
        mode: options.mode,
        types: types.clone(),
        max: slots.num_permits() as u32,
        wait: options.poll,
        lease: options.lease,
    };
    let answer = shared.port.claim(claim).await;
    (types, slots, answer)
}

fn start_all(shared: &Arc<Shared>, attempts: &TaskTracker, jobs: Vec<Job>, mut slots: OwnedSemaphorePermit) {
    for job in jobs {
        attempt::start(shared, attempts, job, slots.split(1));
    }
}
