//! Once a second, what the recorder keeps is read off.

use std::time::Instant;

use tokio::sync::Notify;
use windlass_core::Name;
use windlass_store::QueueCounts;

use super::{Next, SLEEP_MAX};
use crate::broker::Broker;
use crate::error::Error;
use crate::metrics::{ByName, QueueMeter};
use crate::process::Process;
use crate::recorder::{QueueSample, Sample, depth};

pub(super) fn wakeup(broker: &Broker) -> &Notify {
    &broker.inner.recorder.wakeup
}

pub(super) async fn step(broker: &Broker) -> Result<Next, Error> {
    let recorder = &broker.inner.recorder;
    if !recorder.is_on() {
        return Ok(Next::In(SLEEP_MAX));
    }
    if recorder.look_is_due(broker.now().mono) {
        let began = Instant::now();
        // A store that cannot be read leaves a hole; that it cannot is told elsewhere.
        let queues = broker.inner.store.queues(None).await.ok();
        recorder.looked(queues, broker.now(), began.elapsed());
    }
    recorder.take(sample(broker));
    if recorder.save_is_due(broker.now().mono) {
        recorder.save(broker.now()).await;
    }
    Ok(Next::In(recorder.until_next(broker.now())))
}

fn sample(broker: &Broker) -> Sample {
    let now = broker.now();
    let process = Process::look();
    let seen = broker.inner.recorder.queues();
    let (meters, queues) = broker.inner.counters.meters(|meters| queue_samples(&seen, meters, now.mono));
    Sample {
        now,
        meters,
        queues,
        workers: broker.inner.workers.active(now),
        cpu_us: process.cpu_us,
        resident_bytes: process.resident_bytes,
    }
}

/// Those that the store was seen to have, and those where something happened since.
fn queue_samples(seen: &[QueueCounts], meters: &ByName<QueueMeter>, mono: u64) -> Vec<QueueSample> {
    let sample = |name: &Name, depth: Option<[u64; 2]>| {
        let meter = meters.get(name);
        let lives = depth.is_some_and(|depth| depth.iter().any(|count| *count > 0));
        QueueSample {
            name: name.clone(),
            counts: meter.map_or([0; 3], |meter| [meter.submitted, meter.completed, meter.failed]),
            depth,
            busy: lives || meter.is_some_and(|meter| meter.recent.is_busy(mono)),
        }
    };
    let known = |name: &Name| seen.binary_search_by(|queue| queue.name.cmp(name)).is_ok();
    let others = meters.iter().filter(|(name, meter)| meter.recent.is_busy(mono) && !known(name));
    let others: Vec<QueueSample> = others.map(|(name, _)| sample(name, None)).collect();
    seen.iter().map(|queue| sample(&queue.name, Some(depth(queue)))).chain(others).collect()
}
