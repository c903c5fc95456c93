//! Closed loops: as many tasks as some connections can carry. All load comes from one thread, so that as much of the machine
//! as possible is the server's.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Deserialize;
use tokio::task::JoinSet;
use windlass_proto::tcp::Kind;

use super::connection::Connection;
use super::request;
use crate::bench::report::{add, histogram, record};
use crate::bench::{Error, io};

/// The same frames over and over.
#[derive(Debug, Clone)]
pub(super) struct Repeat {
    pub(super) addr: SocketAddr,
    pub(super) connections: u64,
    pub(super) request: Arc<[u8]>,
    /// Requests sent at a time, in one write.
    pub(super) depth: u64,
    /// The type of a good answer.
    pub(super) answer: Kind,
    pub(super) call: &'static str,
    pub(super) length: Duration,
}

/// What came of it: a latency for each write and its answers.
#[derive(Debug)]
pub(super) struct Repeated {
    pub(super) latency: Histogram<u64>,
    pub(super) requests: u64,
    pub(super) length: Duration,
}

impl Repeated {
    pub(super) fn per_second(&self) -> f64 {
        self.requests as f64 / self.length.as_secs_f64()
    }
}

impl Repeat {
    pub(super) async fn run(self) -> Result<Repeated, Error> {
        let depth = self.depth;
        let (latency, length) = on_one_thread(move || self.run_here()).await?;
        Ok(Repeated { requests: latency.len() * depth, latency, length })
    }

    async fn run_here(self) -> Result<(Histogram<u64>, Duration), Error> {
        let mut open = Vec::new();
        for _ in 0..self.connections {
            open.push(Connection::open(self.addr).await.map_err(io("connect"))?);
        }
        let frames: Arc<[u8]> = self.request.repeat(self.depth as usize).into();
        let began = Instant::now();
        let mut running = JoinSet::new();
        for mut connection in open {
            let frames = frames.clone();
            let Repeat { depth, answer, call, length, .. } = self;
            running.spawn(async move {
                let mut latency = histogram();
                let mut sent = Instant::now();
                while sent < began + length {
                    connection.send(&frames).await.map_err(io("send"))?;
                    for _ in 0..depth {
                        connection.answer(call, answer).await?;
                    }
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
        Ok((latency, began.elapsed()))
    }
}

/// Claims and completes what is in a queue, for a time or until there is no more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drain {
    pub(super) addr: SocketAddr,
    pub(super) connections: u64,
    pub(super) queue: &'static str,
    pub(super) batch: u64,
    pub(super) length: Duration,
}

#[derive(Deserialize)]
struct Claimed<'a> {
    #[serde(borrow)]
    tasks: Vec<Leased<'a>>,
}

#[derive(Deserialize)]
struct Leased<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    lease: Cow<'a, str>,
}

impl Drain {
    /// How many tasks were completed, and in which time.
    pub(super) async fn run(self) -> Result<(u64, Duration), Error> {
        on_one_thread(move || self.run_here()).await
    }

    async fn run_here(self) -> Result<(u64, Duration), Error> {
        let mut open = Vec::new();
        for number in 0..self.connections {
            open.push((number, Connection::open(self.addr).await.map_err(io("connect"))?));
        }
        let began = Instant::now();
        let mut workers = JoinSet::new();
        for (number, mut connection) in open {
            workers.spawn(async move {
                let claim = request::claim(number, self.queue, self.batch);
                let mut completed = 0;
                while began.elapsed() < self.length {
                    match turn(&mut connection, &claim).await? {
                        0 => break,
                        done => completed += done,
                    }
                }
                Ok::<u64, Error>(completed)
            });
        }
        let mut completed = 0;
        while let Some(ended) = workers.join_next().await {
            completed += ended??;
        }
        Ok((completed, began.elapsed()))
    }
}

/// One claim, and the results of all its tasks in one write.
async fn turn(connection: &mut Connection, claim: &[u8]) -> Result<u64, Error> {
    let call = "a claim";
    connection.send(claim).await.map_err(io("claim"))?;
    let answer = connection.answer(call, Kind::Ack).await?;
    let claimed: Claimed<'_> =
        serde_json::from_slice(answer).map_err(|error| Error::Answer { call, reason: error.to_string() })?;
    let mut results = Vec::new();
    claimed.tasks.iter().for_each(|task| request::complete(&mut results, &task.id, &task.lease));
    let count = claimed.tasks.len() as u64;
    connection.send(&results).await.map_err(io("complete"))?;
    for _ in 0..count {
        connection.answer("a result", Kind::Ack).await?;
    }
    Ok(count)
}

async fn on_one_thread<T, F>(load: impl FnOnce() -> F + Send + 'static) -> Result<T, Error>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>>,
{
    let thread = tokio::task::spawn_blocking(move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(io("start"))?;
        runtime.block_on(load())
    });
    thread.await?
}
