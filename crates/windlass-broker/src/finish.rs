//! What workers report: the end of an attempt, a sign of life, a wish for more time.

use bytes::Bytes;
use rand::Rng;
use windlass_core::limits::{BATCH_TASKS_MAX, CHECKPOINT_BYTES_MAX, CONFLICT_TRIES_MAX};
use windlass_core::transition::{self, Failure};
use windlass_core::{Change, Name, Now, Payload, Progress, Record, Stamp, State, TaskId, Token};
use windlass_store::{Committed, Extend, Extended, Observer};

use crate::broker::Broker;
use crate::change::transition;
use crate::error::Error;
use crate::events::EventKind;
use crate::workers::Arrival;

/// A worker's report of a failed attempt.
#[derive(Debug, Clone)]
pub struct Failed {
    pub error: String,
    pub retryable: bool,
    pub retry_after_ms: Option<u64>,
}

/// One report of many: how an attempt ended.
#[derive(Debug, Clone)]
pub struct Finish {
    pub id: TaskId,
    pub token: Token,
    pub verdict: Verdict,
}

#[derive(Debug, Clone)]
pub enum Verdict {
    Completed {
        result: Option<Payload>,
    },
    Failed(Failed),
    /// Given back, to start again at once or after a delay; no attempt is used.
    Released {
        delay_ms: Option<u64>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension {
    /// Wall clock; `None` when the lease was not extended because the task was cancelled.
    pub lease_expires_at: Option<u64>,
    pub cancel_requested: bool,
}

/// A worker's sign of life.
#[derive(Debug, Clone)]
pub struct Beat {
    pub worker: Name,
    /// Drawn at random when the worker's process starts: tells it from a predecessor of the same name.
    pub incarnation: u64,
    pub host: Option<String>,
    pub pid: Option<u32>,
    pub version: Option<String>,
    pub queues: Vec<Name>,
    pub types: Option<Vec<Name>>,
    pub slots: Option<u32>,
    /// Share of one core.
    pub cpu: Option<f64>,
    pub memory_bytes: Option<u64>,
    /// Everything it works on now.
    pub leases: Vec<(TaskId, Token)>,
    pub leaving: bool,
}

/// The answer to a beat: what became of the leases it named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pulse {
    pub extended: Vec<TaskId>,
    pub lost: Vec<TaskId>,
    pub cancel: Vec<TaskId>,
    pub paused: bool,
}

impl Broker {
    pub async fn complete(
        &self,
        id: &TaskId,
        token: Token,
        result: Option<Payload>,
    ) -> Result<Record, Error> {
        self.change(id, |record, now| transition::complete(record, token, result.clone(), now)).await
    }

    pub async fn fail(&self, id: &TaskId, token: Token, report: Failed) -> Result<Record, Error> {
        let random = rand::rng().random();
        let failure = || Failure {
            error: report.error.clone(),
            retryable: report.retryable,
            retry_after_ms: report.retry_after_ms,
            random,
        };
        let task = self
            .change_task(id, |task, now| transition::fail(&task.record, &task.body, token, failure(), now))
            .await?;
        Ok(task.record)
    }

    /// Gives a task back, to start again at once or after a delay; no attempt is used.
    pub async fn release(&self, id: &TaskId, token: Token, delay_ms: Option<u64>) -> Result<Record, Error> {
        self.change(id, |record, now| transition::release(record, token, delay_ms, now)).await
    }

    /// Many reports in one commit; the i-th answer belongs to the i-th report. The outer error is that of the store.
    pub async fn finish_all(&self, reports: Vec<Finish>) -> Result<Vec<Result<Box<Record>, Error>>, Error> {
        if reports.len() > BATCH_TASKS_MAX {
            let message = format!("at most {BATCH_TASKS_MAX} at once");
            return Err(Error::Invalid { field: "outcomes", message });
        }
        let mut answers: Vec<Option<Result<Box<Record>, Error>>> = Vec::new();
        answers.resize_with(reports.len(), || None);
        for _ in 0..CONFLICT_TRIES_MAX {
            let open: Vec<usize> = (0..reports.len()).filter(|at| answers[*at].is_none()).collect();
            if open.is_empty() {
                break;
            }
            let mut places = Vec::with_capacity(open.len());
            let mut transitions = Vec::with_capacity(open.len());
            let (mut done_places, mut done) = (Vec::new(), Vec::new());
            let ids: Vec<TaskId> = open.iter().map(|at| reports[*at].id.clone()).collect();
            let tokens: Vec<Token> = open.iter().map(|at| reports[*at].token).collect();
            let now = self.now().stamp();
            for (at, seen) in open.into_iter().zip(self.inner.store.peek_held(&ids, &tokens).await?) {
                let Some(seen) = seen else {
                    answers[at] = Some(Err(Error::NotFound("task")));
                    continue;
                };
                match self.judge(&seen, &reports[at], now).await {
                    Ok(Some(change)) => {
                        places.push(at);
                        transitions.push(transition(&seen, change));
                    }
                    Ok(None) => {
                        done_places.push(at);
                        done.push(seen);
                    }
                    Err(error) => answers[at] = Some(Err(error)),
                }
            }
            for (at, committed) in places.into_iter().zip(self.commit(transitions).await?) {
                answers[at] = match committed {
                    Committed::Done(after) => Some(Ok(after)),
                    Committed::Missing => Some(Err(Error::NotFound("task"))),
                    Committed::Conflict => None,
                    Committed::KeyHeld(holder) => Some(Err(Error::UniqueConflict(holder))),
                };
            }
            if self.inner.store.are_kept(&done).await? {
                let places = done_places.into_iter().zip(done);
                places.for_each(|(at, seen)| answers[at] = Some(Ok(Box::new(seen))));
            }
        }
        Ok(answers.into_iter().map(|answer| answer.unwrap_or(Err(Error::Busy))).collect())
    }

