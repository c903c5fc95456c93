//! Closed loops of calls.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::http::uri::PathAndQuery;
use hdrhistogram::Histogram;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;
use windlass_proto::grpc::v1::task_service_client::TaskServiceClient;
use windlass_proto::grpc::v1::{NewTask, SubmitBatchRequest, SubmitTaskRequest, new_task};

use crate::bench::http::request::payload;
use crate::bench::report::{add, histogram, record};
use crate::bench::{Error, io};

const PATH: &str = "/windlass.v1.TaskService/SubmitTask";
/// Streams of batches at once.
const SUBMITTERS: usize = 16;

#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) connections: u64,
    pub(super) calls: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) broker: SocketAddr,
    pub(super) echo: SocketAddr,
}

/// What came of repeating one call.
#[derive(Debug)]
pub(super) struct Repeated {
    pub(super) latency: Histogram<u64>,
    length: Duration,
}

impl Repeated {
    pub(super) fn per_second(&self) -> f64 {
        self.latency.len() as f64 / self.length.as_secs_f64()
    }
}

pub(super) fn task(payload_bytes: u64) -> NewTask {
    let text = new_task::Payload::PayloadJson(payload(payload_bytes).into());
    NewTask { r#type: "bench".to_owned(), payload: Some(text), ..NewTask::default() }
}

pub(super) async fn connect(addr: SocketAddr) -> Result<Channel, Error> {
    let failed = |error| Error::Io { action: "connect", source: std::io::Error::other(error) };
    let endpoint = Endpoint::from_shared(format!("http://{addr}")).map_err(failed)?;
    endpoint.tcp_nodelay(true).connect().await.map_err(failed)
}

pub(super) fn refused(call: &'static str) -> impl Fn(Status) -> Error {
    move |status| Error::Answer { call, reason: status.to_string() }
}

/// The load comes from one thread, so that as much of the machine as possible is the server's.
pub(super) async fn repeat<R: prost::Message + Default + 'static>(
    addr: SocketAddr,
    layout: Layout,
    request: SubmitTaskRequest,
    call: &'static str,
    length: Duration,
) -> Result<Repeated, Error> {
    let load = tokio::task::spawn_blocking(move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(io("start"))?;
        runtime.block_on(repeat_here::<R>(addr, layout, request, call, length))
    });
    load.await?
}

async fn repeat_here<R: prost::Message + Default + 'static>(
    addr: SocketAddr,
    layout: Layout,
    request: SubmitTaskRequest,
    call: &'static str,
    length: Duration,
) -> Result<Repeated, Error> {
    let mut open = Vec::new();
    for _ in 0..layout.connections {
        open.push(connect(addr).await?);
    }
    let began = Instant::now();
    let mut running = JoinSet::new();
    for number in 0..layout.calls as usize {
        let mut client = tonic::client::Grpc::new(open[number % open.len()].clone());
        let request = request.clone();
        running.spawn(async move {
            let mut latency = histogram();
            let mut sent = Instant::now();
            while sent < began + length {
                client
                    .ready()
                    .await
                    .map_err(|error| refused(call)(Status::unavailable(error.to_string())))?;
                let codec = ProstCodec::<SubmitTaskRequest, R>::default();
                let path = PathAndQuery::from_static(PATH);
                client.unary(Request::new(request.clone()), path, codec).await.map_err(refused(call))?;
                let now = Instant::now();
                record(&mut latency, now - sent);
                sent = now;
            }
            Ok::<Histogram<u64>, Error>(latency)
        });
    }
    let mut latency = histogram();
    while let Some(ended) = running.join_next().await {
        add(&mut latency, &ended??);
    }
    Ok(Repeated { latency, length: began.elapsed() })
}

/// How many tasks went in, and how long it took.
pub(super) async fn batches(
    addr: SocketAddr,
    batch: u64,
    payload_bytes: u64,
    length: Duration,
) -> Result<(u64, Duration), Error> {
    let request = SubmitBatchRequest { tasks: vec![task(payload_bytes); batch as usize], atomic: false };
    let began = Instant::now();
    let mut running = JoinSet::new();
    for _ in 0..SUBMITTERS {
        let mut client = TaskServiceClient::new(connect(addr).await?);
        let request = request.clone();
        running.spawn(async move {
            let mut tasks = 0;
            while began.elapsed() < length {
                let answer = client.submit_batch(request.clone()).await.map_err(refused("a batch"))?;
                let wrong = answer.into_inner().results.into_iter().find_map(|result| result.error);
                if let Some(error) = wrong {
                    return Err(Error::Answer { call: "a batch", reason: error.code });
                }
                tasks += batch;
            }
            Ok::<u64, Error>(tasks)
        });
    }
    let mut tasks = 0;
    while let Some(ended) = running.join_next().await {
        tasks += ended??;
    }
    Ok((tasks, began.elapsed()))
}
