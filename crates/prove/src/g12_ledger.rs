//! G12: submitted = completed + dead + cancelled + expired + live, exactly, against a full scan after faults.
//!
//! Can fail: the audit is handed books that do not balance, and must say so.

use crate::audit;
use crate::g01_kill::Kills;
use crate::proof::{Outcome, Run, verdict};
use crate::server::Setup;

pub(crate) async fn prove(run: Run) -> Outcome {
    audit::self_test()?;
    let home = run.home()?;
    // Scans also between the kills, when there are live tasks of every sort.
    let kills = Kills { count: run.pick(12, 300), scan_every: 2, purpose: "G12" };
    let told = kills.inflict(&run, &Setup::new(&run, home.path())).await?;
    let mut complaints = told.ledger_complaints.clone();
    let off = complaints.len();
    complaints.extend(told.findings.complaints());
    let figures = format!(
        "{} tasks over {} kills, {} scans, {off} balances off",
        told.submitted, kills.count, told.scans
    );
    verdict(figures, complaints)
}
