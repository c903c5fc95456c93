//! The stream of a connected worker.
//!
//! Three things go on at once. The *reader* takes messages in and never waits for the disk: a batch of outcomes becomes a task
//! of its own, and only when [`WORK_BATCHES_MAX`] of them are under way does it stop reading, which in the end stops the
//! worker from sending. The *claimer* ([`claimer`]) turns credits into pushed tasks. The *batches* commit outcomes and
//! acknowledge them.
//!
//! What a worker that does not read can make us keep is bounded: two messages of tasks ([`outbound`]), a fixed number of
//! answers, and then everybody waits; who waits too long is cut off, and so is a worker from which no whole message comes for
//! long. Its leases go back as after any broken connection.
//!
//! The stream ends when the worker ends its side (it leaves), when the connection breaks, when the worker opens
//! another stream, or when the broker stops and the worker has nothing left to report.
//!
//! A call that is cancelled, by a proxy for example, ends the reading as a worker that leaves does; but it ends the writing
//! too. So a worker that holds tasks leaves only if it still listens a moment later ([`CANCEL_WITHIN`]).

mod claimer;
mod credits;
mod outbound;
mod outcomes;
mod saves;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::OptionFuture;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;
use tonic::{Status, Streaming};
use windlass_broker::{Error, Notice, Notices, Pulse, Session};
use windlass_core::TaskId;
use windlass_core::limits::{BATCH_TASKS_MAX, WORK_BATCHES_MAX, WORK_CREDITS_MAX};
use windlass_proto::grpc::v1::work_request::Message as Said;
use windlass_proto::grpc::v1::work_response::Message as Told;
use windlass_proto::grpc::v1::{
    Cancels, Draining, Extensions, Hello, LeaseRef, Outcomes, Pausing, Welcome, WorkRequest, WorkResponse,
};
use windlass_proto::rest::{Fault, Invalid};

use self::credits::Credits;
use self::outbound::Control;
use self::saves::Saves;
use super::State;
use super::refusal::{dressed, status};
use crate::api::problem::Refused;
use crate::api::{self, claim, workers};
use crate::server::budget::Account;

pub(super) use self::outbound::Outbound;

/// How long a worker may take to say hello.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// How long after the end of the reading that of the writing may be noticed: both come in one frame, or in two sent at once.
const CANCEL_WITHIN: Duration = Duration::from_millis(250);

/// The answer begins at once; everything else happens in a task of its own.
pub(super) fn begin(
    state: Arc<State>,
    account: Option<Arc<Account>>,
    inbound: Streaming<WorkRequest>,
) -> Outbound {
    let (control, tasks, outbound) = outbound::open();
    let account = account.unwrap_or_else(|| state.api.budget.without_connection());
    tokio::spawn(async move {
        if let Err(status) = run(&state, account, inbound, &control, tasks).await {
            control.end(status).await;
        }
    });
    outbound
}

async fn run(
    state: &State,
    account: Arc<Account>,
    mut inbound: Streaming<WorkRequest>,
    control: &Control,
    tasks: mpsc::Sender<WorkResponse>,
) -> Result<(), Status> {
    let api = &state.api;
    let (claiming, body) = hello(&mut inbound).await?.check()?;
    let (beat, forged) = workers::check(claiming.worker.clone(), body)?;
    let (session, notices, pulse) = api.broker.connect(beat).await.map_err(status)?;
    control.send(Told::Welcome(welcome(api, pulse, &forged, claiming.lease_ms))).await?;
    let session = Arc::new(session);
    let credits = Arc::new(Credits::default());
    let claiming = claimer::run(session.clone(), account, claim::request(claiming), credits.clone(), tasks);
    let stream = Stream {
        api: api.clone(),
        session,
        control: control.clone(),
        credits,
        batches: Arc::new(Semaphore::new(WORK_BATCHES_MAX as usize)),
        saves: Arc::default(),
        settled: Arc::default(),
        silence: state.silence,
    };
    stream.serve(inbound, notices, AbortOnDropHandle::new(tokio::spawn(claiming))).await
}

