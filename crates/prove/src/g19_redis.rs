//! G19 for Redis: what its configuration promises is kept. Of three brokers and four workers of library mode on it any is killed
//! at random moments under load, and so is Redis itself, which syncs every write, under two brokers and two such workers; at the end everything acknowledged is
//! there, once.
//!
//! Once more with limits and keys: never more run than may, no task is lost, and after the drain nothing is counted any more.
//!
//! Mutants: a fleet without the limits that it is watched for, a Redis without an append-only file, which forgets everything when
//! it is killed, and workers that say that a task is done before they have asked; the judge must see each.

mod fleet;
mod limits;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rand::Rng;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::audit;
use crate::history::History;
use crate::judge::{self, Findings};
use crate::library::Hand;
use crate::load::Load;
use crate::proof::{Outcome, Run, Trouble, verdict};
use crate::server::Setup;
use fleet::{Attack, Flow};

/// Far beyond any start on a machine that is merely slow.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn prove(run: Run) -> Outcome {
    judge::self_test()?;
    audit::self_test()?;
    let (process_kills, redis_kills) = (run.pick(12, 100), run.pick(10, 100));
    let attack = Attack { kills: process_kills, hasty: false, flow: Flow::Free, purpose: "G19 fleet" };
    let told = attack.carry_out(&run).await?;
    let mut complaints = told.findings.complaints();
    complaints.extend(told.complaints.iter().cloned());
    // A few kills may all hit what is idle.
    if !run.short && told.unanswered == 0 {
        complaints.push("no request was cut off by a kill, so the kills hit nothing".to_owned());
    }
    if !run.short && told.findings.delivered_twice == 0 {
        complaints.push("no task was given out again, so no kill hit a worker at work".to_owned());
    }

    let limited = Attack { flow: Flow::Limited, purpose: "G19 limits", ..attack }.carry_out(&run).await?;
    complaints.extend(limited.findings.complaints());
    complaints.extend(limited.complaints.iter().cloned());
    let unlimited = Attack { kills: 4, hasty: false, flow: Flow::Unlimited, purpose: "G19 unlimited" };
    if !unlimited.carry_out(&run).await?.seen.is_some_and(|seen| seen.exceeds()) {
        complaints.push("the mutant (no limits) kept to them all the same, so this proof cannot fail".into());
    }

    let home = run.home()?;
    let (findings, more) = kill_redis(&run, home.path(), redis_kills, true).await?;
    complaints.extend(findings.complaints());
    complaints.extend(more);

    let home = run.home()?;
    let (forgot, _) = kill_redis(&run, home.path(), 2, false).await?;
    if forgot.lost == 0 {
        complaints
            .push("the mutant (no append-only file) lost nothing, so this proof cannot fail".to_owned());
    }
    let mutant = Attack { kills: 4, hasty: true, flow: Flow::Free, purpose: "G19 hasty" };
    let hasty = mutant.carry_out(&run).await?;
    if hasty.findings.completed_twice == 0 {
        complaints
            .push("the mutant (hasty workers) completed nothing twice, so this proof cannot fail".into());
    }
    let bounds = limited.seen.as_ref().map_or(String::new(), ToString::to_string);
    let figures = format!(
        "{} kills of 3 brokers and {} of 4 library workers: {}, {} requests cut off; as many with limits: {}, {bounds}; \
         {redis_kills} kills of Redis: {findings}; \
         mutants lost {} and completed {} twice",
        told.brokers_killed,
        told.libraries_killed,
        told.findings,
        told.unanswered,
        limited.findings,
        forgot.lost,
        hasty.findings.completed_twice
    );
    verdict(figures, complaints)
}

/// A load on two brokers, with library workers beside them, whose Redis is killed again and again.
async fn kill_redis(
    run: &Run,
    home: &Path,
    kills: usize,
    synced: bool,
) -> Result<(Findings, Vec<String>), Trouble> {
    let mut random = run.random("G19 redis");
    let mut redis = Redis::start(home, synced).await?;
    let mut brokers = Vec::new();
    for number in 0..2 {
        let home = home.join(format!("broker-{number}"));
        std::fs::create_dir_all(&home)?;
        brokers.push(Setup::new(run, &home).set("store.url", &redis.url()).start().await?);
    }
    let mut load = Load::start(run, "G19 redis", 4, 4);
    let mut libraries = Vec::new();
    for number in 0..2 {
        let name = format!("library-{number}");
        libraries.push(Hand::start(&redis.url(), &name, false, load.history().clone()).await?);
    }
    load.serve(&brokers[0]);
    for kill in 0..kills {
        progress(load.history()).await?;
        // sleep: the moment of the kill is random, and that is the point.
        tokio::time::sleep(Duration::from_millis(random.random_range(20..300))).await;
        redis.kill_and_restart().await?;
        load.serve(&brokers[(kill + 1) % 2]);
    }
    let (findings, scan) = load.drain(&mut brokers[0].http()).await?;
    let mut complaints = scan.judge_leases();
    complaints.extend(scan.judge_ledger());
    for library in libraries {
        library.stop().await?;
    }
    for broker in brokers {
        broker.terminate().await?;
    }
    Ok((findings, complaints))
}

/// Until something more is acknowledged: on a slow machine kills would else hit nothing but recoveries.
async fn progress(history: &History) -> Result<(), Trouble> {
    let before = history.acknowledged();
    let more = async {
        while history.acknowledged() == before {
            // sleep: the clients do not tell when they get on.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let stuck = |_| Trouble::failed("nothing was submitted between two kills of Redis");
    tokio::time::timeout(PATIENCE, more).await.map_err(stuck)
}

pub(crate) struct Redis {
    child: Child,
    port: u16,
    home: PathBuf,
    synced: bool,
}

impl Redis {
    pub(crate) async fn start(home: &Path, synced: bool) -> Result<Redis, Trouble> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let home = home.join("redis");
        std::fs::create_dir_all(&home)?;
        let child = spawn(port, &home, synced)?;
        let redis = Redis { child, port, home, synced };
        redis.become_ready().await?;
        Ok(redis)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// SIGKILL, for real, and another one on the same port and data.
    async fn kill_and_restart(&mut self) -> Result<(), Trouble> {
        self.child.kill().await?;
        self.child = spawn(self.port, &self.home, self.synced)?;
        self.become_ready().await
    }

    async fn become_ready(&self) -> Result<(), Trouble> {
        let connected = async {
            while TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
                // sleep: a server that starts says so only by its port.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let late = |_| Trouble::failed("redis-server was not ready in time");
        tokio::time::timeout(PATIENCE, connected).await.map_err(late)
    }
}

fn spawn(port: u16, home: &Path, synced: bool) -> Result<Child, Trouble> {
    let spawned = Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--save", "", "--loglevel", "warning", "--appendfsync", "always"])
        .args(["--port", &port.to_string(), "--appendonly", if synced { "yes" } else { "no" }, "--dir"])
        .arg(home)
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn();
    spawned.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Trouble::Skipped("there is no redis-server".to_owned()),
        _ => error.into(),
    })
}
