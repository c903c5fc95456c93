//! `bench engine`: submit, claim, complete through the broker, with no network.
//!
//! Submitters and workers each wait for their answer before the next call. The backlog between them is bounded, so that
//! both sides end up at the same pace. While they run, the sizes of the groups that the log syncs are noted; the plain loop
//! then writes the same groups, and the two times are compared.

pub(super) mod load;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use windlass_broker::{Broker, Settings};
use windlass_store::embedded::EmbeddedStore;
use windlass_store::{Store, SystemClock};

use super::Error;
use super::machine::{Machine, settle};
use super::place::Place;
use super::plain::{Groups, Plain};
use super::report::{Meter, Report, Table, count, median, ms, percent};
use load::Load;

/// What the log writes around the entries: four bytes for each, a head for the group.
const ENTRY_EXTRA_BYTES: u64 = 4;
const GROUP_EXTRA_BYTES: u64 = 48;
/// How finely the sizes of groups are noted.
const SAMPLE: Duration = Duration::from_millis(10);
/// From the start of the load to the first look at it.
const RAMP: Duration = Duration::from_millis(300);

#[derive(Debug, Clone, clap::Args)]
#[command(
    before_help = "Examples:\n  windlass bench engine\n  windlass bench engine --batch 100 --seconds 30\n  \
    windlass bench engine --durability interval:50ms -o json"
)]
pub(crate) struct Args {
    /// Seconds of load, over all rounds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Rounds, each followed by the plain loop; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// Submitters at once
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    submitters: u64,
    /// Workers at once
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    workers: u64,
    /// Tasks per submit and per claim
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    batch: u64,
    /// Bytes of each payload
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    payload: u64,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Serialize)]
struct SettingsUsed {
    seconds: u64,
    rounds: u64,
    submitters: u64,
    workers: u64,
    batch: u64,
    payload_bytes: u64,
    durability: String,
}

/// One stretch of load and the plain loop after it.
#[derive(Debug, Clone, Serialize)]
struct Round {
    seconds: f64,
    lifecycles: u64,
    entries: u64,
    groups: u64,
    bytes: u64,
    slowest_group_us: u64,
    lifecycles_per_second: f64,
    entries_per_second: f64,
    groups_per_second: f64,
    plain_seconds: f64,
    plain_entries_per_second: f64,
    plain_groups_per_second: f64,
    /// Entries per second of the engine to those of the plain loop.
    ratio: f64,
}

#[derive(Debug, Serialize)]
struct Results {
    lifecycles_per_second: f64,
    entries_per_second: f64,
    plain_entries_per_second: f64,
    ratio: f64,
    entries_per_group: f64,
    bytes_per_group: f64,
    slowest_group_us: u64,
    submitted: u64,
    completed: u64,
    rounds: Vec<Round>,
}

pub(super) async fn run(args: Args) -> Result<Report, Error> {
    let machine = Machine::look(&args.place.dir);
    let dir = args.place.make()?;
    let meter = Meter::stage("preparing");
    let store = args.place.open(&dir.path().join("data")).await?;
    let broker = Broker::start(store.clone(), SystemClock::shared(), Settings::default());
    let path = dir.path().join("plain");
    let mut plain = tokio::task::spawn_blocking(move || Plain::prepare(&path)).await??;
    let length = Duration::from_secs_f64(args.seconds as f64 / args.rounds as f64);

    meter.say("warming up");
    measure(&broker, &store, &args, length.min(Duration::from_secs(1))).await?;
    let mut rounds = Vec::new();
    for number in 1..=args.rounds {
        meter.say(format!("round {number} of {}: engine", args.rounds));
        let measured = measure(&broker, &store, &args, length).await?;
        settle().await;
        meter.say(format!("round {number} of {}: plain loop", args.rounds));
        let (groups, durability) = (measured.groups.clone(), args.place.durability);
        let (written, back) =
            tokio::task::spawn_blocking(move || (plain.write(&groups, durability), plain)).await?;
        plain = back;
        rounds.push(compare(&measured, written?));
    }
    let ledger = store.ledger().await?;
    expect("completed tasks", ledger.submitted, ledger.completed)?;
    broker.stop().await;
    store.close().await?;
    drop(meter);
    let results = summarize(rounds, ledger.submitted, ledger.completed);
    Ok(Report::new("engine", machine, &settings(&args), &results, tables(&args, &results)))
}

fn settings(args: &Args) -> SettingsUsed {
    SettingsUsed {
        seconds: args.seconds,
        rounds: args.rounds,
        submitters: args.submitters,
        workers: args.workers,
        batch: args.batch,
        payload_bytes: args.payload,
        durability: args.place.durability_word(),
    }
}

