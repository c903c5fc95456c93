//! One system through the workloads: a fresh server for each workload, what the server and the load used meanwhile.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::driver::{Driver, Worker};
use crate::drivers::amqp::RabbitMq;
use crate::drivers::beanstalkd::Beanstalkd;
use crate::drivers::echo::Echo;
use crate::drivers::frames::Frames;
use crate::drivers::grpc::Grpc;
use crate::drivers::library::Library;
use crate::drivers::nats::Nats;
use crate::drivers::redis::{Lists, Plain, Streams};
use crate::drivers::rest::Rest;
use crate::launch::{Place, Server, Tools};
use crate::load;
use crate::measure::{BATCHES, Extent, Footprint, Measure, Sample};
use crate::process::Usage;
use crate::system::{System, Transport};

/// Tasks that a backlog needs for a second of draining, and how long making them may take.
const BACKLOG_PER_SECOND: f64 = 400_000.0;
const FILL_LENGTHS: f64 = 1.5;
/// How long the fill of W6 may take, the settling after it, and a restart.
const FILL_MAX: Duration = Duration::from_secs(40);
const SETTLE_MAX: Duration = Duration::from_secs(10);
const RESTART_MAX: Duration = Duration::from_secs(120);
/// A percentile needs some tasks.
const LATENCY_MIN: Duration = Duration::from_secs(1);

/// Runs `measures` on a fresh server. W6 goes alone.
pub(crate) async fn measure(
    system: System,
    measures: &[Measure],
    extent: Extent,
    tools: &Tools,
) -> Result<Vec<(Measure, Result<Sample>)>> {
    let place = Place::make(tools)?;
    let server = Server::start(system, tools, &place).await?;
    let bench = Bench { system, server, place: &place, tools, extent };
    let addr = bench.server.addr;
    match system {
        System::EchoTcp => bench.run(measures, |addr| Echo { addr }).await,
        System::EchoHttp => bench.run(measures, |addr| Rest { addr, echo: true }).await,
        System::EchoGrpc | System::Windlass { over: Transport::Grpc, .. } => {
            bench.run(measures, |addr| Grpc { addr }).await
        }
        System::Windlass { over: Transport::Frames, .. } => bench.run(measures, |addr| Frames { addr }).await,
        System::Windlass { over: Transport::Rest, .. } => {
            bench.run(measures, |addr| Rest { addr, echo: false }).await
        }
        System::Beanstalkd(_) => bench.run(measures, |addr| Beanstalkd { addr }).await,
        System::RedisLists(_) => bench.run(measures, |addr| Lists { addr }).await,
        System::RedisStreams(_) => bench.run(measures, |addr| Streams { addr }).await,
        System::RedisPlain(_) => bench.run(measures, Plain::at).await,
        System::Library(_) => bench.run(measures, Library::at).await,
        System::Nats { .. } => bench.run(measures, |addr| Nats { addr }).await,
        System::RabbitMq(kind) => bench.run(measures, move |addr| RabbitMq { addr, kind }).await,
        System::BullMq(_) | System::Celery(_) | System::Rq(_) => {
            bail!("{system} at {addr} is driven by its own script")
        }
    }
}

struct Bench<'a> {
    system: System,
    server: Server,
    place: &'a Place,
    tools: &'a Tools,
    extent: Extent,
}

