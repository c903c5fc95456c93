//! What Windlass wants to reach, against what this run found: ratios to peers and to the limits of the machine, met or not.

use std::collections::BTreeMap;

use crate::progress::grouped;
use crate::results::{Figure, Results, Row};

#[derive(Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) workload: &'static str,
    pub(super) target: String,
    pub(super) measured: String,
    pub(super) met: bool,
    /// Hoped for, not promised.
    pub(super) moonshot: bool,
}

const FRAMES: &str = "Windlass, TCP frames";
const GRPC: &str = "Windlass, gRPC";
const REST: &str = "Windlass, REST";
const LIBRARY: &str = "Windlass, library on Redis";
const PLAIN: &str = "Redis, the writes of a Windlass task";
const EVERYSEC: &str = "appendfsync everysec";
const ALWAYS: &str = "appendfsync always";
const BEANSTALKD: (&str, &str) = ("beanstalkd", "-b -f50");
const NATS: (&str, &str) = ("NATS JetStream", "sync every 2 min");

/// Everything that can be judged by these results. Windlass always with `sync`.
pub(super) fn judge(results: &Results) -> Vec<Verdict> {
    let judge = Judge { results };
    let mut verdicts = Vec::new();
    let w1 = "W1, one task per request";
    verdicts.extend(judge.ratio(w1, Ours::Over(FRAMES), 1.5, ("Redis lists", ALWAYS), ["w1-16"; 2]));
    verdicts.extend(judge.ratio(w1, Ours::Over(FRAMES), 1.0, ("Redis lists", ALWAYS), ["w1-64"; 2]));
    verdicts.extend(judge.ratio(w1, Ours::Over(FRAMES), 1.0, BEANSTALKD, ["w1-64"; 2]));
    verdicts.extend(judge.ratio(w1, Ours::Over(GRPC), 0.6, ("bare gRPC echo", "–"), ["w1-64"; 2]));
    verdicts.extend(judge.ratio(w1, Ours::Over(REST), 0.5, ("bare HTTP echo", "–"), ["w1-64"; 2]));
    verdicts.extend(judge.moonshot(w1, Ours::Over(FRAMES), 0.7, ("bare TCP echo", "–"), "w1-64"));
    let w2 = "W2, batches of 1,000";
    verdicts.extend(judge.ratio(w2, Ours::Best, 4.0, BEANSTALKD, ["w2-1000"; 2]));
    verdicts.extend(judge.ratio(w2, Ours::Best, 1.5, NATS, ["w2-1000"; 2]));
    verdicts.extend(judge.moonshot(w2, Ours::Best, 1.0, ("Redis lists", EVERYSEC), "w2-1000"));
    let w3 = "W3, drain in batches";
    verdicts.extend(judge.ratio(w3, Ours::Best, 2.0, BEANSTALKD, ["w3-100"; 2]));
    verdicts.extend(judge.ratio(w3, Ours::Best, 1.0, NATS, ["w3-100"; 2]));
    verdicts.extend(judge.moonshot(w3, Ours::Best, 1.0, ("Redis streams", EVERYSEC), "w3-100"));
    let w4 = "W4, both, in batches";
    verdicts.extend(judge.ratio(w4, Ours::Best, 3.0, BEANSTALKD, ["w4-100"; 2]));
    verdicts.extend(judge.ratio(w4, Ours::Best, 1.2, NATS, ["w4-100"; 2]));
    verdicts.extend(judge.ratio(w4, Ours::Best, 10.0, ("BullMQ", EVERYSEC), ["w4-100", "w4-1"]));
    verdicts.extend(judge.ratio(w4, Ours::Best, 100.0, ("Celery", EVERYSEC), ["w4-100", "w4-1"]));
    verdicts.extend(judge.moonshot(w4, Ours::Best, 1.0, ("Redis lists", EVERYSEC), "w4-100"));
    let library = "Library mode on Redis";
    for setting in [ALWAYS, EVERYSEC] {
        let ours = Ours::Library(setting);
        verdicts.extend(judge.ratio(library, ours, 0.5, (PLAIN, setting), ["w2-1000"; 2]));
        verdicts.extend(judge.ratio(library, ours, 5.0, ("BullMQ", setting), ["w3-100", "w3-1"]));
        verdicts.extend(judge.ratio(library, ours, 5.0, ("BullMQ", setting), ["w4-100", "w4-1"]));
    }
    verdicts.extend(judge.latency());
    verdicts.extend(judge.footprint());
    verdicts
}

