//! All systems in turn, round by round.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::args::Options;
use crate::launch::Tools;
use crate::measure::{self, Extent, Measure, Sample};
use crate::progress::{grouped, say};
use crate::results::{Facts, Results, Row, Skipped};
use crate::system::{self, System};
use crate::{drivers::amqp, payload, report, run, scripts};

/// RabbitMQ pages to disk and slows down long before a million.
const RABBITMQ_BACKLOG: u64 = 200_000;

pub(crate) async fn bench(options: &Options) -> Result<()> {
    let output = output(options);
    if options.report {
        return report::again(&output, &options.home);
    }
    let scratch = options.home.join("scratch");
    fs::create_dir_all(&scratch).context("make a directory for the servers")?;
    let home = options.home.canonicalize()?;
    let scratch = scratch.canonicalize()?;
    let windlass = options.windlass.canonicalize().unwrap_or_else(|_| options.windlass.clone());
    let tools = Tools { windlass, home, scratch };
    refuse_memory(&tools.scratch)?;
    let began = Instant::now();
    let mut results = Results { facts: facts(options, &tools.scratch), ..Results::default() };
    let systems = installed(options, &tools, &mut results).await?;
    for round in 0..options.rounds {
        for (row, &system) in systems.iter().enumerate() {
            let label = format!("round {}/{}, {system}", round + 1, options.rounds);
            say(&format!("{label} ({:.0} s)", began.elapsed().as_secs_f64()));
            for measures in groups(system, round, options) {
                one(system, &measures, options, &tools, &mut results.rows[row]).await;
            }
        }
    }
    results.facts.took_seconds = began.elapsed().as_secs_f64();
    report::write(&results, &output, options.whole().then_some(options.home.as_path()))?;
    say(&format!("done in {:.0} s: {}", results.facts.took_seconds, output.join("results.md").display()));
    Ok(())
}

/// Only a whole run may replace the results that the project shows.
fn output(options: &Options) -> PathBuf {
    let results = options.home.join("../results");
    let usual = if options.whole() || options.report { results } else { results.join("partial") };
    options.output.clone().unwrap_or(usual)
}

/// The systems that are wanted and here; the others are noted with the reason.
async fn installed(options: &Options, tools: &Tools, results: &mut Results) -> Result<Vec<System>> {
    let mut systems = Vec::new();
    for &system in system::ALL {
        if !options.wants_product(system.product()) || !options.wants_row(&system.to_string()) {
            continue;
        }
        match tools.version(system).await {
            Ok(version) => {
                results.rows.push(Row {
                    product: system.product().to_owned(),
                    system: system.name().to_owned(),
                    setting: system.setting().to_owned(),
                    durable: system.durable(),
                    version,
                    ..Row::default()
                });
                systems.push(system);
            }
            Err(error) => {
                say(&format!("skipped: {system}: {error:#}"));
                results.skipped.push(Skipped { system: system.to_string(), reason: format!("{error:#}") });
            }
        }
    }
    if systems.is_empty() {
        bail!("there is nothing to measure");
    }
    Ok(systems)
}

/// What a system does in a round, by server.
fn groups(system: System, round: usize, options: &Options) -> Vec<Vec<Measure>> {
    let wanted = |measure: &&Measure| {
        let possible = match system {
            System::EchoTcp | System::EchoHttp | System::EchoGrpc => {
                matches!(measure, Measure::Submit { .. })
            }
            System::RedisPlain(_) => matches!(measure, Measure::SubmitBatch { .. }),
            system if system.scripted() => scripts::takes_part(system, **measure),
            _ => true,
        };
        // The slower half of W5 and W6 hardly change from round to round, and what a library on a slow Redis does is far
        // from everything else: the time is better spent on the others.
        let due = match measure {
            _ if system.scripted() && system.durable() => round == 0,
            Measure::Latency { rate: 500 } => round == 0,
            Measure::Footprint => round == 0 && has_footprint(system),
            _ => true,
        };
        possible && due && options.wants_workload(measure.workload())
    };
    let (singles, others): (Vec<Measure>, Vec<Measure>) =
        measure::ALL.iter().filter(wanted).partition(|measure| **measure == Measure::Footprint);
    // A new RabbitMQ takes many seconds to start.
    let mut groups: Vec<Vec<Measure>> = match system {
        System::RabbitMq(_) => vec![others],
        _ => others.chunk_by(|a, b| a.workload() == b.workload()).map(<[Measure]>::to_vec).collect(),
    };
    groups.extend(singles.into_iter().map(|measure| vec![measure]));
    groups.retain(|group| !group.is_empty());
    groups
}

