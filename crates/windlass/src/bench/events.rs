//! `bench events`: what it costs to be listened to.
//!
//! The same load, submits at a fixed rate and workers that complete them, with and without listeners, in turns. The listeners are
//! a process of their own that runs only when nobody else wants the core, for in life they are on other machines: each follows one of
//! many queues over a WebSocket, some follow everything. What counts is what they do to the latency of submits, how late the latest event came, and
//! the memory of the broker.

pub(super) mod listen;
mod socket;

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;

use super::child::Child;
use super::http::pace::Pace;
use super::http::request;
use super::http::work::{Worker, audit};
use super::machine::Machine;
use super::place::Place;
use super::report::{Latency, Meter, Report, Table, count, median, megabytes, ms, percent};
use super::{Error, io};
use listen::Heard;

/// Workers of the load; each takes up to a hundred tasks at once.
const WORKERS: u64 = 2;
const PRODUCERS: u64 = 32;
/// Runs a program at the lowest class of all.
const IDLY: [&str; 3] = ["chrt", "--idle", "0"];

#[derive(Debug, Clone, clap::Args)]
#[command(
    before_help = "Examples:\n  windlass bench events\n  windlass bench events --listeners 1000 --queues 1 --rate 500"
)]
pub(crate) struct Args {
    /// Listeners at once
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=2000))]
    listeners: u64,
    /// Of them, those who hear everything; each of the others hears one queue
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=2000))]
    everything: u64,
    /// Queues that the tasks are spread over
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    queues: u64,
    /// Tasks per second
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rate: u64,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Rounds with and without listeners, in turns; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Serialize)]
struct SettingsUsed {
    listeners: u64,
    everything: u64,
    queues: u64,
    rate: u64,
    seconds: u64,
    rounds: u64,
    durability: String,
}

#[derive(Debug, Clone, Serialize)]
struct Round {
    alone: Latency,
    heard: Latency,
    listeners: Heard,
}

#[derive(Debug, Serialize)]
struct Results {
    /// Of the medians and of the 99th percentiles, with listeners to without.
    submit_p50_ratio: f64,
    submit_p99_ratio: f64,
    /// The latest event of all rounds, from its change to the listener.
    worst_delivery_ms: u64,
    delivered: u64,
    missed: u64,
    /// Listeners that the broker ended.
    cut: u64,
    rss_alone_bytes: u64,
    rss_heard_bytes: u64,
    tasks: u64,
    rounds: Vec<Round>,
}

pub(super) async fn run(args: Args) -> Result<Report, Error> {
    let machine = Machine::look(&args.place.dir);
    let dir = args.place.make()?;
    let broker = Child::broker(dir.path(), &args.place.durability_word()).await?;
    let meter = Meter::stage("warming up");
    let tasks = AtomicU64::new(0);
    load(broker.addr, &args, &tasks).await?;
    let mut rounds = Vec::new();
    let (mut rss_alone_bytes, mut rss_heard_bytes) = (0, 0);
    for number in 1..=args.rounds {
        meter.say(format!("round {number} of {}: alone", args.rounds));
        let alone = load(broker.addr, &args, &tasks).await?;
        rss_alone_bytes = rss_alone_bytes.max(broker.usage().rss_bytes);
        meter.say(format!("round {number} of {}: {} listeners", args.rounds, args.listeners));
        let listeners = Listeners::start(broker.addr, &args).await?;
        let heard = load(broker.addr, &args, &tasks).await?;
        rss_heard_bytes = rss_heard_bytes.max(broker.usage().rss_bytes);
        rounds.push(Round { alone, heard, listeners: listeners.stop().await? });
    }
    let tasks = tasks.into_inner();
    audit(broker.addr, tasks, tasks).await?;
    drop(meter);
    let ratio = |figure: fn(&Latency) -> u64| {
        let of = |round: &Round| figure(&round.heard) as f64 / figure(&round.alone).max(1) as f64;
        median(rounds.iter().map(of).collect())
    };
    let results = Results {
        submit_p50_ratio: ratio(|latency| latency.p50_us),
        submit_p99_ratio: ratio(|latency| latency.p99_us),
        worst_delivery_ms: rounds
            .iter()
            .map(|round| round.listeners.delivery.max_us / 1000)
            .max()
            .unwrap_or(0),
        delivered: rounds.iter().map(|round| round.listeners.events).sum(),
        missed: rounds.iter().map(|round| round.listeners.missed).sum(),
        cut: rounds.iter().map(|round| round.listeners.cut).sum(),
        rss_alone_bytes,
        rss_heard_bytes,
        tasks,
        rounds,
    };
    let settings = SettingsUsed {
        listeners: args.listeners,
        everything: args.everything,
        queues: args.queues,
        rate: args.rate,
        seconds: args.seconds,
        rounds: args.rounds,
        durability: args.place.durability_word(),
    };
    Ok(Report::new("events", machine, &settings, &results, tables(&args, &results)))
}

