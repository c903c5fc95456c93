//! Traces as a collector receives them.

mod collector;

use serde_json::{Value, json};
use tonic::metadata::MetadataValue;
use windlass_proto::grpc::v1::{NewTask, SubmitTaskRequest};

use crate::broker_process::BrokerProcess;
use crate::cli::process;
use crate::grpc_client::tasks;
use crate::http::{Client, text};
use collector::{Collector, Span};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PRODUCER: &str = "00f067aa0ba902b7";
const HEADER: &str = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";

fn start() -> (Collector, BrokerProcess, Client) {
    let collector = Collector::start();
    let broker = BrokerProcess::start_with(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url)]);
    let client = broker.client();
    (collector, broker, client)
}

fn submit(client: &mut Client, headers: &str, body: Value) -> Value {
    client.post_with("/api/v1/tasks", headers, &body.to_string()).expect(201)
}

fn claim(client: &mut Client) -> Value {
    let claim = json!({"worker_id": "w", "max": 1, "wait_seconds": 30}).to_string();
    client.post("/api/v1/claim", &claim).expect(200)["tasks"][0].clone()
}

fn report(client: &mut Client, task: &Value, how: &str, mut body: Value) {
    body["lease"] = task["lease"].clone();
    client.post(&format!("/api/v1/tasks/{}/{how}", text(&task["id"])), &body.to_string()).expect(200);
}

/// The span that the worker was told to go on from.
fn told(task: &Value) -> (String, String) {
    let parts: Vec<String> = text(&task["metadata"]["traceparent"]).split('-').map(str::to_owned).collect();
    (parts[1].clone(), parts[2].clone())
}

#[test]
fn submit_wait_attempt_and_retry_are_one_trace() {
    let (collector, mut broker, mut client) = start();
    let body =
        json!({"id": "t1", "type": "mail", "retry": {"policy": "fixed", "initial_ms": 1, "jitter": 0}});
    let task = submit(&mut client, HEADER, body.clone());
    assert_eq!(task["metadata"]["traceparent"], format!("00-{TRACE}-{PRODUCER}-01"), "it is stored");
    let again = client.post_with("/api/v1/tasks", "", &body.to_string());
    assert_eq!(again.status, 200, "the header is no part of the content: {}", again.text);

    let first = claim(&mut client);
    report(&mut client, &first, "fail", json!({"error": "mailbox full"}));
    let second = claim(&mut client);
    report(&mut client, &second, "complete", json!({}));
    let stored = client.get("/api/v1/tasks/t1").expect(200);
    assert_eq!(stored["metadata"]["traceparent"], format!("00-{TRACE}-{PRODUCER}-01"), "and stays");
    // The last spans are sent by the shutdown at the latest.
    broker.terminate();
    assert_eq!(broker.wait(), Some(0));

    let spans = collector.spans();
    assert_eq!(spans.len(), 5, "{spans:#?}");
    assert!(spans.iter().all(|span| span.trace == TRACE), "{spans:#?}");
    let named = |name: &str| -> Vec<&Span> { spans.iter().filter(|span| span.name == name).collect() };
    let [submitted] = named("submit mail")[..] else { panic!("one submit: {spans:#?}") };
    let [wait_1, wait_2] = named("wait mail")[..] else { panic!("two waits: {spans:#?}") };
    let [run_1, run_2] = named("run mail")[..] else { panic!("two attempts: {spans:#?}") };
    assert_eq!((submitted.parent.as_str(), submitted.kind), (PRODUCER, 4));
    for (wait, run) in [(wait_1, run_1), (wait_2, run_2)] {
        assert_eq!((wait.parent.as_str(), wait.kind), (submitted.id.as_str(), 1));
        assert_eq!((run.parent.as_str(), run.kind), (wait.id.as_str(), 5));
        assert!(wait.begin <= wait.end && wait.end == run.begin && run.begin <= run.end);
    }
    assert!(run_1.end <= run_2.begin);
    assert_eq!(told(&first), (TRACE.to_owned(), run_1.id.clone()), "the worker goes on from its attempt");
    assert_eq!(told(&second), (TRACE.to_owned(), run_2.id.clone()));
    assert!(run_1.links.is_empty());
    assert_eq!(run_2.links, [(TRACE.to_owned(), run_1.id.clone())], "linked to the attempt before");
    assert_eq!((run_1.status, run_1.error.as_str()), (2, "mailbox full"));
    assert_eq!((run_2.status, run_2.error.as_str()), (1, ""));
    assert_eq!(run_2.attributes["windlass.attempt"], "2");
    assert_eq!(run_2.attributes["messaging.message.id"], "t1");
    assert_eq!(collector.service(), "windlass");
}

