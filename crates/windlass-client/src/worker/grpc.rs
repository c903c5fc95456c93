//! The port over gRPC: one stream carries the work of a worker in both directions.
//!
//! Free slots are credits, tasks come down in batches as soon as there are any, outcomes go up in batches and are answered
//! when they are durable, cancels come down unasked. When the stream breaks, every call under way ends without an
//! answer, and the runtime is told; the next call connects again and names all leases in hand, under the same incarnation,
//! so that the broker leaves them where they are. Tasks that had arrived and that nobody had taken yet are not named and go back.
//!
//! A credit does not say for which type it is, so a type with slots of its own is claimed by calls beside the stream.

mod batches;
mod session;
mod wire;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex as Lock;
use tokio::sync::{Mutex, Notify, mpsc};
use tonic::Request;
use tonic::transport::Channel;
use windlass_core::choice::Mode;
use windlass_core::limits::{CLAIM_TASKS_MAX, PAGE_ROWS_MAX};
use windlass_core::{Name, Progress, TaskId};
use windlass_proto::grpc::v1::ListDependenciesRequest;
use windlass_proto::grpc::v1::task_service_client::TaskServiceClient;
use windlass_proto::grpc::v1::worker_service_client::WorkerServiceClient;
use windlass_proto::grpc::v1::{ClaimRequest, Extension, Hello, WorkRequest, work_request, work_response};

use super::context::Job;
use super::hand::Hand;
use super::port::{Claim, Dependency, Error, Held, Port, Profile, Report, Stop, Which, Word, stops};
use super::rest::refusal;
use crate::grpc::{ANSWER_TIMEOUT, MESSAGE_BYTES_MAX, channel, refusal as status_refusal};
use session::Session;
use wire::{ids, job, leases, outcome, queues};

/// For the answer to a hello.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);
/// Messages that wait for the connection to take them.
const UP_MAX: usize = 64;
/// For the broker to take note that the worker leaves.
const FAREWELL: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct GrpcPort {
    client: WorkerServiceClient<Channel>,
    tasks: TaskServiceClient<Channel>,
    profile: Option<Arc<Profile>>,
    hand: Hand,
    /// Types and queues by text, so that a task's names are found and not made.
    names: Arc<HashMap<String, Name>>,
    session: Mutex<Option<Arc<Session>>>,
    stops: Arc<Stops>,
}

/// What the broker said unasked, or that it can say nothing any longer, until the runtime hears it.
#[derive(Debug, Default)]
struct Stops {
    waiting: Lock<Vec<Stop>>,
    arrived: Notify,
    broke: Notify,
}

impl Stops {
    fn add(&self, stops: impl IntoIterator<Item = Stop>) {
        self.waiting.lock().extend(stops);
        self.arrived.notify_one();
    }
}

