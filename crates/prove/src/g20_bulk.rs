//! G20: an act on many tasks is exact while the broker is killed over and over: every task that matched is changed once and
//! counted once, and nothing else is touched.
//!
//! Dead letters are made in several queues; some have the error that the filter names, some have not, and some come after
//! the operation began. The judge compares the tasks themselves with the counts of the operation.
//!
//! Can fail: the judge is handed tasks left out, tasks touched that did not match, and counts that are off by one, and
//! must see each. A run in which no kill hit the operation while it was under way fails.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::http::{Answer, Http};
use crate::proof::{Outcome, Run, Trouble, verdict};
use crate::server::{Server, Setup};

const PATIENCE: Duration = Duration::from_secs(600);
const CANCELS: usize = 5;
const RAISED: u64 = 201;
const BATCH: usize = 200;
/// The error that the filter finds, and one that it finds too, of tasks that come later.
const MEANT: &str = "connection timeout";
const LATE: &str = "timeout, too late";
/// They share the syncs of the log.
const MAKERS: usize = 16;
/// One task in so many has another error, and must be left alone.
const OTHERS: usize = 10;

pub(crate) async fn prove(run: Run) -> Outcome {
    self_test()?;
    let count = run.pick(10_000, 200_000);
    let home = run.home()?;
    let setup = Setup::new(&run, home.path());
    let mut random = run.random("G20");
    let server = setup.start().await?;
    let matching = make_dead(server.address(), count).await?;
    let began = Instant::now();
    let retry = json!({"action": "retry", "filter": "state:dead_letter error:timeout", "by": "prove"});
    let retry = start(&mut server.http(), &retry).await?;
    let (server, retry, kills) = kill_until_done(&setup, server, retry, &mut random).await?;
    let took = began.elapsed();
    let mut http = server.http();
    let census = Census::take(&mut http).await?;
    let judged = Judged { matching, changed: census.pending, wrong: census.pending_wrong };
    let mut complaints = judged.complaints(&retry.told);
    complaints.extend(census.complaints());

    // A second one over everything, cancelled on its way: what it says is what was done.
    let raise = cancel_midway(&mut http).await?;
    let census = Census::take(&mut http).await?;
    complaints.extend(census.complaints());
    if census.raised != raise.changed || raise.changed >= census.total {
        complaints.push(format!("a cancelled operation says {} and did {}", raise.changed, census.raised));
    }
    if kills == 0 {
        complaints.push("no kill hit the operation under way, so this proof cannot fail".to_owned());
    }
    if retry.readings.len() < run.pick(2, 10) {
        complaints.push("its progress was not shown on the way".to_owned());
    }
    server.terminate().await?;
    let figures = format!(
        "{} of {matching} changed and {} counted over {kills} kills in {:.1} s, {} wrong, {} readings of progress; a second \
         one {} after {} of {}",
        judged.changed,
        retry.told.changed,
        took.as_secs_f64(),
        judged.wrong,
        retry.readings.len(),
        raise.state,
        raise.changed,
        census.total,
    );
    verdict(figures, complaints)
}

/// Dead letters in four queues, one in [`OTHERS`] with another error; how many have this one.
async fn make_dead(address: SocketAddr, count: usize) -> Result<u64, Trouble> {
    let mut makers = JoinSet::new();
    for maker in 0..MAKERS {
        let share = count / MAKERS + usize::from(maker < count % MAKERS);
        makers.spawn(async move { make_share(Http::new(address), maker, share, MEANT).await });
    }
    let mut matching = 0;
    while let Some(made) = makers.join_next().await {
        matching += made.map_err(|error| Trouble::failed(error.to_string()))??;
    }
    Ok(matching)
}