#[test]
fn headers_that_are_no_trace_are_ignored_and_a_task_names_its_own() {
    let (collector, mut broker, mut client) = start();
    for header in ["garbage", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", ""] {
        let task = submit(&mut client, &format!("traceparent: {header}\r\n"), json!({"type": "own"}));
        assert_eq!(task["metadata"]["traceparent"], Value::Null);
    }
    let mine = format!("00-{}-{PRODUCER}-01", "a".repeat(32));
    let task = submit(&mut client, HEADER, json!({"type": "mine", "metadata": {"traceparent": mine}}));
    assert_eq!(task["metadata"]["traceparent"], mine);
    submit(&mut client, &HEADER.replace("-01\r", "-00\r"), json!({"type": "unwanted"}));
    let batch = json!({"tasks": [{"type": "batched"}, {"type": "batched"}]}).to_string();
    client.post_with("/api/v1/tasks/batch", HEADER, &batch).expect(200);
    broker.terminate();
    assert_eq!(broker.wait(), Some(0));
    let spans = collector.spans();
    let of = |name: &str| -> Vec<&Span> { spans.iter().filter(|span| span.name == name).collect() };
    let own = of("submit own");
    assert_eq!(own.len(), 3);
    for span in own {
        assert_eq!(span.parent, "", "it begins a trace");
        assert_eq!(span.attributes["messaging.message.id"].replace('-', ""), span.trace, "named as the task");
    }
    assert_eq!(of("submit mine")[0].trace, "a".repeat(32));
    assert!(of("submit unwanted").is_empty(), "the producer does not want it recorded");
    assert!(of("submit batched").len() == 2 && of("submit batched").iter().all(|span| span.trace == TRACE));
}

#[test]
fn a_fire_is_linked_to_its_schedule() {
    let (collector, mut broker, mut client) = start();
    let schedule = json!({"id": "nightly", "cron": "0 3 * * *", "task": {"type": "report"}}).to_string();
    client.post("/api/v1/schedules", &schedule).expect(201);
    for _ in 0..2 {
        let run = client.post("/api/v1/schedules/nightly/run", "");
        assert!(run.status < 300, "{}", run.text);
    }
    broker.terminate();
    assert_eq!(broker.wait(), Some(0));
    let spans = collector.spans();
    let fires: Vec<&Span> = spans.iter().filter(|span| span.name == "fire nightly").collect();
    let submits: Vec<&Span> = spans.iter().filter(|span| span.name == "submit report").collect();
    assert_eq!((fires.len(), submits.len()), (2, 2), "{spans:#?}");
    assert_eq!(fires[0].trace, fires[1].trace, "one trace for the schedule");
    for submit in submits {
        let [(trace, id)] = &submit.links[..] else { panic!("one link: {submit:?}") };
        assert!(fires.iter().any(|fire| fire.trace == *trace && fire.id == *id));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_metadata_counts_and_programs_are_told() {
    let (collector, mut broker, mut client) = start();
    let task = NewTask { id: "g1".into(), r#type: "job".into(), ..NewTask::default() };
    let mut request = tonic::Request::new(SubmitTaskRequest { task: Some(task), return_task: false });
    let header = MetadataValue::try_from(format!("00-{TRACE}-{PRODUCER}-01")).unwrap();
    request.metadata_mut().insert("traceparent", header);
    tasks(broker.grpc_address).await.submit_task(request).await.unwrap();
    let mut worker = process::command(&["worker", "exec", "--type", "job"])
        .args(["--grpc-server", &format!("http://{}", broker.grpc_address), "--", "sh", "-c"])
        .arg("printf '\"%s\"' \"$TRACEPARENT\"")
        .env("TRACEPARENT", "of the worker itself")
        .spawn()
        .unwrap();
    let done = client.get("/api/v1/tasks/g1?wait=30s").expect(200);
    process::terminate(&worker);
    worker.wait().unwrap();
    broker.terminate();
    assert_eq!(broker.wait(), Some(0));
    let spans = collector.spans();
    let run = spans.iter().find(|span| span.name == "run job").expect("an attempt");
    assert_eq!(done["result"], format!("00-{TRACE}-{}-01", run.id), "the program is told of its attempt");
    assert_eq!(run.trace, TRACE);
}

#[test]
fn without_a_collector_the_header_is_not_looked_at_and_metadata_is_passed_on() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let task = submit(&mut client, HEADER, json!({"type": "t"}));
    assert_eq!(task["metadata"]["traceparent"], Value::Null);
    let given = format!("00-{TRACE}-{PRODUCER}-01");
    assert_eq!(claim(&mut client)["id"], task["id"]);
    submit(&mut client, "", json!({"type": "t", "metadata": {"traceparent": given}}));
    assert_eq!(claim(&mut client)["metadata"]["traceparent"], given);
}

#[test]
fn a_collector_that_is_away_holds_up_nothing() {
    // Nobody listens there.
    let broker = BrokerProcess::start_with(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
        ("WINDLASS_LOG", "error"),
    ]);
    let mut client = broker.client();
    for _ in 0..50 {
        submit(&mut client, HEADER, json!({"type": "t"}));
        let task = claim(&mut client);
        report(&mut client, &task, "complete", json!({}));
    }
    let mut broker = broker;
    broker.terminate();
    assert_eq!(broker.wait(), Some(0), "it ends all the same");
}