impl Bench<'_> {
    async fn run<D: Driver>(
        self,
        measures: &[Measure],
        connect: impl Fn(SocketAddr) -> D,
    ) -> Result<Vec<(Measure, Result<Sample>)>> {
        let driver = connect(self.server.addr);
        driver.prepare().await.context("make the queue")?;
        if measures == [Measure::Footprint] {
            let footprint = Some(self.footprint(&driver, connect).await?);
            return Ok(vec![(Measure::Footprint, Ok(Sample { footprint, ..Sample::default() }))]);
        }
        let mut samples = Vec::new();
        // What the drains left.
        let mut backlog = 0;
        let mut workload = None;
        for &measure in measures {
            if workload.replace(measure.workload()).is_some_and(|before| before != measure.workload()) {
                driver.clear().await.context("empty the queue")?;
            }
            samples.push((measure, self.throughput(&driver, measure, &mut backlog).await));
        }
        self.server.stop().await?;
        Ok(samples)
    }

    async fn throughput<D: Driver>(&self, driver: &D, measure: Measure, backlog: &mut u64) -> Result<Sample> {
        let length = self.extent.length;
        if let Measure::Drain { .. } = measure {
            let wanted = (BACKLOG_PER_SECOND * length.as_secs_f64()) as u64;
            if *backlog < wanted / 4 {
                *backlog += load::fill(driver, wanted, length.mul_f64(FILL_LENGTHS)).await?;
            }
        }
        let before = (self.server.usage(), Usage::own());
        let began = Instant::now();
        let mut sample = match measure {
            Measure::Submit { connections } => load::submit(driver, connections, 1, length).await?,
            Measure::SubmitBatch { batch } => load::submit(driver, BATCHES, batch, length).await?,
            Measure::Drain { batch } => load::drain(driver, batch, *backlog, length).await?,
            Measure::Flow { batch } => load::flow(driver, batch, length).await?,
            Measure::Latency { rate } => load::latency(driver, rate, length.max(LATENCY_MIN)).await?,
            Measure::Footprint => unreachable!("measured apart"),
        };
        // Warming up is in the time on the cores and not in the operations.
        let share = (sample.seconds / began.elapsed().as_secs_f64()).min(1.0);
        let used = |now: Usage, before: Usage| now.cpu.saturating_sub(before.cpu).as_secs_f64() * share;
        sample.server_cpu_seconds = used(self.server.usage(), before.0);
        sample.load_cpu_seconds = used(Usage::own(), before.1);
        if let Measure::Drain { .. } = measure {
            *backlog = backlog.saturating_sub(sample.operations);
        }
        Ok(sample)
    }

    async fn footprint<D: Driver>(self, driver: &D, connect: impl Fn(SocketAddr) -> D) -> Result<Footprint> {
        const LOOK: Duration = Duration::from_secs(1);
        self.settle().await;
        let idle = self.server.usage();
        tokio::time::sleep(LOOK).await;
        let idle_cpu = (self.server.usage().cpu - idle.cpu).as_secs_f64() / LOOK.as_secs_f64();
        let tasks = load::fill(driver, self.extent.backlog, FILL_MAX).await?;
        self.settle().await;
        let (full, disk_bytes) = (self.server.usage(), self.server.disk_bytes()?);
        self.server.stop().await?;
        let began = Instant::now();
        let server = Server::start(self.system, self.tools, self.place).await?;
        first_task(&connect(server.addr), began + RESTART_MAX).await?;
        let restart_seconds = began.elapsed().as_secs_f64();
        server.stop().await?;
        Ok(Footprint {
            tasks,
            idle_rss_bytes: idle.rss_bytes,
            idle_cpu,
            rss_bytes: full.rss_bytes,
            disk_bytes,
            restart_seconds,
        })
    }

    /// Waits until the server is quiet, for a while at most.
    async fn settle(&self) {
        const STEP: Duration = Duration::from_millis(250);
        let until = Instant::now() + SETTLE_MAX;
        let mut quiet = 0;
        while quiet < 2 && Instant::now() < until {
            let before = self.server.usage().cpu;
            tokio::time::sleep(STEP).await;
            quiet = if self.server.usage().cpu - before <= STEP / 12 { quiet + 1 } else { 0 };
        }
    }
}

/// Asks until a task is handed out: a server may refuse while it still reads its files.
async fn first_task<D: Driver>(driver: &D, until: Instant) -> Result<()> {
    while Instant::now() < until {
        if let Ok(mut worker) = driver.worker(0, 1).await
            && let Ok(1..) = worker.turn(&mut |_| ()).await
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    bail!("no task came out after a restart")
}
