//! A worker that stays connected: it takes tasks, reports and is spoken to through one session.
//!
//! A session that is dropped is a connection that broke; see [`crate::workers`] for what becomes of the worker's leases. A
//! worker that goes away in good order says so with [`Session::leave`].

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use windlass_core::limits::WAIT_MS_MAX;
use windlass_core::{Name, Progress, Record, Task, TaskId, Token};
use windlass_store::{Extend, Extended};

use crate::broker::{Broker, Gate};
use crate::claim::ClaimRequest;
use crate::error::Error;
use crate::finish::{Beat, Finish, Pulse, Verdict};
use crate::workers::Link;

/// Cancelled tasks that wait to be told; more can be learned from the answer to an extension.
const CANCELLED_WAITING_MAX: usize = 1024;

#[derive(Debug)]
pub struct Session {
    broker: Broker,
    /// What the worker said of itself, without its leases.
    beat: Beat,
    link: Arc<Link>,
}

/// What a connected worker is told without having asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Tasks it holds were cancelled.
    Cancelled(Vec<(TaskId, Token)>),
    Paused(bool),
    /// The broker is stopping: no more tasks come.
    Draining,
    /// The worker connected again; this session is over.
    Replaced,
}

/// Where the notices of one session come from.
#[derive(Debug)]
pub struct Notices {
    broker: Broker,
    worker: Name,
    link: Arc<Link>,
    cancelled: mpsc::Receiver<(TaskId, Token)>,
    gate: watch::Receiver<Gate>,
    paused: bool,
    draining: bool,
}

/// A wish to keep a task for longer.
#[derive(Debug, Clone)]
pub struct Keep {
    pub id: TaskId,
    pub token: Token,
    pub progress: Option<Progress>,
}

impl Broker {
    /// Begins a session. The beat names what the worker still holds from an earlier one; the pulse says what became of it.
    pub async fn connect(&self, mut beat: Beat) -> Result<(Session, Notices, Pulse), Error> {
        let leases = std::mem::take(&mut beat.leases);
        let (tell, cancelled) = mpsc::channel(CANCELLED_WAITING_MAX);
        let link = Link::new(tell, &leases);
        let gate = self.inner.gate.subscribe();
        let session = Session { broker: self.clone(), beat, link };
        let keeps = leases.into_iter().map(|(id, token)| Keep { id, token, progress: None });
        let pulse = session.extend(keeps.collect(), None, None).await?;
        let notices = Notices {
            broker: self.clone(),
            worker: session.beat.worker.clone(),
            link: session.link.clone(),
            cancelled,
            gate,
            paused: pulse.paused,
            draining: false,
        };
        Ok((session, notices, pulse))
    }
}

impl Session {
    /// Leases up to `claim.max` tasks to the worker, waiting for the first one as long as a claim may wait. Empty when
    /// there was none, or when this session is over.
    pub async fn claim(&self, claim: ClaimRequest) -> Result<Vec<Task>, Error> {
        let claim = ClaimRequest { worker: self.beat.worker.clone(), wait_ms: WAIT_MS_MAX, ..claim };
        let tasks = tokio::select! {
            biased;
            () = self.link.replaced.cancelled() => return Ok(Vec::new()),
            tasks = self.broker.claim(claim) => tasks?,
        };
        self.link.takes(tasks.iter().filter_map(|task| Some((task.record.id.clone(), token(task)?))));
        if self.link.replaced.is_cancelled() {
            self.give_back(&tasks).await?;
            return Ok(Vec::new());
        }
        Ok(tasks)
    }

    /// Tasks that could not be handed over go back, as if they had never been claimed.
    pub async fn give_back(&self, tasks: &[Task]) -> Result<(), Error> {
        let release = |task: &Task| {
            let verdict = Verdict::Released { delay_ms: None };
            Some(Finish { id: task.record.id.clone(), token: token(task)?, verdict })
        };
        self.finish(tasks.iter().filter_map(release).collect()).await?;
        Ok(())
    }

    /// As [`Broker::finish_all`].
    pub async fn finish(&self, reports: Vec<Finish>) -> Result<Vec<Result<Box<Record>, Error>>, Error> {
        let leases: Vec<(TaskId, Token)> =
            reports.iter().map(|report| (report.id.clone(), report.token)).collect();
        let answers = self.broker.finish_all(reports).await?;
        let over = leases.iter().zip(&answers).filter(|(_, answer)| match answer {
            Ok(_) => true,
            Err(error) => matches!(error, Error::LeaseLost | Error::NotFound(_)),
        });
        self.link.drops(over.map(|((id, token), _)| (id, *token)));
        Ok(answers)
    }

