//! G18: a broker in a control group of 512 MB is flooded with submits, while others send bodies one byte short, do not read large answers,
//! read slowly, or only hold connections. Its memory, without file pages, stays below the limit, and it is not killed. It answers every submit of clients
//! that behave and retry within 10 s, and loses nothing that it acknowledged.
//!
//! The flood aims at ten times the rate that was measured before. How much of that it offers depends on how fast its connections take it.
//!
//! Mutant: a broker whose memory budget is far beyond the limit, under the same attack. It must be killed or exceed the limit.

mod attack;
mod flood;
mod honest;

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use self::attack::Attack;
use self::flood::{Flood, Flooded};
use self::honest::Honest;
use crate::audit::expect;
use crate::cgroup::Cgroup;
use crate::http::Http;
use crate::proof::{Outcome, Run, Trouble, verdict};
use crate::server::{Server, Setup};

const LIMIT_BYTES: u64 = 512 << 20;
const PAYLOAD_BYTES: usize = 9_900_000;
/// The task whose answers nobody reads.
const LARGE: &str = "large";
const OFFERED: u64 = 10;
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Tasks of the flood that may wait: they are not what this is about.
const FLOOD_DEPTH: u64 = 100_000;
/// How long the mutant may take to fail.
const MUTANT: Duration = Duration::from_secs(20);
const FILES_MIN: u64 = 8_000;

pub(crate) async fn prove(run: Run) -> Outcome {
    raise_files()?;
    let length = Duration::from_secs(run.pick(60, 600));
    let group = Cgroup::with_memory("g18", LIMIT_BYTES)?;
    let home = run.home()?;
    let setup = setup(&run, home.path(), &group);
    let mut server = setup.start().await?;
    prepare(&mut server.http()).await?;
    let rate = flood::measure(&server, Duration::from_secs(run.pick(2, 10))).await?;
    let mut complaints = Vec::new();

    let honest = Honest::start(&run, &server)?;
    let attack = Attack::start(&server)?;
    let flood = Flood::start(&server, rate * OFFERED)?;
    let mut peak = Peak::default();
    let began = Instant::now();
    while began.elapsed() < length && server.is_running() {
        peak.look(&server);
        // sleep: the attack goes on for a time.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    if !server.is_running() || group.kills() > 0 {
        complaints.push(format!("the broker was killed: {}", setup.last_words()));
        return verdict(format!("{peak}, {rate} submits/s alone"), complaints);
    }
    let honest = honest.finish().await;
    let attacked = attack.finish();
    let flood = flood.finish().await;
    let metrics = metrics(&mut server.http()).await?;
    if peak.own >= LIMIT_BYTES {
        complaints.push(format!("it took {peak}"));
    }
    complaints.extend(honest.complaints());
    complaints.extend(flood.complaints());
    server.kill().await?;

    let server = setup.start().await?;
    let lost = honest.lost(&mut server.http()).await?;
    let kept = depth(&mut server.http(), "flood").await?;
    if lost > 0 {
        complaints.push(format!("{lost} acknowledged tasks of clients that behave are lost"));
    }
    if kept < flood.accepted || kept > flood.accepted + flood.unknown {
        let Flooded { accepted, unknown, .. } = &flood;
        complaints.push(format!("the flood left {kept} tasks; {accepted} were accepted, {unknown} unknown"));
    }
    server.terminate().await?;
    drop(group);
    let mutant = mutant(&run).await?;
    let figures = format!(
        "{} s, a flood that aims at {OFFERED} × {rate} submits/s: {peak}; {honest}; {flood}; {attacked}; {metrics}; mutant: {mutant}",
        length.as_secs()
    );
    if mutant.is_harmless() {
        complaints
            .push("the mutant (no budget) stayed below the limit, so this proof cannot fail".to_owned());
    }
    verdict(figures, complaints)
}

