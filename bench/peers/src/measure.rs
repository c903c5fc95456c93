//! What is measured: the workloads of the table, each with its numbers.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Measure {
    /// W1: submit, one task per request.
    Submit { connections: usize },
    /// W2: submit in batches.
    SubmitBatch { batch: usize },
    /// W3: claim and complete what waits.
    Drain { batch: usize },
    /// W4: producers and workers together.
    Flow { batch: usize },
    /// W5: from submit to the start of the handler, at a steady rate.
    Latency { rate: u64 },
    /// W6: memory and disk of tasks that wait, and the time to restart with them.
    Footprint,
}

/// Connections of a workload that names none: enough to keep a server busy one task at a time, and fewer with batches.
pub(crate) const SINGLES: usize = 64;
pub(crate) const BATCHES: usize = 16;
/// Tasks in a batch of a worker.
pub(crate) const BATCH: usize = 100;

pub(crate) const ALL: &[Measure] = &[
    Measure::Submit { connections: 1 },
    Measure::Submit { connections: 16 },
    Measure::Submit { connections: 64 },
    Measure::SubmitBatch { batch: 100 },
    Measure::SubmitBatch { batch: 1000 },
    Measure::Drain { batch: 1 },
    Measure::Drain { batch: BATCH },
    Measure::Flow { batch: 1 },
    Measure::Flow { batch: BATCH },
    Measure::Latency { rate: 500 },
    Measure::Latency { rate: 2000 },
    Measure::Footprint,
];

impl Measure {
    /// The number of the workload.
    pub(crate) fn workload(self) -> u8 {
        match self {
            Measure::Submit { .. } => 1,
            Measure::SubmitBatch { .. } => 2,
            Measure::Drain { .. } => 3,
            Measure::Flow { .. } => 4,
            Measure::Latency { .. } => 5,
            Measure::Footprint => 6,
        }
    }

    /// For people.
    pub(crate) fn title(self) -> String {
        match self {
            Measure::Submit { connections: 1 } => "submit, one per request, 1 connection".to_owned(),
            Measure::Submit { connections } => {
                format!("submit, one per request, {connections} connections")
            }
            Measure::SubmitBatch { batch } => format!("submit in batches of {batch}, {BATCHES} connections"),
            Measure::Drain { batch: 1 } => format!("drain one by one, {SINGLES} connections"),
            Measure::Drain { batch } => format!("drain in batches of {batch}, {BATCHES} connections"),
            Measure::Flow { batch: 1 } => {
                let half = SINGLES / 2;
                format!("{half} producers and {half} workers, one by one")
            }
            Measure::Flow { batch } => {
                format!("{BATCHES} producers and {BATCHES} workers, batches of {batch}")
            }
            Measure::Latency { rate } => format!("submit to handler start at {rate}/s"),
            Measure::Footprint => "tasks that wait".to_owned(),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measure::Submit { connections } => write!(f, "w1-{connections}"),
            Measure::SubmitBatch { batch } => write!(f, "w2-{batch}"),
            Measure::Drain { batch } => write!(f, "w3-{batch}"),
            Measure::Flow { batch } => write!(f, "w4-{batch}"),
            Measure::Latency { rate } => write!(f, "w5-{rate}"),
            Measure::Footprint => f.write_str("w6"),
        }
    }
}

/// What came of one measurement.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    /// Of the server and of everything else that took part, in seconds on a core.
    pub(crate) server_cpu_seconds: f64,
    pub(crate) load_cpu_seconds: f64,
    /// Of one request in W1 and W2, of one task in W5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latency: Option<Latency>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) footprint: Option<Footprint>,
}

impl Sample {
    pub(crate) fn per_second(&self) -> f64 {
        self.operations as f64 / self.seconds.max(1e-9)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Footprint {
    pub(crate) tasks: u64,
    pub(crate) idle_rss_bytes: u64,
    /// Share of one core while nothing happens.
    pub(crate) idle_cpu: f64,
    pub(crate) rss_bytes: u64,
    pub(crate) disk_bytes: u64,
    /// From the start of the server to the first task handed out.
    pub(crate) restart_seconds: f64,
}

/// How long and how much.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) length: Duration,
    /// Tasks of W6.
    pub(crate) backlog: u64,
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_measure_has_a_name_of_its_own() {
        let names: HashSet<String> = ALL.iter().map(Measure::to_string).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(
            ALL.iter().all(|measure| measure.to_string().starts_with(&format!("w{}", measure.workload())))
        );
    }

    #[test]
    fn a_rate_is_operations_over_time() {
        let sample = Sample { operations: 500, seconds: 2.0, ..Sample::default() };
        assert_eq!(sample.per_second(), 250.0);
    }
}
