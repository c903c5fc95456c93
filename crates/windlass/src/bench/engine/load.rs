//! Submitters and workers in a closed loop on a broker in the same process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::future::try_join_all;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_broker::{Broker, ClaimRequest, Start, Submit};
use windlass_core::choice::{Mode, Queue};
use windlass_core::{Name, Payload, Priority, State, limits, retry};

use super::Args;
use crate::bench::Error;

/// Tasks that may wait or run at once: enough that no worker waits for a submitter, and no more.
const BACKLOG: u64 = 4096;

#[derive(Debug)]
pub(in crate::bench) struct Load {
    shared: Arc<Shared>,
    submitters: JoinSet<Result<(), Error>>,
    workers: JoinSet<Result<(), Error>>,
}

#[derive(Debug)]
struct Shared {
    broker: Broker,
    submit: Submit,
    batch: usize,
    /// Batches that may still be added.
    room: Semaphore,
    submitted: AtomicU64,
    completed: AtomicU64,
    /// No more submits.
    enough: CancellationToken,
    /// No more tasks will come.
    over: CancellationToken,
}

impl Load {
    pub(super) fn start(broker: &Broker, args: &Args) -> Load {
        let shared = Arc::new(Shared {
            broker: broker.clone(),
            submit: task("bench", args.payload as usize),
            batch: args.batch as usize,
            room: Semaphore::new((BACKLOG / args.batch).max(2 * args.submitters) as usize),
            submitted: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            enough: CancellationToken::new(),
            over: CancellationToken::new(),
        });
        let (mut submitters, mut workers) = (JoinSet::new(), JoinSet::new());
        for _ in 0..args.submitters {
            submitters.spawn(shared.clone().submit_all());
        }
        for number in 0..args.workers {
            workers.spawn(shared.clone().work(number));
        }
        Load { shared, submitters, workers }
    }

    pub(super) fn completed(&self) -> u64 {
        self.shared.completed.load(Ordering::Relaxed)
    }

    /// Ends the submits, lets the workers finish what is there, and says how many tasks came and how many are done.
    pub(super) async fn finish(mut self) -> Result<(u64, u64), Error> {
        self.shared.enough.cancel();
        while let Some(ended) = self.submitters.join_next().await {
            ended??;
        }
        self.shared.over.cancel();
        while let Some(ended) = self.workers.join_next().await {
            ended??;
        }
        Ok((self.shared.submitted.load(Ordering::Relaxed), self.completed()))
    }
}

impl Shared {
    async fn submit_all(self: Arc<Self>) -> Result<(), Error> {
        loop {
            let place = tokio::select! {
                biased;
                () = self.enough.cancelled() => return Ok(()),
                place = self.room.acquire() => place,
            };
            // The semaphore is never closed; the worker who completes the batch gives the place back.
            if let Ok(place) = place {
                place.forget();
            }
            if self.batch == 1 {
                self.broker.submit(self.submit.clone()).await?;
            } else {
                let batch = vec![self.submit.clone(); self.batch];
                for outcome in self.broker.submit_batch(batch, false).await? {
                    outcome?;
                }
            }
            self.submitted.fetch_add(self.batch as u64, Ordering::Relaxed);
        }
    }

    async fn work(self: Arc<Self>, number: u64) -> Result<(), Error> {
        let mut left = 0;
        let mut request = claim(number, self.batch as u32, 100);
        loop {
            let over = self.over.is_cancelled();
            if over {
                request.wait_ms = 0;
            }
            let tasks = self.broker.claim(request.clone()).await?;
            if tasks.is_empty() && over {
                return Ok(());
            }
            let complete = |task: &windlass_core::Task| {
                let (id, broker) = (task.record.id.clone(), &self.broker);
                let token = match &task.record.state {
                    State::Running(lease) => Some(lease.token),
                    _ => None,
                };
                async move {
                    let token = token.ok_or(windlass_broker::Error::LeaseLost)?;
                    broker.complete(&id, token, None).await
                }
            };
            try_join_all(tasks.iter().map(complete)).await?;
            self.completed.fetch_add(tasks.len() as u64, Ordering::Relaxed);
            left += tasks.len();
            self.room.add_permits(left / self.batch);
            left %= self.batch;
        }
    }
}

/// An ordinary task with a payload of about so many bytes of JSON.
pub(in crate::bench) fn task(queue: &str, payload_bytes: usize) -> Submit {
    let text = format!("\"{}\"", "x".repeat(payload_bytes.saturating_sub(2)));
    Submit {
        id: None,
        queue: Name::new(queue).expect("a valid name"),
        kind: Name::new("bench").expect("a valid name"),
        key: None,
        payload: Payload::Json(Bytes::from(text)),
        priority: Priority::default(),
        start: Start::Now,
        expires_at: None,
        retry: retry::Policy::default(),
        max_retries: limits::RETRIES_DEFAULT,
        max_crashes: limits::CRASHES_DEFAULT,
        timeout_ms: limits::TIMEOUT_MS_DEFAULT,
        retention_ms: limits::RETENTION_MS_DEFAULT,
        metadata: Vec::new(),
        unique: None,
        fingerprint: None,
        links: None,
    }
}

pub(in crate::bench) fn claim(worker: u64, max: u32, wait_ms: u64) -> ClaimRequest {
    ClaimRequest {
        worker: Name::new(&format!("bench-{worker}")).expect("a valid name"),
        queues: vec![Queue { name: Name::new("bench").expect("a valid name"), weight: 1 }],
        mode: Mode::Weighted,
        types: None,
        max,
        wait_ms,
        lease_ms: Some(limits::LEASE_MS_MAX),
    }
}