/// One setting of each product that keeps its tasks over a restart.
fn has_footprint(system: System) -> bool {
    use system::{Aof, Durability, Fsync, Transport};
    matches!(
        system,
        System::Windlass { over: Transport::Frames, durability: Durability::Sync }
            | System::Beanstalkd(Fsync::Every50Ms)
            | System::RedisLists(Aof::EverySecond)
            | System::RedisStreams(Aof::EverySecond)
            | System::Nats { always: false }
            | System::RabbitMq(amqp::Kind::Durable)
    )
}

async fn one(system: System, measures: &[Measure], options: &Options, tools: &Tools, row: &mut Row) {
    let backlog = match system {
        System::RabbitMq(_) => options.backlog.min(RABBITMQ_BACKLOG),
        _ => options.backlog,
    };
    let extent = Extent { length: options.length, backlog };
    let samples = match system.scripted() {
        true => scripts::measure(system, measures, extent, tools).await,
        false => run::measure(system, measures, extent, tools).await,
    };
    match samples {
        Ok(samples) => {
            for (measure, sample) in samples {
                note(row, measure, sample);
            }
        }
        Err(error) => {
            let text = format!("{error:#}");
            measures.iter().for_each(|&measure| note(row, measure, Err(anyhow::anyhow!(text.clone()))));
        }
    }
}

fn note(row: &mut Row, measure: Measure, sample: Result<Sample>) {
    let figure = row.figures.entry(measure.to_string()).or_default();
    match sample {
        Ok(sample) => {
            say(&format!("  {measure:<8} {}", in_words(&sample)));
            figure.add(sample);
        }
        Err(error) => {
            say(&format!("  {measure:<8} failed: {error:#}"));
            figure.failures.push(format!("{error:#}"));
        }
    }
}

fn in_words(sample: &Sample) -> String {
    if let Some(found) = sample.footprint {
        let (count, mb) = (grouped(found.tasks as f64), |bytes: u64| bytes as f64 / 1e6);
        let (rss, disk) = (mb(found.rss_bytes), mb(found.disk_bytes));
        return format!(
            "{count} tasks: {rss:.0} MB, disk {disk:.0} MB, restart {:.2} s",
            found.restart_seconds
        );
    }
    let each = |seconds: f64| seconds * 1e6 / sample.operations.max(1) as f64;
    let latency = sample.latency.map_or_else(String::new, |latency| {
        format!(", p50 {:.2} ms, p99 {:.2} ms, max {:.1} ms", latency.p50_ms, latency.p99_ms, latency.max_ms)
    });
    let rate = grouped(sample.per_second());
    let (server, load) = (each(sample.server_cpu_seconds), each(sample.load_cpu_seconds));
    format!("{rate:>9}/s, server {server:.1} µs, load {load:.1} µs{latency}")
}

fn facts(options: &Options, scratch: &Path) -> Facts {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    Facts {
        date: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
        machine: format!(
            "{cores} cores ({}), Linux {}",
            model.map_or("unknown", |(_, name)| name.trim()),
            kernel.trim()
        ),
        file_system: file_system(scratch).unwrap_or_else(|| "unknown".to_owned()),
        load_before: read("/proc/loadavg")
            .split(' ')
            .next()
            .and_then(|load| load.parse().ok())
            .unwrap_or(0.0),
        seconds: options.length.as_secs_f64(),
        rounds: options.rounds,
        payload_bytes: payload::BYTES,
        took_seconds: Duration::ZERO.as_secs_f64(),
    }
}

/// On a disk that is memory every sync is free, and nothing compares.
fn refuse_memory(scratch: &Path) -> Result<()> {
    match file_system(scratch).as_deref() {
        Some(kind @ ("tmpfs" | "ramfs" | "devtmpfs")) => {
            bail!("{} is {kind}: durable settings would be measured in memory", scratch.display())
        }
        _ => Ok(()),
    }
}

fn file_system(dir: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut best: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let mut words = line.split(' ');
        let (Some(_), Some(mount), Some(kind)) = (words.next(), words.next(), words.next()) else { continue };
        // Of two mounts in one place the later one is seen.
        if dir.starts_with(mount) && best.is_none_or(|(length, _)| mount.len() >= length) {
            best = Some((mount.len(), kind));
        }
    }
    best.map(|(_, kind)| kind.to_owned())
}
