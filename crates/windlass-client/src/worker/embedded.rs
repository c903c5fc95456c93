//! The port straight onto a broker in the same process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use windlass_broker::{self as broker, Broker, ClaimRequest, Finish};
use windlass_core::limits::PAGE_ROWS_MAX;
use windlass_core::{Name, Progress, State, Task, TaskId};

use super::context::Job;
use super::hand::Hand;
use super::port::{Claim, Dependency, Error, Held, Port, Profile, Report, Stop, Verdict, Word, stops};

#[derive(Debug)]
pub struct BrokerPort {
    broker: Broker,
    profile: Option<Arc<Profile>>,
}

impl BrokerPort {
    pub fn new(broker: Broker) -> Self {
        Self { broker, profile: None }
    }

    fn profile(&self) -> &Profile {
        self.profile.as_deref().expect("a worker begins before it asks")
    }
}

#[async_trait]
impl Port for BrokerPort {
    fn begin(&mut self, profile: Arc<Profile>, _: Hand) {
        self.profile = Some(profile);
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Job>, Error> {
        let profile = self.profile();
        let request = ClaimRequest {
            worker: profile.worker.clone(),
            queues: profile.queues.clone(),
            mode: profile.mode,
            types: Some(claim.types(profile)),
            max: claim.max,
            wait_ms: ms(claim.wait),
            lease_ms: Some(ms(profile.lease)),
        };
        let tasks = self.broker.claim(request).await.map_err(refusal)?;
        Ok(tasks.into_iter().filter_map(job).collect())
    }

    async fn report(&self, reports: &[Report]) -> Vec<Result<(), Error>> {
        match self.broker.finish_all(reports.iter().map(finish).collect()).await {
            Ok(answers) => answers.into_iter().map(|answer| answer.map(drop).map_err(refusal)).collect(),
            Err(error) => vec![Err(refusal(error)); reports.len()],
        }
    }

    async fn progress(&self, held: &Held, progress: Progress) -> Result<Word, Error> {
        let extension =
            self.broker.extend(&held.id, held.token, None, Some(progress)).await.map_err(refusal)?;
        Ok(if extension.cancel_requested { Word::Cancel } else { Word::Continue })
    }

    async fn save(&self, held: &Held, checkpoint: Bytes) -> Result<Word, Error> {
        match self.broker.save_checkpoint(&held.id, held.token, checkpoint).await {
            // How it ended is told by the extension.
            Ok(()) | Err(broker::Error::LeaseLost) => {}
            Err(error) => return Err(refusal(error)),
        }
        let extension = self.broker.extend(&held.id, held.token, None, None).await.map_err(refusal)?;
        Ok(if extension.cancel_requested { Word::Cancel } else { Word::Continue })
    }

    async fn dependencies(&self, id: &TaskId) -> Result<Vec<Dependency>, Error> {
        let mut all = Vec::new();
        let mut from = 0;
        loop {
            let page = self.broker.dependencies(id, from, PAGE_ROWS_MAX).await.map_err(refusal)?;
            let items = page.items.into_iter();
            let items = items.map(|it| Dependency { id: it.id, name: it.name, result: it.result });
            Dependency::keep(&mut all, items.collect())?;
            match page.next {
                Some(next) => from = next,
                None => return Ok(all),
            }
        }
    }

    async fn heartbeat(&self, leases: &[Held], leaving: bool) -> Result<Vec<Stop>, Error> {
        let profile = self.profile();
        let beat = broker::Beat {
            worker: profile.worker.clone(),
            incarnation: profile.incarnation,
            host: profile.host.clone(),
            pid: Some(profile.pid),
            version: Some(profile.version.into()),
            queues: profile.queues.iter().map(|queue| queue.name.clone()).collect::<Vec<Name>>(),
            types: Some(profile.all_types()),
            slots: Some(profile.slots),
            cpu: None,
            memory_bytes: None,
            leases: leases.iter().map(|held| (held.id.clone(), held.token)).collect(),
            leaving,
        };
        let pulse = self.broker.heartbeat(beat).await.map_err(refusal)?;
        Ok(stops(leases, &pulse.lost, &pulse.cancel))
    }
}

fn finish(report: &Report) -> Finish {
    let verdict = match &report.verdict {
        Verdict::Completed(result) => broker::Verdict::Completed { result: result.clone() },
        Verdict::Failed(failed) => broker::Verdict::Failed(broker::Failed {
            error: failed.error.clone(),
            retryable: failed.retryable,
            retry_after_ms: failed.retry_after.map(ms),
        }),
        Verdict::Released { delay } => broker::Verdict::Released { delay_ms: delay.map(ms) },
    };
    Finish { id: report.held.id.clone(), token: report.held.token, verdict }
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
        checkpoint: task.record.checkpoint.map(|checkpoint| checkpoint.bytes),
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
            Error::unavailable(error)
        }
        _ => Error::Refused { code: error.code().into(), detail: error.to_string() },
    }
}
