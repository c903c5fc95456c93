//! The programs of a library, and what they print.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;
use tokio::process::Command;

use crate::launch::{Place, Tools};
use crate::measure::Latency;
use crate::process::{Process, Usage};
use crate::system::System;

/// How much longer than asked for a producer may take, its start included.
const EXTRA: Duration = Duration::from_secs(20);
/// Jobs that a BullMQ worker has under way at once.
const BULLMQ_CONCURRENCY: &str = "64";
/// Processes that a Python worker has: one per core of the machine of reference.
const PYTHON_PROCESSES: usize = 2;

#[derive(Debug)]
pub(super) struct Scripts<'a> {
    pub(super) system: System,
    pub(super) tools: &'a Tools,
    pub(super) place: &'a Place,
    pub(super) addr: SocketAddr,
}

/// The line at the end of a producer.
#[derive(Debug, Deserialize)]
pub(super) struct Printed {
    pub(super) operations: u64,
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
    pub(super) latency: Option<Latency>,
}

impl Scripts<'_> {
    pub(super) async fn submit(&self, connections: usize, batch: usize, length: Duration) -> Result<Printed> {
        let (connections, batch) = (connections.to_string(), batch.to_string());
        let options = ["--connections", &connections, "--batch", &batch];
        self.produce("submit", &options, length).await
    }

    /// One task per request, and every task that is submitted counts: none before the time begins.
    pub(super) async fn submit_cold(&self, connections: usize, length: Duration) -> Result<Printed> {
        let options = ["--connections", &connections.to_string(), "--batch", "1", "--cold"];
        self.produce("submit", &options, length).await
    }

    /// A backlog for one drain, as large as the library is fast.
    pub(super) async fn fill(&self, length: Duration) -> Result<Printed> {
        let per_second = match self.system {
            System::BullMq(_) => 30_000.0,
            System::Celery(_) => 3_000.0,
            _ => 1_000.0,
        };
        let count = (per_second * length.as_secs_f64()).ceil().to_string();
        self.produce("fill", &["--count", &count], 2 * length).await
    }

    pub(super) async fn fill_one(&self) -> Result<Printed> {
        self.produce("fill", &["--count", "1"], Duration::from_secs(1)).await
    }

    pub(super) async fn pace(&self, rate: u64, length: Duration) -> Result<Printed> {
        self.produce("pace", &["--rate", &rate.to_string()], length).await
    }

    async fn produce(&self, role: &str, options: &[&str], length: Duration) -> Result<Printed> {
        let mut command = match self.system {
            System::BullMq(_) => self.node(role),
            System::Celery(_) => self.python("celery", &["bench.py", role]),
            _ => self.python("rq", &["bench.py", role]),
        };
        command.args(["--port", &self.addr.port().to_string()]);
        command.args(["--seconds", &length.as_secs_f64().to_string()]);
        command.args(options);
        let log = self.place.path().join("producer.log");
        let name = format!("the producer of {}", self.system);
        let ended = Process::start(&name, command, &log)?.wait(length + EXTRA).await;
        let text = fs::read_to_string(&log).unwrap_or_default();
        // The cause is at the end of what went wrong.
        ended.with_context(|| text.trim_end().lines().next_back().unwrap_or_default().to_owned())?;
        let line = text.lines().rev().find(|line| line.starts_with('{'));
        serde_json::from_str(line.with_context(|| format!("{name} printed `{text}`"))?)
            .context("read what a producer printed")
    }

    /// Workers write how late each task was, in microseconds, to `latencies`.
    pub(super) fn start_worker(&self, latencies: Option<&Path>) -> Result<Workers> {
        let mut workers = Workers(Vec::new());
        let count = if matches!(self.system, System::Rq(_)) { PYTHON_PROCESSES } else { 1 };
        for number in 0..count {
            let mut command = self.worker(latencies);
            if let Some(file) = latencies {
                command.env("PEERS_LATENCIES", file);
            }
            let log = self.place.path().join(format!("worker-{number}.log"));
            workers.0.push(Process::start(&format!("a worker of {}", self.system), command, &log)?);
        }
        Ok(workers)
    }

    fn worker(&self, latencies: Option<&Path>) -> Command {
        match self.system {
            System::BullMq(_) => {
                let mut command = self.node("work");
                command.args(["--connections", BULLMQ_CONCURRENCY, "--port", &self.addr.port().to_string()]);
                if let Some(file) = latencies {
                    command.arg("--latencies").arg(file);
                }
                command
            }
            System::Celery(_) => {
                let processes = PYTHON_PROCESSES.to_string();
                let quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "warning"];
                let mut command = self.python("celery", &["-m", "celery", "-A", "tasks", "worker"]);
                command.args(["-P", "prefork", "-c", &processes]).args(quiet);
                command
            }
            _ => {
                let url = format!("redis://127.0.0.1:{}", self.addr.port());
                self.python("rq", &["-m", "rq.cli", "worker", "bench", "--quiet", "--url", &url])
            }
        }
    }

    fn node(&self, role: &str) -> Command {
        let mut command = Command::new("node");
        command.args(["bench.mjs", role]).current_dir(self.tools.home.join("bullmq"));
        command
    }

    fn python(&self, folder: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.tools.venv("python"));
        command.args(arguments).current_dir(self.tools.home.join(folder));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("PEERS_REDIS_PORT", self.addr.port().to_string());
        command
    }
}

/// The worker processes of a library.
#[derive(Debug)]
pub(super) struct Workers(Vec<Process>);

impl Workers {
    pub(super) fn usage(&self) -> Usage {
        let mut total = Usage::default();
        for usage in self.0.iter().map(Process::usage) {
            total.cpu += usage.cpu;
            total.rss_bytes += usage.rss_bytes;
        }
        total
    }

    pub(super) async fn stop(self) -> Result<()> {
        for process in self.0 {
            process.stop().await?;
        }
        Ok(())
    }
}

/// The numbers that workers have written so far; the last one may be half there.
pub(super) fn lines(file: &Path) -> Result<Vec<u64>> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).context("read the latencies of a worker"),
    };
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| line.parse().with_context(|| format!("`{line}` is no latency"))).collect()
}

/// Of latencies in microseconds.
pub(super) fn percentiles(mut late: Vec<u64>) -> Latency {
    late.sort_unstable();
    let at = |share: f64| {
        let place = (late.len() as f64 * share).ceil() as usize;
        late.get(place.saturating_sub(1)).map_or(0.0, |&micros| micros as f64 / 1e3)
    };
    Latency { p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let latency = percentiles((1..=1000).rev().map(|number| number * 1000).collect());
        assert_eq!(latency, Latency { p50_ms: 500.0, p99_ms: 990.0, max_ms: 1000.0 });
        assert_eq!(percentiles(vec![7000]), Latency { p50_ms: 7.0, p99_ms: 7.0, max_ms: 7.0 });
        assert_eq!(percentiles(Vec::new()), Latency::default());
    }

    #[test]
    fn half_a_line_waits_for_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("latencies");
        assert!(lines(&file).unwrap().is_empty());
        fs::write(&file, "12\n34\n5").unwrap();
        assert_eq!(lines(&file).unwrap(), [12, 34]);
        fs::write(&file, "12\nx\n").unwrap();
        assert!(lines(&file).is_err());
    }
}
