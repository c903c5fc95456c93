//! What a bench hands back: figures for programs, tables for people, and a sign of life meanwhile.

use std::time::Duration;

use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::machine::Machine;
use crate::cli::output;

/// The whole outcome. As JSON it is stable: fields are added, never renamed.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) bench: &'static str,
    pub(super) version: &'static str,
    pub(super) machine: Machine,
    pub(super) settings: Value,
    pub(super) results: Value,
    #[serde(skip)]
    pub(super) tables: Vec<Table>,
}

/// Rows under a title.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) head: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Report {
    pub(super) fn new(
        bench: &'static str,
        machine: Machine,
        settings: &impl Serialize,
        results: &impl Serialize,
        tables: Vec<Table>,
    ) -> Report {
        let value = |content: Result<Value, serde_json::Error>| content.expect("plain fields become JSON");
        Report {
            bench,
            version: env!("CARGO_PKG_VERSION"),
            machine,
            settings: value(serde_json::to_value(settings)),
            results: value(serde_json::to_value(results)),
            tables,
        }
    }

    /// The tables one below the other, under a line about the machine.
    pub(super) fn text(&self) -> String {
        let machine = &self.machine;
        let mut text = format!("{} cores", machine.cores);
        let facts = [&machine.cpu, &machine.kernel, &machine.file_system];
        for fact in facts.into_iter().flatten() {
            text.push_str(&format!(" · {}", output::escape(fact)));
        }
        if let Some(load) = machine.load_before {
            text.push_str(&format!(" · load {load:.1} before"));
        }
        for table in &self.tables {
            text.push_str(&format!(
                "\n\n{}\n{}",
                table.title,
                output::table(&table.head, table.rows.clone())
            ));
        }
        text
    }
}

impl Table {
    pub(super) fn new(title: impl Into<String>, head: &[&'static str]) -> Table {
        Table { title: title.into(), head: head.to_vec(), rows: Vec::new() }
    }

    pub(super) fn row(mut self, cells: impl IntoIterator<Item = String>) -> Table {
        self.rows.push(cells.into_iter().collect());
        self
    }
}

/// Latencies in microseconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Latency {
    pub(super) count: u64,
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
    pub(super) p999_us: u64,
    pub(super) max_us: u64,
}

impl Latency {
    pub(super) fn of(histogram: &Histogram<u64>) -> Latency {
        Latency {
            count: histogram.len(),
            p50_us: histogram.value_at_quantile(0.5),
            p99_us: histogram.value_at_quantile(0.99),
            p999_us: histogram.value_at_quantile(0.999),
            max_us: histogram.max(),
        }
    }

    pub(super) fn cells(&self) -> [String; 4] {
        [ms(self.p50_us), ms(self.p99_us), ms(self.p999_us), ms(self.max_us)]
    }
}

/// Three digits are more than a noisy machine can give. It grows with what it is told.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are supported")
}

pub(super) fn record(histogram: &mut Histogram<u64>, length: Duration) {
    histogram.record(length.as_micros() as u64).expect("a histogram that grows takes every length");
}

/// Adds what another one was told.
pub(super) fn add(histogram: &mut Histogram<u64>, other: &Histogram<u64>) {
    histogram.add(other).expect("a histogram that grows takes every other");
}

/// The middle of the rounds, the lower one of two.
pub(super) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

/// `12,345`.
pub(super) fn count(number: impl Into<f64>) -> String {
    let digits = format!("{:.0}", number.into());
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(super) fn ms(us: u64) -> String {
    format!("{:.2} ms", us as f64 / 1000.0)
}

pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

pub(super) fn percent(ratio: f64) -> String {
    format!("{:.0} %", ratio * 100.0)
}

/// A line on standard error that moves, if that is a terminal.
#[derive(Debug)]
pub(super) struct Meter(ProgressBar);

impl Meter {
    /// For something that takes a known time or an unknown one.
    pub(super) fn stage(name: impl Into<String>) -> Meter {
        let bar = ProgressBar::new_spinner().with_message(name.into());
        bar.set_style(style("{spinner} {msg} {elapsed}"));
        bar.enable_steady_tick(Duration::from_millis(250));
        Meter(bar)
    }

    pub(super) fn bar(name: impl Into<String>, length: u64) -> Meter {
        let bar = ProgressBar::new(length).with_message(name.into());
        bar.set_style(style("{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}"));
        Meter(bar)
    }

    pub(super) fn say(&self, name: impl Into<String>) {
        self.0.set_message(name.into());
    }

    pub(super) fn add(&self, steps: u64) {
        self.0.inc(steps);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn latencies_of_any_length_are_kept() {
        let (mut all, mut part) = (histogram(), histogram());
        for seconds in [0, 1, 100_000] {
            record(&mut part, Duration::from_secs(seconds));
        }
        add(&mut all, &part);
        let latency = Latency::of(&all);
        assert_eq!((latency.count, latency.p50_us / 10_000), (3, 100));
        assert!(latency.max_us.abs_diff(100_000_000_000) < 200_000_000, "{latency:?}");
    }

    #[test]
    fn the_median_is_a_figure_that_was_measured() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0]), 1.0);
        assert_eq!(median(Vec::new()), 0.0);
    }
}
