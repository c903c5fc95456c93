//! G21: a graph of a thousand tasks, submitted in one call, runs in the order of its dependencies while the broker is killed
//! again and again. No task is given out before everything that it depends on was reported, and every task completes.
//!
//! The judge keeps its own book: what was reported (answered or not) counts as done, and each delivery is held against it.
//! Mutant: a judge that is handed a delivery whose dependency nobody reported, and a scan with a task that never ran, must
//! complain about both.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::Rng;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use crate::audit::Scan;
use crate::http::Http;
use crate::proof::{Outcome, Run, Trouble, verdict};
use crate::server::Setup;

const WORKFLOW: &str = "/api/v1/workflows/graph";
const WORKERS: usize = 4;
/// How far back a node finds those that it depends on.
const REACH: usize = 40;
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) async fn prove(run: Run) -> Outcome {
    self_test()?;
    let (size, kills_min) = run.pick((1000, 3), (10_000, 20));
    let home = run.home()?;
    let setup = Setup::new(&run, home.path());
    let mut random = run.random("G21");
    let mut server = setup.start().await?;
    let graph = graph(size, |of| random.random_range(0..of));
    let answer = server.http().post("/api/v1/workflows", &graph).await?;
    if answer.status != 201 {
        return Err(Trouble::failed(format!("the graph was refused: {}", answer.body)));
    }
    let book = Arc::new(Mutex::new(Book::default()));
    let patience = Instant::now() + PATIENCE;
    let mut kills = 0;
    loop {
        let workers = (0..WORKERS).map(|i| work(server.http(), format!("w{kills}-{i}"), Arc::clone(&book)));
        let working = futures_util::future::join_all(workers);
        // While kills are due the next one comes somewhere in its part of the graph; after that there is time to finish.
        let part = size / (kills_min + 1);
        let reported = kills * part + random.random_range(part / 4..part);
        tokio::select! {
            _ = working => {}
            () = progress(&book, reported), if kills < kills_min => {}
            () = tokio::time::sleep(Duration::from_secs(2)) => {}
        }
        let state = server.http().get(WORKFLOW).await?.body["state"].clone();
        if state == "completed" {
            break;
        }
        if Instant::now() > patience {
            return Err(Trouble::failed(format!("the graph is still {state} after {PATIENCE:?}")));
        }
        if kills < kills_min {
            server.kill().await?;
            kills += 1;
            server = setup.start().await?;
        }
    }
    let scan = Scan::take(&mut server.http()).await?;
    server.terminate().await?;
    let book = book.lock().await;
    let mut complaints = book.complaints();
    complaints.extend(judge(&scan.tasks, size));
    complaints.extend(scan.judge_ledger());
    if kills < kills_min {
        complaints.push(format!("the graph was done after {kills} kills of {kills_min}"));
    }
    let figures = format!("{size} tasks, {kills} kills, {} deliveries, all in order", book.deliveries);
    verdict(figures, complaints)
}

/// Ready when so many tasks were reported.
async fn progress(book: &Mutex<Book>, reported: usize) {
    while book.lock().await.reported.len() < reported {
        // sleep: the workers are not slowed down by telling.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Each node depends on up to three of those shortly before it.
fn graph(size: usize, mut draw: impl FnMut(usize) -> usize) -> Value {
    let mut tasks = Map::new();
    for i in 0..size {
        let near = i.min(REACH);
        let mut after: Vec<String> =
            (0..near.min(draw(4))).map(|_| format!("n{}", i - 1 - draw(near))).collect();
        after.sort();
        after.dedup();
        tasks.insert(format!("n{i}"), json!({"type": "node", "after": after, "max_crashes": 1000}));
    }
    json!({"id": "graph", "tasks": tasks})
}

#[derive(Debug, Default)]
struct Book {
    /// Tasks whose completion was sent, answered or not.
    reported: HashSet<String>,
    deliveries: u64,
    early: Vec<String>,
}

impl Book {
    fn delivered(&mut self, task: &Value) {
        self.deliveries += 1;
        let dependencies = task["dependencies"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for id in dependencies {
            if !self.reported.contains(id) {
                self.early.push(format!("{} was given out before {id} was reported", task["id"]));
            }
        }
    }

    fn complaints(&self) -> Vec<String> {
        self.early.iter().take(5).cloned().collect()
    }
}

/// Claims and completes until the broker is gone.
async fn work(mut http: Http, worker: String, book: Arc<Mutex<Book>>) {
    let claim = json!({
        "worker_id": worker, "queues": ["default"], "max": 8, "wait_seconds": 1, "lease_seconds": 1,
    });
    loop {
        let Ok(claimed) = http.post("/api/v1/claim", &claim).await else { return };
        for task in claimed.body["tasks"].as_array().into_iter().flatten() {
            let id = task["id"].as_str().unwrap_or_default().to_owned();
            {
                let mut book = book.lock().await;
                book.delivered(task);
                // Before it is sent: the answer may come too late for the delivery that follows from it.
                book.reported.insert(id.clone());
            }
            let done = json!({"lease": task["lease"], "result": id});
            if http.post(&format!("/api/v1/tasks/{id}/complete"), &done).await.is_err() {
                return;
            }
        }
    }
}

fn judge(tasks: &[Value], size: usize) -> Vec<String> {
    let mut complaints = Vec::new();
    if tasks.len() != size {
        complaints.push(format!("{} tasks of {size} are there", tasks.len()));
    }
    let unfinished: Vec<&Value> = tasks.iter().filter(|task| task["state"] != "completed").collect();
    complaints.extend(unfinished.iter().take(5).map(|task| format!("{} is {}", task["id"], task["state"])));
    complaints
}

fn self_test() -> Result<(), Trouble> {
    let mut book = Book::default();
    book.reported.insert("graph:a".to_owned());
    book.delivered(&json!({"id": "graph:c", "dependencies": ["graph:a", "graph:b"]}));
    let blind = book.complaints().len() != 1;
    let scan = [json!({"id": "a", "state": "completed"}), json!({"id": "b", "state": "blocked"})];
    if blind || judge(&scan, 2).len() != 1 || judge(&scan, 3).len() != 2 {
        return Err(Trouble::failed("the judge of graphs does not see what is wrong"));
    }
    Ok(())
}
