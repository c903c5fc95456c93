//! Clients that keep working while the broker comes and goes.
//!
//! Submitters choose the ids. When no answer comes, half of them leave the task unknown and half ask again under the same
//! id. Workers hold leases over restarts and repeat a report until they are told what became of it.

mod submitter;
mod worker;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::audit::{self, Scan};
use crate::frames::Frames;
use crate::history::History;
use crate::http::{Answer, Http, NoAnswer};
use crate::judge::{Findings, judge};
use crate::proof::{Run, Trouble};
use crate::server::Server;

/// Long enough for every stall of a busy machine, short enough to wait for at the end.
pub(crate) const LEASE: Duration = Duration::from_secs(4);
/// Without any progress.
const DRAIN_PATIENCE: Duration = Duration::from_secs(60);

/// One life of the broker.
#[derive(Debug, Clone, Copy)]
struct Life {
    address: SocketAddr,
    frames: Option<SocketAddr>,
    number: u64,
    since: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Work,
    /// No new tasks.
    Drain,
    /// Finish what is begun, begin nothing.
    Rest,
    Stop,
}

/// How a submitter reaches the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Rest,
    /// Where the thread that reads a submit also writes it.
    Frames,
}

/// What every client has.
#[derive(Debug, Clone)]
struct Client {
    history: Arc<History>,
    life: watch::Receiver<Option<Life>>,
    phase: watch::Receiver<Phase>,
    busy: Arc<AtomicUsize>,
}

#[derive(Debug)]
pub(crate) struct Load {
    history: Arc<History>,
    life: watch::Sender<Option<Life>>,
    phase: watch::Sender<Phase>,
    busy: Arc<AtomicUsize>,
    lives: u64,
    clients: JoinSet<()>,
}

impl Load {
    pub(crate) fn start(run: &Run, purpose: &str, submitters: usize, workers: usize) -> Load {
        Load::start_as(run, purpose, "", submitters, workers)
    }

    /// The same with tasks of several keys, and some of none.
    pub(crate) fn start_keyed(run: &Run, purpose: &str, submitters: usize, workers: usize) -> Load {
        Load::begin(run, purpose, "", true, [submitters, workers])
    }

    /// The same, with ids of its own: several loads may follow each other on the same data.
    pub(crate) fn start_as(
        run: &Run,
        purpose: &str,
        prefix: &str,
        submitters: usize,
        workers: usize,
    ) -> Load {
        Load::begin(run, purpose, prefix, false, [submitters, workers])
    }

    fn begin(run: &Run, purpose: &str, prefix: &str, keyed: bool, [submitters, workers]: [usize; 2]) -> Load {
        let (life, phase) = (watch::Sender::new(None), watch::Sender::new(Phase::Work));
        let (history, busy) = (Arc::<History>::default(), Arc::<AtomicUsize>::default());
        let mut clients = JoinSet::new();
        let client = || Client {
            history: Arc::clone(&history),
            life: life.subscribe(),
            phase: phase.subscribe(),
            busy: Arc::clone(&busy),
        };
        for number in 0..submitters {
            let random = run.random(&format!("{purpose} submitter {number}"));
            let over = if number % 2 == 0 { Over::Rest } else { Over::Frames };
            clients.spawn(submitter::run(client(), format!("{prefix}s{number}"), over, keyed, random));
        }
        for number in 0..workers {
            let random = run.random(&format!("{purpose} worker {number}"));
            clients.spawn(worker::run(client(), number, random));
        }
        Load { history, life, phase, busy, lives: 0, clients }
    }

    pub(crate) fn history(&self) -> &Arc<History> {
        &self.history
    }

    /// Tells all clients where the broker is now.
    pub(crate) fn serve(&mut self, server: &Server) {
        self.lives += 1;
        let (address, frames) = (server.address(), server.frames());
        self.life.send_replace(Some(Life { address, frames, number: self.lives, since: Instant::now() }));
        self.phase.send_replace(Phase::Work);
    }

