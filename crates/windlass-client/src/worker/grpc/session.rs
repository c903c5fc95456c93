//! One connected stream: what waits for an answer, and what arrived without being asked for.
//!
//! A task of its own reads the stream and hands out what comes. When the stream ends, for whatever reason, the session is
//! broken for good: everybody who waits is told that there is no answer.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tonic::Streaming;
use windlass_core::Name;
use windlass_proto::grpc::v1::work_request::Message as Up;
use windlass_proto::grpc::v1::work_response::Message as Down;
use windlass_proto::grpc::v1::{
    self as v1, Ack, Credits, Extended, Extension, Extensions, Outcome, Outcomes, Welcome, WorkRequest,
    WorkResponse,
};

use super::Stops;
use super::batches::{Part, batches};
use super::wire::{cancelled, job, outcome_refusal, released};
use crate::grpc::{ANSWER_TIMEOUT, MESSAGE_BYTES_MAX};
use crate::worker::context::Job;
use crate::worker::port::Error;

#[derive(Debug)]
pub(super) struct Session {
    /// `None` when the worker has said all.
    up: Mutex<Option<mpsc::Sender<WorkRequest>>>,
    state: Mutex<State>,
    tasks_arrived: Notify,
    stopped: Notify,
    broken: CancellationToken,
    batch_max: usize,
    message_bytes_max: usize,
    /// Batches that may still be sent before one is acknowledged.
    batches: Semaphore,
}

#[derive(Debug, Default)]
struct State {
    tasks: VecDeque<Job>,
    /// Granted and not used yet.
    credits: u32,
    sequence: u64,
    acks: HashMap<u64, oneshot::Sender<Ack>>,
    extended: HashMap<u64, oneshot::Sender<Extended>>,
}

impl State {
    /// What has arrived, up to `max`, and the credits to add for what is still missing. A few missing ones are not worth a
    /// message while the broker has others to spend.
    fn take(&mut self, max: u32) -> (Vec<Job>, u32) {
        let count = self.tasks.len().min(max as usize);
        let jobs: Vec<Job> = self.tasks.drain(..count).collect();
        let coming = self.credits as usize + self.tasks.len();
        let missing = (max as usize - count).saturating_sub(coming) as u32;
        let worth = self.credits == 0 || missing * 4 >= max;
        let add = if worth { missing } else { 0 };
        self.credits += add;
        (jobs, add)
    }
}

impl Session {
    pub(super) fn start(
        up: mpsc::Sender<WorkRequest>,
        down: Streaming<WorkResponse>,
        welcome: &Welcome,
        names: Arc<HashMap<String, Name>>,
        stops: Arc<Stops>,
    ) -> Arc<Session> {
        let session = Arc::new(Session {
            up: Mutex::new(Some(up)),
            state: Mutex::default(),
            tasks_arrived: Notify::new(),
            stopped: Notify::new(),
            broken: CancellationToken::new(),
            batch_max: (welcome.batch_max as usize).max(1),
            message_bytes_max: message_bytes_max(welcome),
            batches: Semaphore::new((welcome.batches_max as usize).max(1)),
        });
        tokio::spawn(session.clone().read(down, names, stops));
        session
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_cancelled()
    }

    pub(super) fn batch_max(&self) -> usize {
        self.batch_max
    }

    /// Gives what has arrived, up to `max`, or waits for it. Grants credits on the way, so that `max` tasks are here or
    /// may come; the broker has the next ones ready while these run.
    pub(super) async fn claim(&self, max: u32, wait: Duration) -> Result<Vec<Job>, Error> {
        let until = Instant::now() + wait;
        loop {
            let (jobs, add) = self.state.lock().take(max);
            if add > 0 {
                self.send(Up::Credits(Credits { add })).await?;
            }
            if !jobs.is_empty() {
                return Ok(jobs);
            }
            tokio::select! {
                waited = timeout_at(until, self.tasks_arrived.notified()) => {
                    if waited.is_err() {
                        return Ok(Vec::new());
                    }
                }
                () = self.broken.cancelled() => return Err(no_answer()),
            }
        }
    }

