//! `bench tcp`: the frames as clients see them, next to the least a TCP server can do.
//!
//! Both servers are child processes of the same binary, and the load on both is the same frames over kept connections, in
//! turns. What the ratio shows is everything between the socket and the disk: an echo stores nothing.

mod connection;
pub(super) mod echo;
mod load;
mod request;
mod tables;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use windlass_proto::rest::StatsBody;
use windlass_proto::tcp::Kind;

use super::child::Child;
use super::engine::expect;
use super::http::{Flow, SubmitRound, Submitted};
use super::machine::{Machine, Usage};
use super::place::Place;
use super::report::{Latency, Meter, Report, add, histogram, median};
use super::{Error, io};
use connection::Connection;
use load::{Drain, Repeat};

#[derive(Debug, Clone, clap::Args)]
#[command(
    before_help = "Examples:\n  windlass bench tcp\n  windlass bench tcp --connections 64 --seconds 30\n  \
    windlass bench tcp --batch 1000 -o json"
)]
pub(crate) struct Args {
    /// Connections at once; several numbers are measured one after the other
    #[arg(long, default_value = "1,16,64", value_delimiter = ',',
        value_parser = clap::value_parser!(u64).range(1..=10_000))]
    connections: Vec<u64>,
    /// Seconds of each measurement, over all rounds
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Rounds, in which broker and echo take turns; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// Tasks at a time where several are sent or claimed
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
    batch: u64,
    payload_bytes: u64,
    durability: String,
}

#[derive(Debug, Serialize)]
struct Results {
    submit: Vec<Submitted>,
    /// As many as a batch in one write, each answered on its own; the latency is that of the last answer.
    submit_pipelined: Submitted,
    submit_batch: Flow,
    drain: Flow,
    drain_batch: Flow,
    server: Usage,
    /// Answers that said so, and tasks that the broker counts: they must agree.
    tasks_submitted: u64,
    tasks_completed: u64,
}

pub(super) async fn run(args: Args) -> Result<Report, Error> {
    let machine = Machine::look(&args.place.dir);
    let dir = args.place.make()?;
    let meter = Meter::stage("starting the broker and the echo");
    let broker = Child::broker(dir.path(), &args.place.durability_word()).await?;
    let echo = Child::tcp_echo(dir.path()).await?;
    let mut bench = Bench { args: &args, broker: &broker, echo: &echo, submitted: 0, completed: 0 };
    let mut submit = Vec::new();
    for &connections in &args.connections {
        meter.say(format!("submit and echo, {connections} connections"));
        submit.push(bench.submit(connections, 1).await?);
    }
    meter.say("drain");
    let drain = bench.drain(1).await?;
    let drain_batch = bench.drain(args.batch).await?;
    meter.say("submit and echo, pipelined");
    let submit_pipelined = bench.submit(bench.most().min(16), args.batch).await?;
    meter.say("submit in batches");
    let submit_batch = bench.submit_batch().await?;
    let (submitted, completed) = (bench.submitted, bench.completed);
    audit(&broker, submitted, completed).await?;
    let server = broker.usage();
    drop(meter);
    let results = Results {
        submit,
        submit_pipelined,
        submit_batch,
        drain,
        drain_batch,
        server,
        tasks_submitted: submitted,
        tasks_completed: completed,
    };
    let settings = SettingsUsed {
        connections: &args.connections,
        seconds: args.seconds,
        rounds: args.rounds,
        batch: args.batch,
        payload_bytes: args.payload,
        durability: args.place.durability_word(),
    };
    Ok(Report::new("tcp", machine, &settings, &results, tables::all(&results)))
}

#[derive(Debug)]
struct Bench<'a> {
    args: &'a Args,
    broker: &'a Child,
    echo: &'a Child,
    submitted: u64,
    completed: u64,
}

impl Bench<'_> {
    /// One task per frame, in turns with the echo of the same frame.
    async fn submit(&mut self, connections: u64, depth: u64) -> Result<Submitted, Error> {
        let queue = if depth == 1 { "singles" } else { "pipelined" };
        let request: Arc<[u8]> = request::submit(queue, self.args.payload).into();
        let length = Duration::from_secs_f64(self.args.seconds as f64 / self.args.rounds as f64);
        let mut latency = histogram();
        let mut rounds = Vec::new();
        for _ in 0..self.args.rounds {
            let load = |addr, answer, call| Repeat {
                addr,
                connections,
                request: request.clone(),
                depth,
                answer,
                call,
                length,
            };
            let echoed = load(self.echo.addr, Kind::SubmitTask, "an echo").run().await?;
            let submitted = load(self.broker.tcp_addr, Kind::Ack, "a submit").run().await?;
            self.submitted += submitted.requests;
            add(&mut latency, &submitted.latency);
            let (submits, echoes) = (submitted.per_second(), echoed.per_second());
            rounds.push(SubmitRound {
                submits_per_second: submits,
                echoes_per_second: echoes,
                ratio: submits / echoes,
            });
        }
        let middle = |figure: fn(&SubmitRound) -> f64| median(rounds.iter().map(figure).collect());
        Ok(Submitted {
            connections,
            submits_per_second: middle(|round| round.submits_per_second),
            echoes_per_second: middle(|round| round.echoes_per_second),
            ratio: middle(|round| round.ratio),
            latency: Latency::of(&latency),
            rounds,
        })
    }

    async fn submit_batch(&mut self) -> Result<Flow, Error> {
        let (batch, connections) = (self.args.batch, self.most().min(16));
        let done = Repeat {
            addr: self.broker.tcp_addr,
            connections,
            request: request::submit_batch("batches", self.args.payload, batch).into(),
            depth: 1,
            answer: Kind::Ack,
            call: "a batch of submits",
            length: Duration::from_secs(self.args.seconds),
        };
        let done = done.run().await?;
        self.submitted += done.requests * batch;
        Ok(Flow::new(connections, batch, done.requests * batch, done.length))
    }

    /// Claims and completes what the submits left behind.
    async fn drain(&mut self, batch: u64) -> Result<Flow, Error> {
        let (addr, connections) = (self.broker.tcp_addr, self.most());
        let length = Duration::from_secs(self.args.seconds);
        let (completed, length) = Drain { addr, connections, queue: "singles", batch, length }.run().await?;
        self.completed += completed;
        Ok(Flow::new(connections, batch, completed, length))
    }

    fn most(&self) -> u64 {
        self.args.connections.iter().copied().max().unwrap_or(1)
    }
}

/// The broker must have counted what the clients were told.
async fn audit(broker: &Child, submitted: u64, completed: u64) -> Result<(), Error> {
    let call = "a look at the statistics";
    let mut connection = Connection::open(broker.tcp_addr).await.map_err(io("connect"))?;
    connection.send(&request::frame(Kind::GetStats, "{}")).await.map_err(io("read the statistics"))?;
    let stats: StatsBody = serde_json::from_slice(connection.answer(call, Kind::Ack).await?)
        .map_err(|error| Error::Answer { call, reason: error.to_string() })?;
    expect("tasks that the broker counted", submitted, stats.ledger.submitted)?;
    expect("completions that the broker counted", completed, stats.ledger.completed)
}
