//! A worker with a few handlers. Ends on Ctrl-C or SIGTERM, after what it is doing.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use windlass_client::worker::grpc::GrpcPort;
use windlass_client::worker::handler::Options;
use windlass_client::worker::{Context, Failure, Worker};

#[derive(Deserialize)]
struct Resize {
    image: String,
    width: u32,
}

#[derive(Serialize)]
struct Resized {
    bytes: u64,
}

async fn resize(context: Context, job: Resize) -> Result<Resized, Failure> {
    if !job.image.ends_with(".png") {
        return Err(Failure::fatal("not a PNG: no retry will change that"));
    }
    if context.attempt() == 1 && job.width == 13 {
        return Err(Failure::retry_in(Duration::from_millis(100), "bad luck, soon again"));
    }
    context.progress(0.5, Some("half of the pixels"));
    Ok(Resized { bytes: u64::from(job.width) * 100 })
}

#[derive(Deserialize)]
struct Import {
    pages: u32,
}

async fn import(context: Context, job: Import) -> Result<u32, Failure> {
    let done = match context.checkpoint() {
        Some(bytes) => String::from_utf8_lossy(&bytes).parse()?,
        None => 0,
    };
    for page in done..job.pages {
        context.progress(f64::from(page) / f64::from(job.pages), None);
        context.save_checkpoint((page + 1).to_string()).await?;
        if page == 1 && context.attempt() == 1 {
            return Err(Failure::retry_in(Duration::from_millis(10), "the line dropped"));
        }
    }
    Ok(job.pages - done)
}

async fn long(context: Context, seconds: u64) -> Result<&'static str, Failure> {
    tokio::select! {
        () = tokio::time::sleep(Duration::from_secs(seconds)) => Ok("slept well"),
        cause = context.cancelled() => Err(Failure::retry(format!("woken up: {cause:?}"))),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::var("WINDLASS_GRPC_SERVER").unwrap_or_else(|_| "http://127.0.0.1:9090".into());
    let limits = Options { concurrency: Some(2), timeout: Some(Duration::from_secs(600)) };
    let worker = Worker::builder(GrpcPort::new(&address)?)
        .queues([("images", 3), ("default", 1)])
        .concurrency(16)
        .handler("image.resize", resize)
        .handler("import", import)
        .handler_with("long", limits, long)
        .build()?;

    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    println!("{} works", worker.id());
    worker
        .run_until(async move {
            tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        })
        .await;
    println!("all done");
    Ok(())
}
