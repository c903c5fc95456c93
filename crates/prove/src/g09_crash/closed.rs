//! Workers whose connection tells of their death: `windlass worker exec` over gRPC, killed while its program runs.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::process::{Child, Command};

use super::Told;
use crate::http::Http;
use crate::proof::{Run, Trouble};
use crate::server::Server;

pub(super) const LEASE: Duration = Duration::from_secs(60);
/// A task that takes longer waited for its lease and not for the connection.
const PATIENCE: Duration = Duration::from_secs(20);

/// The workers share a queue of their own; whoever is killed leaves its task to one of those who wait.
pub(super) async fn crash(run: &Run, server: &Server, round: usize, kills: usize) -> Result<Told, Trouble> {
    let queue = format!("closed-{round}");
    let mut http = server.http();
    let body = json!({"id": queue, "type": "closed", "queue": queue, "max_crashes": 100});
    let answer = http.post("/api/v1/tasks", &body).await?;
    if answer.status != 201 {
        return Err(Trouble::failed(format!("submit answered {}: {}", answer.status, answer.body)));
    }
    let mut told = Told::default();
    let mut worker = start(run, server, &queue, 0)?;
    let mut holder = started(&mut http, &queue, "").await?;
    for number in 1..=kills {
        let mut heir = start(run, server, &queue, number)?;
        connected(&mut http, &format!("{queue}-{number}")).await?;
        worker.kill().await?;
        let at = Instant::now();
        holder = started(&mut http, &queue, &holder).await?;
        let delay = at.elapsed();
        if delay > PATIENCE {
            told.complaints.push(format!("stuck: {queue} came back after {} s", delay.as_secs()));
        }
        told.delays.push(delay);
        std::mem::swap(&mut worker, &mut heir);
    }
    worker.kill().await?;
    let answer = http.post(&format!("/api/v1/tasks/{queue}/cancel"), &json!({})).await?;
    if answer.status != 200 {
        told.complaints.push(format!("unexpected: cancel answered {}", answer.status));
    }
    Ok(told)
}

fn start(run: &Run, server: &Server, queue: &str, number: usize) -> Result<Child, Trouble> {
    let grpc = server.grpc().ok_or_else(|| Trouble::failed("the broker has no gRPC interface"))?;
    let mut command = Command::new(&run.binary);
    command
        .args(["worker", "exec", "--type", "closed", "--queue", queue, "--id", &format!("{queue}-{number}")])
        .args(["--lease", &format!("{}s", LEASE.as_secs())])
        .args([
            "--server",
            &format!("http://{}", server.address()),
            "--grpc-server",
            &format!("http://{grpc}"),
        ])
        // Nobody ends it when its worker is killed, so it ends by itself.
        .args(["--", "sleep", "30"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    Ok(command.spawn()?)
}

/// Waits until somebody else than `last` runs the task; says who.
async fn started(http: &mut Http, id: &str, last: &str) -> Result<String, Trouble> {
    let began = Instant::now();
    while began.elapsed() < LEASE {
        let answer = http.get(&format!("/api/v1/tasks/{id}")).await?;
        if let Some(worker) = answer.body["worker_id"].as_str().filter(|worker| *worker != last) {
            return Ok(worker.to_owned());
        }
        // sleep: what a task does is only told when asked for.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Err(Trouble::failed(format!("nobody runs {id}")))
}

async fn connected(http: &mut Http, worker: &str) -> Result<(), Trouble> {
    let began = Instant::now();
    while began.elapsed() < LEASE {
        if http.get(&format!("/api/v1/workers/{worker}")).await?.status == 200 {
            return Ok(());
        }
        // sleep: as above.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Err(Trouble::failed(format!("{worker} did not connect")))
}
