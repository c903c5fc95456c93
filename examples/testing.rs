//! How to test handlers: the broker is real, its clock is yours. In a project this would be a `#[tokio::test]`.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use windlass_client::Submit;
use windlass_client::testing::Testing;
use windlass_client::worker::{Context, Failure};
use windlass_core::StateName;

async fn remind(context: Context, user: String) -> Result<String, Failure> {
    if context.attempt() < 3 {
        return Err(Failure::retry_in(Duration::from_secs(3600), "the mail server is down"));
    }
    Ok(format!("reminded {user}"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let testing = Testing::start(|worker| worker.handler("remind", remind))?;
    let client = testing.client();
    let task = client.submit(Submit::new("remind", "ada")?.delay(Duration::from_secs(86_400))).await?;

    testing.assert_submitted("remind", |user: &String| user == "ada").await;
    assert_eq!(client.task(&task.id).await?.state, StateName::Scheduled);

    testing.drain().await;
    let said: String = client.result(&task.id, Duration::ZERO).await?;
    println!("{said}, a day and two hours later");
    assert_eq!(client.task(&task.id).await?.attempts, 3);
    testing.stop().await;
    Ok(())
}