/// Submits at the rate over all queues while workers complete them; the latency of the submits.
async fn load(addr: SocketAddr, args: &Args, tasks: &AtomicU64) -> Result<Latency, Error> {
    let over = Arc::new(AtomicBool::new(false));
    let mut workers = JoinSet::new();
    let queues: Vec<String> = (0..args.queues).map(listen::queue).collect();
    for number in 0..WORKERS {
        // A claim names so many queues at most.
        let mine: Vec<&str> =
            queues.iter().skip(number as usize).step_by(WORKERS as usize).map(String::as_str).collect();
        for (part, some) in mine.chunks(200).enumerate() {
            let name = number * 1000 + part as u64;
            let worker = Worker::open(addr, name, &some.join("\",\""), 100, 1).await?;
            workers.spawn(work(worker, over.clone()));
        }
    }
    let (next, spread) = (AtomicU64::new(0), args.queues);
    let make = move |_: Duration| {
        let queue = listen::queue(next.fetch_add(1, Ordering::Relaxed) % spread);
        request::post("/api/v1/tasks", request::task(&queue, "\"x\"").as_bytes())
    };
    let length = Duration::from_secs(args.seconds);
    let pace = Pace { addr, connections: PRODUCERS, rate: args.rate, length, began: Instant::now() };
    let answered = pace.run("a submit", make).await?;
    over.store(true, Ordering::Relaxed);
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    tasks.fetch_add(answered.len(), Ordering::Relaxed);
    Ok(Latency::of(&answered))
}

async fn work(mut worker: Worker, over: Arc<AtomicBool>) -> Result<(), Error> {
    loop {
        let last = over.load(Ordering::Relaxed);
        if worker.turn(|_| {}).await? == 0 && last {
            return Ok(());
        }
    }
}

/// The process of the listeners.
struct Listeners {
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    _process: tokio::process::Child,
}

impl Listeners {
    async fn start(addr: SocketAddr, args: &Args) -> Result<Listeners, Error> {
        let program = std::env::current_exe().map_err(io("find this program"))?;
        let mut command = Command::new(IDLY[0]);
        // Without it they take a part of the cores that the broker would have in life.
        match std::process::Command::new(IDLY[0]).arg("--version").stdout(Stdio::null()).status() {
            Ok(_) => drop(command.args(&IDLY[1..]).arg(program)),
            Err(_) => command = Command::new(program),
        }
        command.args(["bench", "listen", "--addr", &addr.to_string()]);
        for (name, value) in
            [("--listeners", args.listeners), ("--everything", args.everything), ("--queues", args.queues)]
        {
            command.args([name, &value.to_string()]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().map_err(io("start the listeners"))?;
        let (Some(stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Error::NotReady { name: "windlass bench listen", output: String::new() });
        };
        let mut lines = BufReader::new(stdout).lines();
        let line = lines.next_line().await.map_err(io("hear from the listeners"))?.unwrap_or_default();
        if line != listen::READY {
            return Err(Error::NotReady { name: "windlass bench listen", output: line });
        }
        Ok(Listeners { stdin, lines, _process: process })
    }

    /// What they heard.
    async fn stop(mut self) -> Result<Heard, Error> {
        drop(self.stdin);
        let line = self.lines.next_line().await.map_err(io("hear from the listeners"))?.unwrap_or_default();
        serde_json::from_str(&line)
            .map_err(|error| Error::Answer { call: "the listeners", reason: format!("{error}: {line}") })
    }
}

fn tables(args: &Args, results: &Results) -> Vec<Table> {
    let head = ["", "P50", "P99", "P99.9", "MAX"];
    let title = format!(
        "Submits at {}/s, alone and with {} listeners: {} of the median, {} of the 99th percentile",
        count(args.rate as f64),
        args.listeners,
        percent(results.submit_p50_ratio),
        percent(results.submit_p99_ratio)
    );
    let mut submits = Table::new(title, &head);
    for (number, round) in results.rounds.iter().enumerate() {
        let name = |what: &str| std::iter::once(format!("round {} {what}", number + 1));
        submits = submits
            .row(name("alone").chain(round.alone.cells()))
            .row(name("listened to").chain(round.heard.cells()))
            .row(name("delivery of events").chain(round.listeners.delivery.cells()));
    }
    let rows = ["DELIVERED", "MISSED", "CUT", "LATEST", "MEMORY ALONE", "MEMORY LISTENED TO"];
    let events = Table::new("Events", &rows).row([
        count(results.delivered as f64),
        count(results.missed as f64),
        count(results.cut as f64),
        ms(results.worst_delivery_ms * 1000),
        megabytes(results.rss_alone_bytes),
        megabytes(results.rss_heard_bytes),
    ]);
    vec![submits, events]
}
