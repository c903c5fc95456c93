//! How many tasks a second one worker carries, with handlers that do nothing: drains a backlog, then a stream of batches.
//!
//! `throughput [TASKS [SLOTS]]`, 200,000 and 2,000 unless given; payloads of 200 bytes.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::sync::Notify;
use windlass_client::worker::grpc::GrpcPort;
use windlass_client::worker::{Context, Job, Outcome, Worker};
use windlass_client::{CancellationToken, Client, Submit};

const BATCH: u64 = 1000;

#[derive(Default)]
struct Progress {
    done: AtomicU64,
    moved: Notify,
}

impl Progress {
    async fn reaches(&self, goal: u64) {
        while self.done.load(Ordering::Relaxed) < goal {
            self.moved.notified().await;
        }
    }
}

fn worker(
    address: &str,
    queue: &str,
    slots: u32,
    progress: &Arc<Progress>,
) -> Result<Worker, Box<dyn std::error::Error>> {
    let progress = progress.clone();
    let handler = move |_: Context, _: Job| {
        // The test of the goal is cheap this way: one wake-up for many tasks.
        if progress.done.fetch_add(1, Ordering::Relaxed) % 100 == 99 {
            progress.moved.notify_one();
        }
        std::future::ready(Outcome::Done(None))
    };
    let port = GrpcPort::new(address)?;
    Ok(Worker::builder(port).queues([(queue, 1)]).concurrency(slots).handler("noop", handler).build()?)
}

async fn submit(client: &Client, queue: &str, payload: &str) -> Result<(), windlass_client::Error> {
    let task = || Ok::<_, windlass_client::Error>(Submit::new("noop", payload)?.queue(queue));
    let batch: Vec<Submit> = (0..BATCH).map(|_| task()).collect::<Result<_, _>>()?;
    for answer in client.submit_batch(&batch).await? {
        answer?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::var("WINDLASS_GRPC_SERVER").unwrap_or_else(|_| "http://127.0.0.1:9090".into());
    let tasks: u64 = std::env::args().nth(1).map_or(Ok(200_000), |text| text.parse())?;
    let slots: u32 = std::env::args().nth(2).map_or(Ok(2000), |text| text.parse())?;
    let tasks = tasks.div_ceil(BATCH) * BATCH;
    let payload = "x".repeat(198);
    let client = Client::connect(&address)?;

    for _ in 0..tasks / BATCH {
        submit(&client, "drain", &payload).await?;
    }
    let progress = Arc::new(Progress::default());
    let stop = CancellationToken::new();
    let began = Instant::now();
    let working = tokio::spawn(worker(&address, "drain", slots, &progress)?.run(stop.clone()));
    progress.reaches(tasks).await;
    stop.cancel();
    // The worker leaves when every outcome is acknowledged, that is, durable.
    working.await?;
    let rate = tasks as f64 / began.elapsed().as_secs_f64();
    println!("drained {tasks} tasks: {rate:.0} claimed and completed per second");

    let progress = Arc::new(Progress::default());
    let stop = CancellationToken::new();
    let working = tokio::spawn(worker(&address, "flow", slots, &progress)?.run(stop.clone()));
    let began = Instant::now();
    for _ in 0..tasks / BATCH {
        submit(&client, "flow", &payload).await?;
    }
    progress.reaches(tasks).await;
    stop.cancel();
    working.await?;
    let rate = tasks as f64 / began.elapsed().as_secs_f64();
    println!(
        "one producer and one worker together, {tasks} tasks: {rate:.0} submitted, claimed and completed per second"
    );
    Ok(())
}
