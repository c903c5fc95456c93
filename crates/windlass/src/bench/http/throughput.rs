//! Closed loops: as many tasks as some connections can carry, each waiting for its answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use super::connection::Connection;
use super::work::Worker;
use super::{Args, Flow, SubmitRound, Submitted, request};
use crate::bench::child::Child;
use crate::bench::report::{Latency, add, histogram, median, record};
use crate::bench::{Error, io};

/// Tasks that producers may be ahead of workers by.
const AHEAD: u64 = 10_000;

#[derive(Debug)]
pub(super) struct Bench<'a> {
    pub(super) args: &'a Args,
    pub(super) broker: &'a Child,
    pub(super) echo: &'a Child,
    /// Tasks so far.
    pub(super) submitted: u64,
    pub(super) completed: u64,
}

impl Bench<'_> {
    /// One task per request, in turns with the echo of the same request.
    pub(super) async fn submit(&mut self, connections: u64) -> Result<Submitted, Error> {
        let task = request::submit("singles", self.args.payload);
        let body = request::task("singles", &request::payload(self.args.payload));
        let echo = request::post("/", body.as_bytes());
        let length = Duration::from_secs_f64(self.args.seconds as f64 / self.args.rounds as f64);
        let mut latency = histogram();
        let mut rounds = Vec::new();
        for _ in 0..self.args.rounds {
            let echoed = repeat(self.echo.addr, connections, &echo, "an echo", length).await?;
            let submitted = repeat(self.broker.addr, connections, &task, "a submit", length).await?;
            self.submitted += submitted.latency.len();
            add(&mut latency, &submitted.latency);
            let (submits, echoes) = (submitted.per_second(), echoed.per_second());
            rounds.push(SubmitRound {
                submits_per_second: submits,
                echoes_per_second: echoes,
                ratio: submits / echoes,
            });
        }
        let middle = |figure: fn(&SubmitRound) -> f64| median(rounds.iter().map(figure).collect());
        Ok(Submitted {
            connections,
            submits_per_second: middle(|round| round.submits_per_second),
            echoes_per_second: middle(|round| round.echoes_per_second),
            ratio: middle(|round| round.ratio),
            latency: Latency::of(&latency),
            rounds,
        })
    }

    pub(super) async fn submit_batch(&mut self) -> Result<Flow, Error> {
        let (batch, connections) = (self.args.batch, self.most().min(16));
        let tasks = request::submit_batch("batches", self.args.payload, batch);
        let done = repeat(self.broker.addr, connections, &tasks, "a batch of submits", self.length()).await?;
        let count = done.latency.len() * batch;
        self.submitted += count;
        Ok(Flow::new(connections, batch, count, done.length))
    }

    /// Claims and completes what the submits left behind, for a time or until there is no more.
    pub(super) async fn drain(&mut self, batch: u64) -> Result<Flow, Error> {
        let until = Instant::now() + self.length();
        let began = Instant::now();
        let mut workers = JoinSet::new();
        for number in 0..self.most() {
            let mut worker = Worker::open(self.broker.addr, number, "singles", batch, 0).await?;
            workers.spawn(async move {
                while Instant::now() < until && worker.turn(|_| ()).await? > 0 {}
                Ok::<u64, Error>(worker.completed)
            });
        }
        let mut completed = 0;
        while let Some(ended) = workers.join_next().await {
            completed += ended??;
        }
        self.completed += completed;
        Ok(Flow::new(self.most(), batch, completed, began.elapsed()))
    }

    /// Half of the connections submit while the other half claims and completes.
    pub(super) async fn end_to_end(&mut self, batch: u64) -> Result<Flow, Error> {
        let queue = if batch == 1 { "ends" } else { "ends-in-batches" };
        let half = (self.most() / 2).max(1);
        let request: Arc<[u8]> = match batch {
            1 => request::submit(queue, self.args.payload),
            _ => request::submit_batch(queue, self.args.payload, batch),
        }
        .into();
        let between = Arc::new(Between::default());
        let (began, until) = (Instant::now(), Instant::now() + self.length());
        let (mut producers, mut workers) = (JoinSet::new(), JoinSet::new());
        for number in 0..half {
            let connection = Connection::open(self.broker.addr).await.map_err(io("connect"))?;
            producers.spawn(produce(connection, request.clone(), batch, between.clone(), until));
            let worker = Worker::open(self.broker.addr, number, queue, batch, 1).await?;
            workers.spawn(consume(worker, between.clone()));
        }
        tokio::time::sleep_until(until.into()).await;
        let (in_time, length) = (between.completed.load(Ordering::Relaxed), began.elapsed());
        while let Some(ended) = producers.join_next().await {
            ended??;
        }
        between.over.store(1, Ordering::Relaxed);
        while let Some(ended) = workers.join_next().await {
            ended??;
        }
        self.submitted += between.submitted.load(Ordering::Relaxed);
        self.completed += between.completed.load(Ordering::Relaxed);
        Ok(Flow::new(2 * half, batch, in_time, length))
    }

    fn length(&self) -> Duration {
        Duration::from_secs(self.args.seconds)
    }

    fn most(&self) -> u64 {
        self.args.connections.iter().copied().max().unwrap_or(1)
    }
}

