//! G7: a stale lease can do nothing. In volume: leases run out, other workers get the tasks, and every report under an old
//! lease is refused and changes nothing. For real: worker processes are stopped past their lease and woken up again.
//!
//! Mutant: reports that use whatever lease is current, as if the token were not checked.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use windlass_broker::{Broker, Error, Failed};
use windlass_core::{Record, State, TaskId, Token};
use windlass_store::Durability;

use crate::child::Hand;
use crate::proof::{Outcome, Run, Trouble, verdict};
use crate::server::Setup;
use crate::volume::{self, LEASE_MS, World};

const PATIENCE: Duration = Duration::from_secs(60);
const REPORTS: usize = 4;

pub(crate) async fn prove(run: Run) -> Outcome {
    let outcomes = run.pick(10_000, 1_000_000);
    let told = volume(&run, outcomes, Check::Token).await?;
    let mut complaints = told.complaints;
    if told.tried < outcomes {
        complaints.push(format!("only {} stale reports were made", told.tried));
    }
    let mutant = volume(&run, 200, Check::Nothing).await?;
    if mutant.accepted == 0 {
        complaints
            .push("the mutant (no check of the token) was not noticed, so this proof cannot fail".to_owned());
    }
    let sleepers = run.pick(5, 50);
    complaints.extend(wake_up_late(&run, sleepers).await?);
    let figures = format!(
        "{} stale reports, {} accepted; {sleepers} workers stopped past their lease, each told lease_lost; mutant accepted {}",
        told.tried, told.accepted, mutant.accepted
    );
    verdict(figures, complaints)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Token,
    /// The mutant.
    Nothing,
}

#[derive(Debug, Default)]
struct Told {
    tried: usize,
    accepted: usize,
    complaints: Vec<String>,
}

async fn volume(run: &Run, outcomes: usize, check: Check) -> Result<Told, Trouble> {
    let home = run.home()?;
    let mut world = World::open(volume::options(home.path().join("data"), Durability::Os)).await?;
    let mut told = Told::default();
    let mut round = 0;
    while told.tried < outcomes {
        let count = 250.min(outcomes.div_ceil(2 * REPORTS)).max(1);
        let batch = (0..count).map(|number| volume::submit(&format!("r{round}-{number}"))).collect();
        for outcome in world.broker.submit_batch(batch, false).await? {
            outcome?;
        }
        let first = claim_all(&world, "sleeper", count).await?;
        world.pass(LEASE_MS + 1);
        let second = claim_all(&world, "heir", count).await?;
        // Under another's lease, and again after a restart or when the other has finished.
        report_all(&world.broker, &first, check, &mut told).await?;
        if round % 2 == 1 {
            world.restart().await?;
        }
        for (id, token) in &second {
            match world.broker.complete(id, *token, None).await {
                Ok(_) => {}
                // The mutant finished it before.
                Err(Error::LeaseLost) if check == Check::Nothing => {}
                Err(error) => told.complaints.push(format!("the heir of {id} was refused: {error}")),
            }
        }
        report_all(&world.broker, &first, check, &mut told).await?;
        round += 1;
    }
    world.close().await?;
    told.complaints.truncate(12);
    Ok(told)
}

/// Claims until it has so many; the reaper may need a moment.
async fn claim_all(world: &World, worker: &str, count: usize) -> Result<Vec<(TaskId, Token)>, Trouble> {
    let mut claimed = Vec::new();
    let began = Instant::now();
    while claimed.len() < count {
        let tasks = world.broker.claim(volume::claim(worker, count as u32)).await?;
        claimed.extend(tasks.iter().filter_map(|task| Some((task.record.id.clone(), volume::token(task)?))));
        if began.elapsed() > PATIENCE {
            return Err(Trouble::failed(format!(
                "{} of {count} tasks came back to be claimed",
                claimed.len()
            )));
        }
        tokio::task::yield_now().await;
    }
    Ok(claimed)
}

/// Every report there is, under each old lease. Each must be refused and leave the record alone.
async fn report_all(
    broker: &Broker,
    stale: &[(TaskId, Token)],
    check: Check,
    told: &mut Told,
) -> Result<(), Trouble> {
    for (id, token) in stale {
        let before = look(broker, id).await?;
        let token = match (&before.state, check) {
            (State::Running(lease), Check::Nothing) => lease.token,
            _ => *token,
        };
        let failed = Failed { error: "stale".to_owned(), retryable: true, retry_after_ms: None };
        let answers = [
            broker.extend(id, token, None, None).await.map(|_| ()),
            broker.complete(id, token, None).await.map(|_| ()),
            broker.fail(id, token, failed).await.map(|_| ()),
            broker.release(id, token, None).await.map(|_| ()),
        ];
        for (verb, answer) in ["extend", "complete", "fail", "release"].into_iter().zip(answers) {
            told.tried += 1;
            match answer {
                Err(Error::LeaseLost) => {}
                Ok(()) => {
                    told.accepted += 1;
                    told.complaints.push(format!("a stale {verb} of {id} was accepted"));
                }
                Err(other) => told.complaints.push(format!("a stale {verb} of {id} answered {other}")),
            }
        }
        if look(broker, id).await?.revision != before.revision {
            told.complaints.push(format!("stale reports changed {id}"));
        }
    }
    Ok(())
}

async fn look(broker: &Broker, id: &TaskId) -> Result<Record, Trouble> {
    broker.store().peek(id).await?.ok_or_else(|| Trouble::failed(format!("lost: {id}")))
}

/// Real workers, stopped by SIGSTOP with their task in hand.
async fn wake_up_late(run: &Run, sleepers: usize) -> Result<Vec<String>, Trouble> {
    let home = run.home()?;
    let server = Setup::new(run, home.path()).start().await?;
    let mut http = server.http();
    let mut complaints = Vec::new();
    let mut hands = Vec::new();
    for number in 0..sleepers {
        http.post("/api/v1/tasks", &json!({"id": format!("t{number}"), "type": "sleep"})).await?;
        let hand = Hand::start(server.address(), &format!("sleeper-{number}"), 1).await?;
        hand.signal(Signal::STOP)?;
        hands.push(hand);
    }
    let began = Instant::now();
    let mut finished = 0;
    let claim = json!({"worker_id": "heir", "max": 10, "wait_seconds": 5, "lease_seconds": 30});
    while finished < sleepers && began.elapsed() < PATIENCE {
        let answer = http.post("/api/v1/claim", &claim).await?;
        for task in answer.body["tasks"].as_array().into_iter().flatten() {
            let path = format!("/api/v1/tasks/{}/complete", task["id"].as_str().unwrap_or_default());
            let answer = http.post(&path, &json!({"lease": task["lease"], "result": "heir"})).await?;
            finished += usize::from(answer.status == 200);
        }
    }
    if finished < sleepers {
        return Err(Trouble::failed(format!(
            "stuck: {finished} of {sleepers} tasks of stopped workers came back"
        )));
    }
    for hand in &mut hands {
        hand.signal(Signal::CONT)?;
        let told = hand.finish().await?;
        if told != "409 lease_lost" {
            complaints.push(format!("the worker that slept was told {told} about {}", hand.id));
        }
        let task = http.get(&format!("/api/v1/tasks/{}", hand.id)).await?.body;
        if task["state"] != "completed" || task["result"] != "heir" {
            complaints.push(format!("a stale report changed {task} (lease {})", hand.lease));
        }
    }
    server.terminate().await?;
    Ok(complaints)
}
