//! The workloads, the same for every driver: closed loops over some connections, and for latency an open loop at a fixed rate.
//!
//! Everything runs on the one thread of the program, so that the rest of the machine is the server's. A closed loop asks for
//! nothing new when its time is over, waits for what is under way, and divides by the time that all of it took.

mod latency;

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use crate::driver::{Driver, Producer, Worker};
use crate::measure::{BATCHES, Latency, SINGLES, Sample};
use crate::payload;

pub(crate) use latency::latency;

/// Tasks that producers may be ahead of workers by.
const AHEAD: u64 = 10_000;
/// Before producers and workers are counted, for the queue between them to fill.
const WARM: Duration = Duration::from_millis(200);
/// How much longer than asked for a slow system may take to show a result.
const PATIENCE: Duration = Duration::from_secs(10);

/// W1 and W2: as many submits as the connections carry.
pub(crate) async fn submit<D: Driver>(
    driver: &D,
    connections: usize,
    batch: usize,
    length: Duration,
) -> Result<Sample> {
    let payload = payload::at(0);
    let mut producers = Vec::new();
    for _ in 0..connections {
        let mut producer = driver.producer().await?;
        // The first request on a connection may cost more.
        producer.submit(&[&payload]).await?;
        producers.push(producer);
    }
    let began = Instant::now();
    let until = began + length;
    let mut running = JoinSet::new();
    for mut producer in producers {
        let payload = payload.clone();
        running.spawn_local(async move {
            let payloads = vec![payload.as_slice(); batch];
            let mut latency = histogram();
            let mut sent = began;
            while sent < until {
                producer.submit(&payloads).await?;
                let now = Instant::now();
                latency.saturating_record((now - sent).as_nanos() as u64);
                sent = now;
            }
            Ok::<_, anyhow::Error>(latency)
        });
    }
    let mut latency = histogram();
    while let Some(ended) = running.join_next().await {
        latency.add(ended??).context("add up latencies")?;
    }
    Ok(Sample {
        operations: latency.len() * batch as u64,
        seconds: began.elapsed().as_secs_f64(),
        latency: Some(summary(&latency)),
        ..Sample::default()
    })
}

/// Puts tasks into the queue as fast as possible, until there are `count` or the time is over, and says how many.
pub(crate) async fn fill<D: Driver>(driver: &D, count: u64, at_most: Duration) -> Result<u64> {
    const BATCH: usize = 1000;
    let until = Instant::now() + at_most;
    let left = Rc::new(Cell::new(count));
    let filled = Rc::new(Cell::new(0));
    let mut running = JoinSet::new();
    for _ in 0..BATCHES {
        let mut producer = driver.producer().await?;
        let (left, filled) = (left.clone(), filled.clone());
        running.spawn_local(async move {
            let payload = payload::at(0);
            let payloads = vec![payload.as_slice(); BATCH];
            while left.get() > 0 && Instant::now() < until {
                let next = left.get().min(BATCH as u64);
                left.set(left.get() - next);
                producer.submit(&payloads[..next as usize]).await?;
                filled.set(filled.get() + next);
            }
            Ok::<_, anyhow::Error>(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(filled.get())
}

/// W3: claims and completes `backlog` tasks that are there, for a time or until there are no more.
pub(crate) async fn drain<D: Driver>(
    driver: &D,
    batch: usize,
    backlog: u64,
    length: Duration,
) -> Result<Sample> {
    let connections = if batch == 1 { SINGLES } else { BATCHES };
    let mut workers = Vec::new();
    for number in 0..connections {
        workers.push(driver.worker(number, batch).await?);
    }
    let began = Instant::now();
    let until = began + length;
    let done = Rc::new(Cell::new((0, began)));
    let mut running = JoinSet::new();
    for mut worker in workers {
        let done = done.clone();
        running.spawn_local(async move {
            while Instant::now() < until && done.get().0 < backlog {
                let count = worker.turn(&mut |_| ()).await? as u64;
                if count > 0 {
                    done.set((done.get().0 + count, Instant::now()));
                }
            }
            Ok::<_, anyhow::Error>(())
        });
    }
    // A worker that waits for a task when the last one is gone need not wait any longer.
    while !running.is_empty() && done.get().0 < backlog && Instant::now() < until + PATIENCE {
        tokio::select! {
            ended = running.join_next() => if let Some(ended) = ended { ended??; },
            () = tokio::time::sleep(Duration::from_millis(1)) => {}
        }
    }
    running.abort_all();
    let (operations, last) = done.get();
    if operations == 0 {
        bail!("no task of the backlog was done in time");
    }
    Ok(Sample { operations, seconds: (last - began).as_secs_f64(), ..Sample::default() })
}

/// W4: some connections submit while as many claim and complete. Counts what was completed.
pub(crate) async fn flow<D: Driver>(driver: &D, batch: usize, length: Duration) -> Result<Sample> {
    let pairs = if batch == 1 { SINGLES / 2 } else { BATCHES };
    let (submitted, completed) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let mut running: JoinSet<Result<()>> = JoinSet::new();
    for number in 0..pairs {
        let mut worker = driver.worker(number, batch).await?;
        let mut producer = driver.producer().await?;
        let counter = completed.clone();
        running.spawn_local(async move {
            loop {
                let count = worker.turn(&mut |_| ()).await?;
                counter.set(counter.get() + count as u64);
            }
        });
        let (submitted, completed) = (submitted.clone(), completed.clone());
        running.spawn_local(async move {
            let payload = payload::at(0);
            let payloads = vec![payload.as_slice(); batch];
            loop {
                if submitted.get() > completed.get() + AHEAD {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                }
                submitted.set(submitted.get() + batch as u64);
                producer.submit(&payloads).await?;
            }
        });
    }
    failing(&mut running, WARM).await?;
    let (before, began) = (completed.get(), Instant::now());
    failing(&mut running, length).await?;
    while completed.get() == before && began.elapsed() < length + PATIENCE {
        failing(&mut running, Duration::from_millis(1)).await?;
    }
    let seconds = began.elapsed().as_secs_f64();
    Ok(Sample { operations: completed.get() - before, seconds, ..Sample::default() })
}

/// Lets tasks that have no end run for a while.
async fn failing(running: &mut JoinSet<Result<()>>, length: Duration) -> Result<()> {
    match tokio::time::timeout(length, running.join_next()).await {
        Ok(Some(ended)) => ended?,
        Ok(None) | Err(_) => Ok(()),
    }
}

/// Of nanoseconds; three digits are right.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 100_000_000_000, 3).expect("the bounds are valid")
}

fn summary(latency: &Histogram<u64>) -> Latency {
    let ms = |nanos: u64| nanos as f64 / 1e6;
    Latency {
        p50_ms: ms(latency.value_at_quantile(0.5)),
        p99_ms: ms(latency.value_at_quantile(0.99)),
        max_ms: ms(latency.max()),
    }
}

#[cfg(test)]
mod tests;
