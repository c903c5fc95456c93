//! `bench steady`: the worst that anyone met while submits kept coming at one rate.
//!
//! The server runs in this process, so that the log can be asked how long its slowest group took to become durable. The
//! worst request, counted from the moment it was due, bounds everything else that may hold up an answer.
//!
//! Each round is followed by a control: the same bytes in groups of the same size, written and synced at the same pace. A
//! round is quiet if the control was fast. The other rounds say more about the disk than about the broker.

mod control;

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use windlass_broker::{Broker, Settings};
use windlass_store::{Store, SystemClock};

use super::engine::expect;
use super::http::pace::Pace;
use super::http::request;
use super::machine::{Machine, Usage};
use super::place::Place;
use super::report::{Latency, Meter, Report, Table, add, count, histogram, megabytes, ms, record};
use super::{Error, io};
use crate::{api, server};

/// How often the log is asked.
const LOOK: Duration = Duration::from_millis(100);
/// A control takes this share of the time of its round, and at least a second.
const CONTROL_SHARE: u64 = 4;
/// The 99th percentile of the control in a quiet round is below this.
const QUIET_US: u64 = 5000;

#[derive(Debug, Clone, clap::Args)]
#[command(
    before_help = "Examples:\n  windlass bench steady\n  windlass bench steady --rounds 10\n  windlass bench steady --rate 5000 --seconds 600 -o json"
)]
pub(crate) struct Args {
    /// Submits per second
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rate: u64,
    /// Seconds of load in each round
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Rounds, each followed by a control: appends and syncs of the same bytes without a broker
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// Connections that share the rate
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    connections: u64,
    /// Bytes of each payload
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    payload: u64,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Serialize)]
struct SettingsUsed {
    rate: u64,
    seconds: u64,
    rounds: u64,
    connections: u64,
    payload_bytes: u64,
    durability: String,
}

#[derive(Debug, Serialize)]
struct Results {
    submitted: u64,
    submits_per_second: f64,
    /// The slowest group of the whole run.
    worst_commit_us: u64,
    /// The slowest group of each tenth of a second.
    slowest_commits: Latency,
    /// From the moment a request was due to its answer.
    request: Latency,
    groups: u64,
    entries_per_group: f64,
    rss_peak_bytes: u64,
    rounds: Vec<RoundResults>,
    /// Rounds whose control was below [`QUIET_US`].
    quiet_rounds: u64,
    /// The median 99th percentile of requests in quiet rounds.
    quiet_request_p99_us: Option<u64>,
}

#[derive(Debug, Serialize)]
struct RoundResults {
    request: Latency,
    /// From the moment a group was due until it was synced.
    control: Latency,
    worst_commit_us: u64,
}

impl RoundResults {
    fn is_quiet(&self) -> bool {
        self.control.p99_us < QUIET_US
    }
}

/// What one round measured.
struct Round {
    lasted: Duration,
    request: Histogram<u64>,
    slowest: Histogram<u64>,
    groups: u64,
    entries: u64,
    bytes: u64,
}

pub(super) async fn run(args: Args) -> Result<Report, Error> {
    let machine = Machine::look(&args.place.dir);
    let dir = args.place.make()?;
    let mut all = Round {
        lasted: Duration::ZERO,
        request: histogram(),
        slowest: histogram(),
        groups: 0,
        entries: 0,
        bytes: 0,
    };
    let mut rounds = Vec::new();
    for number in 1..=args.rounds {
        let stage =
            format!("{} submits/s for {} s, round {number} of {}", args.rate, args.seconds, args.rounds);
        let meter = Meter::stage(stage);
        let data = dir.path().join(format!("data-{number}"));
        let round = round(&args, &data).await?;
        drop(meter);
        std::fs::remove_dir_all(&data).map_err(io("remove the data of a round"))?;
        let meter = Meter::stage("the same bytes without a broker".to_owned());
        let control = control(&args, dir.path(), &round).await?;
        drop(meter);
        rounds.push(RoundResults {
            request: Latency::of(&round.request),
            control: Latency::of(&control),
            worst_commit_us: round.slowest.max(),
        });
        all.add(&round);
    }
    let mut quiet: Vec<u64> =
        rounds.iter().filter(|round| round.is_quiet()).map(|round| round.request.p99_us).collect();
    quiet.sort_unstable();
    let results = Results {
        submitted: all.request.len(),
        submits_per_second: all.request.len() as f64 / all.lasted.as_secs_f64(),
        worst_commit_us: all.slowest.max(),
        slowest_commits: Latency::of(&all.slowest),
        request: Latency::of(&all.request),
        groups: all.groups,
        entries_per_group: all.entries as f64 / all.groups.max(1) as f64,
        rss_peak_bytes: Usage::own().rss_peak_bytes,
        rounds,
        quiet_rounds: quiet.len() as u64,
        quiet_request_p99_us: quiet.get(quiet.len() / 2).copied(),
    };
    let settings = SettingsUsed {
        rate: args.rate,
        seconds: args.seconds,
        rounds: args.rounds,
        connections: args.connections,
        payload_bytes: args.payload,
        durability: args.place.durability_word(),
    };
    Ok(Report::new("steady", machine, &settings, &results, tables(&args, &results)))
}

