//! `bench http`: the broker as clients see it, next to the least an HTTP server can do.
//!
//! Both servers are child processes of the same binary with the usual settings; the load comes from here, over kept
//! connections, and is the same for both. Closed loops (throughput) take turns with the echo. The latency runs are open
//! loops: tasks are sent at moments fixed beforehand and latency counts from those moments, so that a server that
//! stalls is charged for everything that it held up.

pub(super) mod connection;
pub(super) mod echo;
mod latency;
pub(super) mod pace;
pub(super) mod request;
mod tables;
mod throughput;
pub(super) mod work;

use std::time::Duration;

use serde::Serialize;

use super::Error;
use super::child::Child;
use super::machine::{Machine, Usage};
use super::place::Place;
use super::report::{Latency, Meter, Report};

#[derive(Debug, Clone, clap::Args)]
#[command(
    before_help = "Examples:\n  windlass bench http\n  windlass bench http --connections 64 --seconds 30\n  \
    windlass bench http --rate 5000 -o json"
)]
pub(crate) struct Args {
    /// Connections at once; several numbers are measured one after the other
    #[arg(long, default_value = "1,16,64", value_delimiter = ',',
        value_parser = clap::value_parser!(u64).range(1..=10_000))]
    connections: Vec<u64>,
    /// Seconds of each measurement, over all rounds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Rounds, in which broker and echo take turns; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// Tasks per second of the latency measurement; several numbers are measured one after the other
    #[arg(long, default_value = "500,2000", value_delimiter = ',',
        value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rate: Vec<u64>,
    /// Tasks per request where requests carry several
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
    batch: u64,
    /// Bytes of each payload
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    payload: u64,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Serialize)]
struct SettingsUsed<'a> {
    connections: &'a [u64],
    seconds: u64,
    rounds: u64,
    rate: &'a [u64],
    batch: u64,
    payload_bytes: u64,
    durability: String,
}

#[derive(Debug, Serialize)]
struct Results {
    idle: Idle,
    submit: Vec<Submitted>,
    submit_batch: Flow,
    drain: Flow,
    drain_batch: Flow,
    end_to_end: Flow,
    end_to_end_batch: Flow,
    latency: Vec<AtRate>,
    server: Usage,
    /// Answers that said so, and tasks that the broker counts: they must agree.
    tasks_submitted: u64,
    tasks_completed: u64,
}

/// The broker before anybody spoke to it.
#[derive(Debug, Clone, Copy, Serialize)]
struct Idle {
    seconds: f64,
    /// Share of one core.
    cpu: f64,
    rss_bytes: u64,
}

/// One task per request, and the echo of the same request.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Submitted {
    pub(super) connections: u64,
    pub(super) submits_per_second: f64,
    pub(super) echoes_per_second: f64,
    pub(super) ratio: f64,
    pub(super) latency: Latency,
    pub(super) rounds: Vec<SubmitRound>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct SubmitRound {
    pub(super) submits_per_second: f64,
    pub(super) echoes_per_second: f64,
    pub(super) ratio: f64,
}

/// Tasks through some connections.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Flow {
    pub(super) connections: u64,
    pub(super) batch: u64,
    pub(super) seconds: f64,
    pub(super) tasks: u64,
    pub(super) tasks_per_second: f64,
}

/// From the moment a task was due to be sent to the moment a worker had it.
#[derive(Debug, Clone, Copy, Serialize)]
struct AtRate {
    rate: u64,
    sent: u64,
    submit_to_claimed: Latency,
    submit_answered: Latency,
}

impl Flow {
    pub(super) fn new(connections: u64, batch: u64, tasks: u64, length: Duration) -> Flow {
        let seconds = length.as_secs_f64();
        Flow { connections, batch, seconds, tasks, tasks_per_second: tasks as f64 / seconds }
    }
}

pub(super) async fn run(args: Args) -> Result<Report, Error> {
    let machine = Machine::look(&args.place.dir);
    let dir = args.place.make()?;
    let meter = Meter::stage("starting the broker and the echo");
    let broker = Child::broker(dir.path(), &args.place.durability_word()).await?;
    let echo = Child::echo(dir.path()).await?;
    meter.say("idle");
    let idle = watch_idle(&broker, args.seconds).await;
    let mut bench =
        throughput::Bench { args: &args, broker: &broker, echo: &echo, submitted: 0, completed: 0 };

    let mut submit = Vec::new();
    for &connections in &args.connections {
        meter.say(format!("submit and echo, {connections} connections"));
        submit.push(bench.submit(connections).await?);
    }
    meter.say("drain");
    let drain = bench.drain(1).await?;
    let drain_batch = bench.drain(args.batch).await?;
    meter.say("submit in batches");
    let submit_batch = bench.submit_batch().await?;
    meter.say("end to end");
    let end_to_end = bench.end_to_end(1).await?;
    let end_to_end_batch = bench.end_to_end(args.batch).await?;
    let mut at_rates = Vec::new();
    for &rate in &args.rate {
        meter.say(format!("latency at {rate} tasks/s"));
        let at_rate = latency::measure(broker.addr, rate, &args).await?;
        bench.submitted += at_rate.sent;
        bench.completed += at_rate.submit_to_claimed.count;
        at_rates.push(at_rate);
    }
    let (submitted, completed) = (bench.submitted, bench.completed);
    work::audit(broker.addr, submitted, completed).await?;
    let server = broker.usage();
    drop(meter);
    let results = Results {
        idle,
        submit,
        submit_batch,
        drain,
        drain_batch,
        end_to_end,
        end_to_end_batch,
        latency: at_rates,
        server,
        tasks_submitted: submitted,
        tasks_completed: completed,
    };
    let settings = SettingsUsed {
        connections: &args.connections,
        seconds: args.seconds,
        rounds: args.rounds,
        rate: &args.rate,
        batch: args.batch,
        payload_bytes: args.payload,
        durability: args.place.durability_word(),
    };
    Ok(Report::new("http", machine, &settings, &results, tables::all(&results)))
}

/// What the broker uses with nothing to do; the kernel's clock ticks every hundredth of a second.
async fn watch_idle(broker: &Child, seconds: u64) -> Idle {
    // Starting up is not idling.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let length = Duration::from_secs(seconds.min(5));
    let (before, began) = (broker.usage(), std::time::Instant::now());
    tokio::time::sleep(length).await;
    let (after, seconds) = (broker.usage(), began.elapsed().as_secs_f64());
    Idle { seconds, cpu: (after.cpu - before.cpu).as_secs_f64() / seconds, rss_bytes: after.rss_bytes }
}
