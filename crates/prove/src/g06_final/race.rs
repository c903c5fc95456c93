//! The racers.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rand::Rng;
use rand::rngs::StdRng;
use windlass_broker::{Broker, Error, Failed};
use windlass_core::{Change, Task, TaskId, Token, Transition};

use super::{Contest, Fate, Record};
use crate::proof::{Run, Trouble};
use crate::volume::{self, LEASE_MS, World};

const WORKERS: usize = 32;
const PATIENCE: Duration = Duration::from_secs(1800);
const BATCH: usize = 500;

/// Until every task is completed.
pub(super) async fn run(run: &Run, contest: Contest, world: &mut World) -> Result<Record, Trouble> {
    let record = Arc::new(Record::default());
    let purpose = if contest.rescuer { "G6 mutant" } else { "G6" };
    let mut workers: Vec<Worker> = (0..WORKERS)
        .map(|number| Worker {
            name: format!("w{number}"),
            random: run.random(&format!("{purpose} {number}")),
            held: Vec::new(),
            record: Arc::clone(&record),
        })
        .collect();
    let dead = Arc::<Mutex<Vec<TaskId>>>::default();
    let mut clock = run.random(&format!("{purpose} clock"));
    let mut submitted = 0;
    let mut life = 0;
    let began = Instant::now();
    while record.done.load(Relaxed) < contest.tasks {
        if began.elapsed() > PATIENCE {
            return Err(Trouble::failed("unknown: the race did not end"));
        }
        submitted = submit(&world.broker, submitted, contest.tasks).await?;
        let broker = &world.broker;
        join_all(workers.iter_mut().map(|worker| worker.turn(broker, &dead))).await;
        retry_by_hand(broker, &record, &dead, &mut clock).await?;
        if contest.rescuer {
            rescue(broker, &record).await?;
        }
        // Sometimes nothing runs out, sometimes everything that is held.
        world.pass(clock.random_range(0..LEASE_MS * 3 / 2));
        tokio::task::yield_now().await;
        if record.done.load(Relaxed) * (contest.restarts + 1) > contest.tasks * (life + 1) {
            life += 1;
            world.restart().await?;
        }
    }
    // Late reports of leases that were still held.
    join_all(workers.iter_mut().map(|worker| worker.report_all(&world.broker, &dead))).await;
    let seen = volume::claim("last", 100);
    if let Some(task) = world.broker.claim(seen).await?.first() {
        record.deliver(task);
    }
    drop(workers);
    Arc::into_inner(record).ok_or_else(|| Trouble::failed("a racer is still running"))
}

/// Keeps some work ahead of the workers.
async fn submit(broker: &Broker, submitted: usize, tasks: usize) -> Result<usize, Trouble> {
    let until = tasks.min(submitted + BATCH);
    if broker.stats().await?.by_state[windlass_core::StateName::Pending.index()] > 2 * BATCH as u64
        || until == submitted
    {
        return Ok(submitted);
    }
    let batch = (submitted..until).map(|number| volume::submit(&format!("t{number}"))).collect();
    for outcome in broker.submit_batch(batch, false).await? {
        outcome?;
    }
    Ok(until)
}

#[derive(Debug)]
struct Worker {
    name: String,
    random: StdRng,
    /// Claimed and not yet reported, maybe beyond the end of the lease.
    held: Vec<(TaskId, Token)>,
    record: Arc<Record>,
}

impl Worker {
    async fn turn(&mut self, broker: &Broker, dead: &Mutex<Vec<TaskId>>) {
        match broker.claim(volume::claim(&self.name, 8)).await {
            Ok(tasks) => {
                for task in tasks {
                    self.record.deliver(&task);
                    self.held.extend(volume::token(&task).map(|token| (task.record.id.clone(), token)));
                }
            }
            Err(error) => self.record.surprise(format!("a claim failed: {error}")),
        }
        let held = std::mem::take(&mut self.held);
        for (id, token) in held {
            match self.random.random_range(0..10) {
                0..6 => self.complete(broker, &id, token).await,
                6 => self.fail(broker, &id, token, dead).await,
                _ => self.held.push((id, token)),
            }
        }
    }