    /// A sign of life that keeps the leases it names.
    pub async fn extend(
        &self,
        keeps: Vec<Keep>,
        cpu: Option<f64>,
        memory_bytes: Option<u64>,
    ) -> Result<Pulse, Error> {
        self.beat(cpu, memory_bytes)?;
        let told = self.broker.inner.events.wants_seen();
        let mut pulse =
            Pulse { paused: self.broker.inner.workers.is_paused(&self.beat.worker), ..Pulse::default() };
        if keeps.is_empty() {
            return Ok(pulse);
        }
        let progressed = keeps.iter().filter(|_| told);
        let progressed: Vec<(TaskId, Progress)> =
            progressed.filter_map(|keep| Some((keep.id.clone(), keep.progress.clone()?))).collect();
        let leases: Vec<(TaskId, Token)> = keeps.iter().map(|keep| (keep.id.clone(), keep.token)).collect();
        let extend =
            |keep: Keep| Extend { id: keep.id, token: keep.token, lease_ms: None, progress: keep.progress };
        let extended = self.broker.inner.store.extend(keeps.into_iter().map(extend).collect()).await?;
        let over = leases.iter().zip(&extended).filter(|(_, it)| !matches!(it, Extended::Until { .. }));
        self.link.drops(over.map(|((id, token), _)| (id, *token)));
        for ((id, _), outcome) in leases.into_iter().zip(extended) {
            match outcome {
                Extended::Until { .. } => pulse.extended.push(id),
                Extended::CancelRequested => pulse.cancel.push(id),
                Extended::LeaseLost | Extended::Missing => pulse.lost.push(id),
            }
        }
        for (id, progress) in progressed.iter().filter(|(id, _)| pulse.extended.contains(id)) {
            self.broker.tell_progress(id, progress).await?;
        }
        Ok(pulse)
    }

    /// Whose session it is.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Whether the worker has begun another session.
    pub fn is_over(&self) -> bool {
        self.link.replaced.is_cancelled()
    }

    /// How many tasks the worker holds.
    pub fn held(&self) -> usize {
        self.link.count()
    }

    /// The worker goes away; what it still holds goes back at once.
    pub async fn leave(&self) -> Result<(), Error> {
        if self.link.replaced.is_cancelled() {
            return Ok(());
        }
        self.broker.heartbeat(Beat { leaving: true, ..self.beat.clone() }).await?;
        Ok(())
    }

    fn beat(&self, cpu: Option<f64>, memory_bytes: Option<u64>) -> Result<(), Error> {
        if self.link.replaced.is_cancelled() {
            return Ok(());
        }
        let now = self.broker.now();
        let beat = Beat { cpu, memory_bytes, ..self.beat.clone() };
        let arrival = self.broker.inner.workers.linked(&beat, &self.link, now).ok_or(Error::Busy)?;
        self.broker.arrived(arrival, &beat.worker, now);
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let now = self.broker.now();
        if self.broker.inner.workers.unlinked(&self.beat.worker, &self.link, now) {
            self.broker.inner.store.signals().leases.notify_one();
        }
    }
}

impl Notices {
    /// The next one; may be dropped and called again.
    pub async fn next(&mut self) -> Notice {
        loop {
            let gate = *self.gate.borrow_and_update();
            if gate.draining && !self.draining {
                self.draining = true;
                return Notice::Draining;
            }
            let paused = self.broker.inner.workers.is_paused(&self.worker);
            if paused != self.paused {
                self.paused = paused;
                return Notice::Paused(paused);
            }
            let mut cancelled = Vec::new();
            tokio::select! {
                () = self.link.replaced.cancelled() => return Notice::Replaced,
                told = self.cancelled.recv_many(&mut cancelled, CANCELLED_WAITING_MAX) => {
                    if told > 0 {
                        self.link.drops(cancelled.iter().map(|(id, token)| (id, *token)));
                        return Notice::Cancelled(cancelled);
                    }
                }
                changed = self.gate.changed() => {
                    if changed.is_err() {
                        return Notice::Draining;
                    }
                }
            }
        }
    }
}

fn token(task: &Task) -> Option<Token> {
    match &task.record.state {
        windlass_core::State::Running(lease) => Some(lease.token),
        _ => None,
    }
}
