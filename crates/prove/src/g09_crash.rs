//! G9: workers that heartbeat and hold leases are killed; another worker gets their tasks. Only a task that never comes
//! back fails the proof; the delays are reported. First workers with short leases that nobody sees die, then workers whose
//! connection ends with them: their leases are long, and their tasks must come back long before.
//!
//! Can fail: a worker that lives on holds a task of the same age, and that task must not be given out again.

mod closed;

use std::collections::{HashMap, HashSet};
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::audit::Scan;
use crate::child::Hand;
use crate::http::Http;
use crate::proof::{Outcome, Run, Trouble, verdict};
use crate::server::Setup;

const LEASE_SECONDS: u64 = 1;
/// So late that a task is stuck and not slow.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn prove(run: Run) -> Outcome {
    let (rounds, workers) = (run.pick(3, 40), run.pick(8, 25));
    let home = run.home()?;
    let server = Setup::new(&run, home.path()).set("server.grpc_addr", "127.0.0.1:0").start().await?;
    let mut http = server.http();
    let mut complaints = Vec::new();
    let mut delays = Vec::new();
    for round in 0..rounds {
        let told = crash(&mut http, &server, round, workers).await?;
        delays.extend(told.delays);
        complaints.extend(told.complaints);
    }
    let mut at_once = Vec::new();
    for round in 0..rounds {
        let told = closed::crash(&run, &server, round, run.pick(4, 10)).await?;
        at_once.extend(told.delays);
        complaints.extend(told.complaints);
    }
    let scan = Scan::take(&mut http).await?;
    complaints.extend(scan.judge_leases().into_iter().chain(scan.judge_ledger()));
    if scan.live() > 0 {
        complaints.push(format!("{} tasks are not finished", scan.live()));
    }
    server.terminate().await?;
    let figures = format!(
        "{} workers killed, {} stuck; with a lease of {LEASE_SECONDS} s their tasks came back after {}; {rounds} living workers kept theirs; of {} workers with a connection and a lease of {} s after {}",
        rounds * workers,
        rounds * workers - delays.len(),
        spread(&mut delays),
        at_once.len(),
        closed::LEASE.as_secs(),
        spread(&mut at_once),
    );
    verdict(figures, complaints)
}

fn spread(delays: &mut [Duration]) -> String {
    delays.sort_unstable();
    let at = |share: f64| {
        delays.get(((delays.len() as f64 - 1.0) * share) as usize).map_or(0, Duration::as_millis)
    };
    format!("{} ms at best, {} ms in the middle, {} ms at worst", at(0.0), at(0.5), at(1.0))
}

#[derive(Debug, Default)]
struct Told {
    delays: Vec<Duration>,
    complaints: Vec<String>,
}

async fn crash(
    http: &mut Http,
    server: &crate::server::Server,
    round: usize,
    workers: usize,
) -> Result<Told, Trouble> {
    for number in 0..=workers {
        let body = json!({"id": format!("r{round}-{number}"), "type": "crash", "max_crashes": 100});
        let answer = http.post("/api/v1/tasks", &body).await?;
        if answer.status != 201 {
            return Err(Trouble::failed(format!("submit answered {}: {}", answer.status, answer.body)));
        }
    }
    let mut alive = Hand::start(server.address(), &format!("alive-{round}"), LEASE_SECONDS).await?;
    let mut told = Told::default();
    let mut killed = HashMap::new();
    for number in 0..workers {
        let mut hand =
            Hand::start(server.address(), &format!("doomed-{round}-{number}"), LEASE_SECONDS).await?;
        let status = hand.kill().await?;
        if status.signal() != Some(9) {
            told.complaints.push(format!("a worker was not killed but ended with {status}"));
        }
        killed.insert(hand.id.clone(), Instant::now());
    }
    let began = Instant::now();
    let mut returned = HashSet::new();
    let claim = json!({"worker_id": "heir", "max": 10, "wait_seconds": 5, "lease_seconds": 30});
    while returned.len() < killed.len() && began.elapsed() < PATIENCE {
        let answer = http.post("/api/v1/claim", &claim).await?;
        for task in answer.body["tasks"].as_array().into_iter().flatten() {
            let id = task["id"].as_str().unwrap_or_default().to_owned();
            match killed.get(&id) {
                Some(at) => told.delays.push(at.elapsed()),
                None => told.complaints.push(format!("unexpected: {id} was given out, but its worker lives")),
            }
            let outcome = json!({"lease": task["lease"]});
            let answer = http.post(&format!("/api/v1/tasks/{id}/complete"), &outcome).await?;
            if answer.status != 200 {
                told.complaints.push(format!("unexpected: complete of {id} answered {}", answer.status));
            }
            returned.insert(id);
        }
    }
    for id in killed.keys().filter(|id| !returned.contains(*id)) {
        told.complaints.push(format!("stuck: {id} did not come back in {} s", PATIENCE.as_secs()));
    }
    let end = alive.finish().await?;
    if !end.starts_with("200") {
        told.complaints.push(format!("unexpected: the living worker was told {end}"));
    }
    Ok(told)
}
