//! The text format. Names of the domain need no escaping: none of their characters means anything here.

use std::fmt::{Display, Write};

use windlass_core::Histogram;

#[derive(Debug)]
pub(super) struct Text(String);

impl Default for Text {
    fn default() -> Self {
        Self(String::with_capacity(32 * 1024))
    }
}

/// One metric with its samples; the heading is written already.
#[derive(Debug)]
pub(super) struct Family<'a> {
    text: &'a mut String,
    name: &'a str,
}

type Labels<'a> = &'a [(&'a str, &'a str)];

impl Text {
    /// What is counted begins anew with the process, as Prometheus expects it; the help of such a family says so.
    pub(super) fn family<'a>(&'a mut self, name: &'a str, kind: &str, help: &str) -> Family<'a> {
        let since = if kind == "gauge" { "" } else { " Since this process began." };
        put(&mut self.0, format_args!("# HELP {name} {help}{since}\n# TYPE {name} {kind}\n"));
        Family { text: &mut self.0, name }
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help).sample(&[], value);
    }

    pub(super) fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "counter", help).sample(&[], value);
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

impl Family<'_> {
    pub(super) fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.line("", labels, None, value);
    }

    /// `bounds` with the number of values up to each, ascending.
    pub(super) fn histogram(
        &mut self,
        labels: Labels<'_>,
        bounds: impl Iterator<Item = (f64, u64)>,
        count: u64,
        sum: f64,
    ) {
        for (bound, below) in bounds {
            self.line("_bucket", labels, Some(&bound), below);
        }
        self.line("_bucket", labels, Some(&"+Inf"), count);
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, count);
    }

    /// With powers of two as bounds; `unit` is what one is worth.
    pub(super) fn powers(&mut self, histogram: &Histogram, powers: std::ops::RangeInclusive<u32>, unit: f64) {
        let bound = |power: u32| ((1u64 << power) as f64 * unit, histogram.below(1 << power));
        self.histogram(&[], powers.map(bound), histogram.count(), histogram.sum() as f64 * unit);
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, bound: Option<&dyn Display>, value: impl Display) {
        put(self.text, format_args!("{}{suffix}", self.name));
        let mut open = '{';
        for (label, word) in labels {
            put(self.text, format_args!("{open}{label}=\"{word}\""));
            open = ',';
        }
        if let Some(bound) = bound {
            put(self.text, format_args!("{open}le=\"{bound}\""));
            open = ',';
        }
        put(self.text, format_args!("{} {value}\n", if open == ',' { "}" } else { "" }));
    }
}

fn put(text: &mut String, what: std::fmt::Arguments<'_>) {
    text.write_fmt(what).expect("writing to a string cannot fail");
}
