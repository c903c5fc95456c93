//! `bench backlog`: what tasks that wait cost, in memory, on disk, at a restart and for whoever claims.
//!
//! Claims are measured twice in the same way, with a small backlog and with all of it, each after the store has come to rest.
//! A single sync of the disk is measured next to them: what it does, no claim can undercut.

pub(super) mod crash;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::task::JoinSet;
use windlass_broker::{Broker, Settings, Submit};
use windlass_core::State;
use windlass_store::embedded::EmbeddedStore;
use windlass_store::{Store, SystemClock};

use super::Error;
use super::engine::expect;
use super::engine::load::{claim, task};
use super::machine::{Machine, Usage, settle};
use super::place::{Place, disk_bytes};
use super::plain::{Groups, Plain};
use super::report::{Latency, Meter, Report, Table, count, histogram, megabytes, ms, record};

/// Tasks in one submit.
const BATCH: u64 = 1000;
/// Submits under way at once.
const FILLERS: u64 = 4;
/// What a claim writes, about.
const CLAIM_BYTES: u64 = 128;

#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "Examples:\n  windlass bench backlog\n  windlass bench backlog --tasks 10000000\n  \
    windlass bench backlog --tasks 100000 --claims 500 -o json")]
pub(crate) struct Args {
    /// Tasks that wait
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    tasks: u64,
    /// Tasks that wait when claims are measured first
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    small: u64,
    /// Claims of each measurement, one after the other
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    claims: u64,
    /// Bytes of each payload
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    payload: u64,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Serialize)]
struct SettingsUsed {
    tasks: u64,
    small: u64,
    claims: u64,
    payload_bytes: u64,
    durability: String,
}

