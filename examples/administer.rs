//! Looks after a broker: schedules, limits, acts on many tasks, and why a task does not run.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use windlass_client::{
    Client, Error, Filter, LimitInput, NewSchedule, OperationInput, Overlap, RateBody, Scope, Seconds, Submit,
};
use windlass_core::Name;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let address = std::env::var("WINDLASS_GRPC_SERVER").unwrap_or_else(|_| "http://127.0.0.1:9090".into());
    let client = Client::connect(&address)?;
    let name = |text: &str| Name::new(text).expect("a valid name");

    let report = Submit::new("report", &serde_json::json!({"day": "{{scheduled_at}}"}))?.queue("reports");
    let nightly = NewSchedule::new("nightly", "0 2 * * MON-FRI", report)
        .timezone("Europe/Berlin")
        .overlap(Overlap::Skip)
        .jitter(Duration::from_secs(60));
    let schedule = client.put_schedule(&nightly).await?;
    let task = client.run_schedule(&schedule.id).await?;
    println!("{} is {}", schedule.id, schedule.standing.code);

    let rate = Some(RateBody { count: 100, per_seconds: Seconds(60.0) });
    let limit = LimitInput { max_concurrency: Some(5), rate, ..LimitInput::default() };
    client.set_limit(Scope::Type, &name("report"), &limit).await?;

    for reason in client.explain(&task.id).await?.reasons {
        println!("{}: {}", reason.code, reason.text);
    }

    let waiting = Filter { queue: Some(name("reports")), state: Some("pending".into()), ..Filter::default() };
    println!("{} waits", client.tasks(&waiting).await?.items.len());
    let order = OperationInput {
        action: "cancel".into(),
        filter: "queue:reports state:pending".into(),
        ..OperationInput::default()
    };
    println!("{} would be cancelled", client.preview_operation(&order).await?.would_change);
    let operation = client.start_operation(&order).await?;
    let ended = client.wait(&task.id, Duration::from_secs(30)).await?;
    println!("{} began, and the report is {}", operation.action, ended.state.as_str());

    client.remove_schedule(&schedule.id).await?;
    client.remove_limit(Scope::Type, &name("report")).await?;
    Ok(())
}
