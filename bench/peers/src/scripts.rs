//! Queues that are libraries: BullMQ, Celery and RQ on a Redis of their own. Their producers and workers are small programs in
//! their own language; this starts them, watches in Redis how many tasks are left, and counts what they use as load.

mod program;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::drivers::redis::Resp;
use crate::launch::{Place, Server, Tools};
use crate::measure::{BATCHES, Extent, Measure, Sample};
use crate::process::Usage;
use crate::system::System;
use program::{Printed, Scripts};

/// A worker's first task, with everything that must be loaded for it.
const FIRST: Duration = Duration::from_secs(40);
/// How long the last tasks of W5 may take to arrive.
const LATE: Duration = Duration::from_secs(3);

/// Whether a system takes part in a measure. None of them claims in batches, Celery has no batch of submits, and a rate that is
/// far beyond a library is not asked of it.
pub(crate) fn takes_part(system: System, measure: Measure) -> bool {
    match (system, measure) {
        (_, Measure::Drain { batch } | Measure::Flow { batch }) => batch == 1,
        (_, Measure::Footprint) => false,
        (System::Celery(_), Measure::SubmitBatch { .. }) => false,
        (System::Celery(_), Measure::Latency { rate }) => rate <= 500,
        (System::Rq(_), Measure::Latency { .. }) => false,
        _ => true,
    }
}

pub(crate) async fn measure(
    system: System,
    measures: &[Measure],
    extent: Extent,
    tools: &Tools,
) -> Result<Vec<(Measure, Result<Sample>)>> {
    let place = Place::make(tools)?;
    let server = Server::start(system, tools, &place).await?;
    let scripts = Scripts { system, tools, place: &place, addr: server.addr };
    let bench = Bench { server: &server, scripts, length: extent.length };
    let mut samples = Vec::new();
    for &measure in measures {
        samples.push((measure, bench.one(measure).await));
    }
    server.stop().await?;
    Ok(samples)
}

struct Bench<'a> {
    server: &'a Server,
    scripts: Scripts<'a>,
    length: Duration,
}