    /// The i-th answer belongs to the i-th outcome.
    pub(super) async fn report(&self, outcomes: impl Iterator<Item = Outcome>) -> Vec<Result<(), Error>> {
        let mut answers = Vec::new();
        for part in batches(outcomes, self.batch_max, self.message_bytes_max) {
            match part {
                Part::Batch(batch) => answers.extend(self.report_batch(batch).await),
                Part::TooLarge(error) => answers.push(Err(error)),
            }
        }
        answers
    }

    async fn report_batch(&self, outcomes: Vec<Outcome>) -> Vec<Result<(), Error>> {
        let count = outcomes.len();
        match self.acknowledged(outcomes).await {
            Ok(ack) => {
                let mut answers = vec![Ok(()); count];
                for refusal in ack.refusals {
                    if let Some(answer) = answers.get_mut(refusal.index as usize) {
                        *answer = Err(outcome_refusal(refusal.error.unwrap_or_default()));
                    }
                }
                answers
            }
            Err(error) => vec![Err(error); count],
        }
    }

    async fn acknowledged(&self, outcomes: Vec<Outcome>) -> Result<Ack, Error> {
        // Never closed.
        let _place = self.batches.acquire().await.map_err(Error::unavailable)?;
        let (tell, answer) = oneshot::channel();
        let sequence = {
            let mut state = self.state.lock();
            state.sequence += 1;
            let sequence = state.sequence;
            state.acks.insert(sequence, tell);
            sequence
        };
        self.send(Up::Outcomes(Outcomes { sequence, outcomes, credits: 0 })).await?;
        self.answer(answer).await
    }

    pub(super) async fn extend(&self, extensions: Vec<Extension>) -> Result<Extended, Error> {
        let (tell, answer) = oneshot::channel();
        let sequence = {
            let mut state = self.state.lock();
            state.sequence += 1;
            let sequence = state.sequence;
            state.extended.insert(sequence, tell);
            sequence
        };
        let extensions = Extensions { sequence, extensions, cpu: None, memory_bytes: None };
        self.send(Up::Extensions(extensions)).await?;
        self.answer(answer).await
    }

    /// A broker that lives answers; one that does not within the time is not waited for any longer.
    async fn answer<T>(&self, answer: oneshot::Receiver<T>) -> Result<T, Error> {
        tokio::select! {
            answered = timeout(ANSWER_TIMEOUT, answer) => match answered {
                Ok(answer) => answer.map_err(|_| no_answer()),
                Err(_) => {
                    self.broken.cancel();
                    Err(no_answer())
                }
            },
            () = self.broken.cancelled() => Err(no_answer()),
        }
    }

    async fn send(&self, message: Up) -> Result<(), Error> {
        let up = self.up.lock().clone().ok_or_else(no_answer)?;
        tokio::select! {
            sent = up.send(WorkRequest { message: Some(message) }) => sent.map_err(|_| no_answer()),
            () = self.broken.cancelled() => Err(no_answer()),
        }
    }

    /// Takes the credits back; tasks that came before the broker heard of it are released.
    pub(super) async fn stop(&self, patience: Duration) {
        let stopping = async {
            self.send(Up::Stop(v1::Stop {})).await?;
            tokio::select! {
                () = self.stopped.notified() => {}
                () = self.broken.cancelled() => return Err(no_answer()),
            }
            let untaken: Vec<Outcome> = self.state.lock().tasks.drain(..).map(|job| released(&job)).collect();
            if !untaken.is_empty() {
                self.acknowledged(untaken).await?;
            }
            Ok::<(), Error>(())
        };
        // What is not given back here goes back when the worker leaves.
        let _ = timeout(patience, stopping).await;
    }