async fn hello(inbound: &mut Streaming<WorkRequest>) -> Result<Hello, Status> {
    let first = tokio::time::timeout(HELLO_WITHIN, inbound.message()).await;
    match first.map_err(|_| super::refusal::too_late())?.map_err(dressed)? {
        Some(WorkRequest { message: Some(Said::Hello(hello)) }) => Ok(hello),
        _ => Err(Invalid::malformed("hello", "must be the first message").into()),
    }
}

fn welcome(api: &api::State, pulse: Pulse, forged: &[TaskId], lease_ms: Option<u64>) -> Welcome {
    let lease_ms = lease_ms.unwrap_or(api.broker.settings().lease_ms);
    Welcome {
        kept: texts(&pulse.extended),
        lost: pulse.lost.iter().chain(forged).map(|id| id.as_str().to_owned()).collect(),
        cancel: texts(&pulse.cancel),
        paused: pulse.paused,
        lease_seconds: lease_ms as f64 / 1000.0,
        batch_max: BATCH_TASKS_MAX as u32,
        credits_max: WORK_CREDITS_MAX,
        batches_max: WORK_BATCHES_MAX,
        message_bytes_max: api.settings.body_bytes_max() as u64,
    }
}

struct Stream {
    api: Arc<api::State>,
    session: Arc<Session>,
    control: Control,
    credits: Arc<Credits>,
    /// A permit for every batch of outcomes under way.
    batches: Arc<Semaphore>,
    saves: Arc<Saves>,
    /// Rings when a batch is done.
    settled: Arc<Notify>,
    /// How long the worker may send no whole message.
    silence: Duration,
}

type Claiming = AbortOnDropHandle<Result<(), Status>>;

impl Stream {
    async fn serve(
        &self,
        mut inbound: Streaming<WorkRequest>,
        mut notices: Notices,
        claiming: Claiming,
    ) -> Result<(), Status> {
        let mut claiming = Some(claiming);
        let mut draining = false;
        let mut silent = pin!(sleep(self.silence));
        loop {
            if draining && self.session.held() == 0 && self.is_idle() {
                self.leave(claiming).await?;
                return Err(status(Error::Stopping));
            }
            tokio::select! {
                notice = notices.next() => {
                    draining |= notice == Notice::Draining;
                    self.notify(notice).await?;
                }
                Some(ended) = OptionFuture::from(claiming.as_mut()) => {
                    claiming = None;
                    ended.map_err(|_| status(Refused::internal()))??;
                }
                () = self.settled.notified(), if draining => {}
                () = self.control.closed() => return Ok(()),
                // Half a message is none: what is buffered of it is let go with the stream.
                () = silent.as_mut() => return Err(super::refusal::silent()),
                message = inbound.message() => match message.map_err(dressed)? {
                    Some(message) => {
                        self.hear(message).await?;
                        silent.as_mut().reset(Instant::now() + self.silence);
                    }
                    None => return self.hang_up(claiming).await,
                },
            }
        }
    }

    async fn hear(&self, message: WorkRequest) -> Result<(), Status> {
        match message.message {
            Some(Said::Credits(credits)) => Ok(self.credits.add(credits.add)?),
            Some(Said::Outcomes(outcomes)) => self.finish(outcomes).await,
            Some(Said::Extensions(extensions)) if saves(&extensions) => self.save(extensions).await,
            Some(Said::Extensions(extensions)) => {
                let extended = outcomes::extend(&self.session, extensions).await?;
                self.control.send(Told::Extended(extended)).await
            }
            Some(Said::Stop(_)) => {
                self.credits.stop();
                Ok(())
            }
            Some(Said::Hello(_)) => Err(Invalid::malformed("hello", "was said before").into()),
            None => Err(Invalid::body(Fault::Malformed, "the message is of an unknown kind").into()),
        }
    }