    async fn report_all(&mut self, broker: &Broker, _dead: &Mutex<Vec<TaskId>>) {
        for (id, token) in std::mem::take(&mut self.held) {
            self.complete(broker, &id, token).await;
        }
    }

    async fn complete(&mut self, broker: &Broker, id: &TaskId, token: Token) {
        match broker.complete(id, token, None).await {
            Ok(record) => {
                let revision = record.revision;
                self.record.complete(id, token, revision);
                // The same report again changes nothing.
                if self.random.random_bool(0.1)
                    && let Ok(again) = broker.complete(id, token, None).await
                    && again.revision != revision
                {
                    self.record.surprise(format!("a repeated completion of {id} changed it"));
                }
            }
            Err(Error::LeaseLost) => {
                self.record.late.fetch_add(1, Relaxed);
            }
            Err(error) => self.record.surprise(format!("complete of {id} failed: {error}")),
        }
    }

    async fn fail(&mut self, broker: &Broker, id: &TaskId, token: Token, dead: &Mutex<Vec<TaskId>>) {
        let report = Failed { error: "as planned".to_owned(), retryable: false, retry_after_ms: None };
        match broker.fail(id, token, report).await {
            Ok(_) => dead.lock().unwrap_or_else(PoisonError::into_inner).push(id.clone()),
            Err(Error::LeaseLost) => {}
            Err(error) => self.record.surprise(format!("fail of {id} failed: {error}")),
        }
    }
}

/// Dead letters come back; completed tasks must not.
async fn retry_by_hand(
    broker: &Broker,
    record: &Record,
    dead: &Mutex<Vec<TaskId>>,
    random: &mut StdRng,
) -> Result<(), Trouble> {
    let requeue = std::mem::take(&mut *dead.lock().unwrap_or_else(PoisonError::into_inner));
    for id in requeue {
        broker.retry(&id).await?;
    }
    for id in record.completed_sample(random) {
        match broker.retry(&id).await {
            Err(Error::Terminal(_)) => {
                record.refused_retries.fetch_add(1, Relaxed);
            }
            other => record.surprise(format!("retry of the completed {id} answered {other:?}")),
        }
    }
    Ok(())
}

/// The mutant: puts back whatever it finds, under the revision it finds.
async fn rescue(broker: &Broker, record: &Record) -> Result<(), Trouble> {
    let mut random = <StdRng as rand::SeedableRng>::seed_from_u64(record.done.load(Relaxed) as u64);
    for id in record.completed_sample(&mut random) {
        if let Some(seen) = broker.store().peek(&id).await? {
            let change = Change::Requeued { at: seen.updated_at.into(), after: Box::default() };
            let blind = Transition { id, seq: seen.seq, revision: seen.revision, change };
            broker.store().commit(vec![blind]).await?;
        }
    }
    Ok(())
}

impl Record {
    fn deliver(&self, task: &Task) {
        if let Some(token) = volume::token(task) {
            let mut fates = self.lock();
            fates.entry(task.record.id.clone()).or_default().deliveries.push((token, task.record.revision));
        }
    }

    fn complete(&self, id: &TaskId, token: Token, revision: u64) {
        let mut fates = self.lock();
        let fate = fates.entry(id.clone()).or_default();
        if fate.completed.is_empty() {
            self.done.fetch_add(1, Relaxed);
        }
        fate.completed.push((token, revision));
    }

    fn surprise(&self, words: String) {
        self.surprises.lock().unwrap_or_else(PoisonError::into_inner).push(words);
    }

    /// A few tasks that are completed.
    fn completed_sample(&self, random: &mut StdRng) -> Vec<TaskId> {
        let fates = self.lock();
        if fates.is_empty() {
            return Vec::new();
        }
        let picked = (0..8).map(|_| volume::id(&format!("t{}", random.random_range(0..fates.len()))));
        picked.filter(|id| fates.get(id).is_some_and(|fate| !fate.completed.is_empty())).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<TaskId, Fate>> {
        self.fates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