async fn make_share(mut http: Http, maker: usize, share: usize, error: &str) -> Result<u64, Trouble> {
    let (mut made, mut matching) = (0, 0);
    // Queues of its own, so that no maker works off the tasks of another.
    let worker = format!("maker-{maker}");
    while made < share {
        let task =
            |i: usize| json!({"type": "bulk", "queue": format!("bulk-{maker}-{}", i % 4), "max_retries": 0});
        let tasks: Vec<Value> = (made..share.min(made + BATCH)).map(task).collect();
        expect(http.post("/api/v1/tasks/batch", &json!({"tasks": tasks, "atomic": true})).await?, 200)?;
        let queues: Vec<String> = (0..4).map(|i| format!("bulk-{maker}-{i}")).collect();
        let claim = json!({"worker_id": worker, "queues": queues, "max": BATCH, "lease_seconds": 3600});
        let claimed = expect(http.post("/api/v1/claim", &claim).await?, 200)?;
        for task in claimed["tasks"].as_array().into_iter().flatten() {
            let other = made % OTHERS == 0;
            let error = if other { "cannot parse" } else { error };
            let path = format!("/api/v1/tasks/{}/fail", task["id"].as_str().unwrap_or_default());
            let report = json!({"lease": task["lease"], "error": error, "retryable": false});
            expect(http.post(&path, &report).await?, 200)?;
            made += 1;
            matching += u64::from(!other);
        }
    }
    Ok(matching)
}

async fn start(http: &mut Http, body: &Value) -> Result<Told, Trouble> {
    Ok(Told::of(&expect(http.post("/api/v1/operations", body).await?, 202)?))
}

async fn look(http: &mut Http, id: &str) -> Result<Told, Trouble> {
    Ok(Told::of(&expect(http.get(&format!("/api/v1/operations/{id}")).await?, 200)?))
}

fn expect(answer: Answer, status: u16) -> Result<Value, Trouble> {
    match answer.status == status {
        true => Ok(answer.body),
        false => Err(Trouble::failed(format!("{} instead of {status}: {}", answer.status, answer.body))),
    }
}

/// What an operation says of itself.
#[derive(Debug, Clone, Default)]
struct Told {
    id: String,
    state: String,
    seen: u64,
    changed: u64,
    skipped: u64,
    failed: u64,
}

impl Told {
    fn of(body: &Value) -> Told {
        let number = |key: &str| body[key].as_u64().unwrap_or_default();
        let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
        Told {
            id: text("id"),
            state: text("state"),
            seen: number("seen"),
            changed: number("changed"),
            skipped: number("skipped"),
            failed: number("failed"),
        }
    }
}

/// How an operation ended, and every reading of its progress on the way.
struct Followed {
    told: Told,
    readings: BTreeSet<u64>,
}

/// Kills the broker again and again while the operation runs; with the kills that hit it under way.
async fn kill_until_done(
    setup: &Setup,
    mut server: Server,
    begun: Told,
    random: &mut StdRng,
) -> Result<(Server, Followed, usize), Trouble> {
    let patience = Instant::now() + PATIENCE;
    let (mut kills, mut readings) = (0, BTreeSet::from([begun.seen]));
    while Instant::now() < patience {
        let mut http = server.http();
        // The first comes at once, before it can be done.
        let longest_ms = if kills == 0 { 10 } else { 120 };
        let kill_at = Instant::now() + Duration::from_millis(random.random_range(0..longest_ms));
        while Instant::now() < kill_at {
            let told = look(&mut http, &begun.id).await?;
            readings.insert(told.seen);
            if told.state != "running" {
                return Ok((server, Followed { told, readings }, kills));
            }
        }
        server.kill().await?;
        kills += 1;
        server = setup.start().await?;
        if kills == 1 {
            make_share(server.http(), MAKERS, 50, LATE).await?;
        }
    }
    Err(Trouble::failed("the operation never came to its end"))
}

/// Gives every task another priority, and cancels that on its way. A fast machine may be done first; then it goes on with the next.
async fn cancel_midway(http: &mut Http) -> Result<Told, Trouble> {
    for _ in 0..CANCELS {
        // Back and forth, so that there is something to change every time.
        for priority in [1, RAISED] {
            let raise = json!({"action": "set_priority", "filter": "type:bulk", "priority": priority});
            let raise = start(http, &raise).await?;
            while look(http, &raise.id).await?.seen == 0 {}
            let answer = match priority {
                RAISED => http.post(&format!("/api/v1/operations/{}/cancel", raise.id), &json!({})).await?,
                _ => until_done(http, &raise.id).await?,
            };
            match (answer.status, answer.code(), priority) {
                (200, _, RAISED) => return Ok(Told::of(&answer.body)),
                (200, _, _) | (409, "operation_ended", _) => {}
                _ => return Err(Trouble::failed(format!("a cancel was refused: {}", answer.body))),
            }
        }
    }
    Err(Trouble::failed("every operation was done before it could be cancelled"))
}

