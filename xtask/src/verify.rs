//! The read-only gate. Every gate runs even when an earlier one failed, so that one run shows all there is to mend.

use std::str::FromStr;
use std::time::Instant;

use crate::cargo::{cargo, run as run_command};
use crate::tidy;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    Fmt,
    Clippy,
    Doc,
    Tidy,
}

impl Gate {
    /// Cheapest first: its answer is on the screen while the slow ones compile.
    const ALL: [Gate; 4] = [Gate::Tidy, Gate::Fmt, Gate::Clippy, Gate::Doc];

    fn name(self) -> &'static str {
        match self {
            Gate::Fmt => "fmt",
            Gate::Clippy => "clippy",
            Gate::Doc => "doc",
            Gate::Tidy => "tidy",
        }
    }

    fn check(self) -> Result<(), String> {
        match self {
            Gate::Fmt => run_command(&mut cargo(["fmt", "--all", "--check"])),
            Gate::Clippy => run_command(&mut cargo([
                "clippy",
                "--quiet",
                "--workspace",
                "--all-targets",
                "--keep-going",
                "--",
                "-D",
                "warnings",
            ])),
            Gate::Doc => run_command(
                cargo(["doc", "--quiet", "--workspace", "--no-deps", "--keep-going"])
                    .env("RUSTDOCFLAGS", "-Dwarnings"),
            ),
            Gate::Tidy => tidy::run(),
        }
    }
}

impl FromStr for Gate {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|gate| gate.name() == name)
            .ok_or_else(|| format!("there is no gate `{name}`"))
    }
}

pub(crate) fn run(only: &[Gate]) -> Result<(), String> {
    let gates = if only.is_empty() { &Gate::ALL[..] } else { only };
    let mut failed = Vec::new();
    for gate in gates {
        let start = Instant::now();
        let outcome = gate.check();
        let seconds = start.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => println!("{:<8}ok      {seconds:6.1} s", gate.name()),
            Err(error) => {
                println!("{:<8}FAILED  {seconds:6.1} s  {error}", gate.name());
                failed.push(gate.name());
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed gates: {}", failed.join(", "))) }
}
