//! Generated clients for the tests, and a worker's stream that does as it is told.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::stream::unfold;
use tokio::sync::mpsc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};
use windlass_proto::grpc::v1::task_service_client::TaskServiceClient;
use windlass_proto::grpc::v1::work_request::Message as Said;
use windlass_proto::grpc::v1::work_response::Message as Told;
use windlass_proto::grpc::v1::worker_service_client::WorkerServiceClient;
use windlass_proto::grpc::v1::{
    Ack, Completed, Credits, Hello, LeaseRef, LeasedTask, NewTask, Outcome, Outcomes, SubmitTaskRequest,
    Welcome, WorkRequest, WorkResponse, outcome,
};

/// Longer than anything here takes, and much shorter than the leases of these tests.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn connect(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

pub(crate) async fn tasks(address: SocketAddr) -> TaskServiceClient<Channel> {
    TaskServiceClient::new(connect(address).await)
}

/// Submits tasks of type `t` under these ids.
pub(crate) async fn submit(address: SocketAddr, ids: &[&str]) {
    let mut tasks = tasks(address).await;
    for id in ids {
        let task = NewTask { id: (*id).to_owned(), r#type: "t".to_owned(), ..NewTask::default() };
        tasks.submit_task(SubmitTaskRequest { task: Some(task), return_task: false }).await.unwrap();
    }
}

/// A connection of its own with one stream.
#[derive(Debug)]
pub(crate) struct Work {
    up: Option<mpsc::UnboundedSender<WorkRequest>>,
    down: Streaming<WorkResponse>,
}

/// Leases of ten minutes: whatever comes back sooner did not wait for one.
pub(crate) fn hello(worker: &str, incarnation: u64) -> Hello {
    Hello { worker_id: worker.to_owned(), incarnation, lease_seconds: Some(600.0), ..Hello::default() }
}

impl Work {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let (up, said) = mpsc::unbounded_channel();
        let said = unfold(said, |mut said| async move { said.recv().await.map(|message| (message, said)) });
        let mut client = WorkerServiceClient::new(connect(address).await);
        let down = client.work(said).await.unwrap().into_inner();
        Self { up: Some(up), down }
    }

    pub(crate) async fn begin(address: SocketAddr, hello: Hello) -> (Self, Welcome) {
        let mut work = Self::open(address).await;
        work.say(Said::Hello(hello));
        match work.next().await {
            Told::Welcome(welcome) => (work, welcome),
            other => panic!("no welcome but {other:?}"),
        }
    }

    pub(crate) fn say(&self, message: Said) {
        let up = self.up.as_ref().expect("the worker has not left");
        // A stream that ended tells so when it is read.
        let _ = up.send(WorkRequest { message: Some(message) });
    }

    /// Ends the worker's side.
    pub(crate) fn leave(&mut self) {
        self.up = None;
    }

    pub(crate) fn grant(&self, add: u32) {
        self.say(Said::Credits(Credits { add }));
    }

    pub(crate) async fn read(&mut self) -> Result<Option<Told>, Status> {
        let message = tokio::time::timeout(PATIENCE, self.down.message()).await.expect("something comes");
        Ok(message?.map(|message| message.message.expect("a message of a known kind")))
    }

    pub(crate) async fn next(&mut self) -> Told {
        self.read().await.unwrap().expect("the stream goes on")
    }

    pub(crate) async fn take(&mut self, count: usize) -> Vec<LeasedTask> {
        let mut taken = Vec::new();
        while taken.len() < count {
            match self.next().await {
                Told::Tasks(tasks) => taken.extend(tasks.tasks),
                other => panic!("no tasks but {other:?}"),
            }
        }
        taken
    }

    pub(crate) fn complete(&self, sequence: u64, tasks: &[LeasedTask]) {
        let completed = || outcome::Verdict::Completed(Completed::default());
        let outcome = |task: &LeasedTask| Outcome {
            id: task.id.clone(),
            lease: task.lease.clone(),
            verdict: Some(completed()),
        };
        let outcomes = tasks.iter().map(outcome).collect();
        self.say(Said::Outcomes(Outcomes { sequence, outcomes, credits: 0 }));
    }

    pub(crate) async fn ack(&mut self) -> Ack {
        match self.next().await {
            Told::Ack(ack) => ack,
            other => panic!("no ack but {other:?}"),
        }
    }
}

pub(crate) fn lease(task: &LeasedTask) -> LeaseRef {
    LeaseRef { id: task.id.clone(), lease: task.lease.clone(), checkpoint: None }
}

pub(crate) fn ids(tasks: &[LeasedTask]) -> Vec<&str> {
    tasks.iter().map(|task| task.id.as_str()).collect()
}