async fn until_done(http: &mut Http, id: &str) -> Result<Answer, Trouble> {
    loop {
        let answer = http.get(&format!("/api/v1/operations/{id}")).await?;
        if answer.body["state"] != "running" {
            return Ok(answer);
        }
    }
}

/// All tasks, counted page by page: there are too many to keep.
#[derive(Debug, Default)]
struct Census {
    total: u64,
    pending: u64,
    /// Pending, though not meant.
    pending_wrong: u64,
    raised: u64,
    by_state: BTreeMap<String, u64>,
    stats: Value,
}

impl Census {
    async fn take(http: &mut Http) -> Result<Census, Trouble> {
        let mut census =
            Census { stats: expect(http.get("/api/v1/stats").await?, 200)?, ..Census::default() };
        let mut path = "/api/v1/tasks?limit=1000".to_owned();
        loop {
            let page = expect(http.get(&path).await?, 200)?;
            page["items"].as_array().into_iter().flatten().for_each(|task| census.count(task));
            match page["next_cursor"].as_str() {
                Some(cursor) => path = format!("/api/v1/tasks?limit=1000&cursor={cursor}"),
                None => return Ok(census),
            }
        }
    }

    fn count(&mut self, task: &Value) {
        let state = task["state"].as_str().unwrap_or_default();
        let meant = task["error"] == MEANT;
        self.total += 1;
        self.pending += u64::from(state == "pending");
        self.pending_wrong += u64::from(state == "pending" && !meant);
        self.raised += u64::from(task["priority"] == RAISED);
        *self.by_state.entry(state.to_owned()).or_default() += 1;
    }

    /// Counters and books against the tasks.
    fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        for (state, count) in &self.by_state {
            if self.stats["tasks"][state] != *count {
                complaints.push(format!("{count} are {state}, {} counted", self.stats["tasks"][state]));
            }
        }
        let ledger = |key: &str| self.stats["ledger"][key].as_u64().unwrap_or_default();
        if ledger("submitted") != self.total + ledger("removed") {
            complaints.push(format!("{} tasks, the books say {}", self.total, self.stats["ledger"]));
        }
        complaints
    }
}

/// What the tasks say.
#[derive(Debug, Clone, Copy)]
struct Judged {
    matching: u64,
    changed: u64,
    /// Changed though they did not match or came later.
    wrong: u64,
}

impl Judged {
    fn complaints(&self, told: &Told) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut complain = |wrong: bool, text: String| complaints.extend(wrong.then_some(text));
        complain(told.state != "done", format!("the operation is {}", told.state));
        complain(self.wrong > 0, format!("{} tasks were changed that are not meant", self.wrong));
        let idle = told.skipped + told.failed;
        complain(idle > 0, format!("{idle} are said to be skipped or failed, and all could be changed"));
        let right = self.changed - self.wrong.min(self.changed);
        complain(
            right < self.matching,
            format!("{} tasks were left out", self.matching.saturating_sub(right)),
        );
        complain(
            told.changed != self.changed,
            format!("{} are changed, {} counted", self.changed, told.changed),
        );
        complain(told.seen != self.matching, format!("{} matched, {} seen", self.matching, told.seen));
        complaints
    }
}

fn self_test() -> Result<(), Trouble> {
    let right = Told { state: "done".into(), seen: 9, changed: 9, ..Told::default() };
    let exact = Judged { matching: 9, changed: 9, wrong: 0 };
    if !exact.complaints(&right).is_empty() {
        return Err(Trouble::failed("the judge complains of nothing"));
    }
    let cases = [
        (Judged { changed: 8, ..exact }, right.clone()),
        (Judged { changed: 10, wrong: 1, ..exact }, right.clone()),
        (exact, Told { changed: 10, seen: 10, ..right.clone() }),
        (exact, Told { changed: 8, seen: 8, ..right.clone() }),
        (exact, Told { state: "running".into(), ..right }),
    ];
    match cases.iter().find(|(judged, told)| judged.complaints(told).is_empty()) {
        Some(case) => Err(Trouble::failed(format!("the judge is blind: {case:?}"))),
        None => Ok(()),
    }
}