    /// The broker is gone; clients wait for the next.
    pub(crate) fn interrupt(&self) {
        self.life.send_replace(None);
    }

    /// Until no client has a request or a task under way.
    pub(crate) async fn rest(&self) -> Result<(), Trouble> {
        self.phase.send_replace(Phase::Rest);
        let began = Instant::now();
        while self.busy.load(Ordering::SeqCst) > 0 {
            if began.elapsed() > DRAIN_PATIENCE {
                return Err(Trouble::failed("unknown: the clients never came to rest"));
            }
            // sleep: a scan has to wait for the last of many clients.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Lets the workers finish everything, then scans and judges.
    pub(crate) async fn drain(mut self, http: &mut Http) -> Result<(Findings, Scan), Trouble> {
        self.phase.send_replace(Phase::Drain);
        let (mut progress, mut least) = (Instant::now(), u64::MAX);
        loop {
            let stats = audit::expect(http, "/api/v1/stats").await?;
            let live = ["scheduled", "blocked", "pending", "running", "retrying"];
            let left: u64 = live.iter().filter_map(|state| stats["tasks"][state].as_u64()).sum();
            if left < least {
                (progress, least) = (Instant::now(), left);
            }
            if left == 0 || progress.elapsed() > DRAIN_PATIENCE {
                break;
            }
            // sleep: orphaned leases end with time only.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.rest().await?;
        self.phase.send_replace(Phase::Stop);
        let mut broken = Vec::new();
        while let Some(ended) = self.clients.join_next().await {
            broken.extend(ended.err().map(|error| format!("a client of the harness broke: {error}")));
        }
        let scan = Scan::take(http).await?;
        let mut surprises = self.history.surprises();
        surprises.extend(broken);
        let findings = judge(&self.history.stories(), &scan.seen(), &surprises);
        Ok((findings, scan))
    }
}

impl Client {
    /// The life that serves now, waiting for one; `None` when the run is over.
    async fn life(&mut self) -> Option<Life> {
        loop {
            if *self.phase.borrow() == Phase::Stop {
                return None;
            }
            if let Some(life) = *self.life.borrow_and_update() {
                return Some(life);
            }
            tokio::select! {
                changed = self.life.changed() => changed.ok()?,
                changed = self.phase.changed() => changed.ok()?,
            }
        }
    }

    /// Waits until work may begin, and counts as busy from then on; `None` when the run is over.
    async fn begin(&mut self, allowed: &[Phase]) -> Option<Busy> {
        loop {
            let busy = Busy::new(&self.busy);
            let phase = *self.phase.borrow_and_update();
            if phase == Phase::Stop {
                return None;
            }
            if allowed.contains(&phase) {
                return Some(busy);
            }
            drop(busy);
            self.phase.changed().await.ok()?;
        }
    }
}

/// Counts while it lives.
#[derive(Debug)]
struct Busy(Arc<AtomicUsize>);

impl Busy {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A connection that follows the broker from life to life.
#[derive(Debug, Default)]
struct Line {
    http: Option<(u64, Http)>,
    frames: Option<(u64, Frames)>,
}

impl Line {
    fn to(&mut self, life: Life) -> &mut Http {
        if self.http.as_ref().is_none_or(|(number, _)| *number != life.number) {
            self.http = None;
        }
        &mut self.http.get_or_insert_with(|| (life.number, Http::new(life.address))).1
    }

    async fn submit(&mut self, life: Life, over: Over, body: &Value) -> Result<Answer, NoAnswer> {
        let Some(address) = life.frames.filter(|_| over == Over::Frames) else {
            return self.to(life).post("/api/v1/tasks", body).await;
        };
        if self.frames.as_ref().is_none_or(|(number, _)| *number != life.number) {
            self.frames = None;
        }
        self.frames.get_or_insert_with(|| (life.number, Frames::new(address))).1.submit(body).await
    }
}
