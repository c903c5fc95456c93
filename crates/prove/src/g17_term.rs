//! G17: rolling restarts by SIGTERM under load. Each broker drains and exits 0, nothing is lost, nothing is done twice.
//!
//! Mutant: the same on the memory store, which cannot keep what it acknowledged.

use std::time::Duration;

use rand::Rng;

use crate::judge::Findings;
use crate::load::Load;
use crate::proof::{Outcome, Run, Trouble, verdict};
use crate::server::Setup;
use crate::{audit, judge};

pub(crate) async fn prove(run: Run) -> Outcome {
    judge::self_test()?;
    let restarts = run.pick(12, 200);
    let home = run.home()?;
    let setup = Setup::new(&run, home.path()).set("server.drain", "3s");
    let mut told = roll(&run, &setup, restarts, "G17").await?;
    let mut complaints = std::mem::take(&mut told.complaints);
    // A stopping broker that refuses is noticed too: the reports then cross the restart.
    if told.unanswered + told.survived == 0 {
        complaints.push("no client noticed a restart, so the signals hit nothing".to_owned());
    }
    let home = run.home()?;
    let setup = Setup::new(&run, home.path()).set("server.drain", "1s").set("store.url", "memory");
    let forgot = roll(&run, &setup, 1, "G17 mutant").await?;
    if forgot.findings.lost == 0 {
        complaints.push("the mutant (memory store) lost nothing, so this proof cannot fail".to_owned());
    }
    let figures = format!(
        "{restarts} restarts, {} of them with another exit code than 0, {}, {} requests without an answer, {} reports crossed a restart; mutant lost {}",
        told.unclean, told.findings, told.unanswered, told.survived, forgot.findings.lost
    );
    verdict(figures, complaints)
}

#[derive(Debug)]
struct Told {
    findings: Findings,
    unclean: usize,
    unanswered: u64,
    survived: u64,
    complaints: Vec<String>,
}

async fn roll(run: &Run, setup: &Setup, restarts: usize, purpose: &str) -> Result<Told, Trouble> {
    let mut random = run.random(purpose);
    let mut load = Load::start(run, purpose, 4, 4);
    let (mut complaints, mut unclean) = (Vec::new(), 0);
    for restart in 1..=restarts {
        let server = setup.start().await?;
        load.serve(&server);
        // sleep: the moment of the signal is random, and that is the point.
        tokio::time::sleep(Duration::from_millis(random.random_range(50..400))).await;
        let status = server.terminate().await?;
        load.interrupt();
        if status.code() != Some(0) {
            unclean += 1;
            complaints.push(format!("restart {restart} ended with {status}: {}", setup.last_words()));
        }
    }
    let server = setup.start().await?;
    load.serve(&server);
    let history = load.history().clone();
    let (findings, scan) = load.drain(&mut server.http()).await?;
    complaints.extend(findings.complaints());
    complaints.extend(scan.judge_leases());
    complaints.extend(audit::Scan::judge_ledger(&scan));
    server.terminate().await?;
    let (unanswered, survived) = (history.unanswered_count(), history.survivors());
    Ok(Told { findings, unclean, unanswered, survived, complaints })
}
