//! What a proof is, the list of them, and how they are run.

use std::fmt;
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::task::JoinSet;

use crate::report;
use crate::{
    g01_kill, g02_power, g03_damage, g04_fsync, g05_full, g06_final, g07_stale, g08_lease, g09_crash,
    g10_twice, g12_ledger, g13_slots, g14_clock, g17_term, g18_memory, g19_redis, g20_bulk, g21_graph,
    g22_freeze, g23_backup,
};

/// How the proofs are run.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) seed: u64,
    /// For every change; the long form is for a person with an evening.
    pub(crate) short: bool,
    /// The program under test.
    pub(crate) binary: PathBuf,
}

impl Run {
    pub(crate) fn pick<T>(&self, short: T, long: T) -> T {
        if self.short { short } else { long }
    }

    /// A folder that goes with its handle, unless somebody wants to look at what is left.
    pub(crate) fn home(&self) -> std::io::Result<tempfile::TempDir> {
        let keep = std::env::var_os("WINDLASS_PROVE_KEEP").is_some();
        tempfile::Builder::new().prefix("windlass-prove-").disable_cleanup(keep).tempdir()
    }

    /// A source of choices for one purpose: the same seed and purpose make the same choices.
    pub(crate) fn random(&self, purpose: &str) -> StdRng {
        let mixed = purpose.bytes().fold(self.seed, |seed, byte| {
            seed.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(byte)
        });
        StdRng::seed_from_u64(mixed)
    }
}

/// The figures of a proof that held, or why there are none.
pub(crate) type Outcome = Result<String, Trouble>;

#[derive(Debug)]
pub(crate) enum Trouble {
    /// With everything there is to say, the most telling first.
    Failed(Vec<String>),
    /// This machine cannot run the proof.
    Skipped(String),
}

impl Trouble {
    pub(crate) fn failed(complaint: impl Into<String>) -> Self {
        Trouble::Failed(vec![complaint.into()])
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Trouble::failed(format!("the proof could not go on: {error}"))
    }
}

impl From<windlass_store::Error> for Trouble {
    fn from(error: windlass_store::Error) -> Self {
        Trouble::failed(format!("the store failed: {error}"))
    }
}

impl From<windlass_broker::Error> for Trouble {
    fn from(error: windlass_broker::Error) -> Self {
        Trouble::failed(format!("the broker failed: {error}"))
    }
}

/// Passes if there is nothing to complain about.
pub(crate) fn verdict(figures: impl fmt::Display, complaints: Vec<String>) -> Outcome {
    if complaints.is_empty() {
        return Ok(figures.to_string());
    }
    let mut all = vec![figures.to_string()];
    all.extend(complaints);
    Err(Trouble::Failed(all))
}

type Running = Pin<Box<dyn Future<Output = Outcome> + Send>>;

pub(crate) struct Proof {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    run: fn(Run) -> Running,
}

macro_rules! proof {
    ($name:literal, $title:literal, $module:ident) => {
        Proof { name: $name, title: $title, run: |run| Box::pin($module::prove(run)) }
    };
}

pub(crate) static ALL: [Proof; 20] = [
    proof!("G1", "no acknowledged task is lost when the broker is killed", g01_kill),
    proof!("G2", "nor when the power fails", g02_power),
    proof!("G3", "damaged data is refused, never served", g03_damage),
    proof!("G4", "nothing is acknowledged after a failed fsync", g04_fsync),
    proof!("G5", "a full disk refuses new tasks, finishes old ones and recovers", g05_full),
    proof!("G6", "completed is final", g06_final),
    proof!("G7", "a stale lease can do nothing", g07_stale),
    proof!("G8", "running tasks are exactly the leased ones", g08_lease),
    proof!("G9", "the task of a crashed worker is given out again", g09_crash),
    proof!("G10", "submitting twice by one id or key makes one task", g10_twice),
    proof!("G12", "nothing vanishes: the books balance", g12_ledger),
    proof!("G13", "a slot fires once, and none is missed under catch-up all", g13_slots),
    proof!("G14", "a clock set by an hour hurts no duration, and absolute times follow it", g14_clock),
    proof!("G17", "SIGTERM drains and exits 0, and nothing is lost", g17_term),
    proof!("G18", "overload and hostile clients do not use up the memory, and others are served", g18_memory),
    proof!(
        "G19",
        "Redis keeps what its configuration promises, over kills of it, of brokers and of library workers",
        g19_redis
    ),
    proof!("G20", "an act on many tasks changes and counts each once", g20_bulk),
    proof!("G21", "a graph runs in the order of its dependencies over kills", g21_graph),
    proof!("G22", "a broker that stood still ends no lease of a live worker", g22_freeze),
    proof!("G23", "a backup under load is exactly the state at its log position", g23_backup),
];

/// How many proofs run at once in the short form. Most of their time they wait for a process to start, a lease to end or a disk, so
/// that two take little longer than one. The long form gives each the whole machine.
const TOGETHER: usize = 2;
/// Nothing runs beside these: they time workers and slots by the second, have panics go unheard in the whole process, or use the whole
/// machine.
const ALONE: [&str; 5] = ["G3", "G9", "G13", "G14", "G18"];

/// Runs the named proofs, or all.
pub(crate) async fn run_all(names: &[String], run: Run) -> ExitCode {
    report::begin(&run);
    let named = |proof: &&Proof| names.is_empty() || names.iter().any(|name| name == proof.name);
    let mut waiting = ALL.iter().filter(named).peekable();
    let mut running: JoinSet<(&Proof, Outcome, Duration)> = JoinSet::new();
    let mut totals = report::Totals::default();
    let mut places = run.pick(TOGETHER, 1);
    loop {
        while let Some(proof) = waiting
            .next_if(|next| running.is_empty() || running.len() < places && !ALONE.contains(&next.name))
        {
            places = if ALONE.contains(&proof.name) { 1 } else { run.pick(TOGETHER, 1) };
            running.spawn(conduct(proof, run.clone()));
        }
        tokio::select! {
            ended = running.join_next() => match ended {
                None => return totals.finish(),
                Some(Ok((proof, outcome, took))) => totals.add(proof, &outcome, took),
                Some(Err(error)) => return report::refuse(&error.to_string()),
            },
            // The guards of servers and mounts run when the proofs are dropped.
            _ = tokio::signal::ctrl_c() => {
                running.shutdown().await;
                return report::refuse("interrupted");
            }
        }
    }
}

/// A proof that panics has failed, and the others go on.
async fn conduct(proof: &'static Proof, run: Run) -> (&'static Proof, Outcome, Duration) {
    let began = Instant::now();
    let outcome = AssertUnwindSafe((proof.run)(run)).catch_unwind().await;
    let outcome = outcome.unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<&str>().copied();
        let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Err(Trouble::failed(format!("it panicked: {}", words.unwrap_or("without a word"))))
    });
    (proof, outcome, began.elapsed())
}
