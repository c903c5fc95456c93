//! Which charts there are.

use super::svg::{Bar, Bars};
use crate::measure::Measure;
use crate::progress::grouped;
use crate::results::{Figure, Results, Row};

#[derive(Debug)]
pub(super) struct Chart {
    pub(super) file: String,
    pub(super) title: String,
    pub(super) svg: String,
}

/// By what a power failure leaves, and ours apart.
const KINDS: [(&str, &str); 4] = [
    ("#0b6e4f", "Windlass, synced before the answer"),
    ("#8fd3b6", "Windlass, synced later"),
    ("#3b5b92", "others, synced before the answer"),
    ("#b4c6e4", "others, synced later or never"),
];
const SPLIT: [(&str, &str); 2] =
    [("#0b6e4f", "server"), ("#d9c27a", "load: clients, and for libraries the workers too")];
const QUANTILES: [(&str, &str); 2] = [("#3b5b92", "p50"), ("#b4c6e4", "p99")];

const THROUGHPUT: [Measure; 6] = [
    Measure::Submit { connections: 64 },
    Measure::SubmitBatch { batch: 1000 },
    Measure::Drain { batch: 1 },
    Measure::Drain { batch: 100 },
    Measure::Flow { batch: 1 },
    Measure::Flow { batch: 100 },
];

pub(super) fn all(results: &Results) -> Vec<Chart> {
    let mut charts = Vec::new();
    for measure in THROUGHPUT {
        charts.extend(throughput(results, measure));
    }
    charts.extend(latency(results));
    charts.extend(cpu(results));
    charts.extend(memory(results));
    charts
}

fn throughput(results: &Results, measure: Measure) -> Option<Chart> {
    let name = measure.to_string();
    let mut bars = bars(results, &name, |figure| Some((vec![figure.per_second], grouped(figure.per_second))));
    bars.sort_by(|a, b| b.parts[0].total_cmp(&a.parts[0]));
    let title = format!("W{}: {}", measure.workload(), measure.title());
    chart(name, title, "tasks per second, more is better", &KINDS, bars)
}

fn latency(results: &Results) -> Option<Chart> {
    let mut bars = bars(results, "w5-2000", |figure| {
        let found = figure.latency?;
        let text = format!("{:.2} / {:.2} ms", found.p50_ms, found.p99_ms);
        Some((vec![found.p50_ms, (found.p99_ms - found.p50_ms).max(0.0)], text))
    });
    bars.sort_by(|a, b| a.parts.iter().sum::<f64>().total_cmp(&b.parts.iter().sum()));
    bars.iter_mut().for_each(|bar| bar.shade = 0);
    let title = "W5: from submit to the start of the handler at 2,000/s".to_owned();
    chart("w5-2000".to_owned(), title, "milliseconds, p50 and p99, less is better", &QUANTILES, bars)
}

fn cpu(results: &Results) -> Option<Chart> {
    let mut bars = bars(results, "w1-64", |figure| {
        let parts = vec![figure.server_cpu_us_per_operation, figure.load_cpu_us_per_operation];
        let text = format!("{:.1} + {:.1} µs", parts[0], parts[1]);
        Some((parts, text))
    });
    bars.sort_by(|a, b| a.parts[0].total_cmp(&b.parts[0]));
    bars.iter_mut().for_each(|bar| bar.shade = 0);
    let title = "W1: time on the cores for a submit, 64 connections".to_owned();
    chart("cpu-w1-64".to_owned(), title, "microseconds, by the server's share, less is better", &SPLIT, bars)
}

fn memory(results: &Results) -> Option<Chart> {
    let mut bars = bars(results, "w6", |figure| {
        let found = figure.footprint?;
        let each = found.rss_bytes.saturating_sub(found.idle_rss_bytes) as f64 / found.tasks.max(1) as f64;
        Some((vec![each], format!("{each:.0} bytes")))
    });
    bars.sort_by(|a, b| a.parts[0].total_cmp(&b.parts[0]));
    let title = "W6: memory of a task that waits".to_owned();
    chart(
        "w6-memory".to_owned(),
        title,
        "resident bytes above idle for each task, less is better",
        &KINDS,
        bars,
    )
}

/// A bar for each system that has this figure.
fn bars(results: &Results, measure: &str, draw: impl Fn(&Figure) -> Option<(Vec<f64>, String)>) -> Vec<Bar> {
    let bar = |row: &Row| {
        let (parts, text) = draw(row.figure(measure)?)?;
        let ours = row.product == "windlass";
        let shade = usize::from(!ours) * 2 + usize::from(!row.durable);
        Some(Bar { label: row.label(), parts, text, bold: ours, shade })
    };
    results.rows.iter().filter_map(bar).collect()
}

/// Nothing to draw is no chart.
fn chart(
    name: String,
    title: String,
    subtitle: &str,
    legend: &[(&str, &str)],
    bars: Vec<Bar>,
) -> Option<Chart> {
    if bars.is_empty() {
        return None;
    }
    let svg = Bars { title: &title, subtitle, legend, bars }.draw();
    Some(Chart { file: format!("{name}.svg"), title, svg })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Sample;

    #[test]
    fn the_fastest_stands_first_and_ours_is_bold() {
        let mut rows = Vec::new();
        for (product, per_second) in [("redis", 10), ("windlass", 30), ("nats", 20)] {
            let mut row = Row { product: product.to_owned(), system: product.to_owned(), ..Row::default() };
            let sample = Sample { operations: per_second, seconds: 1.0, ..Sample::default() };
            row.figures.entry("w1-64".to_owned()).or_default().add(sample);
            rows.push(row);
        }
        let charts = all(&Results { rows, ..Results::default() });
        let files: Vec<&str> = charts.iter().map(|chart| chart.file.as_str()).collect();
        assert_eq!(files, ["w1-64.svg", "cpu-w1-64.svg"]);
        let at = |name: &str| charts[0].svg.find(&format!(">{name} (")).unwrap();
        assert!(at("windlass") < at("nats") && at("nats") < at("redis"));
        assert!(charts[0].svg.contains("font-weight=\"600\">windlass ("));
    }
}
