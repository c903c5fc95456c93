//! G22: a broker that stood still ends no lease of a live worker. The process is stopped by SIGSTOP for much longer than a
//! lease while workers extend or beat, and is woken up again; on the embedded store and on Redis.
//!
//! Can fail: workers that fell silent meanwhile must lose their leases a window after the freeze, and be counted. Mutant: a
//! clock that does not notice the pause; every lease must end under it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use windlass_store::{Durability, Expire};

use crate::g19_redis::Redis;
use crate::http::Http;
use crate::proof::{Outcome, Run, Trouble, verdict};
use crate::server::Setup;
use crate::volume::{self, World};

const PATIENCE: Duration = Duration::from_secs(60);
const WORKERS: usize = 10;
const LEASES_EACH: usize = 10;
/// Workers that fall silent when the broker freezes, with one task each.
const SILENT: usize = 5;

pub(crate) async fn prove(run: Run) -> Outcome {
    let plan = Plan {
        lease: run.pick(Duration::from_secs(2), Duration::from_secs(6)),
        freeze: run.pick(Duration::from_secs(5), Duration::from_secs(15)),
        rounds: run.pick(1, 5),
    };
    let (on_disk, on_redis) = (run.home()?, run.home()?);
    let embedded = async { plan.carry_out(Setup::new(&run, on_disk.path())).await };
    let redis = async {
        let redis = Redis::start(on_redis.path(), true).await?;
        plan.carry_out(Setup::new(&run, on_redis.path()).set("store.url", &redis.url())).await
    };
    let (embedded, redis) = tokio::join!(embedded, redis);
    let (mut complaints, mut ended) = (Vec::new(), Vec::new());
    for (store, told) in [("embedded", embedded?), ("redis", redis?)] {
        ended.push(format!("{store} {}", told.ended));
        complaints.extend(told.complaints.into_iter().map(|words| format!("{store}: {words}")));
    }
    let home = run.home()?;
    let mutant = simulate(home.path(), Notice::Nothing).await?;
    let noticed = simulate(home.path(), Notice::Pause).await?;
    if mutant == 0 {
        complaints
            .push("the mutant (no pause is noticed) ended nothing, so this proof cannot fail".to_owned());
    }
    if noticed > 0 {
        complaints.push(format!("{noticed} leases ended in a simulated pause"));
    }
    complaints.truncate(12);
    let figures = format!(
        "freezes: {} of {} s each, {} leases of {} s; leases of live workers ended: {}; {SILENT} silent workers lost theirs; \
         mutant ended {mutant} of {}",
        plan.rounds,
        plan.freeze.as_secs(),
        WORKERS * LEASES_EACH,
        plan.lease.as_secs(),
        ended.join(", "),
        WORKERS * LEASES_EACH
    );
    verdict(figures, complaints)
}

#[derive(Debug, Clone, Copy)]
struct Plan {
    lease: Duration,
    freeze: Duration,
    rounds: usize,
}

#[derive(Debug, Default)]
struct Told {
    /// Leases of live workers.
    ended: u64,
    complaints: Vec<String>,
}

impl Plan {
    async fn carry_out(self, setup: Setup) -> Result<Told, Trouble> {
        // Workers that beat would be taken for dead during the freeze.
        let dead_after = format!("{}ms", (self.freeze / 2).as_millis());
        let server = setup.set("worker.dead_after", &dead_after).start().await?;
        let mut http = server.http();
        let Told { mut ended, mut complaints } = Told::default();
        for round in 0..self.rounds {
            let before = crashed(&mut http).await?;
            let mut working = JoinSet::new();
            let stop = Arc::new(AtomicBool::new(false));
            for number in 0..WORKERS {
                let name = format!("worker-{round}-{number}");
                let held = self.claim(&mut http, &name, LEASES_EACH).await?;
                let (stop, http) = (Arc::clone(&stop), server.http());
                let worker = Worker { name, held, beats: number % 2 == 0, every: self.lease / 4 };
                working.spawn(worker.keep(http, stop));
            }
            for number in 0..SILENT {
                self.claim(&mut http, &format!("silent-{round}-{number}"), 1).await?;
            }
            server.signal(Signal::STOP)?;
            // sleep: the freeze itself.
            tokio::time::sleep(self.freeze).await;
            let (silent, began) = (SILENT as u64, Instant::now());
            server.signal(Signal::CONT)?;
            let mut lost = 0;
            while lost < silent && began.elapsed() < PATIENCE {
                // sleep: the ledger is only told when asked for.
                tokio::time::sleep(Duration::from_millis(50)).await;
                lost = crashed(&mut http).await? - before;
            }
            if lost < silent {
                complaints.push(format!("only {lost} of {silent} silent workers lost their leases"));
            }
            if began.elapsed() < self.lease {
                complaints.push(format!("leases ended {:?} after the freeze", began.elapsed()));
            }
            stop.store(true, Ordering::SeqCst);
            while let Some(told) = working.join_next().await {
                complaints.extend(told.map_err(|error| Trouble::failed(error.to_string()))??);
            }
            let crashed = crashed(&mut http).await? - before;
            ended += crashed.saturating_sub(silent);
            if crashed != silent {
                complaints.push(format!("{crashed} crashes are counted, {silent} are right"));
            }
            self.clear(&mut http).await?;
        }
        server.terminate().await?;
        Ok(Told { ended, complaints })
    }

