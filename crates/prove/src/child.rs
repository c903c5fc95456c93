//! A worker as a process of its own, to be stopped and killed.
//!
//! It claims one task, says so on its output, keeps the lease alive, and completes the task when it reads a line.

use std::io;
use std::net::SocketAddr;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use lexopt::prelude::ValueExt;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::http::{Http, NoAnswer};
use crate::proof::Trouble;
use crate::report;

const BEAT: Duration = Duration::from_millis(250);

/// What the process is told on its command line.
#[derive(Debug)]
pub(crate) struct Worker {
    address: SocketAddr,
    name: String,
    lease_seconds: u64,
}

impl Worker {
    pub(crate) fn read(parser: &mut lexopt::Parser) -> Result<Worker, lexopt::Error> {
        let mut next = || parser.value().and_then(|value| value.string());
        let (address, name, lease) = (next()?, next()?, next()?);
        let address = address.parse().map_err(|error| format!("{address}: {error}"))?;
        let lease_seconds = lease.parse().map_err(|error| format!("{lease}: {error}"))?;
        Ok(Worker { address, name, lease_seconds })
    }
}

/// The whole life of the process.
pub(crate) async fn work(worker: Worker) -> ExitCode {
    match hold(worker).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report::refuse(&error),
    }
}

async fn hold(worker: Worker) -> Result<(), String> {
    let words = |NoAnswer(words): NoAnswer| words;
    let mut http = Http::new(worker.address);
    let claim = json!({
        "worker_id": worker.name, "max": 1, "wait_seconds": 10, "lease_seconds": worker.lease_seconds,
    });
    let answer = http.post("/api/v1/claim", &claim).await.map_err(words)?;
    let task = &answer.body["tasks"][0];
    let (Some(id), Some(lease)) = (task["id"].as_str(), task["lease"].as_str()) else {
        return Err(format!("no task: {}", answer.body));
    };
    report::tell(&format!("claimed {id} {lease}"));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut beat = tokio::time::interval(BEAT);
    loop {
        tokio::select! {
            biased;
            line = lines.next_line() => {
                if line.map_err(|error| error.to_string())?.is_none() {
                    return Ok(());
                }
                let outcome = json!({"lease": lease, "result": worker.name});
                let answer = http.post(&format!("/api/v1/tasks/{id}/complete"), &outcome).await.map_err(words)?;
                report::tell(&format!("{} {}", answer.status, answer.code()));
            }
            _ = beat.tick() => {
                let beat = json!({"incarnation": 1, "leases": [{"id": id, "lease": lease}]});
                http.post(&format!("/api/v1/workers/{}/heartbeat", worker.name), &beat).await.map_err(words)?;
            }
        }
    }
}

/// The process from outside.
#[derive(Debug)]
pub(crate) struct Hand {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    pub(crate) id: String,
    pub(crate) lease: String,
}

impl Hand {
    /// Starts a worker and waits until it holds a task.
    pub(crate) async fn start(address: SocketAddr, name: &str, lease_seconds: u64) -> Result<Hand, Trouble> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["child-worker", &address.to_string(), name, &lease_seconds.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(input), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Trouble::failed("a worker has no pipes"));
        };
        let mut lines = BufReader::new(stdout).lines();
        let line = lines.next_line().await?.unwrap_or_default();
        let words: Vec<&str> = line.split(' ').collect();
        let &["claimed", id, lease] = words.as_slice() else {
            return Err(Trouble::failed(format!("a worker got no task: {line}")));
        };
        Ok(Hand { id: id.to_owned(), lease: lease.to_owned(), child, input, lines })
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Trouble> {
        let id = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let id = id.ok_or_else(|| Trouble::failed("the worker is gone already"))?;
        Ok(kill_process(id, signal).map_err(io::Error::from)?)
    }

    /// Has it complete its task; what it was told.
    pub(crate) async fn finish(&mut self) -> Result<String, Trouble> {
        self.input.write_all(b"finish\n").await?;
        Ok(self.lines.next_line().await?.unwrap_or_else(|| "no answer".to_owned()))
    }

    pub(crate) async fn kill(&mut self) -> Result<ExitStatus, Trouble> {
        self.signal(Signal::KILL)?;
        Ok(self.child.wait().await?)
    }
}