/// Which of Windlass's interfaces is meant.
#[derive(Debug, Clone, Copy)]
enum Ours {
    Over(&'static str),
    /// In library mode, with this setting of Redis.
    Library(&'static str),
    /// Whichever is fastest; the verdict names it.
    Best,
}

struct Judge<'a> {
    results: &'a Results,
}

impl Judge<'_> {
    /// `measures` are ours and theirs.
    fn ratio(
        &self,
        workload: &'static str,
        ours: Ours,
        times: f64,
        peer: (&str, &str),
        measures: [&str; 2],
    ) -> Option<Verdict> {
        let our_row = self.ours(ours, measures[0])?;
        let peer_row = self.results.row(peer.0, peer.1)?;
        let (mine, theirs) = (our_row.per_second(measures[0])?, peer_row.per_second(measures[1])?);
        let ratio = mine / theirs;
        let connections = measures[0].strip_prefix("w1-").map_or_else(String::new, |count| {
            let plural = if count == "1" { "" } else { "s" };
            format!(", {count} connection{plural}")
        });
        let wanted = if times < 1.0 { format!("{:.0} %", times * 100.0) } else { format!("{times} ×") };
        let found = if times < 1.0 { format!("{:.0} %", ratio * 100.0) } else { format!("{ratio:.2} ×") };
        let measured = format!(
            "{found}: {} over {}, {}",
            grouped(mine),
            our_row.system.trim_start_matches("Windlass, "),
            grouped(theirs)
        );
        let target = format!("≥ {wanted} {}{connections}", peer_row.label());
        Some(Verdict { workload, target, measured, met: ratio >= times, moonshot: false })
    }

    fn moonshot(
        &self,
        workload: &'static str,
        ours: Ours,
        times: f64,
        peer: (&str, &str),
        measure: &str,
    ) -> Option<Verdict> {
        self.ratio(workload, ours, times, peer, [measure; 2])
            .map(|verdict| Verdict { moonshot: true, ..verdict })
    }

    fn ours(&self, ours: Ours, measure: &str) -> Option<&Row> {
        let rows = self.results.rows.iter().filter(|row| row.product == "windlass" && row.durable);
        match ours {
            Ours::Over(name) => rows.into_iter().find(|row| row.system == name),
            Ours::Library(setting) => self.results.row(LIBRARY, setting),
            Ours::Best => rows
                .filter_map(|row| Some((row.per_second(measure)?, row)))
                .max_by(|a, b| a.0.total_cmp(&b.0))
                .map(|(_, row)| row),
        }
    }

    /// W5 of every durable interface, by the one with the lowest p99.
    fn latency(&self) -> Vec<Verdict> {
        const MEASURE: &str = "w5-2000";
        let latency = |row: &Row| row.figure(MEASURE).and_then(|figure: &Figure| figure.latency);
        let ours = self.results.rows.iter().filter(|row| row.product == "windlass" && row.durable);
        let best = ours
            .filter_map(|row| Some((latency(row)?, row)))
            .min_by(|a, b| a.0.p99_ms.total_cmp(&b.0.p99_ms));
        let Some((found, row)) = best else { return Vec::new() };
        let over = row.system.trim_start_matches("Windlass, ");
        let workload = "W5, latency at 2,000/s";
        let verdict = |name: &str, found: f64, limit: f64| Verdict {
            workload,
            target: format!("{name} ≤ {limit} ms"),
            measured: format!("{found:.2} ms over {over}"),
            met: found <= limit,
            moonshot: false,
        };
        let mut verdicts = vec![verdict("p50", found.p50_ms, 1.0), verdict("p99", found.p99_ms, 10.0)];
        if let Some(row) = self.results.row("beanstalkd", "-b -f0")
            && let Some(theirs) = latency(row)
        {
            verdicts.push(Verdict {
                workload,
                target: format!("p50 and p99 below {}", row.label()),
                measured: format!(
                    "{:.2} and {:.2} ms, {:.2} and {:.2} ms",
                    found.p50_ms, found.p99_ms, theirs.p50_ms, theirs.p99_ms
                ),
                met: found.p50_ms < theirs.p50_ms && found.p99_ms < theirs.p99_ms,
                moonshot: true,
            });
        }
        verdicts
    }