    /// Says that nothing more will come, and waits for the broker to end its side.
    pub(super) async fn end(&self, patience: Duration) {
        self.up.lock().take();
        let _ = timeout(patience, self.broken.cancelled()).await;
    }

    async fn read(
        self: Arc<Self>,
        mut down: Streaming<WorkResponse>,
        names: Arc<HashMap<String, Name>>,
        stops: Arc<Stops>,
    ) {
        loop {
            let message = tokio::select! {
                message = down.message() => message,
                () = self.broken.cancelled() => break,
            };
            match message {
                Ok(Some(WorkResponse { message: Some(message) })) => self.take(message, &names, &stops),
                Ok(Some(WorkResponse { message: None })) => {}
                Ok(None) => break,
                Err(status) => {
                    tracing::debug!(%status, "the stream broke");
                    break;
                }
            }
        }
        self.broken.cancel();
        self.up.lock().take();
        stops.broke.notify_one();
    }

    fn take(&self, message: Down, names: &HashMap<String, Name>, stops: &Stops) {
        match message {
            Down::Tasks(tasks) => {
                let count = tasks.tasks.len() as u32;
                let jobs: Vec<Job> =
                    tasks.tasks.into_iter().filter_map(|task| job(task, names).ok()).collect();
                let mut state = self.state.lock();
                state.credits = state.credits.saturating_sub(count);
                state.tasks.extend(jobs);
                drop(state);
                self.tasks_arrived.notify_one();
            }
            Down::Ack(ack) => {
                let waiting = self.state.lock().acks.remove(&ack.sequence);
                let _ = waiting.map(|tell| tell.send(ack));
            }
            Down::Extended(extended) => {
                let waiting = self.state.lock().extended.remove(&extended.sequence);
                let _ = waiting.map(|tell| tell.send(extended));
            }
            Down::Cancels(cancels) => stops.add(cancels.tasks.iter().filter_map(cancelled)),
            Down::Stopped(_) => self.stopped.notify_one(),
            Down::Welcome(_) | Down::Pausing(_) | Down::Draining(_) => {}
        }
    }
}

/// What both sides carry. A broker that says nothing has no limit of its own.
fn message_bytes_max(welcome: &Welcome) -> usize {
    match usize::try_from(welcome.message_bytes_max) {
        Ok(0) | Err(_) => MESSAGE_BYTES_MAX,
        Ok(said) => said.min(MESSAGE_BYTES_MAX),
    }
}

fn no_answer() -> Error {
    Error::unavailable("the connection to the broker broke")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(state: &mut State, count: u32) {
        let job = Job {
            id: "t".parse().unwrap(),
            kind: Name::new("a").unwrap(),
            queue: Name::new("q").unwrap(),
            priority: Default::default(),
            payload: windlass_core::Payload::Json(Default::default()),
            metadata: Vec::new(),
            attempt: 1,
            max_retries: 0,
            timeout: Duration::ZERO,
            checkpoint: None,
            token: windlass_core::Token { number: 1, secret: 1 },
        };
        state.credits -= count;
        state.tasks.extend(std::iter::repeat_n(job, count as usize));
    }

    #[test]
    fn credits_never_exceed_the_slots_and_never_stay_at_none() {
        let mut state = State::default();
        let mut check = |max: u32, came: u32, jobs: usize, add: u32| {
            arrived(&mut state, came);
            let (taken, granted) = state.take(max);
            assert_eq!((taken.len(), granted), (jobs, add));
            assert!(state.credits as usize + state.tasks.len() + jobs <= max as usize);
        };
        check(100, 0, 0, 100);
        check(100, 10, 10, 0);
        // Of the 100 slots 10 are free again: too few for a message.
        check(100, 0, 0, 0);
        check(90, 90, 90, 0);
        check(1, 0, 0, 1);
        check(100, 1, 1, 99);
        check(100, 60, 60, 0);
        check(100, 0, 0, 61);
    }
}
