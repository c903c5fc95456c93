//! A graph of tasks in one call: two shops are asked side by side, and a report reads what they said.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use windlass_client::worker::grpc::GrpcPort;
use windlass_client::worker::{Context, Failure, Worker};
use windlass_client::{CancellationToken, Client, NewWorkflow, Submit};
use windlass_core::TaskId;

async fn price(_: Context, shop: String) -> Result<u64, Failure> {
    Ok(shop.len() as u64 * 10)
}

async fn cheapest(context: Context, item: String) -> Result<String, Failure> {
    let mut offers = Vec::new();
    for shop in context.dependencies().await? {
        let price: u64 = shop.json()?;
        offers.push((price, shop.name.unwrap_or_default()));
    }
    let (price, shop) = offers.into_iter().min().ok_or_else(|| Failure::fatal("no offers"))?;
    Ok(format!("{item} costs {price} at {shop}"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::var("WINDLASS_GRPC_SERVER").unwrap_or_else(|_| "http://127.0.0.1:9090".into());
    let worker = Worker::builder(GrpcPort::new(&address)?)
        .handler("price", price)
        .handler("cheapest", cheapest)
        .build()?;
    let stop = CancellationToken::new();
    let working = tokio::spawn(worker.run(stop.clone()));
    let client = Client::connect(&address)?;

    let graph = NewWorkflow::new()
        .task("corner", Submit::new("price", "corner shop")?, &[])
        .task("market", Submit::new("price", "market")?, &[])
        .task("best", Submit::new("cheapest", "tea")?, &["corner", "market"]);
    let workflow = client.submit_workflow(&graph).await?;
    let best: TaskId = workflow.tasks["best"].parse()?;
    let said: String = client.result(&best, Duration::from_secs(30)).await?;
    println!("{said}");

    let seen = client.workflow(&workflow.id, 100, None).await?;
    for node in seen.nodes.unwrap_or_default() {
        println!("{} is {}, after {:?}", node.name, node.state.as_str(), node.after);
    }
    stop.cancel();
    working.await?;
    Ok(())
}