    /// Sends a batch on its way; waits only while too many are under way.
    async fn finish(&self, batch: Outcomes) -> Result<(), Status> {
        if batch.outcomes.len() > BATCH_TASKS_MAX {
            let message = format!("has {} outcomes, {BATCH_TASKS_MAX} are allowed", batch.outcomes.len());
            return Err(Invalid::new(Fault::TooLarge, "outcomes", message).into());
        }
        self.credits.add(batch.credits)?;
        let permit = self.batches.clone().acquire_owned().await;
        let (session, control, settled) = (self.session.clone(), self.control.clone(), self.settled.clone());
        let result_max = self.api.settings.payload_bytes_max;
        tokio::spawn(async move {
            let ack = outcomes::commit(&session, batch, result_max).await;
            // The worker learns of the batch, or it has gone and asks again when it is back.
            let _ = control.send(Told::Ack(ack)).await;
            drop(permit);
            settled.notify_one();
        });
        Ok(())
    }

    /// Extensions with checkpoints wait for the disk, so they are carried out beside the reading like outcomes.
    async fn save(&self, extensions: Extensions) -> Result<(), Status> {
        let saved = extensions.extensions.iter().filter(|extension| extension.checkpoint.is_some());
        let turn = self.saves.queue(saved.map(|extension| extension.id.clone()).collect());
        let permit = self.batches.clone().acquire_owned().await;
        let (session, control, settled) = (self.session.clone(), self.control.clone(), self.settled.clone());
        tokio::spawn(async move {
            turn.comes().await;
            let extended = outcomes::extend(&session, extensions).await;
            drop(turn);
            match extended {
                // The worker learns of it, or it has gone and asks again when it is back.
                Ok(extended) => drop(control.send(Told::Extended(extended)).await),
                Err(status) => control.end(status).await,
            }
            drop(permit);
            settled.notify_one();
        });
        Ok(())
    }

    async fn notify(&self, notice: Notice) -> Result<(), Status> {
        let told = match notice {
            Notice::Cancelled(leases) => {
                let lease = |(id, token): (TaskId, windlass_core::Token)| LeaseRef {
                    id: id.as_str().to_owned(),
                    lease: token.to_string(),
                    checkpoint: None,
                };
                Told::Cancels(Cancels { tasks: leases.into_iter().map(lease).collect() })
            }
            Notice::Paused(paused) => Told::Pausing(Pausing { paused }),
            Notice::Draining => Told::Draining(Draining {}),
            Notice::Replaced => {
                let title = "The worker opened another stream";
                return Err(status(Refused::new(axum::http::StatusCode::CONFLICT, "replaced", title)));
            }
        };
        self.control.send(told).await
    }

    /// No more messages come: the worker leaves, or its call was cut off and its leases have their grace.
    async fn hang_up(&self, claiming: Option<Claiming>) -> Result<(), Status> {
        if let Some(claiming) = &claiming {
            claiming.abort();
        }
        if self.session.held() > 0 && tokio::time::timeout(CANCEL_WITHIN, self.control.closed()).await.is_ok()
        {
            return Ok(());
        }
        self.leave(claiming).await
    }

    /// The worker goes away, after what it reported is durable.
    async fn leave(&self, claiming: Option<Claiming>) -> Result<(), Status> {
        if let Some(claiming) = claiming {
            claiming.abort();
            let _ = claiming.await;
        }
        let _all = self.batches.acquire_many(WORK_BATCHES_MAX).await;
        self.session.leave().await.map_err(status)
    }

    fn is_idle(&self) -> bool {
        self.batches.available_permits() == WORK_BATCHES_MAX as usize
    }
}

fn saves(extensions: &Extensions) -> bool {
    extensions.extensions.iter().any(|extension| extension.checkpoint.is_some())
}

fn texts(ids: &[TaskId]) -> Vec<String> {
    ids.iter().map(|id| id.as_str().to_owned()).collect()
}