#[derive(Debug, Serialize)]
struct Results {
    filled: u64,
    fill_seconds: f64,
    fill_per_second: f64,
    rss_before_bytes: u64,
    /// With all tasks pending, at rest.
    rss_bytes: u64,
    rss_peak_bytes: u64,
    disk_bytes: u64,
    disk_bytes_per_task: f64,
    close_seconds: f64,
    restart: Restart,
    claim_small: Claims,
    claim_full: Claims,
    /// Of the 99th percentiles, with all tasks to with few.
    claim_p99_ratio: f64,
    /// The same of the plain syncs: what the disk itself did to the ratio above.
    plain_p99_ratio: f64,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Restart {
    reopen_seconds: f64,
    /// From the call to open to the answer to a first claim.
    reopen_to_claim_seconds: f64,
    /// Once it had come to rest.
    rss_bytes: u64,
    /// Tasks that were there again.
    found: u64,
    /// After a crash with changes that were in the log only.
    crash_reopen_seconds: f64,
    found_after_crash: u64,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Claims {
    pending: u64,
    claim: Latency,
    /// One write and sync of the same size, with nothing around it.
    plain: Latency,
}

pub(super) async fn run(args: Args) -> Result<Report, Error> {
    let machine = Machine::look(&args.place.dir);
    let dir = args.place.make()?;
    let data = dir.path().join("data");
    let rss_before_bytes = Usage::own().rss_bytes;
    let store = args.place.open(&data).await?;
    let broker = start(&store);
    let small = args.small.min(args.tasks).max(args.claims);
    fill(&broker, &store, &args, small).await?;
    let claim_small = measure_claims(&broker, &store, &args, dir.path()).await?;

    let began = Instant::now();
    let filled = fill(&broker, &store, &args, args.tasks).await?;
    let fill_seconds = began.elapsed().as_secs_f64();
    let meter = Meter::stage("coming to rest");
    settle().await;
    let usage = Usage::own();
    let disk_bytes = disk_bytes(&data)?;
    drop(meter);
    let claim_full = measure_claims(&broker, &store, &args, dir.path()).await?;

    let submitted = store.ledger().await?.submitted;
    broker.stop().await;
    let close = timed(store.close()).await?;
    drop((broker, store));
    let results = Results {
        filled,
        fill_seconds,
        fill_per_second: filled as f64 / fill_seconds,
        rss_before_bytes,
        rss_bytes: usage.rss_bytes,
        rss_peak_bytes: usage.rss_peak_bytes,
        disk_bytes,
        disk_bytes_per_task: disk_bytes as f64 / submitted as f64,
        close_seconds: close.as_secs_f64(),
        restart: restart(&args, &data, submitted).await?,
        claim_small,
        claim_full,
        claim_p99_ratio: growth(claim_small.claim, claim_full.claim),
        plain_p99_ratio: growth(claim_small.plain, claim_full.plain),
    };
    let settings = SettingsUsed {
        tasks: args.tasks,
        small,
        claims: args.claims,
        payload_bytes: args.payload,
        durability: args.place.durability_word(),
    };
    Ok(Report::new("backlog", machine, &settings, &results, tables(&results)))
}

/// Opens the store after an orderly end, and again after a crash. Every task must be there both times.
async fn restart(args: &Args, data: &Path, submitted: u64) -> Result<Restart, Error> {
    let meter = Meter::stage("opening again");
    let began = Instant::now();
    let store = args.place.open(data).await?;
    let reopen = began.elapsed();
    let broker = start(&store);
    let claimed = broker.claim(claim(0, 1, 0)).await?.len() as u64;
    let reopen_to_claim = began.elapsed();
    expect("claims answered after the restart", 1, claimed)?;
    settle().await;
    let rss_bytes = Usage::own().rss_bytes;
    let found = store.ledger().await?.submitted;
    expect("tasks found after the restart", submitted, found)?;
    broker.stop().await;
    store.close().await?;
    drop((broker, store));

    meter.say("opening after a crash");
    let added = crash::spawn(data, &args.place, args.payload).await?;
    let began = Instant::now();
    let store = args.place.open(data).await?;
    let crash_reopen = began.elapsed();
    let found_after_crash = store.ledger().await?.submitted;
    expect("tasks found after the crash", submitted + added, found_after_crash)?;
    store.close().await?;
    Ok(Restart {
        reopen_seconds: reopen.as_secs_f64(),
        reopen_to_claim_seconds: reopen_to_claim.as_secs_f64(),
        rss_bytes,
        found,
        crash_reopen_seconds: crash_reopen.as_secs_f64(),
        found_after_crash,
    })
}

fn start(store: &Arc<EmbeddedStore>) -> Broker {
    Broker::start(store.clone(), SystemClock::shared(), Settings::default())
}

fn growth(before: Latency, after: Latency) -> f64 {
    after.p99_us as f64 / before.p99_us.max(1) as f64
}

async fn timed<T>(work: impl Future<Output = Result<T, windlass_store::Error>>) -> Result<Duration, Error> {
    let began = Instant::now();
    work.await?;
    Ok(began.elapsed())
}

async fn pending(store: &Arc<EmbeddedStore>) -> Result<u64, Error> {
    let queues = store.queues(None).await?;
    Ok(queues.iter().map(|queue| queue.by_state[windlass_core::StateName::Pending.index()]).sum())
}

/// Adds tasks until so many wait, and says how many that took.
async fn fill(broker: &Broker, store: &Arc<EmbeddedStore>, args: &Args, until: u64) -> Result<u64, Error> {
    let missing = until.saturating_sub(pending(store).await?);
    let meter = Arc::new(Meter::bar("filling", missing));
    let submit = Arc::new(task("bench", args.payload as usize));
    let mut fillers = JoinSet::new();
    for number in 0..FILLERS {
        let (broker, submit, meter) = (broker.clone(), submit.clone(), meter.clone());
        let share = missing / FILLERS + u64::from(number < missing % FILLERS);
        fillers.spawn(async move {
            let mut left = share;
            while left > 0 {
                let count = left.min(BATCH);
                add(&broker, &submit, count).await?;
                meter.add(count);
                left -= count;
            }
            Ok::<(), Error>(())
        });
    }
    while let Some(ended) = fillers.join_next().await {
        ended??;
    }
    expect("tasks pending after filling", until, pending(store).await?)?;
    Ok(missing)
}

async fn add(broker: &Broker, submit: &Submit, count: u64) -> Result<(), Error> {
    for outcome in broker.submit_batch(vec![submit.clone(); count as usize], false).await? {
        outcome?;
    }
    Ok(())
}

/// Durable claims, one at a time, at rest. Their tasks are completed afterwards.
async fn measure_claims(
    broker: &Broker,
    store: &Arc<EmbeddedStore>,
    args: &Args,
    dir: &Path,
) -> Result<Claims, Error> {
    let _meter = Meter::stage(format!("{} claims, one by one", args.claims));
    settle().await;
    let pending = pending(store).await?;
    let (path, durability) = (dir.join(format!("plain-{pending}")), args.place.durability);
    let mut file = tokio::task::spawn_blocking(move || Plain::prepare(&path)).await??;
    let (mut plain, mut latency) = (histogram(), histogram());
    let mut held = Vec::with_capacity(args.claims as usize);
    let request = claim(0, 1, 0);
    for _ in 0..args.claims {
        // In turns, so that both meet the same disk.
        let written = tokio::task::spawn_blocking(move || {
            (file.write(&[Groups { count: 1, bytes: CLAIM_BYTES }], durability), file)
        });
        let (written, back) = written.await?;
        file = back;
        record(&mut plain, written?);
        let began = Instant::now();
        let tasks = broker.claim(request.clone()).await?;
        record(&mut latency, began.elapsed());
        held.extend(tasks.into_iter().map(|task| task.record));
    }
    expect("claims that got a task", args.claims, held.len() as u64)?;
    for record in held {
        if let State::Running(lease) = &record.state {
            broker.complete(&record.id, lease.token, None).await?;
        }
    }
    Ok(Claims { pending, claim: Latency::of(&latency), plain: Latency::of(&plain) })
}

fn tables(results: &Results) -> Vec<Table> {
    let seconds = |length: f64| format!("{length:.2} s");
    let costs = Table::new(format!("{} tasks pending", count(results.claim_full.pending as f64)), &["", ""])
        .row(["fill".to_owned(), format!("{} tasks/s", count(results.fill_per_second))])
        .row(["memory before".to_owned(), megabytes(results.rss_before_bytes)])
        .row(["memory with all pending".to_owned(), megabytes(results.rss_bytes)])
        .row(["peak memory".to_owned(), megabytes(results.rss_peak_bytes)])
        .row(["disk".to_owned(), megabytes(results.disk_bytes)])
        .row(["disk per task".to_owned(), format!("{:.0} bytes", results.disk_bytes_per_task)])
        .row(["close".to_owned(), seconds(results.close_seconds)])
        .row(["reopen".to_owned(), seconds(results.restart.reopen_seconds)])
        .row(["reopen, to the first claim".to_owned(), seconds(results.restart.reopen_to_claim_seconds)])
        .row(["memory after reopening".to_owned(), megabytes(results.restart.rss_bytes)])
        .row(["reopen after a crash".to_owned(), seconds(results.restart.crash_reopen_seconds)]);
    let head = ["PENDING", "P50", "P99", "P99.9", "MAX", "PLAIN SYNC P50", "PLAIN SYNC P99"];
    let row = |claims: &Claims| {
        let plain = [ms(claims.plain.p50_us), ms(claims.plain.p99_us)];
        std::iter::once(count(claims.pending as f64)).chain(claims.claim.cells()).chain(plain)
    };
    let title = format!(
        "Claims one by one; their 99th percentile became {:.2} times, that of plain syncs {:.2} times",
        results.claim_p99_ratio, results.plain_p99_ratio
    );
    vec![costs, Table::new(title, &head).row(row(&results.claim_small)).row(row(&results.claim_full))]
}
