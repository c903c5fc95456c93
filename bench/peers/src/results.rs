//! What a run found, as it is written to `results.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measure::{Footprint, Latency, Sample};

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) facts: Facts,
    pub(crate) rows: Vec<Row>,
    /// Named by system and setting, with the reason.
    pub(crate) skipped: Vec<Skipped>,
}

/// What the figures hold for.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) date: String,
    pub(crate) machine: String,
    pub(crate) file_system: String,
    /// Processes that wanted a core in the minute before, all over the machine.
    pub(crate) load_before: f64,
    pub(crate) seconds: f64,
    pub(crate) rounds: usize,
    pub(crate) payload_bytes: usize,
    /// How long the whole run took.
    pub(crate) took_seconds: f64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) product: String,
    pub(crate) system: String,
    pub(crate) setting: String,
    /// Acknowledged means synced, as far as the setting promises.
    pub(crate) durable: bool,
    pub(crate) version: String,
    /// By the name of the measure.
    pub(crate) figures: BTreeMap<String, Figure>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// Medians over the rounds that succeeded.
    pub(crate) per_second: f64,
    pub(crate) server_cpu_us_per_operation: f64,
    pub(crate) load_cpu_us_per_operation: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) latency: Option<Latency>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) footprint: Option<Footprint>,
    pub(crate) rounds: Vec<Sample>,
    /// Why a round has no figure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) failures: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Skipped {
    pub(crate) system: String,
    pub(crate) reason: String,
}

impl Results {
    pub(crate) fn row(&self, system: &str, setting: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.system == system && row.setting == setting)
    }
}

impl Row {
    /// A figure that at least one round found.
    pub(crate) fn figure(&self, measure: &str) -> Option<&Figure> {
        self.figures.get(measure).filter(|figure| !figure.rounds.is_empty())
    }

    pub(crate) fn per_second(&self, measure: &str) -> Option<f64> {
        self.figure(measure).map(|figure| figure.per_second)
    }

    /// For people: the system and its setting.
    pub(crate) fn label(&self) -> String {
        if self.setting == "–" {
            self.system.clone()
        } else {
            format!("{} ({})", self.system, self.setting)
        }
    }
}

impl Figure {
    /// Takes a round in and makes the medians anew.
    pub(crate) fn add(&mut self, sample: Sample) {
        self.rounds.push(sample);
        let of = |value: &dyn Fn(&Sample) -> f64| median(self.rounds.iter().map(value).collect());
        let share = |seconds: f64, sample: &Sample| seconds * 1e6 / sample.operations.max(1) as f64;
        self.per_second = of(&Sample::per_second);
        self.server_cpu_us_per_operation = of(&|sample| share(sample.server_cpu_seconds, sample));
        self.load_cpu_us_per_operation = of(&|sample| share(sample.load_cpu_seconds, sample));
        let latencies: Vec<Latency> = self.rounds.iter().filter_map(|sample| sample.latency).collect();
        let middle = |value: fn(&Latency) -> f64| median(latencies.iter().map(value).collect());
        self.latency = (!latencies.is_empty()).then(|| Latency {
            p50_ms: middle(|latency| latency.p50_ms),
            p99_ms: middle(|latency| latency.p99_ms),
            // The worst of all rounds: a maximum has no middle.
            max_ms: latencies.iter().map(|latency| latency.max_ms).fold(0.0, f64::max),
        });
        self.footprint = self.rounds.iter().rev().find_map(|sample| sample.footprint);
    }
}

/// A figure that was measured, not one between two.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_a_figure_that_was_measured() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0]), 1.0);
        assert_eq!(median(Vec::new()), 0.0);
    }

    #[test]
    fn rounds_become_medians_and_the_worst_case() {
        let mut figure = Figure::default();
        for (operations, p50_ms, max_ms) in [(100, 1.0, 5.0), (300, 3.0, 90.0), (200, 2.0, 7.0)] {
            figure.add(Sample {
                operations,
                seconds: 1.0,
                server_cpu_seconds: 0.5,
                latency: Some(Latency { p50_ms, p99_ms: 4.0, max_ms }),
                ..Sample::default()
            });
        }
        assert_eq!(figure.per_second, 200.0);
        assert_eq!(figure.server_cpu_us_per_operation, 2500.0);
        assert_eq!(figure.latency, Some(Latency { p50_ms: 2.0, p99_ms: 4.0, max_ms: 90.0 }));
    }

    #[test]
    fn results_are_read_as_they_were_written() {
        let mut row = Row { system: "x".to_owned(), setting: "–".to_owned(), ..Row::default() };
        row.figures.entry("w1-64".to_owned()).or_default().add(Sample::default());
        row.figures.entry("w2-100".to_owned()).or_default().failures.push("no".to_owned());
        let text = serde_json::to_string(&Results { rows: vec![row], ..Results::default() }).unwrap();
        let results: Results = serde_json::from_str(&text).unwrap();
        let row = results.row("x", "–").unwrap();
        assert!(row.figure("w1-64").is_some());
        assert!(row.figure("w2-100").is_none(), "a failure is no figure");
    }
}
