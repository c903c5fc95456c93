//! `windlass doctor`: looks at this machine and at the broker, and says what is wrong.

mod machine;
mod salvage;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use windlass_client::rest::Client;

use super::args::Connect;
use super::error::{Failure, UNAVAILABLE};
use super::output::{Output, table};

#[derive(Debug, clap::Args)]
#[command(
    before_help = "Examples:
  windlass doctor
  windlass doctor --server http://10.0.0.5:8080 --data-dir /var/lib/windlass
  windlass doctor salvage --data-dir ./windlass-data --to ./windlass-new",
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Directory whose disk is measured
    #[arg(long, value_name = "DIR", default_value = "./windlass-data")]
    data_dir: PathBuf,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Copy what is whole out of a damaged data directory
    Salvage(salvage::Args),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Ok,
    Warn,
    Fail,
}

#[derive(Debug, Serialize)]
pub(super) struct Finding {
    check: &'static str,
    verdict: Verdict,
    detail: String,
}

impl Finding {
    pub(super) fn new(check: &'static str, verdict: Verdict, detail: impl Into<String>) -> Self {
        Self { check, verdict, detail: detail.into() }
    }
}

pub(crate) async fn run(args: Args, output: &Output) -> Result<(), Failure> {
    if let Some(Command::Salvage(args)) = args.command {
        return salvage::run(args, output).await;
    }
    let client = args.connect.client()?;
    let mut findings = broker(&client).await;
    let reached =
        findings.iter().all(|finding| finding.check != "broker" || finding.verdict != Verdict::Fail);
    findings.extend(machine::look(&args.data_dir));
    findings.push(clock());
    output.value(&findings, || show(&findings));
    let failed = findings.iter().filter(|finding| finding.verdict == Verdict::Fail).count();
    match (failed, reached) {
        (0, _) => Ok(()),
        (n, false) => Err(Failure::new(UNAVAILABLE, format!("{n} checks failed"))),
        (n, true) => Err(Failure::error(format!("{n} checks failed"))),
    }
}

fn show(findings: &[Finding]) -> String {
    let mark = |verdict| match verdict {
        Verdict::Ok => "ok",
        Verdict::Warn => "warn",
        Verdict::Fail => "FAIL",
    };
    let rows = findings.iter().map(|f| vec![mark(f.verdict).into(), f.check.into(), f.detail.clone()]);
    table(&["", "CHECK", "FINDING"], rows.collect())
}

async fn broker(client: &Client) -> Vec<Finding> {
    let health = match client.health().await {
        Ok(health) => health,
        Err(error) => return vec![Finding::new("broker", Verdict::Fail, error.to_string())],
    };
    let mut findings = Vec::new();
    let well = if health.status == "ok" { Verdict::Ok } else { Verdict::Fail };
    findings.push(Finding::new("broker", well, format!("{} is {}", client.base(), health.status)));
    let ours = env!("CARGO_PKG_VERSION");
    let same = if health.version == ours { Verdict::Ok } else { Verdict::Warn };
    findings.push(Finding::new("version", same, format!("broker {}, this command {ours}", health.version)));
    let durable = if health.persistent && health.durability == "sync" { Verdict::Ok } else { Verdict::Warn };
    findings.push(Finding::new(
        "durability",
        durable,
        format!("store {}, {}", health.store, health.durability),
    ));
    let active = health.active_workers;
    let workers = if active > 0 { Verdict::Ok } else { Verdict::Warn };
    findings.push(Finding::new("workers", workers, format!("{active} active")));
    if let Some(age) = health.oldest_pending_age_seconds {
        let late = if age.0 < 60.0 { Verdict::Ok } else { Verdict::Warn };
        findings.push(Finding::new(
            "backlog",
            late,
            format!("the oldest pending task waits for {:.0} s", age.0),
        ));
    }
    findings
}

/// Leases survive a wrong clock; schedules and times on tasks do not.
fn clock() -> Finding {
    const RELEASED_YEAR: u64 = 2025;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let plausible = seconds / 31_556_952 + 1970 >= RELEASED_YEAR;
    let time = windlass_proto::rest::Time::from_ms(seconds * 1000);
    let verdict = if plausible { Verdict::Ok } else { Verdict::Fail };
    Finding::new("clock", verdict, time.to_string())
}