    fn footprint(&self) -> Vec<Verdict> {
        let row = self.results.row(FRAMES, "sync");
        let Some(found) = row.and_then(|row| row.figure("w6")).and_then(|figure| figure.footprint) else {
            return Vec::new();
        };
        let workload = "W6, tasks that wait";
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let tasks = grouped(found.tasks as f64);
        let above = mb(found.rss_bytes) - mb(found.idle_rss_bytes);
        let verdict = |target: String, measured: String, met: bool| Verdict {
            workload,
            target,
            measured,
            met,
            moonshot: false,
        };
        let mut verdicts = vec![verdict(
            format!("restart with {tasks} tasks ≤ 2 s"),
            format!("{:.2} s to the first task", found.restart_seconds),
            found.restart_seconds <= 2.0,
        )];
        // The limit of memory is one for a million.
        if found.tasks >= 1_000_000 {
            let (target, measured) =
                (format!("≤ 40 MB above idle with {tasks} tasks"), format!("{above:.0} MB"));
            verdicts.insert(0, verdict(target, measured, above <= 40.0));
        }
        verdicts.push(verdict(
            "idle: < 1 % of a core, < 40 MB".to_owned(),
            format!("{:.1} %, {:.0} MB", found.idle_cpu * 100.0, mb(found.idle_rss_bytes)),
            found.idle_cpu < 0.01 && mb(found.idle_rss_bytes) < 40.0,
        ));
        verdicts
    }
}

/// How many of the targets, and of the moonshots, were met.
pub(super) fn tally(verdicts: &[Verdict]) -> BTreeMap<bool, (usize, usize)> {
    let mut tally = BTreeMap::new();
    for verdict in verdicts {
        let (met, all) = tally.entry(verdict.moonshot).or_insert((0, 0));
        *met += usize::from(verdict.met);
        *all += 1;
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Footprint, Latency, Sample};

    fn row(product: &str, system: &str, setting: &str, measure: &str, per_second: u64) -> Row {
        let mut row = Row {
            product: product.to_owned(),
            system: system.to_owned(),
            setting: setting.to_owned(),
            durable: product == "windlass",
            ..Row::default()
        };
        let latency = Some(Latency { p50_ms: 0.5, p99_ms: 12.0, max_ms: 20.0 });
        let footprint = Some(Footprint { tasks: 1_000_000, rss_bytes: 90_000_000, ..Footprint::default() });
        let sample = Sample { operations: per_second, seconds: 1.0, latency, footprint, ..Sample::default() };
        row.figures.entry(measure.to_owned()).or_default().add(sample);
        row
    }

    fn check(rows: Vec<Row>) -> Vec<(String, bool)> {
        let verdicts = judge(&Results { rows, ..Results::default() });
        verdicts.into_iter().map(|verdict| (verdict.target, verdict.met)).collect()
    }

    #[test]
    fn nothing_measured_is_nothing_judged() {
        assert!(check(Vec::new()).is_empty());
    }

    #[test]
    fn a_ratio_is_met_or_not() {
        for (mine, met) in [(200_000, true), (199_000, false)] {
            let rows = vec![
                row("windlass", FRAMES, "sync", "w2-1000", mine),
                row("windlass", REST, "sync", "w2-1000", 10),
                row("beanstalkd", "beanstalkd", "-b -f50", "w2-1000", 50_000),
            ];
            assert_eq!(check(rows), [("≥ 4 × beanstalkd (-b -f50)".to_owned(), met)]);
        }
    }

    #[test]
    fn an_echo_is_a_percentage() {
        let rows = vec![
            row("windlass", REST, "sync", "w1-64", 40),
            row("echo", "bare HTTP echo", "–", "w1-64", 100),
        ];
        assert_eq!(check(rows), [("≥ 50 % bare HTTP echo, 64 connections".to_owned(), false)]);
    }

    #[test]
    fn latency_and_footprint_have_limits() {
        let latency = check(vec![row("windlass", FRAMES, "sync", "w5-2000", 2000)]);
        assert_eq!(latency, [("p50 ≤ 1 ms".to_owned(), true), ("p99 ≤ 10 ms".to_owned(), false)]);
        let footprint = check(vec![row("windlass", FRAMES, "sync", "w6", 0)]);
        assert_eq!(footprint[0], ("≤ 40 MB above idle with 1,000,000 tasks".to_owned(), false));
    }
}