impl GrpcPort {
    /// `address` as `http://127.0.0.1:9090`. Connects when it is first used, and again whenever needed.
    pub fn new(address: &str) -> Result<Self, crate::Error> {
        let channel = channel(address)?;
        let client = WorkerServiceClient::new(channel.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let tasks = TaskServiceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        Ok(Self {
            client,
            tasks,
            profile: None,
            hand: Hand::default(),
            names: Arc::default(),
            session: Mutex::default(),
            stops: Arc::default(),
        })
    }

    async fn extend(&self, extension: Extension) -> Result<Word, Error> {
        let mut extended = self.session().await?.extend(vec![extension]).await?;
        if let Some(error) = extended.refusals.pop().and_then(|refusal| refusal.error) {
            return Err(wire::outcome_refusal(error));
        }
        match (extended.lost.is_empty(), extended.cancel.is_empty()) {
            (false, _) => Err(Error::LeaseLost),
            (true, false) => Ok(Word::Cancel),
            (true, true) => Ok(Word::Continue),
        }
    }

    fn profile(&self) -> &Profile {
        self.profile.as_deref().expect("a worker begins before it asks")
    }

    /// The session, connected anew if it broke.
    async fn session(&self) -> Result<Arc<Session>, Error> {
        let mut session = self.session.lock().await;
        if let Some(session) = session.as_ref().filter(|session| !session.is_broken()) {
            return Ok(session.clone());
        }
        *session = None;
        let new = self.connect().await?;
        Ok(session.insert(new).clone())
    }

    async fn connect(&self) -> Result<Arc<Session>, Error> {
        let (up, mut requests) = mpsc::channel(UP_MAX);
        let named = self.hand.held();
        let hello = work_request::Message::Hello(self.hello(&named));
        let _ = up.try_send(WorkRequest { message: Some(hello) });
        let requests = futures_util::stream::poll_fn(move |cx| requests.poll_recv(cx));
        let mut client = self.client.clone();
        let opening = async {
            let mut down = client.work(Request::new(requests)).await?.into_inner();
            let first = down.message().await?.and_then(|response| response.message);
            Ok((down, first))
        };
        let opened = tokio::time::timeout(WELCOME_TIMEOUT, opening).await;
        let (down, first) = opened
            .map_err(|_| Error::unavailable("the broker did not answer"))?
            .map_err(|status| refusal(status_refusal(status)))?;
        let Some(work_response::Message::Welcome(welcome)) = first else {
            return Err(Error::unavailable("the broker did not say welcome"));
        };
        self.stops.add(stops(&named, &ids(&welcome.lost), &ids(&welcome.cancel)));
        tracing::debug!(worker_id = %self.profile().worker, kept = welcome.kept.len(), "connected");
        Ok(Session::start(up, down, &welcome, self.names.clone(), self.stops.clone()))
    }

    fn hello(&self, named: &[Held]) -> Hello {
        let profile = self.profile();
        // Without a type of their own for the stream no credit is ever granted, and it serves for reports alone.
        let types = if profile.types.is_empty() { &profile.apart } else { &profile.types };
        Hello {
            worker_id: profile.worker.to_string(),
            incarnation: profile.incarnation,
            queues: queues(profile),
            strict: profile.mode == Mode::Strict,
            types: types.iter().map(Name::to_string).collect(),
            lease_seconds: Some(profile.lease.as_secs_f64()),
            leases: leases(named),
            slots: Some(profile.slots),
            host: profile.host.clone(),
            pid: Some(profile.pid),
            version: Some(profile.version.to_owned()),
        }
    }

    async fn claim_apart(&self, kind: &Name, claim: &Claim) -> Result<Vec<Job>, Error> {
        let profile = self.profile();
        let mut request = Request::new(ClaimRequest {
            worker_id: profile.worker.to_string(),
            queues: queues(profile),
            strict: profile.mode == Mode::Strict,
            types: vec![kind.to_string()],
            max: Some(claim.max.min(CLAIM_TASKS_MAX)),
            wait_seconds: claim.wait.as_secs_f64(),
            lease_seconds: Some(profile.lease.as_secs_f64()),
        });
        request.set_timeout(claim.wait + ANSWER_TIMEOUT);
        let claimed =
            self.client.clone().claim(request).await.map_err(|status| refusal(status_refusal(status)))?;
        claimed.into_inner().tasks.into_iter().map(|task| job(task, &self.names)).collect()
    }
}

#[async_trait]
impl Port for GrpcPort {
    fn begin(&mut self, profile: Arc<Profile>, hand: Hand) {
        let queues = profile.queues.iter().map(|queue| queue.name.clone());
        let names = profile.all_types().into_iter().chain(queues);
        self.names = Arc::new(names.map(|name| (name.to_string(), name)).collect());
        self.profile = Some(profile);
        self.hand = hand;
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Job>, Error> {
        match &claim.which {
            Which::Shared => self.session().await?.claim(claim.max, claim.wait).await,
            Which::Apart(kind) => self.claim_apart(kind, &claim).await,
        }
    }

    async fn report(&self, reports: &[Report]) -> Vec<Result<(), Error>> {
        let session = match self.session().await {
            Ok(session) => session,
            Err(error) => return vec![Err(error); reports.len()],
        };
        session.report(reports.iter().map(outcome)).await
    }

    async fn progress(&self, held: &Held, progress: Progress) -> Result<Word, Error> {
        self.extend(Extension { progress: Some(progress.into()), ..wire::extension(held) }).await
    }

    async fn save(&self, held: &Held, checkpoint: Bytes) -> Result<Word, Error> {
        self.extend(Extension { checkpoint: Some(checkpoint), ..wire::extension(held) }).await
    }

    async fn dependencies(&self, id: &TaskId) -> Result<Vec<Dependency>, Error> {
        let mut all = Vec::new();
        let mut cursor = None;
        loop {
            let request = ListDependenciesRequest {
                id: id.to_string(),
                limit: Some(PAGE_ROWS_MAX as u32),
                cursor: cursor.take(),
            };
            let mut request = Request::new(request);
            request.set_timeout(ANSWER_TIMEOUT);
            let answer = self.tasks.clone().list_dependencies(request).await;
            let page = answer.map_err(|status| refusal(status_refusal(status)))?.into_inner();
            Dependency::keep(&mut all, wire::dependencies(page.dependencies)?)?;
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    async fn heartbeat(&self, leases: &[Held], leaving: bool) -> Result<Vec<Stop>, Error> {
        let session = self.session().await?;
        if leaving {
            session.end(FAREWELL).await;
            return Ok(Vec::new());
        }
        let mut all = Vec::new();
        let mut rest = leases;
        loop {
            // One without a lease is a sign of life too.
            let (batch, later) = rest.split_at(rest.len().min(session.batch_max()));
            let extended = session.extend(batch.iter().map(wire::extension).collect()).await?;
            all.extend(stops(batch, &ids(&extended.lost), &ids(&extended.cancel)));
            rest = later;
            if rest.is_empty() {
                return Ok(all);
            }
        }
    }

    async fn no_more(&self) {
        let session = self.session.lock().await.clone();
        if let Some(session) = session {
            session.stop(FAREWELL).await;
        }
    }

    async fn told(&self) -> Vec<Stop> {
        loop {
            let waiting = std::mem::take(&mut *self.stops.waiting.lock());
            if !waiting.is_empty() {
                return waiting;
            }
            self.stops.arrived.notified().await;
        }
    }

    async fn broke(&self) {
        self.stops.broke.notified().await;
    }
}
