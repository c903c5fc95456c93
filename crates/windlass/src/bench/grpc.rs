//! `bench grpc`: unary submits next to the least a gRPC server can do, and the stream of a worker.
//!
//! As in `bench http`, both servers are child processes of the same binary and the load is the same for both: the message of
//! a submit, from one thread, over tonic's own client. The echo is a plain tonic server that answers with what it got.

pub(super) mod echo;
mod load;
mod stream;

use std::time::Duration;

use serde::Serialize;
use windlass_proto::grpc::v1::{SubmitTaskRequest, SubmitTaskResponse};

use super::Error;
use super::child::{Child, free_addr};
use super::http::work::audit;
use super::machine::{Machine, Usage};
use super::place::Place;
use super::report::{Latency, Meter, Report, Table, add, count, histogram, median, megabytes, percent};

#[derive(Debug, Clone, clap::Args)]
#[command(
    before_help = "Examples:\n  windlass bench grpc\n  windlass bench grpc --calls 64 --seconds 30 -o json"
)]
pub(crate) struct Args {
    /// Calls at once
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1000))]
    calls: u64,
    /// Seconds of each measurement, over all rounds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Rounds, in which broker and echo take turns; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// Tasks per batch, and credits of the stream
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
    batch: u64,
    /// Bytes of each payload
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    payload: u64,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Serialize)]
struct SettingsUsed {
    calls: u64,
    seconds: u64,
    rounds: u64,
    batch: u64,
    payload_bytes: u64,
    durability: String,
}

#[derive(Debug, Serialize)]
struct Results {
    submit: Vec<Submitted>,
    submit_batch: Flow,
    drain: Flow,
    server: Usage,
    /// Answers that said so, and tasks that the broker counts: they must agree.
    tasks_submitted: u64,
    tasks_completed: u64,
}

/// One task per call, and the echo of the same message.
#[derive(Debug, Clone, Serialize)]
struct Submitted {
    connections: u64,
    calls: u64,
    submits_per_second: f64,
    echoes_per_second: f64,
    ratio: f64,
    latency: Latency,
    rounds: Vec<SubmitRound>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct SubmitRound {
    submits_per_second: f64,
    echoes_per_second: f64,
    ratio: f64,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Flow {
    batch: u64,
    seconds: f64,
    tasks: u64,
    tasks_per_second: f64,
}

impl Flow {
    fn new(batch: u64, tasks: u64, length: Duration) -> Flow {
        let seconds = length.as_secs_f64();
        Flow { batch, seconds, tasks, tasks_per_second: tasks as f64 / seconds }
    }
}

pub(super) async fn run(args: Args) -> Result<Report, Error> {
    let machine = Machine::look(&args.place.dir);
    let dir = args.place.make()?;
    let meter = Meter::stage("starting the broker and the echo");
    let grpc_addr = free_addr()?;
    let broker =
        Child::broker_with(dir.path(), &args.place.durability_word(), &grpc_addr.to_string()).await?;
    let echo = Child::grpc_echo(dir.path()).await?;
    let mut submit = Vec::new();
    for connections in [args.calls, 1] {
        meter.say(format!("submit and echo, {} calls on {connections} connections", args.calls));
        let layout = load::Layout { connections, calls: args.calls };
        submit.push(compare(&args, load::Target { broker: grpc_addr, echo: echo.addr }, layout).await?);
    }
    let length = Duration::from_secs(args.seconds);
    meter.say("submit in batches");
    let (tasks, took) = load::batches(grpc_addr, args.batch, args.payload, length).await?;
    let submit_batch = Flow::new(args.batch, tasks, took);
    meter.say("drain through one stream");
    let submitted = submit.iter().map(|row| row.latency.count).sum::<u64>() + tasks;
    let (completed, took) = stream::drain(grpc_addr, submitted, args.batch as u32, length).await?;
    let drain = Flow::new(args.batch, completed, took);
    audit(broker.addr, submitted, completed).await?;
    let server = broker.usage();
    drop(meter);
    let results = Results {
        submit,
        submit_batch,
        drain,
        server,
        tasks_submitted: submitted,
        tasks_completed: completed,
    };
    let settings = SettingsUsed {
        calls: args.calls,
        seconds: args.seconds,
        rounds: args.rounds,
        batch: args.batch,
        payload_bytes: args.payload,
        durability: args.place.durability_word(),
    };
    Ok(Report::new("grpc", machine, &settings, &results, tables(&results)))
}

async fn compare(args: &Args, target: load::Target, layout: load::Layout) -> Result<Submitted, Error> {
    let length = Duration::from_secs_f64(args.seconds as f64 / args.rounds as f64);
    let request = SubmitTaskRequest { task: Some(load::task(args.payload)), return_task: false };
    let mut latency = histogram();
    let mut rounds = Vec::new();
    for _ in 0..args.rounds {
        let echoed =
            load::repeat::<SubmitTaskRequest>(target.echo, layout, request.clone(), "an echo", length)
                .await?;
        let submitted =
            load::repeat::<SubmitTaskResponse>(target.broker, layout, request.clone(), "a submit", length)
                .await?;
        add(&mut latency, &submitted.latency);
        let (submits, echoes) = (submitted.per_second(), echoed.per_second());
        let ratio = submits / echoes;
        rounds.push(SubmitRound { submits_per_second: submits, echoes_per_second: echoes, ratio });
    }
    let middle = |figure: fn(&SubmitRound) -> f64| median(rounds.iter().map(figure).collect());
    Ok(Submitted {
        connections: layout.connections,
        calls: layout.calls,
        submits_per_second: middle(|round| round.submits_per_second),
        echoes_per_second: middle(|round| round.echoes_per_second),
        ratio: middle(|round| round.ratio),
        latency: Latency::of(&latency),
        rounds,
    })
}

fn tables(results: &Results) -> Vec<Table> {
    let head = ["CONNECTIONS", "CALLS", "SUBMITS/S", "ECHOES/S", "RATIO", "P50", "P99", "P99.9", "MAX"];
    let submit = Table::new("One task per call, and an echo of the message by tonic", &head);
    let submit = results.submit.iter().fold(submit, |table, row| {
        let figures = [
            row.connections.to_string(),
            row.calls.to_string(),
            count(row.submits_per_second),
            count(row.echoes_per_second),
            percent(row.ratio),
        ];
        table.row(figures.into_iter().chain(row.latency.cells()))
    });
    let row =
        |name: &str, flow: &Flow| [name.to_owned(), flow.batch.to_string(), count(flow.tasks_per_second)];
    let flows = Table::new("Tasks", &["", "BATCH", "TASKS/S"])
        .row(row("submit in batches", &results.submit_batch))
        .row(row("drain through one stream", &results.drain));
    let server = Table::new("Broker process", &["", "MEMORY"])
        .row(["after the bench".to_owned(), megabytes(results.server.rss_bytes)])
        .row(["peak".to_owned(), megabytes(results.server.rss_peak_bytes)]);
    vec![submit, flows, server]
}
