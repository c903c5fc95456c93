//! How long a task waits from being sent to being in the hands of a worker that waits for it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use super::pace::Pace;
use super::work::Worker;
use super::{Args, AtRate, request};
use crate::bench::Error;
use crate::bench::engine::expect;
use crate::bench::report::{Latency, add, histogram, record};

/// Enough that one of them always waits.
const WORKERS: u64 = 32;
const PRODUCERS: u64 = 32;

pub(super) async fn measure(addr: SocketAddr, rate: u64, args: &Args) -> Result<AtRate, Error> {
    let over = Arc::new(AtomicBool::new(false));
    let queue = format!("rate-{rate}");
    let mut workers = JoinSet::new();
    // Long enough from now that every worker waits when the first task comes.
    let began = Instant::now() + Duration::from_millis(500);
    for number in 0..WORKERS {
        let worker = Worker::open(addr, number, &queue, 1, 1).await?;
        workers.spawn(wait_for_tasks(worker, began, over.clone()));
    }
    tokio::time::sleep_until(began.into()).await;
    let filler = args.payload.saturating_sub(16) as usize;
    let make = move |due: Duration| {
        // The payload says when it was due, in nanoseconds, and is filled up to its size.
        let payload = format!("[{},\"{}\"]", due.as_nanos(), "x".repeat(filler));
        request::post("/api/v1/tasks", request::task(&queue, &payload).as_bytes())
    };
    let length = Duration::from_secs(args.seconds);
    let answered = Pace { addr, connections: PRODUCERS, rate, length, began }.run("a submit", make).await?;
    over.store(true, Ordering::Relaxed);
    let mut claimed = histogram();
    while let Some(ended) = workers.join_next().await {
        add(&mut claimed, &ended??);
    }
    expect("tasks that reached a worker", answered.len(), claimed.len())?;
    Ok(AtRate {
        rate,
        sent: answered.len(),
        submit_to_claimed: Latency::of(&claimed),
        submit_answered: Latency::of(&answered),
    })
}

async fn wait_for_tasks(
    mut worker: Worker,
    began: Instant,
    over: Arc<AtomicBool>,
) -> Result<Histogram<u64>, Error> {
    let mut latency = histogram();
    loop {
        let last = over.load(Ordering::Relaxed);
        let arrived = |payload: &str| {
            let now = began.elapsed();
            let due = payload.trim_start_matches('[').split(',').next().and_then(|text| text.parse().ok());
            record(&mut latency, now.saturating_sub(Duration::from_nanos(due.unwrap_or_default())));
        };
        if worker.turn(arrived).await? == 0 && last {
            return Ok(latency);
        }
    }
}