fn setup(run: &Run, home: &std::path::Path, group: &Cgroup) -> Setup {
    Setup::new(run, home)
        .set("store.segment_bytes", "64MiB")
        .set("store.disk_reserve_bytes", "256MiB")
        .set("log.level", "warn")
        .wrapped(group.entering())
}

/// The task that is asked for, and a bound for what the flood leaves behind.
async fn prepare(http: &mut Http) -> Result<(), Trouble> {
    let task = json!({"id": LARGE, "type": "large", "queue": "large", "payload": "x".repeat(PAYLOAD_BYTES)});
    let made = http.post("/api/v1/tasks", &task).await?;
    let limit = json!({"max_depth": FLOOD_DEPTH});
    let bound = http.call(hyper::Method::PUT, "/api/v1/limits/queue/flood", Some(&limit)).await?;
    if made.status != 201 || !bound.is_success() {
        return Err(Trouble::failed(format!("the broker could not be prepared: {made:?} {bound:?}")));
    }
    Ok(())
}

async fn depth(http: &mut Http, queue: &str) -> Result<u64, Trouble> {
    let queue = expect(http, &format!("/api/v1/queues/{queue}")).await?;
    Ok(queue["tasks"]["pending"].as_u64().unwrap_or_default())
}

/// What the broker says that it did.
async fn metrics(http: &mut Http) -> Result<String, Trouble> {
    let page = expect(http, "/metrics").await?;
    let of = |name: &str| {
        let mut lines = page.as_str().unwrap_or_default().lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap_or("?").to_owned()
    };
    Ok(format!(
        "budget of {} bytes, {} cut, {} refused",
        of("taskqueue_memory_budget_bytes"),
        of("taskqueue_memory_budget_cut_total"),
        of("taskqueue_memory_budget_refused_total")
    ))
}

/// The same attack without a budget.
async fn mutant(run: &Run) -> Result<Mutant, Trouble> {
    let group = Cgroup::with_memory("g18-mutant", LIMIT_BYTES)?;
    let home = run.home()?;
    let setup = setup(run, home.path(), &group).set("server.memory_budget_bytes", "1000GiB");
    let mut server = setup.start().await?;
    prepare(&mut server.http()).await?;
    let attack = Attack::start(&server)?;
    let mut peak = Peak::default();
    let began = Instant::now();
    while began.elapsed() < MUTANT && server.is_running() {
        peak.look(&server);
        // sleep: until it fails.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let killed = group.kills() > 0 || !server.is_running();
    drop(attack);
    drop(server);
    Ok(Mutant { killed, peak })
}

#[derive(Debug)]
struct Mutant {
    killed: bool,
    peak: Peak,
}

impl Mutant {
    fn is_harmless(&self) -> bool {
        !self.killed
    }
}

impl std::fmt::Display for Mutant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {}", if self.killed { "killed" } else { "not killed" }, self.peak)
    }
}

/// The most memory that was seen: without files, which the system can take back, and with them.
#[derive(Debug, Default)]
struct Peak {
    own: u64,
    resident: u64,
}

impl Peak {
    fn look(&mut self, server: &Server) {
        let status = server.pid().and_then(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok());
        let status = status.unwrap_or_default();
        let bytes = |label: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(label));
            line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
                .unwrap_or_default()
                * 1024
        };
        self.own = self.own.max(bytes("RssAnon:"));
        self.resident = self.resident.max(bytes("VmHWM:"));
    }
}

impl std::fmt::Display for Peak {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "peak of {} MiB resident, {} MiB without files", self.resident >> 20, self.own >> 20)
    }
}

/// The attackers need many sockets.
fn raise_files() -> Result<(), Trouble> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    match maximum {
        Some(files) if files < FILES_MIN => {
            Err(Trouble::Skipped(format!("needs {FILES_MIN} open files, and {files} are allowed")))
        }
        _ => Ok(()),
    }
}

/// A body in the words of the API.
fn text(body: &Value) -> Arc<[u8]> {
    body.to_string().into_bytes().into()
}