impl Bench<'_> {
    async fn one(&self, measure: Measure) -> Result<Sample> {
        match measure {
            Measure::Submit { connections } => self.submit(connections, 1).await,
            Measure::SubmitBatch { batch } => self.submit(BATCHES, batch).await,
            Measure::Drain { .. } => self.drain().await,
            Measure::Flow { .. } => self.flow().await,
            Measure::Latency { rate } => self.latency(rate).await,
            Measure::Footprint => bail!("not measured for a library on Redis"),
        }
    }

    async fn submit(&self, connections: usize, batch: usize) -> Result<Sample> {
        let before = self.server.usage();
        let printed = self.scripts.submit(connections, batch, self.length).await?;
        let mut sample = self.sample(&printed, before);
        sample.latency = printed.latency;
        Ok(sample)
    }

    /// Counts the server's time from `before` on, start of the script included: Redis does nothing then.
    fn sample(&self, printed: &Printed, before: Usage) -> Sample {
        Sample {
            operations: printed.operations,
            seconds: printed.seconds,
            server_cpu_seconds: (self.server.usage().cpu - before.cpu).as_secs_f64(),
            load_cpu_seconds: printed.cpu_seconds,
            ..Sample::default()
        }
    }

    async fn drain(&self) -> Result<Sample> {
        let mut redis = Resp::open(self.server.addr).await?;
        let filled = self.scripts.fill(self.length).await?.operations;
        let worker = self.scripts.start_worker(None)?;
        let until = Instant::now() + FIRST;
        let whole = left(&mut redis, self.scripts.system).await?;
        while left(&mut redis, self.scripts.system).await? == whole {
            if Instant::now() > until {
                bail!("none of {filled} tasks was done within {FIRST:?}");
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let first = left(&mut redis, self.scripts.system).await?;
        let (began, server, load) = (Instant::now(), self.server.usage(), worker.usage());
        let mut rest = first;
        let mut ended = began;
        while rest > 0 && began.elapsed() < self.length {
            tokio::time::sleep(Duration::from_millis(5)).await;
            rest = left(&mut redis, self.scripts.system).await?;
            ended = Instant::now();
        }
        let sample = Sample {
            operations: first - rest,
            seconds: (ended - began).as_secs_f64(),
            server_cpu_seconds: (self.server.usage().cpu - server.cpu).as_secs_f64(),
            load_cpu_seconds: worker.usage().cpu.saturating_sub(load.cpu).as_secs_f64(),
            ..Sample::default()
        };
        worker.stop().await?;
        if sample.operations == 0 {
            bail!("no task of the backlog was done in time");
        }
        Ok(sample)
    }

    /// What was completed when the producers ended is what they submitted without what is left.
    async fn flow(&self) -> Result<Sample> {
        let mut redis = Resp::open(self.server.addr).await?;
        let worker = self.ready_worker(&mut redis, None).await?;
        let (before, load) = (self.server.usage(), worker.usage());
        let printed = self.scripts.submit_cold(BATCHES, self.length).await?;
        let rest = left(&mut redis, self.scripts.system).await?;
        let mut sample = self.sample(&printed, before);
        sample.load_cpu_seconds += worker.usage().cpu.saturating_sub(load.cpu).as_secs_f64();
        worker.stop().await?;
        sample.operations = printed.operations.saturating_sub(rest);
        if sample.operations == 0 {
            bail!("no task was done in time");
        }
        Ok(sample)
    }

    async fn latency(&self, rate: u64) -> Result<Sample> {
        let mut redis = Resp::open(self.server.addr).await?;
        let file = self.scripts.place.path().join(format!("latencies-{rate}"));
        let worker = self.ready_worker(&mut redis, Some(&file)).await?;
        let warm = program::lines(&file)?.len();
        let before = self.server.usage();
        let load = worker.usage();
        let printed = self.scripts.pace(rate, self.length.max(Duration::from_secs(1))).await?;
        let until = Instant::now() + LATE;
        let wanted = warm + printed.operations as usize;
        while program::lines(&file)?.len() < wanted && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut sample = self.sample(&printed, before);
        sample.load_cpu_seconds += worker.usage().cpu.saturating_sub(load.cpu).as_secs_f64();
        worker.stop().await?;
        let late = program::lines(&file)?.split_off(warm);
        if late.len() < printed.operations as usize {
            bail!("{} of {} tasks arrived within {LATE:?} of the end", late.len(), printed.operations);
        }
        sample.latency = Some(program::percentiles(late));
        Ok(sample)
    }

    /// A worker that has done a task.
    async fn ready_worker(
        &self,
        redis: &mut Resp,
        latencies: Option<&std::path::Path>,
    ) -> Result<program::Workers> {
        let worker = self.scripts.start_worker(latencies)?;
        self.scripts.fill_one().await?;
        let until = Instant::now() + FIRST;
        while left(redis, self.scripts.system).await? > 0 {
            if Instant::now() > until {
                bail!("a worker did not do its first task within {FIRST:?}");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(worker)
    }
}

/// Tasks that are not done, by the keys of the library: those that wait, and those that a worker holds.
async fn left(redis: &mut Resp, system: System) -> Result<u64> {
    let commands: [[&[u8]; 2]; 2] = match system {
        System::BullMq(_) => [[b"LLEN", b"bull:bench:wait"], [b"LLEN", b"bull:bench:active"]],
        System::Celery(_) => [[b"LLEN", b"bench"], [b"HLEN", b"unacked"]],
        System::Rq(_) => [[b"LLEN", b"rq:queue:bench"], [b"ZCARD", b"rq:wip:bench"]],
        _ => bail!("{system} is no library on Redis"),
    };
    let mut total = 0;
    for command in commands {
        total += redis.ask(&command).await.context("count the tasks in Redis")?;
    }
    u64::try_from(total).context("a count is negative")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::{self, Aof};

    #[test]
    fn every_library_drains_and_submits() {
        for system in system::ALL.iter().filter(|system| system.scripted()) {
            assert!(takes_part(*system, Measure::Submit { connections: 64 }));
            assert!(takes_part(*system, Measure::Drain { batch: 1 }));
            assert!(!takes_part(*system, Measure::Drain { batch: 100 }));
        }
        assert!(!takes_part(System::Celery(Aof::Always), Measure::Latency { rate: 2000 }));
    }
}
