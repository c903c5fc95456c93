//! The port straight onto a broker in the same process.

use std::time::Duration;

use async_trait::async_trait;
use windlass_broker::{self as broker, Broker, ClaimRequest};
use windlass_core::{Payload, Progress, State, Task};

use super::job::Job;
use super::port::{Beat, Claim, Error, Failed, Held, Port, Pulse, Word};

#[derive(Debug, Clone)]
pub struct BrokerPort {
    broker: Broker,
}

impl BrokerPort {
    pub fn new(broker: Broker) -> Self {
        Self { broker }
    }
}

#[async_trait]
impl Port for BrokerPort {
    async fn claim(&self, claim: Claim) -> Result<Vec<Job>, Error> {
        let request = ClaimRequest {
            worker: claim.worker,
            queues: claim.queues,
            mode: claim.mode,
            types: Some(claim.types),
            max: claim.max,
            wait_ms: ms(claim.wait),
            lease_ms: Some(ms(claim.lease)),
        };
        let tasks = self.broker.claim(request).await.map_err(refusal)?;
        Ok(tasks.into_iter().filter_map(job).collect())
    }

    async fn complete(&self, held: &Held, result: Option<Payload>) -> Result<(), Error> {
        self.broker.complete(&held.id, held.token, result).await.map_err(refusal).map(drop)
    }

    async fn fail(&self, held: &Held, failed: Failed) -> Result<(), Error> {
        let report = broker::Failed {
            error: failed.error,
            retryable: failed.retryable,
            retry_after_ms: failed.retry_after.map(ms),
        };
        self.broker.fail(&held.id, held.token, report).await.map_err(refusal).map(drop)
    }

    async fn release(&self, held: &Held, delay: Option<Duration>) -> Result<(), Error> {
        self.broker.release(&held.id, held.token, delay.map(ms)).await.map_err(refusal).map(drop)
    }

    async fn progress(&self, held: &Held, progress: Progress) -> Result<Word, Error> {
        let extension =
            self.broker.extend(&held.id, held.token, None, Some(progress)).await.map_err(refusal)?;
        Ok(if extension.cancel_requested { Word::Cancel } else { Word::Continue })
    }

    async fn heartbeat(&self, beat: Beat) -> Result<Pulse, Error> {
        let beat = broker::Beat {
            worker: beat.worker,
            incarnation: beat.incarnation,
            host: beat.host,
            pid: Some(beat.pid),
            version: Some(beat.version.into()),
            queues: beat.queues,
            types: Some(beat.types),
            slots: Some(beat.slots),
            cpu: None,
            memory_bytes: None,
            leases: beat.leases.into_iter().map(|held| (held.id, held.token)).collect(),
            leaving: beat.leaving,
        };
        let pulse = self.broker.heartbeat(beat).await.map_err(refusal)?;
        Ok(Pulse { lost: pulse.lost, cancel: pulse.cancel, paused: pulse.paused })
    }
}

fn job(task: Task) -> Option<Job> {
    let State::Running(lease) = &task.record.state else { return None };
    Some(Job {
        token: lease.token,
        id: task.record.id,
        kind: task.record.kind,
        queue: task.record.queue,
        priority: task.record.priority,
        payload: task.body.payload,
        metadata: task.body.metadata,
        attempt: task.record.attempts,
        max_retries: task.body.max_retries,
        timeout: Duration::from_millis(task.body.timeout_ms),
    })
}

fn ms(length: Duration) -> u64 {
    length.as_millis() as u64
}

fn refusal(error: broker::Error) -> Error {
    use broker::Error as Broker;
    match error {
        Broker::LeaseLost | Broker::NotFound(_) | Broker::Terminal(_) | Broker::WrongState(_) => {
            Error::LeaseLost
        }
        Broker::NoSpace | Broker::Busy | Broker::Stopping | Broker::Store(_) | Broker::QueueFull => {
            Error::Unavailable { detail: error.to_string(), retry_after: None }
        }
        _ => Error::Refused { code: error.code().into(), detail: error.to_string() },
    }
}
