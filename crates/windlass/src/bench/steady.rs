//! `bench steady`: the worst that anyone met while submits kept coming at one rate.
//!
//! The server runs in this process, so that the log can be asked how long its slowest group took to become durable. The
//! worst request, counted from the moment it was due, bounds everything else that may hold up an answer.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio_util::sync::CancellationToken;
use windlass_broker::{Broker, Settings};
use windlass_store::{Store, SystemClock};

use super::engine::expect;
use super::http::pace::Pace;
use super::http::request;
use super::machine::{Machine, Usage};
use super::place::Place;
use super::report::{Latency, Meter, Report, Table, count, histogram, megabytes, ms, record};
use super::{Error, io};
use crate::{api, server};

/// How often the log is asked.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, clap::Args)]
#[command(
    before_help = "Examples:\n  windlass bench steady\n  windlass bench steady --rate 5000 --seconds 600 -o json"
)]
pub(crate) struct Args {
    /// Submits per second
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rate: u64,
    /// Seconds of load
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
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
}

pub(super) async fn run(args: Args) -> Result<Report, Error> {
    let machine = Machine::look(&args.place.dir);
    let dir = args.place.make()?;
    let meter = Meter::stage(format!("{} submits/s for {} s", args.rate, args.seconds));
    let store = args.place.open(&dir.path().join("data")).await?;
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
    let requests = loop {
        tokio::select! {
            requests = &mut load => break requests?,
            _ = ticks.tick() => record(&mut slowest, Duration::from_micros(store.activity().slowest_us)),
        }
    };
    let lasted = began.elapsed().as_secs_f64();
    let after = store.activity();
    record(&mut slowest, Duration::from_micros(after.slowest_us));
    expect("tasks in the store's ledger", requests.len(), store.ledger().await?.submitted)?;
    let rss_peak_bytes = Usage::own().rss_peak_bytes;
    stop.cancel();
    serving.await?.map_err(io("serve"))?;
    broker.stop().await;
    store.close().await?;
    drop(meter);

    let groups = after.groups - before.groups;
    let results = Results {
        submitted: requests.len(),
        submits_per_second: requests.len() as f64 / lasted,
        worst_commit_us: slowest.max(),
        slowest_commits: Latency::of(&slowest),
        request: Latency::of(&requests),
        groups,
        entries_per_group: (after.entries - before.entries) as f64 / groups.max(1) as f64,
        rss_peak_bytes,
    };
    let settings = SettingsUsed {
        rate: args.rate,
        seconds: args.seconds,
        connections: args.connections,
        payload_bytes: args.payload,
        durability: args.place.durability_word(),
    };
    Ok(Report::new("steady", machine, &settings, &results, tables(&args, &results)))
}

fn tables(args: &Args, results: &Results) -> Vec<Table> {
    let title = format!(
        "{} submits/s asked for, {} done over {} s",
        count(args.rate as f64),
        count(results.submits_per_second),
        args.seconds
    );
    let head = ["", "P50", "P99", "P99.9", "MAX"];
    let name = |text: &str| std::iter::once(text.to_owned());
    vec![
        Table::new(title, &head)
            .row(name("request, from when it was due").chain(results.request.cells()))
            .row(name("slowest commit of each 100 ms").chain(results.slowest_commits.cells())),
        Table::new("Store", &["WORST COMMIT", "ENTRIES/GROUP", "PEAK MEMORY"]).row([
            ms(results.worst_commit_us),
            format!("{:.1}", results.entries_per_group),
            megabytes(results.rss_peak_bytes),
        ]),
    ]
}
