//! Layers around handlers: one that measures, one that refuses, one that gives every handler a deadline of its own.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use windlass_client::worker::grpc::GrpcPort;
use windlass_client::worker::{Context, Job, Next, Outcome, Worker, around};
use windlass_client::{CancellationToken, Client, Submit};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::var("WINDLASS_GRPC_SERVER").unwrap_or_else(|_| "http://127.0.0.1:9090".into());
    let calls = Arc::new(AtomicU64::new(0));

    let counter = calls.clone();
    let measure = around(move |context: Context, job: Job, next: Next| {
        let counter = counter.clone();
        async move {
            let (began, log) = (Instant::now(), context.clone());
            let outcome = next.run(context, job).await;
            counter.fetch_add(1, Ordering::Relaxed);
            log.log(format_args!("took {:?}", began.elapsed()));
            outcome
        }
    });
    let tenants_only = around(|context: Context, job: Job, next: Next| async move {
        match job.metadata.iter().find(|(key, _)| key == "tenant") {
            Some(_) => next.run(context, job).await,
            None => Outcome::fatal("which tenant?"),
        }
    });
    let hurry = around(|context: Context, job: Job, next: Next| async move {
        match tokio::time::timeout(Duration::from_secs(5), next.run(context, job)).await {
            Ok(outcome) => outcome,
            Err(_) => Outcome::retry_in(Duration::from_secs(60), "too slow"),
        }
    });
    let worker = Worker::builder(GrpcPort::new(&address)?)
        .queues([("tenants", 1)])
        .layer(measure)
        .layer(tenants_only)
        .layer(hurry)
        .handler("greet", |_: Context, name: String| async move { Outcome::ok(format!("Hello {name}")) })
        .build()?;
    let stop = CancellationToken::new();
    let working = tokio::spawn(worker.run(stop.clone()));

    let client = Client::connect(&address)?;
    let known = Submit::new("greet", "Ada")?.queue("tenants").metadata("tenant", "acme");
    let unknown = Submit::new("greet", "Eve")?.queue("tenants");
    let wait = Duration::from_secs(30);
    let greeting: String = client.result(&client.submit(known).await?.id, wait).await?;
    println!("{greeting}");
    let refused = client.result::<String>(&client.submit(unknown).await?.id, wait).await;
    println!("{}", refused.err().map(|error| error.to_string()).unwrap_or_default());

    stop.cancel();
    working.await?;
    println!("{} tasks passed", calls.load(Ordering::Relaxed));
    Ok(())
}
