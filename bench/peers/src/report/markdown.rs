//! The tables.

use std::fmt::Write;

use super::charts::Chart;
use super::targets::{self, Verdict};
use crate::measure::{Latency, Measure};
use crate::progress::grouped;
use crate::results::{Figure, Results, Row};

/// The page beside the results.
pub(super) fn page(results: &Results, charts: &[Chart]) -> String {
    let mut text = String::from(
        "# Windlass against other queues\n\nWritten by `bench/peers/run`. Every figure, losses too, is from one run.\n",
    );
    text += &sections(results, charts, "", 2);
    text
}

/// Everything below a heading: `images` is the way to the charts, `level` that of the headings.
pub(super) fn sections(results: &Results, charts: &[Chart], images: &str, level: usize) -> String {
    let mut text = String::new();
    let mut section = |title: &str, body: String| {
        if !body.is_empty() {
            write!(text, "\n{} {title}\n\n{body}", "#".repeat(level)).expect("a string takes text");
        }
    };
    section("The run", run(results));
    section("Targets", targets_table(&targets::judge(results)));
    section("Charts", pictures(charts, images));
    section("Tasks per second", throughput(results));
    section("Latency from submit to the start of the handler", latency(results));
    section("Time on the cores", cpu(results));
    section("Tasks that wait", footprint(results));
    section("Left out", left_out(results));
    text
}

fn run(results: &Results) -> String {
    let facts = &results.facts;
    let mut text = format!(
        "{}: {}, {}; load before the start {:.1}. Server and load on the same machine. Payloads of {} bytes, {} s for each figure, \
         medians of up to {} interleaved rounds; the run took {:.0} minutes.\n\n| system | version |\n|---|---|\n",
        facts.date,
        facts.machine,
        facts.file_system,
        facts.load_before,
        facts.payload_bytes,
        facts.seconds,
        facts.rounds,
        (facts.took_seconds / 60.0).ceil(),
    );
    let mut said = Vec::new();
    for row in results.rows.iter().filter(|row| row.product != "echo") {
        if !said.contains(&&row.product) {
            said.push(&row.product);
            writeln!(text, "| {} | {} |", row.product, row.version).expect("a string takes text");
        }
    }
    text
}

fn targets_table(verdicts: &[Verdict]) -> String {
    if verdicts.is_empty() {
        return String::new();
    }
    let tally = targets::tally(verdicts);
    let count = |moonshot| tally.get(&moonshot).map_or((0, 0), |&counts| counts);
    let ((met, all), (far_met, far)) = (count(false), count(true));
    let mut text = format!(
        "Windlass with `durability = sync`: {met} of {all} targets met, {far_met} of {far} moonshots (marked ☾: hoped for, not promised).\n\n\
         | workload | target | measured: Windlass, then the other | met |\n|---|---|---|---|\n"
    );
    for verdict in verdicts {
        let moon = if verdict.moonshot { " ☾" } else { "" };
        let met = if verdict.met { "yes" } else { "**no**" };
        let Verdict { workload, target, measured, .. } = verdict;
        writeln!(text, "| {workload} | {target}{moon} | {measured} | {met} |").expect("a string takes text");
    }
    text
}

fn pictures(charts: &[Chart], images: &str) -> String {
    charts.iter().map(|chart| format!("![{}]({images}{})\n\n", chart.title, chart.file)).collect::<String>()
}

const THROUGHPUT: [(&str, &str); 9] = [
    ("W1 1", "w1-1"),
    ("W1 16", "w1-16"),
    ("W1 64", "w1-64"),
    ("W2 100", "w2-100"),
    ("W2 1,000", "w2-1000"),
    ("W3 singly", "w3-1"),
    ("W3 batch", "w3-100"),
    ("W4 singly", "w4-1"),
    ("W4 batch", "w4-100"),
];

fn throughput(results: &Results) -> String {
    let mut text = table(results, &THROUGHPUT, |figure| Some(grouped(figure.per_second)));
    if text.is_empty() {
        return text;
    }
    text += "\nDurable: acknowledged means synced to the disk, as far as the setting promises. ";
    for measure in crate::measure::ALL {
        if !matches!(measure, Measure::Latency { .. } | Measure::Footprint) {
            write!(text, "{}: {}. ", measure.to_string().to_uppercase(), measure.title())
                .expect("a string takes text");
        }
    }
    text.trim_end().to_owned() + "\n"
}

fn latency(results: &Results) -> String {
    let cell = |figure: &Figure| {
        let Latency { p50_ms, p99_ms, max_ms } = figure.latency?;
        Some(format!("{p50_ms:.2} / {p99_ms:.2} / {max_ms:.1}"))
    };
    let columns = [("500/s: p50 / p99 / max, ms", "w5-500"), ("2,000/s: p50 / p99 / max, ms", "w5-2000")];
    table(results, &columns, cell)
}

const CPU: [(&str, &str); 6] = [
    ("W1 64", "w1-64"),
    ("W2 1,000", "w2-1000"),
    ("W3 singly", "w3-1"),
    ("W3 batch", "w3-100"),
    ("W4 singly", "w4-1"),
    ("W4 batch", "w4-100"),
];

