//! The server on a broker in memory, with limits that a test can wait for. Everything else is tested on the running binary in
//! `tests/it`.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Request};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{iter, pending};
use http_body_util::BodyExt;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::{TcpListener, TcpStream};
use tonic::{Code, Status};
use windlass_broker::{Broker, Settings};
use windlass_proto::grpc::Refusal;
use windlass_proto::grpc::v1::task_service_client::TaskServiceClient;
use windlass_proto::grpc::v1::work_request::Message as Said;
use windlass_proto::grpc::v1::{
    GetTaskRequest, Hello, NewTask, SubmitBatchRequest, SubmitTaskRequest, WorkRequest, new_task,
};
use windlass_store::SystemClock;
use windlass_store::memory::MemoryStore;

use super::*;
use crate::server::threads::Threads;

async fn start(limits: Limits) -> SocketAddr {
    let clock = SystemClock::shared();
    let broker = Broker::start(MemoryStore::new(clock.clone()), clock, Settings::default());
    let threads = Arc::new(Threads::start(&broker, false).unwrap());
    let state = Arc::new(api::State::new(broker, api::Settings::default()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, threads, state, limits, CancellationToken::new()));
    address
}

fn framed(message: &impl Message) -> Bytes {
    let message = message.encode_to_vec();
    [&[0], &(message.len() as u32).to_be_bytes()[..], &message].concat().into()
}

/// Sends these pieces and keeps the call open; the status with which the server ends it.
async fn ended(address: SocketAddr, path: &str, pieces: Vec<Bytes>) -> Status {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let pieces = iter(pieces.into_iter().map(Ok::<_, std::io::Error>));
    let request = Request::post(format!("http://{address}{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::from_stream(pieces.chain(pending())))
        .unwrap();
    let answer = sender.send_request(request).await.unwrap();
    if let Some(status) = failed(answer.headers()) {
        return status;
    }
    let mut body = answer.into_body();
    loop {
        let frame = body.frame().await.expect("it ends with a status").unwrap();
        if let Some(status) = frame.trailers_ref().and_then(failed) {
            return status;
        }
    }
}

fn failed(headers: &HeaderMap) -> Option<Status> {
    Status::from_header_map(headers).filter(|status| status.code() != Code::Ok)
}

#[tokio::test]
async fn half_a_message_is_not_waited_for_in_vain() {
    let address = start(Limits { silence: Duration::from_millis(200), ..Limits::default() }).await;
    let hello = Hello { worker_id: "w".into(), incarnation: 7, ..Hello::default() };
    let hello = framed(&WorkRequest { message: Some(Said::Hello(hello)) });
    let task = NewTask { r#type: "t".into(), ..NewTask::default() };
    let batch = framed(&SubmitBatchRequest { tasks: vec![task], atomic: false });
    for (path, first) in
        [("/windlass.v1.WorkerService/Work", hello), ("/windlass.v1.TaskService/SubmitTasks", batch)]
    {
        let half = Bytes::from_static(&[0, 0, 0, 1, 0, 1, 2, 3]);
        let status = ended(address, path, vec![first, half]).await;
        assert_eq!(status.code(), Code::DeadlineExceeded, "{path} {status:?}");
        assert_eq!(Refusal::of(&status).unwrap().code, "too_slow", "{path}");
    }
}

#[tokio::test]
async fn what_a_client_does_not_read_is_bounded_by_bytes() {
    let address = start(Limits { unread_bytes: 3_000_000, ..Limits::default() }).await;
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap();
    let mut tasks = TaskServiceClient::new(channel.connect().await.unwrap());
    let payload = Some(new_task::Payload::PayloadBinary(vec![7; 2_000_000].into()));
    let task = NewTask { id: "large".into(), r#type: "t".into(), payload, ..NewTask::default() };
    tasks.submit_task(SubmitTaskRequest { task: Some(task), return_task: false }).await.unwrap();

    // A window that fits no answer: whatever is not read waits in the server.
    let stream = TcpStream::connect(address).await.unwrap();
    let mut client = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    client.initial_stream_window_size(1000);
    let (sender, connection) = client.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let get = |id: &str| {
        let message = GetTaskRequest { id: id.into(), wait_seconds: 0.0 };
        let request = Request::post(format!("http://{address}/windlass.v1.TaskService/GetTask"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Body::from(framed(&message)))
            .unwrap();
        sender.clone().send_request(request)
    };
    let unread = get("large").await.unwrap();
    assert!(failed(unread.headers()).is_none());
    let status = failed(get("large").await.unwrap().headers()).expect("there is no room for another");
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(Refusal::of(&status).unwrap().code, "overloaded");
    let small = failed(get("nobody").await.unwrap().headers()).expect("it is not there");
    assert_eq!(small.code(), Code::NotFound, "small answers go on");
    // Others are not concerned, and reading makes room again.
    tasks.get_task(GetTaskRequest { id: "large".into(), wait_seconds: 0.0 }).await.unwrap();
    assert!(unread.into_body().collect().await.unwrap().to_bytes().len() > 2_000_000);
    assert!(failed(get("large").await.unwrap().headers()).is_none());
}
