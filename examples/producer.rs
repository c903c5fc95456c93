//! Submits tasks and waits for their results. Run the `worker` example beside it.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_client::{Client, Error, OnConflict, Submit};
use windlass_core::Priority;

#[derive(Serialize)]
struct Resize {
    image: String,
    width: u32,
}

#[derive(Debug, Deserialize)]
struct Resized {
    bytes: u64,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let address = std::env::var("WINDLASS_GRPC_SERVER").unwrap_or_else(|_| "http://127.0.0.1:9090".into());
    let client = Client::connect(&address)?;

    let resize = Resize { image: "cat.png".into(), width: 640 };
    let submit = Submit::new("image.resize", &resize)?
        .queue("images")
        .priority(Priority(200))
        .max_retries(5)
        .timeout(Duration::from_secs(60));
    let task = client.submit(submit).await?;
    let resized: Resized = client.result(&task.id, Duration::from_secs(30)).await?;
    println!("{} is {} bytes now", resize.image, resized.bytes);

    let batch: Vec<Submit> = (1..=100)
        .map(|width| Submit::new("image.resize", &Resize { image: "dog.png".into(), width }))
        .map(|submit| Ok(submit?.queue("images")))
        .collect::<Result<_, Error>>()?;
    let mut total = 0;
    for answer in client.submit_batch(&batch).await? {
        let resized: Resized = client.result(&answer?.id, Duration::from_secs(30)).await?;
        total += resized.bytes;
    }
    println!("{} thumbnails, {total} bytes", batch.len());

    let import = client.submit(Submit::new("import", &serde_json::json!({"pages": 5}))?).await?;
    let rest: u32 = client.result(&import.id, Duration::from_secs(30)).await?;
    println!("{rest} of 5 pages were left for the second attempt");

    let rebuild = Submit::new("index.build", &7)?
        .unique_key("index")
        .on_conflict(OnConflict::Replace)
        .delay(Duration::from_secs(2));
    client.submit(rebuild).await?;
    let another = Submit::new("index.build", &8)?.unique_key("index").on_conflict(OnConflict::Reject);
    if let Err(refused) = client.submit(another).await {
        println!("{:?} is on it", refused.holder());
    }

    match client.submit(Submit::new("image.resize", "no image")?.queue("images")).await {
        Ok(task) => match client.result::<Resized>(&task.id, Duration::from_secs(30)).await {
            Err(Error::Unfinished { state, error, .. }) => println!("{}: {error:?}", state.as_str()),
            other => println!("{other:?}"),
        },
        Err(error) => println!("refused: {error}"),
    }
    Ok(())
}