impl Round {
    fn add(&mut self, other: &Round) {
        self.lasted += other.lasted;
        add(&mut self.request, &other.request);
        add(&mut self.slowest, &other.slowest);
        self.groups += other.groups;
        self.entries += other.entries;
        self.bytes += other.bytes;
    }
}

/// One round, with a store and a server of its own.
async fn round(args: &Args, data: &Path) -> Result<Round, Error> {
    let store = args.place.open(data).await?;
    let broker = Broker::start(store.clone(), SystemClock::shared(), Settings::default());
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(io("listen"))?;
    let addr = listener.local_addr().map_err(io("listen"))?;
    let app = api::serve(std::sync::Arc::new(api::State::new(broker.clone(), api::Settings::default())));
    let stop = CancellationToken::new();
    let serving = tokio::spawn(server::serve(listener, app, server::Limits::default(), stop.clone()));

    let before = store.activity();
    let task = request::submit("bench", args.payload);
    let began = Instant::now();
    let length = Duration::from_secs(args.seconds);
    let pace = Pace { addr, connections: args.connections, rate: args.rate, length, began };
    let mut load = std::pin::pin!(pace.run("a submit", move |_| task.clone()));
    let mut slowest = histogram();
    let mut ticks = tokio::time::interval(LOOK);
    let request = loop {
        tokio::select! {
            requests = &mut load => break requests?,
            _ = ticks.tick() => record(&mut slowest, Duration::from_micros(store.activity().slowest_us)),
        }
    };
    let lasted = began.elapsed();
    let after = store.activity();
    record(&mut slowest, Duration::from_micros(after.slowest_us));
    expect("tasks in the store's ledger", request.len(), store.ledger().await?.submitted)?;
    stop.cancel();
    serving.await?.map_err(io("serve"))?;
    broker.stop().await;
    store.close().await?;
    Ok(Round {
        lasted,
        request,
        slowest,
        groups: after.groups - before.groups,
        entries: after.entries - before.entries,
        bytes: after.bytes - before.bytes,
    })
}

async fn control(args: &Args, dir: &Path, round: &Round) -> Result<Histogram<u64>, Error> {
    let groups = control::Groups {
        bytes: round.bytes / round.groups.max(1),
        per_second: round.groups as f64 / round.lasted.as_secs_f64(),
    };
    let length = Duration::from_secs((args.seconds / CONTROL_SHARE).max(1));
    let dir = dir.to_owned();
    tokio::task::spawn_blocking(move || control::run(&dir, groups, length)).await?
}

fn tables(args: &Args, results: &Results) -> Vec<Table> {
    let title = format!(
        "{} submits/s asked for, {} done over {} s",
        count(args.rate as f64),
        count(results.submits_per_second),
        args.seconds * args.rounds
    );
    let head = ["", "P50", "P99", "P99.9", "MAX"];
    let name = |text: &str| std::iter::once(text.to_owned());
    let mut rounds = Table::new(
        format!("Rounds, {} of them quiet (p99 of the control below {})", results.quiet_rounds, ms(QUIET_US)),
        &["ROUND", "REQUEST P99", "REQUEST MAX", "CONTROL P99", "CONTROL MAX", "WORST COMMIT"],
    );
    for (number, round) in results.rounds.iter().enumerate() {
        let (request, control) = (&round.request, &round.control);
        let figures =
            [request.p99_us, request.max_us, control.p99_us, control.max_us, round.worst_commit_us].map(ms);
        rounds = rounds.row(std::iter::once((number + 1).to_string()).chain(figures));
    }
    vec![
        Table::new(title, &head)
            .row(name("request, from when it was due").chain(results.request.cells()))
            .row(name("slowest commit of each 100 ms").chain(results.slowest_commits.cells())),
        rounds,
        Table::new("Store", &["WORST COMMIT", "ENTRIES/GROUP", "PEAK MEMORY", "MEDIAN P99 OF QUIET ROUNDS"])
            .row([
                ms(results.worst_commit_us),
                format!("{:.1}", results.entries_per_group),
                megabytes(results.rss_peak_bytes),
                results.quiet_request_p99_us.map_or("none".to_owned(), ms),
            ]),
    ]
}
