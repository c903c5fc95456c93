//! Everything this program prints.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the one file that prints")]

use std::process::ExitCode;
use std::time::Duration;

use crate::proof::{Outcome, Proof, Run, Trouble};

pub(crate) fn list(proofs: &[Proof]) -> ExitCode {
    for proof in proofs {
        println!("{:<4} {}", proof.name, proof.title);
    }
    ExitCode::SUCCESS
}

pub(crate) fn refuse(reason: &str) -> ExitCode {
    eprintln!("error: {reason}");
    ExitCode::from(2)
}

pub(crate) fn begin(run: &Run) {
    let form = run.pick("short", "long");
    println!("{form} form, seed {}", run.seed);
}

/// A line for the process that started this one.
pub(crate) fn tell(line: &str) {
    println!("{line}");
}

#[derive(Debug, Default)]
pub(crate) struct Totals {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Totals {
    pub(crate) fn add(&mut self, proof: &Proof, outcome: &Outcome, took: Duration) {
        let (name, title, took) = (proof.name, proof.title, took.as_secs_f64());
        match outcome {
            Ok(figures) => {
                self.passed += 1;
                println!("{name:<4} passed   {title}: {figures} [{took:.1} s]");
            }
            Err(Trouble::Skipped(why)) => {
                self.skipped += 1;
                println!("{name:<4} skipped  {title}: {why}");
            }
            Err(Trouble::Failed(complaints)) => {
                self.failed += 1;
                println!("{name:<4} FAILED   {title}: {} [{took:.1} s]", complaints.join("\n       "));
            }
        }
    }

    pub(crate) fn finish(&self) -> ExitCode {
        println!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped);
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