    async fn judge(&self, seen: &Record, report: &Finish, now: Stamp) -> Result<Option<Change>, Error> {
        let token = report.token;
        let decision = match &report.verdict {
            Verdict::Completed { result } => transition::complete(seen, token, result.clone(), now),
            Verdict::Released { delay_ms } => transition::release(seen, token, *delay_ms, now),
            Verdict::Failed(failed) => {
                // Only a failure needs the body, for its retry policy.
                let task = self.inner.store.get(&seen.id).await?.ok_or(Error::NotFound("task"))?;
                let failure = Failure {
                    error: failed.error.clone(),
                    retryable: failed.retryable,
                    retry_after_ms: failed.retry_after_ms,
                    random: rand::rng().random(),
                };
                transition::fail(seen, &task.body, token, failure, now)
            }
        };
        decision.map_err(|refusal| Error::refused(refusal, seen))
    }

    pub async fn extend(
        &self,
        id: &TaskId,
        token: Token,
        lease_ms: Option<u64>,
        progress: Option<Progress>,
    ) -> Result<Extension, Error> {
        let reported = progress.clone().filter(|_| self.inner.events.wants_seen());
        let lease_ms = lease_ms.map(|ms| self.lease_ms(Some(ms)));
        let extend = Extend { id: id.clone(), token, lease_ms, progress };
        let extended = self.inner.store.extend(vec![extend]).await?;
        let extension = match extended.first() {
            Some(Extended::Until { expires_at }) => {
                Extension { lease_expires_at: Some(*expires_at), cancel_requested: false }
            }
            Some(Extended::CancelRequested) => Extension { lease_expires_at: None, cancel_requested: true },
            Some(Extended::LeaseLost) => return Err(Error::LeaseLost),
            Some(Extended::Missing) | None => return Err(Error::NotFound("task")),
        };
        if let Some(progress) = reported {
            self.tell_progress(id, &progress).await?;
        }
        Ok(extension)
    }

    /// For a store that does not tell by itself.
    pub(crate) async fn tell_progress(&self, id: &TaskId, progress: &Progress) -> Result<(), Error> {
        let running = |record: &Record| matches!(record.state, State::Running(_));
        if let Some(record) = self.inner.store.peek(id).await?.filter(running) {
            self.inner.events.progressed(&record, progress, self.now().wall);
        }
        Ok(())
    }

    /// Keeps what the next attempt shall begin with; durable when this answers. An empty checkpoint takes the last one away.
    pub async fn save_checkpoint(&self, id: &TaskId, token: Token, bytes: Bytes) -> Result<(), Error> {
        if bytes.len() > CHECKPOINT_BYTES_MAX {
            let message = format!("has {} bytes, {CHECKPOINT_BYTES_MAX} are allowed", bytes.len());
            return Err(Error::Invalid { field: "checkpoint", message });
        }
        self.change(id, |record, now| transition::save(record, token, bytes.clone(), now)).await?;
        Ok(())
    }

    /// What follows from a sign of life.
    pub(crate) fn arrived(&self, arrival: Arrival, worker: &Name, now: Now) {
        if arrival.joined {
            self.inner.events.worker(EventKind::WorkerJoined, worker, now.wall);
        }
        if arrival.look {
            self.inner.store.signals().leases.notify_one();
        }
    }

    /// Keeps the worker's registration and all its leases alive. A leaving worker is forgotten at once, and the leases
    /// it still has are given back.
    pub async fn heartbeat(&self, beat: Beat) -> Result<Pulse, Error> {
        let now = self.now();
        let arrival = self.inner.workers.beat(&beat, now).ok_or(Error::Busy)?;
        self.arrived(arrival, &beat.worker, now);
        if beat.leaving {
            let lost = beat.leases.into_iter().map(|(id, _)| id).collect();
            return Ok(Pulse { lost, ..Pulse::default() });
        }
        let mut pulse = Pulse { paused: self.inner.workers.is_paused(&beat.worker), ..Pulse::default() };
        if beat.leases.is_empty() {
            return Ok(pulse);
        }
        let extensions = beat.leases.iter().map(|(id, token)| Extend {
            id: id.clone(),
            token: *token,
            lease_ms: None,
            progress: None,
        });
        let extended = self.inner.store.extend(extensions.collect()).await?;
        for ((id, _), outcome) in beat.leases.into_iter().zip(extended) {
            match outcome {
                Extended::Until { .. } => pulse.extended.push(id),
                Extended::CancelRequested => pulse.cancel.push(id),
                Extended::LeaseLost | Extended::Missing => pulse.lost.push(id),
            }
        }
        Ok(pulse)
    }
}
