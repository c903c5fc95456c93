//! Windlass over gRPC: one connection per client, SubmitTask for one task and SubmitBatch for many, and the Work stream for
//! workers. A worker grants as many credits as it takes tasks at a time, and a task counts when its outcome is acknowledged.

mod echo;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use tokio::sync::mpsc;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};
use windlass_proto::grpc::v1::task_service_client::TaskServiceClient;
use windlass_proto::grpc::v1::worker_service_client::WorkerServiceClient;
use windlass_proto::grpc::v1::{
    Completed, Credits, Hello, LeasedTask, NewTask, Outcome, Outcomes, Queue, SubmitBatchRequest,
    SubmitTaskRequest, WorkRequest, WorkResponse, leased_task, new_task, outcome, work_request,
    work_response,
};

pub(crate) use echo::serve as serve_echo;

use crate::driver::{self, Driver, QUEUE, WAIT};

/// Bytes under way before the receiver must have read some, as the Rust client of Windlass has it.
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;
/// Requests of a worker that wait to be sent: never more than its outcomes.
const REQUESTS: usize = 4;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Grpc {
    pub(crate) addr: SocketAddr,
}

impl Grpc {
    async fn connect(&self) -> Result<Channel> {
        Endpoint::from_shared(format!("http://{}", self.addr))?
            .tcp_nodelay(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .connect()
            .await
            .context("connect over gRPC")
    }
}

impl Driver for Grpc {
    type Producer = Producer;
    type Worker = Worker;

    async fn producer(&self) -> Result<Producer> {
        Ok(Producer { client: TaskServiceClient::new(self.connect().await?) })
    }

    async fn worker(&self, number: usize, batch: usize) -> Result<Worker> {
        let (requests, mut sent) = mpsc::channel(REQUESTS);
        requests.send(hello(number)).await.context("say hello")?;
        let slots = u32::try_from(batch).context("a batch is too large")?;
        requests.send(message(work_request::Message::Credits(Credits { add: slots }))).await?;
        let stream = futures_util::stream::poll_fn(move |context| sent.poll_recv(context));
        let mut client = WorkerServiceClient::new(self.connect().await?);
        let responses = client.work(stream).await.context("open the Work stream")?.into_inner();
        Ok(Worker { requests, responses, tasks: Vec::new(), sequence: 0 })
    }
}

/// Tells the processes that these workers pretend to be from each other.
static INCARNATIONS: AtomicU64 = AtomicU64::new(1);

fn hello(number: usize) -> WorkRequest {
    message(work_request::Message::Hello(Hello {
        worker_id: format!("bench-{number}"),
        incarnation: INCARNATIONS.fetch_add(1, Ordering::Relaxed),
        queues: vec![Queue { name: QUEUE.to_owned(), weight: None }],
        ..Hello::default()
    }))
}

fn message(message: work_request::Message) -> WorkRequest {
    WorkRequest { message: Some(message) }
}

#[derive(Debug)]
pub(crate) struct Producer {
    client: TaskServiceClient<Channel>,
}

impl driver::Producer for Producer {
    async fn submit(&mut self, payloads: &[&[u8]]) -> Result<()> {
        if let [payload] = payloads {
            let request = SubmitTaskRequest { task: Some(task(payload)), return_task: false };
            self.client.submit_task(request).await.context("submit a task")?;
            return Ok(());
        }
        let tasks = payloads.iter().map(|payload| task(payload)).collect();
        let answer = self.client.submit_batch(SubmitBatchRequest { tasks, atomic: false }).await;
        let results = answer.context("submit a batch")?.into_inner().results;
        match results.iter().find_map(|result| result.error.as_ref()) {
            Some(error) => bail!("a task of a batch was refused: {}", error.detail),
            None => Ok(()),
        }
    }
}

fn task(payload: &[u8]) -> NewTask {
    NewTask {
        r#type: "bench".to_owned(),
        queue: QUEUE.to_owned(),
        payload: Some(new_task::Payload::PayloadJson(payload.to_vec().into())),
        ..NewTask::default()
    }
}

#[derive(Debug)]
pub(crate) struct Worker {
    requests: mpsc::Sender<WorkRequest>,
    responses: Streaming<WorkResponse>,
    /// Pushed, and not yet begun.
    tasks: Vec<LeasedTask>,
    sequence: u64,
}

impl driver::Worker for Worker {
    async fn turn(&mut self, start: &mut dyn FnMut(&[u8])) -> Result<usize> {
        while self.tasks.is_empty() {
            match tokio::time::timeout(WAIT, self.responses.message()).await {
                Ok(response) => drop(self.take(response?)?),
                Err(_) => return Ok(0),
            }
        }
        let tasks = std::mem::take(&mut self.tasks);
        let count = tasks.len();
        self.sequence += 1;
        let outcomes = tasks.into_iter().map(|task| done(task, start)).collect();
        let credits = u32::try_from(count).context("a batch is too large")?;
        let report = Outcomes { sequence: self.sequence, outcomes, credits };
        self.requests.send(message(work_request::Message::Outcomes(report))).await?;
        loop {
            let response = self.responses.message().await?;
            if self.take(response)? == Some(self.sequence) {
                return Ok(count);
            }
        }
    }
}

impl Worker {
    /// Keeps tasks for the next turn; gives the sequence of an acknowledgement.
    fn take(&mut self, response: Option<WorkResponse>) -> Result<Option<u64>> {
        match response.and_then(|response| response.message) {
            Some(work_response::Message::Tasks(tasks)) => self.tasks.extend(tasks.tasks),
            Some(work_response::Message::Ack(ack)) => match ack.refusals.first() {
                Some(refusal) => bail!("an outcome was refused: {refusal:?}"),
                None => return Ok(Some(ack.sequence)),
            },
            Some(work_response::Message::Draining(_)) | None => bail!("the Work stream has ended"),
            Some(_) => {}
        }
        Ok(None)
    }
}

fn done(task: LeasedTask, start: &mut dyn FnMut(&[u8])) -> Outcome {
    if let Some(leased_task::Payload::PayloadJson(payload)) = &task.payload {
        start(payload);
    }
    let verdict = Some(outcome::Verdict::Completed(Completed::default()));
    Outcome { id: task.id, lease: task.lease, verdict }
}
