//! Broker, producer and worker in one process. The store is in memory here; an `EmbeddedStore` keeps the tasks on disk.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use windlass_broker::{Broker, Settings};
use windlass_client::worker::embedded::BrokerPort;
use windlass_client::worker::{Context, Failure, Worker};
use windlass_client::{CancellationToken, Client, Submit};
use windlass_store::SystemClock;
use windlass_store::memory::MemoryStore;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = SystemClock::shared();
    let broker = Broker::start(MemoryStore::new(clock.clone()), clock, Settings::default());

    let worker = Worker::builder(BrokerPort::new(broker.clone()))
        .handler("sum", |_: Context, numbers: Vec<i64>| async move {
            Ok::<_, Failure>(numbers.iter().sum::<i64>())
        })
        .build()?;
    let stop = CancellationToken::new();
    let working = tokio::spawn(worker.run(stop.clone()));

    let client = Client::embedded(broker.clone());
    let task = client.submit(Submit::new("sum", &[1, 2, 3])?).await?;
    let sum: i64 = client.result(&task.id, Duration::from_secs(30)).await?;
    println!("the sum is {sum}");

    stop.cancel();
    working.await?;
    broker.stop().await;
    Ok(())
}
