//! Submitting and looking over gRPC, and what is refused.

use std::time::Duration;

use futures_util::stream::iter;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tonic::{Code, Status};
use windlass_proto::grpc::Refusal;
use windlass_proto::grpc::v1::admin_service_client::AdminServiceClient;
use windlass_proto::grpc::v1::worker_service_client::WorkerServiceClient;
use windlass_proto::grpc::v1::{
    CancelTaskRequest, ClaimRequest, CompleteRequest, DeadLettersRequest, GetClusterRequest, GetQueueRequest,
    GetTaskRequest, ListTasksRequest, NewTask, RetryTaskRequest, SubmitBatchRequest, SubmitTaskRequest,
    TaskState, WatchTasksRequest, new_task, task,
};

use crate::broker_process::BrokerProcess;
use crate::grpc_client::{connect, submit, tasks};

fn new(id: &str) -> NewTask {
    NewTask { id: id.to_owned(), r#type: "t".to_owned(), ..NewTask::default() }
}

fn one(task: NewTask) -> SubmitTaskRequest {
    SubmitTaskRequest { task: Some(task), return_task: false }
}

fn json(text: &str) -> Option<new_task::Payload> {
    Some(new_task::Payload::PayloadJson(text.to_owned().into()))
}

#[track_caller]
fn refusal<T: std::fmt::Debug>(answer: Result<T, Status>) -> (Code, Refusal) {
    let status = answer.expect_err("it should be refused");
    (status.code(), Refusal::of(&status).unwrap_or_else(|| panic!("no code in {status:?}")))
}

#[tokio::test]
async fn a_task_goes_in_and_is_seen_by_both_doors() {
    let broker = BrokerProcess::start();
    let mut tasks = tasks(broker.grpc_address).await;
    let submitted = NewTask { payload: json(r#"{"n": 1}"#), priority: Some(7), ..new("a") };
    let request = SubmitTaskRequest { task: Some(submitted.clone()), return_task: true };
    let answer = tasks.submit_task(request).await.unwrap().into_inner();
    assert_eq!((answer.id.as_str(), answer.state(), answer.existed), ("a", TaskState::Pending, false));
    let whole = answer.task.unwrap();
    assert_eq!(whole.payload, Some(task::Payload::PayloadJson(r#"{"n": 1}"#.into())));
    let seen = broker.client().get("/api/v1/tasks/a").expect(200);
    assert_eq!((&seen["payload"]["n"], &seen["priority"]), (&1.into(), &7.into()));
    // The same content through the other door is the same submit, and other content a clash.
    let body = r#"{"id":"a","type":"t","payload":{"n": 1},"priority":7}"#;
    broker.client().post("/api/v1/tasks", body).expect(200);
    assert!(tasks.submit_task(one(submitted)).await.unwrap().into_inner().existed);
    let (code, refused) = refusal(tasks.submit_task(one(new("a"))).await);
    assert_eq!((code, refused.code.as_str()), (Code::AlreadyExists, "task_exists"));
}

#[tokio::test]
async fn batches_lists_and_operators() {
    let broker = BrokerProcess::start();
    let mut tasks = tasks(broker.grpc_address).await;
    let wrong = NewTask { priority: Some(256), ..new("b") };
    let batch = SubmitBatchRequest { tasks: vec![new("a"), wrong.clone(), new("c")], atomic: false };
    let results = tasks.submit_batch(batch).await.unwrap().into_inner().results;
    assert_eq!((results[0].id.as_str(), results[2].id.as_str()), ("a", "c"));
    let error = results[1].error.clone().unwrap();
    assert_eq!((error.code.as_str(), error.field.as_deref()), ("out_of_range", Some("priority")));
    let atomic = SubmitBatchRequest { tasks: vec![new("d"), wrong], atomic: true };
    let results = tasks.submit_batch(atomic).await.unwrap().into_inner().results;
    assert_eq!(results[0].error.clone().unwrap().code, "aborted");

    let batch = |n: usize| SubmitBatchRequest {
        tasks: (0..100).map(|i| new(&format!("s{}", n * 100 + i))).collect(),
        atomic: false,
    };
    let results = tasks.submit_tasks(iter((0..20).map(batch))).await.unwrap().into_inner().results;
    let ids: Vec<String> = results.into_iter().map(|result| result.id).collect();
    assert_eq!(ids, (0..2000).map(|n| format!("s{n}")).collect::<Vec<_>>());

    let mut seen = 0;
    let mut request =
        ListTasksRequest { states: vec![TaskState::Pending.into()], limit: Some(900), ..Default::default() };
    loop {
        let page = tasks.list_tasks(request.clone()).await.unwrap().into_inner();
        seen += page.tasks.len();
        request.cursor = page.next_cursor;
        if request.cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, 2002);
    let mut admin = AdminServiceClient::new(connect(broker.grpc_address).await);
    let queue = admin.get_queue(GetQueueRequest { name: "default".into() }).await.unwrap().into_inner();
    assert_eq!(queue.tasks.unwrap().pending, 2002);
    let cluster = admin.get_cluster(GetClusterRequest {}).await.unwrap().into_inner();
    assert_eq!((cluster.status.as_str(), cluster.quorum), ("ok", true));
    let none = DeadLettersRequest { all: true, ..Default::default() };
    assert_eq!(admin.retry_dead_letters(none).await.unwrap().into_inner().affected, 0);
}

#[tokio::test]
async fn a_watcher_sees_the_life_of_a_task_and_a_waiter_its_end() {
    let broker = BrokerProcess::start();
    let address = broker.grpc_address;
    let mut watching = tasks(address).await;
    let watch =
        WatchTasksRequest { ids: vec!["a".into()], events: vec!["task.*".into()], ..Default::default() };
    let mut updates = watching.watch_tasks(watch).await.unwrap().into_inner();
    assert!(updates.message().await.unwrap().unwrap().updates.is_empty());
    submit(address, &["other", "a"]).await;
    let waiting = tokio::spawn(async move {
        tasks(address).await.get_task(GetTaskRequest { id: "a".into(), wait_seconds: 60.0 }).await
    });
    let mut workers = WorkerServiceClient::new(connect(address).await);
    let claim =
        ClaimRequest { worker_id: "w".into(), max: Some(2), wait_seconds: 60.0, ..Default::default() };
    for task in workers.claim(claim).await.unwrap().into_inner().tasks {
        let complete = CompleteRequest { id: task.id, lease: task.lease, result: None };
        workers.complete(complete).await.unwrap();
    }
    assert_eq!(waiting.await.unwrap().unwrap().into_inner().state(), TaskState::Completed);
    let mut events = Vec::new();
    while events.last().is_none_or(|event| event != "task.completed") {
        let message = updates.message().await.unwrap().unwrap();
        events.extend(message.updates.into_iter().map(|update| update.event));
    }
    assert_eq!(events, ["task.submitted", "task.started", "task.completed"]);
}

#[tokio::test]
async fn what_rest_refuses_is_refused_with_the_same_code_and_field() {
    let broker = BrokerProcess::start();
    let mut rest = broker.client();
    let mut tasks = tasks(broker.grpc_address).await;
    let mut workers = WorkerServiceClient::new(connect(broker.grpc_address).await);
    submit(broker.grpc_address, &["waits", "done"]).await;
    rest.post("/api/v1/tasks/done/cancel", "").expect(200);

    let long = "x".repeat(200);
    let submits = [
        (r#"{"type":""}"#.to_owned(), NewTask::default()),
        (format!(r#"{{"type":"t","queue":"{long}"}}"#), NewTask { queue: long, ..new("") }),
        (r#"{"type":"t","priority":256}"#.to_owned(), NewTask { priority: Some(256), ..new("") }),
        (r#"{"type":"t","max_retries":1001}"#.to_owned(), NewTask { max_retries: Some(1001), ..new("") }),
        (r#"{"type":"t","delay_seconds":-1}"#.to_owned(), NewTask { delay_seconds: Some(-1.0), ..new("") }),
    ];
    for (body, task) in submits {
        let problem = rest.post("/api/v1/tasks", &body).json();
        let (_, refused) = refusal(tasks.submit_task(one(task)).await);
        same(&problem, &refused);
    }
    let id = |id: &str| id.to_owned();
    let problem = rest.get("/api/v1/tasks/nobody").json();
    same(&problem, &refusal(tasks.get_task(GetTaskRequest { id: id("nobody"), wait_seconds: 0.0 }).await).1);
    let problem = rest.post("/api/v1/tasks/done/cancel", "").json();
    same(&problem, &refusal(tasks.cancel_task(CancelTaskRequest { id: id("done") }).await).1);
    let problem = rest.post("/api/v1/tasks/waits/retry", "").json();
    same(&problem, &refusal(tasks.retry_task(RetryTaskRequest { id: id("waits") }).await).1);
    let problem = rest.post("/api/v1/tasks/waits/complete", r#"{"lease":"1-00000000000000ff"}"#).json();
    let complete = CompleteRequest { id: id("waits"), lease: id("1-00000000000000ff"), result: None };
    same(&problem, &refusal(workers.complete(complete).await).1);
    let problem = rest.post("/api/v1/claim", r#"{"worker_id":"w","max":1001}"#).json();
    let claim = ClaimRequest { worker_id: id("w"), max: Some(1001), ..Default::default() };
    same(&problem, &refusal(workers.claim(claim).await).1);
    let watch = WatchTasksRequest { events: vec![id("task.*"), id("worker.*")], ..Default::default() };
    let (_, refused) = refusal(tasks.watch_tasks(watch).await);
    assert_eq!((refused.code.as_str(), refused.field.as_deref()), ("malformed", Some("events")));
    let watch = WatchTasksRequest { ids: vec![id("a b")], ..Default::default() };
    assert_eq!(refusal(tasks.watch_tasks(watch).await).1.field.as_deref(), Some("ids"));
    let queues = (0..101).map(|number| format!("q-{number}")).collect();
    let watch = WatchTasksRequest { queues, ..Default::default() };
    let (_, refused) = refusal(tasks.watch_tasks(watch).await);
    assert_eq!((refused.code.as_str(), refused.field.as_deref()), ("out_of_range", Some("queues")));
    let problem = rest.get("/api/v1/tasks?cursor=nonsense").json();
    let list = ListTasksRequest { cursor: Some(id("nonsense")), ..Default::default() };
    same(&problem, &refusal(tasks.list_tasks(list).await).1);
}

#[track_caller]
fn same(problem: &Value, refused: &Refusal) {
    assert_eq!(problem["code"], refused.code.as_str(), "{problem}");
    assert_eq!(problem["errors"][0]["field"].as_str(), refused.field.as_deref(), "{problem}");
}

#[tokio::test]
async fn too_large_malformed_unknown_and_late_calls_are_refused_and_change_nothing() {
    let broker = BrokerProcess::start_with(&[("WINDLASS_SERVER__MAX_PAYLOAD_BYTES", "1KB")]);
    let mut tasks = tasks(broker.grpc_address).await;
    let long = |bytes: usize| NewTask { payload: json(&format!("\"{}\"", "x".repeat(bytes))), ..new("a") };
    let (code, refused) = refusal(tasks.submit_task(one(long(2000))).await);
    assert_eq!((code, refused.code.as_str()), (Code::ResourceExhausted, "too_large"));
    assert_eq!(refused.field.as_deref(), Some("payload_json"));
    // Beyond what one message may have, it is not even read.
    let (code, refused) = refusal(tasks.submit_task(one(long(1_000_000))).await);
    assert_eq!((code, refused.code.as_str()), (Code::ResourceExhausted, "too_large"));

    // A text where a message should be.
    let noise = GetTaskRequest { id: "zzzz".into(), wait_seconds: 0.0 };
    let (code, refused) =
        refusal(raw(&broker, "/windlass.v1.TaskService/SubmitTask", noise.clone(), "10S").await);
    assert_eq!((code, refused.code.as_str()), (Code::InvalidArgument, "malformed"));
    for path in ["/windlass.v1.TaskService/Explode", "/windlass.v9.TaskService/SubmitTask"] {
        let (code, refused) = refusal(raw(&broker, path, noise.clone(), "10S").await);
        assert_eq!((code, refused.code.as_str()), (Code::Unimplemented, "no_such_route"), "{path}");
    }
    // The server keeps to the deadline by itself: this client does not.
    let waits = ClaimRequest { worker_id: "w".into(), wait_seconds: 60.0, ..Default::default() };
    let answer = raw(&broker, "/windlass.v1.WorkerService/Claim", waits, "50m").await;
    assert_eq!(refusal(answer).0, Code::DeadlineExceeded);
    assert_eq!(broker.client().get("/api/v1/stats").expect(200)["ledger"]["submitted"], 0);
}

/// A call by hand: a generated client would keep to its deadline by itself.
async fn raw<M: prost::Message>(
    broker: &BrokerProcess,
    path: &str,
    message: M,
    timeout: &str,
) -> Result<(), Status> {
    let stream = tokio::net::TcpStream::connect(broker.grpc_address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let message = message.encode_to_vec();
    let frame = [&[0], &(message.len() as u32).to_be_bytes()[..], &message].concat();
    let request = axum::http::Request::post(format!("http://{}{path}", broker.grpc_address))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-timeout", timeout)
        .body(axum::body::Body::from(frame))
        .unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(50), sender.send_request(request)).await;
    let answer = answer.expect("it does not wait").unwrap();
    match Status::from_header_map(answer.headers()) {
        Some(status) if status.code() != Code::Ok => Err(status),
        _ => Ok(()),
    }
}