#[derive(Debug, Default)]
struct Measured {
    length: Duration,
    lifecycles: u64,
    entries: u64,
    bytes: u64,
    slowest_us: u64,
    groups: Vec<Groups>,
}

/// One stretch of load. Afterwards every task is completed, and all counts are compared.
async fn measure(
    broker: &Broker,
    store: &Arc<EmbeddedStore>,
    args: &Args,
    length: Duration,
) -> Result<Measured, Error> {
    let before = store.ledger().await?;
    let load = Load::start(broker, args);
    tokio::time::sleep(RAMP).await;
    let mut measured = Measured::default();
    let mut last = store.activity();
    let (began, completed) = (Instant::now(), load.completed());
    let mut ticks = tokio::time::interval(SAMPLE);
    while began.elapsed() < length {
        ticks.tick().await;
        let now = store.activity();
        let run = Groups {
            count: now.groups - last.groups,
            bytes: now.bytes - last.bytes
                + ENTRY_EXTRA_BYTES * (now.entries - last.entries)
                + GROUP_EXTRA_BYTES * (now.groups - last.groups),
        };
        if run.count > 0 {
            measured.groups.push(run);
        }
        measured.entries += now.entries - last.entries;
        measured.bytes += run.bytes;
        measured.slowest_us = measured.slowest_us.max(now.slowest_us);
        last = now;
    }
    measured.length = began.elapsed();
    measured.lifecycles = load.completed() - completed;
    let (submitted, completed) = load.finish().await?;
    let after = store.ledger().await?;
    expect("tasks of the submitters that workers completed", submitted, completed)?;
    expect("tasks in the store's ledger", submitted, after.submitted - before.submitted)?;
    expect("completions in the store's ledger", completed, after.completed - before.completed)?;
    Ok(measured)
}

pub(super) fn expect(what: &'static str, expected: u64, found: u64) -> Result<(), Error> {
    if expected == found { Ok(()) } else { Err(Error::Mismatch { what, expected, found }) }
}

fn compare(measured: &Measured, plain: Duration) -> Round {
    let (seconds, plain) = (measured.length.as_secs_f64(), plain.as_secs_f64().max(f64::MIN_POSITIVE));
    let groups: u64 = measured.groups.iter().map(|run| run.count).sum();
    Round {
        seconds,
        lifecycles: measured.lifecycles,
        entries: measured.entries,
        groups,
        bytes: measured.bytes,
        slowest_group_us: measured.slowest_us,
        lifecycles_per_second: measured.lifecycles as f64 / seconds,
        entries_per_second: measured.entries as f64 / seconds,
        groups_per_second: groups as f64 / seconds,
        plain_seconds: plain,
        plain_entries_per_second: measured.entries as f64 / plain,
        plain_groups_per_second: groups as f64 / plain,
        ratio: plain / seconds,
    }
}

fn summarize(rounds: Vec<Round>, submitted: u64, completed: u64) -> Results {
    let middle = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
    Results {
        lifecycles_per_second: middle(|round| round.lifecycles_per_second),
        entries_per_second: middle(|round| round.entries_per_second),
        plain_entries_per_second: middle(|round| round.plain_entries_per_second),
        ratio: middle(|round| round.ratio),
        entries_per_group: middle(|round| round.entries as f64 / round.groups.max(1) as f64),
        bytes_per_group: middle(|round| round.bytes as f64 / round.groups.max(1) as f64),
        slowest_group_us: rounds.iter().map(|round| round.slowest_group_us).max().unwrap_or_default(),
        submitted,
        completed,
        rounds,
    }
}

fn tables(args: &Args, results: &Results) -> Vec<Table> {
    let title = format!(
        "{} submitters, {} workers, batch {}, {}-byte payloads, durability {}",
        args.submitters,
        args.workers,
        args.batch,
        args.payload,
        args.place.durability_word()
    );
    let head =
        ["", "LIFECYCLES/S", "ENTRIES/S", "ENTRIES/GROUP", "SLOWEST GROUP", "PLAIN ENTRIES/S", "RATIO"];
    let mut table = Table::new(title, &head);
    for (i, round) in results.rounds.iter().enumerate() {
        table = table.row([
            format!("round {}", i + 1),
            count(round.lifecycles_per_second),
            count(round.entries_per_second),
            count(round.entries as f64 / round.groups.max(1) as f64),
            ms(round.slowest_group_us),
            count(round.plain_entries_per_second),
            percent(round.ratio),
        ]);
    }
    vec![table.row([
        "median".to_owned(),
        count(results.lifecycles_per_second),
        count(results.entries_per_second),
        count(results.entries_per_group),
        ms(results.slowest_group_us),
        count(results.plain_entries_per_second),
        percent(results.ratio),
    ])]
}
