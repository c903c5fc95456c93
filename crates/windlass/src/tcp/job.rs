//! What the broker is asked at a time: one request, or neighbours of one kind.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use windlass_broker::{Answers, Broker, ClaimRequest, Error, Finish, Submit};
use windlass_core::{Name, TaskId};
use windlass_proto::rest::{BeatBody, Claimed, Shown};
use windlass_proto::tcp::TaskAnswer;
use windlass_store::List;

use super::answer;
use crate::api::problem::Refused;
use crate::api::{State, batch, claim, stats, tasks, workers};
use crate::server::budget::{Account, Held};

/// What one frame asks for.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every request is a submit, and a box would cost each an allocation"
)]
pub(super) enum Request {
    Submit(Submit),
    Result(Finish),
    Single(Box<Single>),
    Refused(Refused),
}

#[derive(Debug)]
pub(super) enum Job {
    Submits(Vec<Submit>),
    Results(Vec<Finish>),
    Single(Box<Single>),
    Refused(Refused),
}

/// Requests that are not joined with their neighbours.
#[derive(Debug)]
pub(super) enum Single {
    Batch(Bytes),
    Claim(ClaimRequest, CancellationToken),
    Beat(Name, BeatBody),
    Status(TaskId),
    Cancel(TaskId),
    List(List),
    Stats,
}

/// What came of a job. The usual answers become text only when their turn comes, straight into the buffer that is sent.
#[derive(Debug)]
pub(super) enum Done {
    /// With what the tasks that were there already take of the memory budget.
    Submitted(Answers, Held),
    Finished(Vec<Result<(), Error>>),
    /// A whole frame, which counts in the memory budget until it is sent.
    Written(Vec<u8>, Held),
    /// All requests of the job, of which there are so many.
    Refused(Refused, usize),
}

impl Done {
    /// What it takes of the memory budget. It counts until the answer is sent.
    pub(super) fn take_held(&mut self) -> Option<Held> {
        match self {
            Done::Submitted(_, held) | Done::Written(_, held) => {
                Some(std::mem::take(held)).filter(|held| held.bytes() > 0)
            }
            Done::Finished(_) | Done::Refused(..) => None,
        }
    }
}

impl Job {
    pub(super) fn requests(&self) -> usize {
        match self {
            Job::Submits(submits) => submits.len(),
            Job::Results(results) => results.len(),
            Job::Single(_) | Job::Refused(_) => 1,
        }
    }

    /// Whether it is what clients send who submit one task at a time, or a few, and none that is large.
    pub(super) fn is_few_submits(&self) -> bool {
        const FEW: usize = 8;
        const LARGE_BYTES: usize = 64 * 1024;
        match self {
            Job::Submits(submits) => {
                submits.len() < FEW && submits.iter().all(|submit| submit.payload.bytes().len() < LARGE_BYTES)
            }
            // Whoever sent it may do better the next time.
            Job::Refused(_) => true,
            Job::Results(_) | Job::Single(_) => false,
        }
    }

    /// Takes in the next request if they can be one job; gives it back if not.
    pub(super) fn join(&mut self, next: Request) -> Option<Request> {
        match (self, next) {
            // One with dependencies begins a job, so that no two of them come to more than a batch may have.
            (Job::Submits(submits), Request::Submit(next)) if next.links.is_none() => submits.push(next),
            (Job::Results(results), Request::Result(next)) => results.push(next),
            (_, next) => return Some(next),
        }
        None
    }

    /// A job of one request that has room for this many.
    pub(super) fn begin(request: Request, room: usize) -> Job {
        fn first<T>(request: T, room: usize) -> Vec<T> {
            let mut requests = Vec::with_capacity(room.max(1));
            requests.push(request);
            requests
        }
        match request {
            Request::Submit(submit) => Job::Submits(first(submit, room)),
            Request::Result(result) => Job::Results(first(result, room)),
            Request::Single(single) => Job::Single(single),
            Request::Refused(refused) => Job::Refused(refused),
        }
    }
}

/// A job that panics is answered like any other. `broker` is the handle of the thread where it runs.
pub(super) async fn run(state: Arc<State>, broker: Broker, account: Arc<Account>, job: Job) -> Done {
    let requests = job.requests();
    match AssertUnwindSafe(run_unguarded(state, broker, account, job)).catch_unwind().await {
        Ok(Ok(done)) => done,
        Ok(Err(refused)) => Done::Refused(refused, requests),
        Err(panic) => Done::Refused(panicked(panic.as_ref()), requests),
    }
}

async fn run_unguarded(
    state: Arc<State>,
    broker: Broker,
    account: Arc<Account>,
    job: Job,
) -> Result<Done, Refused> {
    match job {
        Job::Submits(submits) => {
            let answers = broker.submit_batch(submits, false).await?;
            let held = account.hold(answers.found_bytes());
            Ok(Done::Submitted(answers, held))
        }
        Job::Results(results) => {
            let finished = broker.finish_all(results).await?;
            Ok(Done::Finished(finished.into_iter().map(|outcome| outcome.map(drop)).collect()))
        }
        // Boxed, because these are rare or large, and every job has room for the largest.
        Job::Single(single) => Box::pin(run_counted(state, account, *single)).await,
        Job::Refused(refused) => Err(refused),
    }
}

/// A look whose answer has no room in the memory budget is made again when there is room. A change has happened, and its answer is kept.
async fn run_counted(state: Arc<State>, account: Arc<Account>, single: Single) -> Result<Done, Refused> {
    let again = match &single {
        Single::Status(id) => Single::Status(id.clone()),
        Single::List(list) => Single::List(list.clone()),
        _ => {
            let frame = run_single(state, single).await?;
            let held = account.hold(frame.len());
            return Ok(Done::Written(frame, held));
        }
    };
    let room = account.room_for_look().await.ok_or(Error::Busy)?;
    let frame = run_single(state.clone(), single).await?;
    let bytes = frame.len();
    if let Some(held) = account.fit(room, bytes) {
        return Ok(Done::Written(frame, held));
    }
    drop(frame);
    let room = account.reserve(bytes).await.ok_or(Error::Busy)?;
    let frame = run_single(state, again).await?;
    let held = account.fit(room, frame.len()).ok_or(Error::Busy)?;
    Ok(Done::Written(frame, held))
}

async fn run_single(state: Arc<State>, single: Single) -> Result<Vec<u8>, Refused> {
    let broker = &state.broker;
    match single {
        Single::Batch(body) => answer::frame(&batch::submit_all(&state, None, None, &body).await?, 4096),
        Single::Claim(request, gone) => {
            let tasks = claim::unless(gone.cancelled(), broker.claim(request)).await?;
            answer::frame_with(claim::room(&tasks), |out| Claimed::write(&tasks, out))
        }
        Single::Beat(worker, body) => answer::frame(&workers::beat(&state, worker, body).await?, 256),
        Single::Status(id) => task(broker.get(&id).await?),
        Single::Cancel(id) => task(broker.cancel(&id).await?),
        Single::List(list) => {
            let _leave = state.budget.page().await.ok_or(Error::Busy)?;
            let (page, room) = tasks::read_page(broker.list(list).await?);
            answer::frame(&page, room)
        }
        Single::Stats => answer::frame(&stats::look(&state).await?, 1024),
    }
}

fn task(task: windlass_core::Task) -> Result<Vec<u8>, Refused> {
    let shown = Shown::new(&task);
    answer::frame_with(shown.room(), |out| TaskAnswer::write(shown, out))
}

pub(super) fn panicked(panic: &(dyn Any + Send)) -> Refused {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    tracing::error!(panic = text, "a request panicked");
    Refused::internal()
}