/// What producers and workers know of each other.
#[derive(Debug, Default)]
struct Between {
    submitted: AtomicU64,
    completed: AtomicU64,
    over: AtomicU64,
}

async fn produce(
    mut connection: Connection,
    request: Arc<[u8]>,
    batch: u64,
    between: Arc<Between>,
    until: Instant,
) -> Result<(), Error> {
    while Instant::now() < until {
        // Completed first: read the other way round, it could seem to be more than was submitted.
        let completed = between.completed.load(Ordering::Relaxed);
        let ahead = between.submitted.load(Ordering::Relaxed).saturating_sub(completed);
        if ahead > AHEAD {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        connection.call(&request).await.map_err(io("submit"))?.ok("a submit")?;
        between.submitted.fetch_add(batch, Ordering::Relaxed);
    }
    Ok(())
}

async fn consume(mut worker: Worker, between: Arc<Between>) -> Result<(), Error> {
    loop {
        let last = between.over.load(Ordering::Relaxed) == 1;
        let done = worker.turn(|_| ()).await?;
        between.completed.fetch_add(done, Ordering::Relaxed);
        if last && done == 0 {
            return Ok(());
        }
    }
}

/// What came of repeating one request.
#[derive(Debug)]
struct Repeated {
    latency: Histogram<u64>,
    length: Duration,
}

impl Repeated {
    fn per_second(&self) -> f64 {
        self.latency.len() as f64 / self.length.as_secs_f64()
    }
}

/// The load comes from one thread, so that as much of the machine as possible is the server's.
async fn repeat(
    addr: SocketAddr,
    connections: u64,
    request: &[u8],
    call: &'static str,
    length: Duration,
) -> Result<Repeated, Error> {
    let request: Arc<[u8]> = request.into();
    let load = tokio::task::spawn_blocking(move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(io("start"))?;
        runtime.block_on(repeat_here(addr, connections, request, call, length))
    });
    load.await?
}

async fn repeat_here(
    addr: SocketAddr,
    connections: u64,
    request: Arc<[u8]>,
    call: &'static str,
    length: Duration,
) -> Result<Repeated, Error> {
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(Connection::open(addr).await.map_err(io("connect"))?);
    }
    let began = Instant::now();
    let mut running = JoinSet::new();
    for mut connection in open {
        let request = request.clone();
        running.spawn(async move {
            let mut latency = histogram();
            let mut sent = Instant::now();
            while sent < began + length {
                connection.call(&request).await.map_err(io("call the server"))?.ok(call)?;
                let now = Instant::now();
                record(&mut latency, now - sent);
                sent = now;
            }
            Ok::<Histogram<u64>, Error>(latency)
        });
    }
    let mut latency = histogram();
    while let Some(ended) = running.join_next().await {
        add(&mut latency, &ended??);
    }
    Ok(Repeated { latency, length: began.elapsed() })
}
