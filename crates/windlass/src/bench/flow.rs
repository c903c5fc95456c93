//! `bench flow`: what keys and limits cost.
//!
//! Whole lives of tasks inside one process, first without keys and then spread over many, in turns: the ratio is what fair shares
//! take. Then many tasks are put behind a full key, and claims of another key are measured with and without them: they must cost
//! nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures_util::future::try_join_all;
use serde::Serialize;
use tokio::task::JoinSet;
use windlass_broker::{Broker, ClaimRequest, Settings, Submit};
use windlass_core::choice::Queue;
use windlass_core::flow::{Limit, Scope};
use windlass_core::{Name, State, Task};
use windlass_store::{Store, SystemClock};

use super::Error;
use super::engine::load::{claim, task};
use super::machine::{Machine, settle};
use super::place::Place;
use super::report::{Latency, Meter, Report, Table, count, histogram, median, percent, record};

/// Tasks per submit and per claim.
const BATCH: u64 = 100;
/// Submitters, and then workers, at once.
const ABREAST: u64 = 16;

#[derive(Debug, Clone, clap::Args)]
#[command(
    before_help = "Examples:\n  windlass bench flow\n  windlass bench flow --keys 1000 --blocked 100000"
)]
pub(crate) struct Args {
    /// Keys that the tasks are spread over
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    keys: u64,
    /// Tasks of a round
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    tasks: u64,
    /// Rounds with and without keys, in turns; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// Tasks behind a full key
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    blocked: u64,
    /// Claims of another key that are measured
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(10..=100_000))]
    claims: u64,
    /// Bytes of each payload
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    payload: u64,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Serialize)]
struct SettingsUsed {
    keys: u64,
    tasks: u64,
    rounds: u64,
    blocked: u64,
    claims: u64,
    payload_bytes: u64,
    durability: String,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Round {
    plain_per_second: f64,
    keyed_per_second: f64,
    ratio: f64,
}

#[derive(Debug, Serialize)]
struct Results {
    plain_per_second: f64,
    keyed_per_second: f64,
    /// Lives per second with keys to those without.
    ratio: f64,
    claim_alone: Latency,
    claim_beside_blocked: Latency,
    /// Of the medians.
    claim_p50_ratio: f64,
    rounds: Vec<Round>,
}

pub(super) async fn run(args: Args) -> Result<Report, Error> {
    let machine = Machine::look(&args.place.dir);
    let dir = args.place.make()?;
    let store = args.place.open(&dir.path().join("data")).await?;
    let broker = Broker::start(store.clone(), SystemClock::shared(), Settings::default());
    let meter = Meter::stage("warming up");
    lives(&broker, &args, "warm", None).await?;
    let mut rounds = Vec::new();
    for number in 1..=args.rounds {
        meter.say(format!("round {number} of {}: without keys", args.rounds));
        settle().await;
        let plain = lives(&broker, &args, &format!("plain-{number}"), None).await?;
        meter.say(format!("round {number} of {}: {} keys", args.rounds, args.keys));
        settle().await;
        let keyed = lives(&broker, &args, &format!("keyed-{number}"), Some(args.keys)).await?;
        rounds.push(Round { plain_per_second: plain, keyed_per_second: keyed, ratio: keyed / plain });
    }
    meter.say("claims alone");
    settle().await;
    let claim_alone = claims(&broker, &args).await?;
    meter.say(format!("putting {} tasks behind a full key", args.blocked));
    block(&broker, &args).await?;
    meter.say("claims beside them");
    settle().await;
    let claim_beside_blocked = claims(&broker, &args).await?;
    broker.stop().await;
    store.close().await?;
    drop(meter);
    let figures = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
    let results = Results {
        plain_per_second: figures(|round| round.plain_per_second),
        keyed_per_second: figures(|round| round.keyed_per_second),
        ratio: figures(|round| round.ratio),
        claim_alone,
        claim_beside_blocked,
        claim_p50_ratio: claim_beside_blocked.p50_us as f64 / claim_alone.p50_us.max(1) as f64,
        rounds,
    };
    let settings = SettingsUsed {
        keys: args.keys,
        tasks: args.tasks,
        rounds: args.rounds,
        blocked: args.blocked,
        claims: args.claims,
        payload_bytes: args.payload,
        durability: args.place.durability_word(),
    };
    Ok(Report::new("flow", machine, &settings, &results, tables(&args, &results)))
}

/// Lives per second, from the first submit to the last completion.
async fn lives(broker: &Broker, args: &Args, queue: &str, keys: Option<u64>) -> Result<f64, Error> {
    let submit = task(queue, args.payload as usize);
    let began = Instant::now();
    fill(broker, &submit, args.tasks, keys).await?;
    drain(broker, &submit.queue, args.tasks).await?;
    Ok(args.tasks as f64 / began.elapsed().as_secs_f64())
}

async fn fill(broker: &Broker, submit: &Submit, tasks: u64, keys: Option<u64>) -> Result<(), Error> {
    let next = Arc::new(AtomicU64::new(0));
    let mut submitters = JoinSet::new();
    for _ in 0..ABREAST {
        let (broker, submit, next) = (broker.clone(), submit.clone(), Arc::clone(&next));
        submitters.spawn(async move {
            loop {
                let first = next.fetch_add(BATCH, Ordering::Relaxed);
                if first >= tasks {
                    return Ok::<(), Error>(());
                }
                let keyed =
                    |number: u64| Submit { key: keys.map(|keys| key(number % keys)), ..submit.clone() };
                let batch = (first..tasks.min(first + BATCH)).map(keyed).collect();
                for outcome in broker.submit_batch(batch, false).await? {
                    outcome?;
                }
            }
        });
    }
    while let Some(ended) = submitters.join_next().await {
        ended??;
    }
    Ok(())
}

fn key(number: u64) -> Name {
    Name::new(&format!("tenant-{number}")).expect("a valid name")
}

async fn drain(broker: &Broker, queue: &Name, tasks: u64) -> Result<(), Error> {
    let done = Arc::new(AtomicU64::new(0));
    let mut workers = JoinSet::new();
    for number in 0..ABREAST {
        let (broker, done, request) = (broker.clone(), Arc::clone(&done), of(queue, number, BATCH as u32));
        workers.spawn(async move {
            loop {
                let tasks = broker.claim(request.clone()).await?;
                if tasks.is_empty() {
                    return Ok::<(), Error>(());
                }
                try_join_all(tasks.iter().map(|task| complete(&broker, task))).await?;
                done.fetch_add(tasks.len() as u64, Ordering::Relaxed);
            }
        });
    }
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    let found = done.load(Ordering::Relaxed);
    if found != tasks {
        return Err(Error::Mismatch { what: "tasks completed", expected: tasks, found });
    }
    Ok(())
}

fn of(queue: &Name, worker: u64, max: u32) -> ClaimRequest {
    ClaimRequest { queues: vec![Queue { name: queue.clone(), weight: 1 }], ..claim(worker, max, 0) }
}

async fn complete(broker: &Broker, task: &Task) -> Result<(), windlass_broker::Error> {
    let State::Running(lease) = &task.record.state else { return Err(windlass_broker::Error::LeaseLost) };
    broker.complete(&task.record.id, lease.token, None).await.map(drop)
}

/// How long one claim of one task takes in the queue that the blocked tasks are in.
async fn claims(broker: &Broker, args: &Args) -> Result<Latency, Error> {
    let submit = Submit { key: Some(key(0)), ..task("shared", args.payload as usize) };
    fill(broker, &submit, args.claims, Some(1)).await?;
    let request = of(&submit.queue, 0, 1);
    let mut lengths = histogram();
    for _ in 0..args.claims {
        let began = Instant::now();
        let tasks = broker.claim(request.clone()).await?;
        record(&mut lengths, began.elapsed());
        if tasks.len() != 1 {
            return Err(Error::Mismatch { what: "tasks of a claim", expected: 1, found: tasks.len() as u64 });
        }
        complete(broker, &tasks[0]).await?;
    }
    Ok(Latency::of(&lengths))
}

async fn block(broker: &Broker, args: &Args) -> Result<(), Error> {
    let full = Name::new("full").expect("a valid name");
    let limit = Limit { max_concurrency: Some(1), ..Limit::default() };
    broker.set_limit(Scope::Key, full.clone(), limit).await?;
    let submit = Submit { key: Some(full), ..task("shared", args.payload as usize) };
    broker.submit(submit.clone()).await?;
    broker.claim(of(&submit.queue, 0, 1)).await?;
    let mut left = args.blocked;
    while left > 0 {
        let some = left.min(BATCH);
        for outcome in broker.submit_batch(vec![submit.clone(); some as usize], false).await? {
            outcome?;
        }
        left -= some;
    }
    Ok(())
}

fn tables(args: &Args, results: &Results) -> Vec<Table> {
    let lives = Table::new("Whole lives per second", &["WITHOUT KEYS", "WITH KEYS", "KEYS", "RATIO"]).row([
        count(results.plain_per_second),
        count(results.keyed_per_second),
        count(args.keys as f64),
        percent(results.ratio),
    ]);
    let row = |name: &str, latency: Latency| [name.to_owned()].into_iter().chain(latency.cells());
    let claims = Table::new("Claims of one task", &["", "P50", "P99", "P99.9", "MAX"])
        .row(row("alone", results.claim_alone))
        .row(row(
            &format!("beside {} tasks of a full key", count(args.blocked as f64)),
            results.claim_beside_blocked,
        ));
    vec![lives, claims]
}
