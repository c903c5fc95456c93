//! Submits a task and waits for its result, without an async runtime.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use windlass_client::{Error, Submit, blocking::Client};

fn main() -> Result<(), Error> {
    let address = std::env::var("WINDLASS_GRPC_SERVER").unwrap_or_else(|_| "http://127.0.0.1:9090".into());
    let client = Client::connect(&address)?;
    let task = client.submit(Submit::new("echo", "hello")?)?;
    let said: String = client.result(&task.id, Duration::from_secs(30))?;
    println!("the echo said {said}");
    Ok(())
}
