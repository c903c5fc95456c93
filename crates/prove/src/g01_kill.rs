//! G1: SIGKILL at random moments under load, restart on the same data, and at the end everything acknowledged is there.
//!
//! Mutant: the same run on the memory store, which forgets everything with its process; the judge must see the loss.

use std::time::Duration;

use rand::Rng;

use crate::audit;
use crate::judge::{self, Findings};
use crate::load::Load;
use crate::proof::{Outcome, Run, Trouble, verdict};
use crate::server::Setup;

pub(crate) async fn prove(run: Run) -> Outcome {
    judge::self_test()?;
    audit::self_test()?;
    let kills = run.pick(100, 1000);
    let killed = Kills { count: kills, scan_every: 25, purpose: "G1" };
    let home = run.home()?;
    let told = killed.inflict(&run, &Setup::new(&run, home.path())).await?;
    let mut complaints = told.complaints();
    if told.survived == 0 {
        complaints.push("no report crossed a restart, so nothing is proved about leases".to_owned());
    }
    if told.unanswered == 0 {
        complaints.push("no request was cut off by a kill, so the kills hit nothing".to_owned());
    }
    let home = run.home()?;
    let mutant = Kills { count: 2, scan_every: 100, purpose: "G1 mutant" };
    let forgot = mutant.inflict(&run, &Setup::new(&run, home.path()).set("store.url", "memory")).await?;
    if forgot.findings.lost == 0 {
        complaints.push("the mutant (memory store) lost nothing, so this proof cannot fail".to_owned());
    }
    let figures = format!(
        "{kills} kills, {}, {} reports crossed a restart, {} requests cut off, {} groups written by who read them, {} scans; mutant lost {}",
        told.findings, told.survived, told.unanswered, told.by_callers, told.scans, forgot.findings.lost
    );
    verdict(figures, complaints)
}

/// A load over brokers that are killed one after the other.
#[derive(Debug)]
pub(crate) struct Kills {
    pub(crate) count: usize,
    /// A full scan after this many kills, with the load at rest.
    pub(crate) scan_every: usize,
    pub(crate) purpose: &'static str,
}

#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) findings: Findings,
    pub(crate) survived: u64,
    pub(crate) unanswered: u64,
    /// Groups that the thread which had read them wrote: none where the disk is slow.
    pub(crate) by_callers: u64,
    pub(crate) scans: usize,
    pub(crate) lease_complaints: Vec<String>,
    pub(crate) ledger_complaints: Vec<String>,
    pub(crate) submitted: u64,
}

impl Told {
    pub(crate) fn complaints(&self) -> Vec<String> {
        let mut all = self.findings.complaints();
        all.extend(self.lease_complaints.iter().cloned());
        all.extend(self.ledger_complaints.iter().cloned());
        all
    }
}

impl Kills {
    pub(crate) async fn inflict(&self, run: &Run, setup: &Setup) -> Result<Told, Trouble> {
        let mut random = run.random(self.purpose);
        let mut load = Load::start(run, self.purpose, 4, 4);
        let mut by_callers = 0;
        let (mut scans, mut lease_complaints, mut ledger_complaints) = (0, Vec::new(), Vec::new());
        for kill in 1..=self.count {
            let server = setup.start().await?;
            load.serve(&server);
            // sleep: the moment of the kill is random, and that is the point.
            tokio::time::sleep(Duration::from_millis(random.random_range(20..300))).await;
            if kill % self.scan_every == 0 {
                load.rest().await?;
                let scan = audit::Scan::take(&mut server.http()).await?;
                lease_complaints.extend(scan.judge_leases());
                ledger_complaints.extend(scan.judge_ledger());
                scans += 1;
            }
            by_callers += audit::groups_by_callers(&mut server.http()).await?;
            server.kill().await?;
            load.interrupt();
        }
        let server = setup.start().await?;
        load.serve(&server);
        let history = load.history().clone();
        let (findings, scan) = load.drain(&mut server.http()).await?;
        lease_complaints.extend(scan.judge_leases());
        ledger_complaints.extend(scan.judge_ledger());
        server.terminate().await?;
        Ok(Told {
            findings,
            survived: history.survivors(),
            unanswered: history.unanswered_count(),
            by_callers,
            scans: scans + 1,
            lease_complaints,
            ledger_complaints,
            submitted: scan.stats["ledger"]["submitted"].as_u64().unwrap_or_default(),
        })
    }
}
