//! Live events of the running binary: heard in order, gone on with after a cut, and told when something is missing.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use windlass_proto::grpc::Refusal;
use windlass_proto::grpc::v1::WatchTasksRequest;

use crate::broker_process::BrokerProcess;
use crate::cli::process;
use crate::events_client::{Lines, Socket};
use crate::grpc_client;
use crate::http::{Client, text};

fn submit(client: &mut Client, body: &Value) {
    client.post("/api/v1/tasks", &body.to_string()).expect(201);
}

/// Has a worker claim the next task and complete it.
fn work(client: &mut Client) {
    let claimed = client.post("/api/v1/claim", r#"{"worker_id":"w","wait_seconds":20}"#).expect(200);
    let task = &claimed["tasks"][0];
    let path = format!("/api/v1/tasks/{}/complete", text(&task["id"]));
    client.post(&path, &json!({"lease": task["lease"]}).to_string()).expect(200);
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

fn id(event: &Value) -> u64 {
    event["id"].as_u64().unwrap()
}

const LIFE: [&str; 3] = ["task.submitted", "task.started", "task.completed"];

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_heard_from_its_submit_to_its_end() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let mut socket = Socket::connect(broker.address, "?type=task.*&task=a").await;
    let mut stream = Lines::get(broker.address, "/api/v1/events?type=task.*&queue=mail", "");
    assert_eq!(stream.line(), "HTTP/1.1 200 OK");
    assert_eq!(stream.after("content-type: "), "text/event-stream");
    stream.after("retry: ");
    submit(&mut client, &json!({"id":"other","type":"t","priority":0}));
    submit(&mut client, &json!({"id":"a","type":"email.send","queue":"mail","priority":200}));
    let claim = r#"{"worker_id":"w","queues":["mail"],"wait_seconds":20}"#;
    let task = client.post("/api/v1/claim", claim).expect(200)["tasks"][0].clone();
    client.post("/api/v1/tasks/a/complete", &json!({"lease": task["lease"]}).to_string()).expect(200);
    let events = socket.until("task.completed").await;
    assert_eq!(kinds(&events), LIFE);
    assert!(events.is_sorted_by(|a, b| id(a) < id(b)), "{events:?}");
    for (event, state) in events.iter().zip(["pending", "running", "completed"]) {
        let data = &event["data"];
        assert_eq!((&data["task_id"], &data["type"]), (&json!("a"), &json!("email.send")));
        assert_eq!((&data["queue"], &data["state"]), (&json!("mail"), &json!(state)));
        assert!(event["timestamp"].as_str().unwrap().ends_with('Z'));
    }
    assert_eq!(events[1]["data"]["worker_id"], "w");
    assert!(events[2]["data"]["duration_ms"].is_u64());
    for event in &events {
        assert_eq!(stream.event(), (id(event), event.clone()), "both say the same");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_connections_lose_nothing_and_hear_nothing_twice() {
    const TASKS: usize = 600;
    let broker = BrokerProcess::start();
    let mut socket = Socket::connect(broker.address, "?type=task.submitted").await;
    let mut client = broker.client();
    let submitting = std::thread::spawn(move || {
        for number in 0..TASKS {
            submit(&mut client, &json!({"id": format!("t-{number}"), "type": "t"}));
        }
    });
    let mut heard: Vec<Value> = Vec::new();
    while heard.len() < TASKS {
        let event = socket.event().await;
        assert_eq!(event["type"], "task.submitted", "nothing is missing: {event}");
        heard.push(event);
        if heard.len().is_multiple_of(50) {
            let query = format!("?type=task.submitted&last_id={}", id(&heard[heard.len() - 1]));
            socket = Socket::connect(broker.address, &query).await;
        }
    }
    submitting.join().unwrap();
    assert!(heard.is_sorted_by(|a, b| id(a) < id(b)));
    let tasks: Vec<String> = heard.iter().map(|event| text(&event["data"]["task_id"])).collect();
    let expected: Vec<String> = (0..TASKS).map(|number| format!("t-{number}")).collect();
    assert_eq!(tasks, expected);
    // A browser comes back with a header, which is newer than what the address says.
    let after = format!("last-event-id: {}\r\n", id(&heard[TASKS - 2]));
    let mut stream = Lines::get(broker.address, "/api/v1/events?type=task.*&last_id=1", &after);
    assert_eq!(stream.event(), (id(&heard[TASKS - 1]), heard[TASKS - 1].clone()));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_was_cut_before_it_heard_anything_comes_back_to_where_it_was() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let mut socket = Socket::connect(broker.address, "?type=task.*").await;
    let position = socket.message().await.unwrap();
    assert_eq!((&position["type"], &position["data"]), (&json!("position"), &json!({})));
    let mut stream = Lines::get(broker.address, "/api/v1/events?type=task.*", "");
    let hello = stream.after("id: ");
    stream.after("retry: ");
    drop((socket, stream));
    submit(&mut client, &json!({"id": "between", "type": "t"}));
    let query = format!("?type=task.*&last_id={}", id(&position));
    let event = Socket::connect(broker.address, &query).await.event().await;
    assert_eq!((&event["type"], &event["data"]["task_id"]), (&json!("task.submitted"), &json!("between")));
    let header = format!("last-event-id: {hello}\r\n");
    let mut stream = Lines::get(broker.address, "/api/v1/events?type=task.*", &header);
    assert_eq!(stream.event(), (id(&event), event));
    // A gap is told before where it leads to.
    let mut socket = Socket::connect(broker.address, "?type=task.*&last_id=1").await;
    assert_eq!(socket.message().await.unwrap()["type"], "gap");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_is_told_as_a_gap_and_ids_still_grow() {
    let mut broker = BrokerProcess::start();
    let mut socket = Socket::connect(broker.address, "?type=task.*").await;
    submit(&mut broker.client(), &json!({"type": "t"}));
    let before = socket.event().await;
    broker.kill_and_restart();
    let query = format!("?type=task.*&last_id={}", id(&before));
    let mut socket = Socket::connect(broker.address, &query).await;
    let gap = socket.event().await;
    assert_eq!((&gap["type"], &gap["data"]["reason"]), (&json!("gap"), &json!("restart")));
    assert_eq!((gap["data"]["missed"].is_null(), id(&gap) > id(&before)), (true, true), "{gap}");
    submit(&mut broker.client(), &json!({"type": "t"}));
    let after = socket.event().await;
    assert_eq!(after["type"], "task.submitted");
    assert!(id(&after) > id(&gap));
}

/// Tasks whose events are large, because their names are.
fn long_named(client: &mut Client, round: usize) {
    let name = "n".repeat(120);
    let task = |i: usize| json!({"type": name, "queue": name, "id": format!("{round}-{i}-{name}")[..120]});
    let tasks: Vec<Value> = (0..1000).map(task).collect();
    client.post("/api/v1/tasks/batch", &json!({ "tasks": tasks }).to_string()).expect(200);
}

/// The value of a series that has no labels.
fn metric(client: &mut Client, name: &str) -> u64 {
    let page = client.get("/metrics").text;
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {page}")).parse().unwrap()
}

/// Submits until somebody was cut who does not read; says how many thousand.
fn until_cut(client: &mut Client) -> usize {
    let mut rounds = 0;
    while metric(client, "taskqueue_event_listeners_cut_total") == 0 {
        long_named(client, rounds);
        rounds += 1;
        assert!(rounds < 100, "it should have been cut by now");
    }
    rounds
}

/// Asks until so many listen as there should.
fn until(client: &mut Client, enough: impl Fn(u64) -> bool) {
    let began = Instant::now();
    while !enough(metric(client, "taskqueue_event_listeners")) {
        assert!(began.elapsed() < Duration::from_secs(60), "as many listen as should not");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_does_not_read_is_cut_and_told() {
    let broker = BrokerProcess::start_with(&[("WINDLASS_SERVER__LISTENER_STALL", "1s")]);
    let mut client = broker.client();
    let mut stalled = Socket::try_connect(broker.address, "?type=task.*", None, Some(4096)).await.unwrap();
    let mut reading = Socket::connect(broker.address, "?type=task.*").await;
    let counting = tokio::spawn(async move {
        let mut events = 0;
        while reading.event().await["data"]["task_id"] != "last" {
            events += 1;
        }
        events
    });
    let rounds = until_cut(&mut client);
    let mut heard = 0;
    let close = loop {
        match stalled.heard().await {
            Ok(_) => heard += 1,
            Err(close) => break close.expect("it is told why"),
        }
    };
    assert_eq!((close.code, heard > 0), (CloseCode::Again, true));
    assert!(close.reason.contains("last_id"), "{close:?}");
    // Whoever reads has heard all of it.
    submit(&mut client, &json!({"id": "last", "type": "t"}));
    assert_eq!(counting.await.unwrap(), rounds * 1000);
    until(&mut client, |listeners| listeners == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_sse_reader_that_does_not_read_is_told_too() {
    let broker = BrokerProcess::start_with(&[("WINDLASS_SERVER__LISTENER_STALL", "1s")]);
    let mut client = broker.client();
    let mut stream = Lines::get(broker.address, "/api/v1/events?type=task.*", "");
    stream.after("retry: ");
    until_cut(&mut client);
    let mut last = 0;
    let closed = loop {
        let (id, event) = stream.event();
        if event["type"] == "closed" {
            break (id, event);
        }
        assert!(id > last);
        last = id;
    };
    assert_eq!((closed.0, &closed.1["data"]["reason"]), (last, &json!("too_slow")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grpc_watcher_that_does_not_read_is_cut_and_told() {
    let broker = BrokerProcess::start_with(&[("WINDLASS_SERVER__LISTENER_STALL", "1s")]);
    let mut client = broker.client();
    let mut tasks = grpc_client::tasks(broker.grpc_address).await;
    let mut updates = tasks.watch_tasks(WatchTasksRequest::default()).await.unwrap().into_inner();
    until_cut(&mut client);
    let mut heard = 0;
    let status = loop {
        match updates.message().await {
            Ok(message) => heard += message.expect("it is told why").updates.len(),
            Err(status) => break status,
        }
    };
    assert_eq!((Refusal::of(&status).unwrap().code.as_str(), heard > 0), ("too_slow", true));
    until(&mut client, |listeners| listeners == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_from_elsewhere_may_not_listen() {
    let broker = BrokerProcess::start_with(&[
        ("WINDLASS_SERVER__ALLOWED_ORIGINS", "https://board.example"),
        ("WINDLASS_SERVER__LISTENERS_MAX", "1"),
    ]);
    let address = broker.address;
    let status = |refused: Result<Socket, Error>| match refused {
        Err(Error::Http(response)) => response.status().as_u16(),
        other => panic!("it should be refused: {other:?}"),
    };
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1"] {
        assert_eq!(status(Socket::try_connect(address, "", Some(origin), None).await), 403, "{origin}");
        let mut stream = Lines::get(address, "/api/v1/events", &format!("origin: {origin}\r\n"));
        assert_eq!(stream.line(), "HTTP/1.1 403 Forbidden");
    }
    let own = format!("http://{address}");
    let socket = Socket::try_connect(address, "", Some(&own), None).await.unwrap();
    assert_eq!(status(Socket::try_connect(address, "", None, None).await), 503, "one may listen");
    broker.client().get("/api/v1/events").refused(503, "too_many_listeners");
    drop(socket);
    // Whether it is gone is known when its end was read.
    until(&mut broker.client(), |listeners| listeners == 0);
    let mut stream = Lines::get(address, "/api/v1/events", "origin: https://board.example\r\n");
    assert_eq!(stream.after("access-control-allow-origin: "), "https://board.example");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_talk_too_much_are_closed_and_others_go_on() {
    let broker = BrokerProcess::start();
    let mut good = Socket::connect(broker.address, "?type=task.*").await;
    let mut huge = Socket::connect(broker.address, "").await;
    // It may be closed before it has sent all of it.
    let _ = huge.send(Message::Text("x".repeat(100_000).into())).await;
    let mut chatty = Socket::connect(broker.address, "?type=task.*").await;
    for _ in 0..100 {
        chatty.send(Message::Text("hello".into())).await.unwrap();
    }
    let mut client = broker.client();
    submit(&mut client, &json!({"type": "t"}));
    assert_eq!(good.event().await["type"], "task.submitted");
    assert_eq!(chatty.event().await["type"], "task.submitted", "what it says does not matter");
    until(&mut client, |listeners| listeners <= 2);
    // One that never ends does: all listeners share one thread.
    let flood = async { while chatty.send(Message::Ping(Vec::new().into())).await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(60), flood).await.expect("a flood is ended by the broker");
    submit(&mut client, &json!({"type": "t"}));
    assert_eq!(good.event().await["type"], "task.submitted");
    until(&mut client, |listeners| listeners <= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_come_while_somebody_listens_and_a_stop_is_told() {
    let mut broker = BrokerProcess::start();
    submit(&mut broker.client(), &json!({"type": "t", "queue": "mail"}));
    let mut socket = Socket::connect(broker.address, "?type=queue.depth,system.*").await;
    let mut stream = Lines::get(broker.address, "/api/v1/events?type=queue.paused", "");
    stream.after("retry: ");
    for _ in 0..2 {
        let depth = socket.event().await;
        assert_eq!(depth["type"], "queue.depth");
        let queue = &depth["data"]["queues"][0];
        assert_eq!((&queue["queue"], &queue["depths"]["pending"]), (&json!("mail"), &json!(1)));
        assert_eq!(queue["paused"], false);
        let metrics = socket.event().await;
        assert_eq!(metrics["type"], "system.metrics");
        assert_eq!(
            (&metrics["data"]["submitted_total"], &metrics["data"]["pending"]),
            (&json!(1), &json!(1))
        );
        assert!(metrics["data"]["memory_bytes"].as_u64().unwrap() > 1_000_000);
    }
    broker.terminate();
    let close = loop {
        if let Err(close) = socket.heard().await {
            break close.expect("it is told why");
        }
    };
    assert_eq!(close.code, CloseCode::Away);
    assert_eq!(stream.event().1["data"]["reason"], "stopping");
    assert_eq!(broker.wait(), Some(0));
}

#[test]
fn the_command_line_ends_when_nobody_reads_it() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let server = format!("http://{}", broker.address);
    let mut command = process::command(&["events", "tail", "--server", &server]);
    let mut tail = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    until(&mut client, |listeners| listeners > 0);
    drop(tail.stdout.take());
    // The first is written into the void, which is how it learns.
    submit(&mut client, &json!({"type": "t"}));
    assert!(tail.wait().unwrap().success(), "as under `| head`");
    until(&mut client, |listeners| listeners == 0);
    // What cannot be kept is no success.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let kept = process::command(&["task", "list", "--server", &server]).stdout(full).output().unwrap();
    assert_eq!(kept.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&kept.stderr).contains("standard output"), "{kept:?}");
}

#[test]
fn the_command_line_prints_events_and_goes_on_where_it_was() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let server = format!("http://{}", broker.address);
    let words = ["events", "tail", "-n", "3", "--queue", "default", "--server", &server, "-o", "json"];
    let tail = process::command(&words).stdout(std::process::Stdio::piped()).spawn().unwrap();
    until(&mut client, |listeners| listeners > 0);
    submit(&mut client, &json!({"type": "t"}));
    work(&mut client);
    let done = tail.wait_with_output().unwrap();
    assert!(done.status.success());
    let lines = String::from_utf8(done.stdout).unwrap();
    let events: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(kinds(&events), LIFE);
    let first = id(&events[0]).to_string();
    let again = ["events", "tail", "-n", "2", "--type", "task.*", "--last-id", &first, "--server", &server];
    let shown = process::run(&again);
    let lines: Vec<&str> = shown.stdout.lines().collect();
    assert!(lines[0].contains("task.started") && lines[1].contains("task.completed"), "{shown:?}");
    let wrong = process::run(&["events", "tail", "--type", "nothing", "--server", &server]);
    assert_eq!((wrong.code, wrong.stdout.as_str()), (2, ""), "{wrong:?}");
}