    /// Submits tasks and has a worker claim them: their ids and leases.
    async fn claim(
        self,
        http: &mut Http,
        worker: &str,
        count: usize,
    ) -> Result<Vec<(String, Value)>, Trouble> {
        let tasks = vec![json!({"type": "t", "max_crashes": 9}); count];
        http.post("/api/v1/tasks/batch", &json!({"tasks": tasks})).await?;
        let claim = json!({"worker_id": worker, "max": count, "lease_seconds": self.lease.as_secs()});
        let answer = http.post("/api/v1/claim", &claim).await?;
        let tasks = answer.body["tasks"].as_array().cloned().unwrap_or_default();
        if tasks.len() != count {
            return Err(Trouble::failed(format!("{} of {count} tasks were claimed", tasks.len())));
        }
        let held = |task: &Value| (task["id"].as_str().unwrap_or_default().to_owned(), task["lease"].clone());
        Ok(tasks.iter().map(held).collect())
    }

    /// Finishes what the silent left, so that the next round begins with an empty queue.
    async fn clear(self, http: &mut Http) -> Result<(), Trouble> {
        let claim = json!({"worker_id": "heir", "max": SILENT, "lease_seconds": 60});
        let answer = http.post("/api/v1/claim", &claim).await?;
        for task in answer.body["tasks"].as_array().into_iter().flatten() {
            let path = format!("/api/v1/tasks/{}/complete", task["id"].as_str().unwrap_or_default());
            http.post(&path, &json!({"lease": task["lease"]})).await?;
        }
        Ok(())
    }
}

async fn crashed(http: &mut Http) -> Result<u64, Trouble> {
    let stats = http.get("/api/v1/stats").await?;
    stats.body["ledger"]["crashed"].as_u64().ok_or_else(|| Trouble::failed("the ledger has no crashes"))
}

/// Keeps its leases by extensions or by heartbeats, and then completes its tasks.
#[derive(Debug)]
struct Worker {
    name: String,
    held: Vec<(String, Value)>,
    beats: bool,
    every: Duration,
}

impl Worker {
    async fn keep(self, mut http: Http, stop: Arc<AtomicBool>) -> Result<Vec<String>, Trouble> {
        let mut complaints = Vec::new();
        while !stop.load(Ordering::SeqCst) {
            complaints.extend(if self.beats {
                self.beat(&mut http).await?
            } else {
                self.extend(&mut http).await?
            });
            // sleep: how often a worker extends is what makes its lease.
            tokio::time::sleep(self.every).await;
        }
        for (id, lease) in &self.held {
            let answer = http.post(&format!("/api/v1/tasks/{id}/complete"), &json!({"lease": lease})).await?;
            if !answer.is_success() {
                complaints.push(format!("{} could not complete {id}: {}", self.name, answer.code()));
            }
        }
        Ok(complaints)
    }

    async fn extend(&self, http: &mut Http) -> Result<Vec<String>, Trouble> {
        let mut refused = Vec::new();
        for (id, lease) in &self.held {
            let answer = http.post(&format!("/api/v1/tasks/{id}/extend"), &json!({"lease": lease})).await?;
            if !answer.is_success() {
                refused.push(format!("{} could not extend {id}: {}", self.name, answer.code()));
            }
        }
        Ok(refused)
    }

    async fn beat(&self, http: &mut Http) -> Result<Vec<String>, Trouble> {
        let lease = |(id, lease): &(String, Value)| json!({"id": id, "lease": lease});
        let leases: Vec<Value> = self.held.iter().map(lease).collect();
        let path = format!("/api/v1/workers/{}/heartbeat", self.name);
        let answer = http.post(&path, &json!({"incarnation": 7, "leases": leases})).await?;
        let kept = answer.body["extended"].as_array().map_or(0, Vec::len);
        let lost = self.held.len() - kept.min(self.held.len());
        Ok((lost > 0)
            .then(|| format!("{} lost {lost} leases: {}", self.name, answer.body))
            .into_iter()
            .collect())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notice {
    Pause,
    /// The mutant.
    Nothing,
}

/// How many leases end when a clock goes on by several of their lengths at once.
async fn simulate(home: &Path, notice: Notice) -> Result<usize, Trouble> {
    let world = World::open(volume::options(home.join(format!("{notice:?}")), Durability::Os)).await?;
    let count = WORKERS * LEASES_EACH;
    let batch = (0..count).map(|number| volume::submit(&format!("t{number}"))).collect();
    world.broker.submit_batch(batch, true).await?;
    world.broker.claim(volume::claim("w", count as u32)).await?;
    world.broker.stop().await;
    match notice {
        Notice::Pause => world.clock.pause_ms(5 * volume::LEASE_MS),
        Notice::Nothing => world.clock.advance_ms(5 * volume::LEASE_MS),
    }
    let expired = world.store().expired(Expire { dead_workers: Vec::new(), limit: usize::MAX }).await?;
    world.close().await?;
    Ok(expired.tasks.len())
}
