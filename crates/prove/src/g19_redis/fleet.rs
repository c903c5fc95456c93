//! Brokers and library workers on one Redis, any of which may be killed at any time.

use std::time::Duration;

use rand::Rng;

use super::Redis;
use super::limits::{self, Seen, Watch};
use crate::judge::Findings;
use crate::library::Hand;
use crate::load::Load;
use crate::proof::{Run, Trouble};
use crate::server::{Server, Setup};

const BROKERS: usize = 3;
const LIBRARIES: usize = 4;

#[derive(Debug)]
pub(super) struct Attack {
    pub(super) kills: usize,
    /// The libraries say that tasks are done before they are.
    pub(super) hasty: bool,
    /// Whether there are limits and keys.
    pub(super) flow: Flow,
    pub(super) purpose: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Free,
    Limited,
    /// Watched as if there were limits: a mutant.
    Unlimited,
}

#[derive(Debug)]
pub(super) struct Told {
    pub(super) findings: Findings,
    pub(super) brokers_killed: usize,
    pub(super) libraries_killed: usize,
    /// Requests without an answer.
    pub(super) unanswered: u64,
    /// Of G8 and G12, after the drain.
    pub(super) complaints: Vec<String>,
    /// What limits let through, where there are any.
    pub(super) seen: Option<Seen>,
}

impl Attack {
    pub(super) async fn carry_out(&self, run: &Run) -> Result<Told, Trouble> {
        let home = run.home()?;
        let redis = Redis::start(home.path(), true).await?;
        let mut random = run.random(self.purpose);
        let mut brokers = Vec::new();
        for number in 0..BROKERS {
            let home = home.path().join(format!("broker-{number}"));
            std::fs::create_dir_all(&home)?;
            brokers.push(Replaceable::start(Setup::new(run, &home).set("store.url", &redis.url())).await?);
        }
        if self.flow == Flow::Limited {
            limits::set(&mut brokers[0].server.http()).await?;
        }
        let watch = (self.flow != Flow::Free).then(|| Watch::start(redis.port));
        // What is limited takes longer, so there is less of it.
        let submitters = if self.flow == Flow::Limited { 1 } else { 4 };
        let mut load = match self.flow {
            Flow::Free => Load::start(run, self.purpose, submitters, 2),
            _ => Load::start_keyed(run, self.purpose, submitters, 2),
        };
        let history = load.history().clone();
        let library = async |number: usize| {
            Hand::start(&redis.url(), &format!("library-{number}"), self.hasty, history.clone()).await
        };
        let mut libraries = Vec::new();
        for number in 0..LIBRARIES {
            libraries.push(library(number).await?);
        }
        let (mut front, mut brokers_killed) = (0, 0);
        load.serve(&brokers[front].server);
        for _ in 0..self.kills {
            // sleep: the moment of the kill is random, and that is the point.
            tokio::time::sleep(Duration::from_millis(random.random_range(20..300))).await;
            let victim = random.random_range(0..BROKERS + LIBRARIES);
            if let Some(number) = victim.checked_sub(BROKERS) {
                let successor = library(number).await?;
                std::mem::replace(&mut libraries[number], successor).kill().await?;
                continue;
            }
            brokers_killed += 1;
            brokers[victim].kill().await?;
            // The load goes on at another one at once, as behind a balancer.
            front = (victim + random.random_range(1..BROKERS)) % BROKERS;
            load.interrupt();
            load.serve(&brokers[front].server);
            brokers[victim].restart().await?;
        }
        let (findings, scan) = load.drain(&mut brokers[front].server.http()).await?;
        let mut complaints = scan.judge_leases();
        complaints.extend(scan.judge_ledger());
        let mut seen = None;
        if let Some(watch) = watch {
            let watched = watch.end().await?;
            complaints.extend(watched.judge());
            complaints.extend(limits::left_over(redis.port).await?);
            seen = Some(watched);
        }
        for library in libraries {
            library.stop().await?;
        }
        for broker in brokers {
            broker.server.terminate().await?;
        }
        Ok(Told {
            findings,
            brokers_killed,
            libraries_killed: self.kills - brokers_killed,
            unanswered: history.unanswered_count(),
            complaints,
            seen,
        })
    }
}

/// A broker that has a successor when it is killed.
struct Replaceable {
    setup: Setup,
    server: Server,
}

impl Replaceable {
    async fn start(setup: Setup) -> Result<Replaceable, Trouble> {
        let server = setup.start().await?;
        Ok(Replaceable { setup, server })
    }

    async fn kill(&mut self) -> Result<(), Trouble> {
        self.server.kill_now().await
    }

    async fn restart(&mut self) -> Result<(), Trouble> {
        self.server = self.setup.start().await?;
        Ok(())
    }
}