fn cpu(results: &Results) -> String {
    let cell = |figure: &Figure| {
        let (server, load) = (figure.server_cpu_us_per_operation, figure.load_cpu_us_per_operation);
        Some(format!("{server:.1} / {load:.1}"))
    };
    let table = table(results, &CPU, cell);
    if table.is_empty() {
        return table;
    }
    format!(
        "Microseconds on a core for each task: server / load. For BullMQ, Celery and RQ the server is Redis, and the load is the \
         library with its producers and workers.\n\n{table}"
    )
}

/// One line per system, one column per measure, as far as anything was measured.
fn table(results: &Results, columns: &[(&str, &str)], cell: impl Fn(&Figure) -> Option<String>) -> String {
    let cells = |row: &Row| -> Vec<Option<String>> {
        columns.iter().map(|(_, measure)| row.figure(measure).and_then(&cell)).collect()
    };
    let rows: Vec<(&Row, Vec<Option<String>>)> = results
        .rows
        .iter()
        .map(|row| (row, cells(row)))
        .filter(|(_, cells)| cells.iter().any(Option::is_some))
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
    let mut text = format!("| system | setting | durable | {} |\n", titles.join(" | "));
    writeln!(text, "|---|---|---|{}", "---:|".repeat(columns.len())).expect("a string takes text");
    for (row, cells) in rows {
        let durable = if row.durable { "yes" } else { "–" };
        let cells: Vec<String> =
            cells.into_iter().map(|cell| cell.unwrap_or_else(|| "–".to_owned())).collect();
        let (system, cells) = (&row.system, cells.join(" | "));
        writeln!(text, "| {system} | {} | {durable} | {cells} |", row.setting).expect("a string takes text");
    }
    text
}

fn footprint(results: &Results) -> String {
    let mut text = String::new();
    for row in &results.rows {
        let Some(found) = row.figure("w6").and_then(|figure| figure.footprint) else { continue };
        if text.is_empty() {
            text.push_str(
                "| system | setting | tasks | memory above idle | bytes a task | disk | restart to the first task | idle |\n\
                 |---|---|---:|---:|---:|---:|---:|---:|\n",
            );
        }
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let above = found.rss_bytes.saturating_sub(found.idle_rss_bytes);
        writeln!(
            text,
            "| {} | {} | {} | {:.0} MB | {:.0} | {:.0} MB | {:.2} s | {:.0} MB, {:.1} % of a core |",
            row.system,
            row.setting,
            grouped(found.tasks as f64),
            mb(above),
            above as f64 / found.tasks.max(1) as f64,
            mb(found.disk_bytes),
            found.restart_seconds,
            mb(found.idle_rss_bytes),
            found.idle_cpu * 100.0,
        )
        .expect("a string takes text");
    }
    text
}

/// What could not be installed, and what failed in every round.
fn left_out(results: &Results) -> String {
    let mut text = String::new();
    for skipped in &results.skipped {
        writeln!(text, "- {}: {}", skipped.system, one_line(&skipped.reason)).expect("a string takes text");
    }
    for row in &results.rows {
        for (measure, figure) in &row.figures {
            if let Some(failure) = figure.failures.first() {
                let (failed, all) = (figure.failures.len(), figure.failures.len() + figure.rounds.len());
                let (label, failure) = (row.label(), one_line(failure));
                writeln!(text, "- {label}, {measure}, {failed} of {all} rounds: {failure}")
                    .expect("a string takes text");
            }
        }
    }
    text
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Sample;
    use crate::results::Skipped;

    fn results() -> Results {
        let mut row = Row {
            product: "beanstalkd".to_owned(),
            system: "beanstalkd".to_owned(),
            setting: "-b -f0".to_owned(),
            durable: true,
            version: "1.12".to_owned(),
            ..Row::default()
        };
        let sample =
            Sample { operations: 12_345, seconds: 1.0, server_cpu_seconds: 0.1, ..Sample::default() };
        row.figures.entry("w1-64".to_owned()).or_default().add(sample);
        row.figures.entry("w5-2000".to_owned()).or_default().failures.push("too\nslow".to_owned());
        let skipped = vec![Skipped { system: "RQ".to_owned(), reason: "not installed".to_owned() }];
        Results { rows: vec![row], skipped, ..Results::default() }
    }

    #[test]
    fn a_table_has_what_was_measured() {
        let table = throughput(&results());
        assert!(table.contains("| beanstalkd | -b -f0 | yes | – | – | 12,345 |"), "{table}");
        assert!(cpu(&results()).contains("| 8.1 / 0.0 |"), "{}", cpu(&results()));
    }

    #[test]
    fn what_is_missing_is_named_with_the_reason() {
        let text = left_out(&results());
        assert_eq!(text, "- RQ: not installed\n- beanstalkd (-b -f0), w5-2000, 1 of 1 rounds: too slow\n");
    }

    #[test]
    fn tables_without_figures_are_left_out() {
        let page = page(&results(), &[]);
        assert!(page.contains("## Tasks per second") && !page.contains("## Tasks that wait"));
        assert!(!page.contains("## Targets"));
    }
}
