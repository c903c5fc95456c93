//! Clients that grpcio-tools makes of our proto files.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::broker_process::BrokerProcess;
use crate::grpc_client::{Work, hello, ids, submit};
use crate::python;

#[test]
fn a_generated_python_client_does_everything() {
    let broker = BrokerProcess::start();
    let generated = tempfile::tempdir().unwrap();
    let address = broker.grpc_address.to_string();
    let output = python::script("client.py", generated.path()).arg(address).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = String::from_utf8_lossy(&output.stdout);
    let steps: Vec<&str> = shown.lines().collect();
    assert_eq!(steps, ["reflection", "health", "submit", "claim", "complete", "work", "refusals"]);
    let stats = broker.client().get("/api/v1/stats").expect(200);
    assert_eq!((&stats["tasks"]["completed"], &stats["tasks"]["pending"]), (&21.into(), &0.into()));
}

#[tokio::test]
async fn the_tasks_of_a_killed_worker_run_elsewhere_without_waiting_for_their_leases() {
    let broker = BrokerProcess::start();
    let address = broker.grpc_address;
    let generated = tempfile::tempdir().unwrap();
    submit(address, &["a", "b"]).await;
    let mut victim = python::script("hold.py", generated.path())
        .arg(address.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let held: Vec<String> =
        BufReader::new(victim.stdout.take().unwrap()).lines().take(2).map(Result::unwrap).collect();
    assert_eq!(held, ["a", "b"]);
    let (mut other, _) = Work::begin(address, hello("other", 2)).await;
    other.grant(10);
    // SIGKILL: it has no chance to say anything.
    victim.kill().unwrap();
    victim.wait().unwrap();
    let mut back = other.take(2).await;
    back.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(ids(&back), ["a", "b"]);
    assert!(back.iter().all(|task| task.crashes == 1 && task.attempt == 2));
    other.complete(1, &back);
    assert_eq!(other.ack().await.refusals, []);
}
