//! One memory budget for what clients make the broker hold: half-sent bodies and answers that nobody reads, over every interface.
//!
//! Each test attacks a broker with many times its budget. The count stays within the budget and the process does not grow by what was
//! sent, the attackers are refused or cut, and a client that behaves gets through.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{iter, pending};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use tokio::task::JoinSet;
use tonic::{Code, Status};
use windlass_proto::grpc::Refusal;
use windlass_proto::grpc::v1::{GetTaskRequest, NewTask, SubmitTaskRequest, new_task};

use crate::broker_process::BrokerProcess;
use crate::frames::{Frames, NACK, STATUS, SUBMIT, frame};
use crate::grpc_client::tasks;
use crate::http::{Answer, Client};

const PAYLOAD_BYTES: usize = 8_000_000;
const BUDGET_BYTES: usize = 32 << 20;
const ATTACKERS: usize = 30;
/// All attackers together would take far more.
const GROWTH_BYTES_MAX: u64 = 160 << 20;
/// For what has to happen sometime.
const PATIENCE: Duration = Duration::from_secs(60);

fn start() -> BrokerProcess {
    BrokerProcess::start_with(&[
        ("WINDLASS_SERVER__MAX_PAYLOAD_BYTES", "8000000"),
        ("WINDLASS_SERVER__MEMORY_BUDGET_BYTES", "32MiB"),
    ])
}

/// A submit of the largest payload, under an id.
fn large(id: &str) -> String {
    format!(r#"{{"id":"{id}","type":"t","payload":"{}"}}"#, "x".repeat(PAYLOAD_BYTES - 2))
}

fn figure(client: &mut Client, name: &str) -> u64 {
    let page = client.get("/metrics");
    let line =
        page.text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::to_owned);
    line.unwrap_or_else(|| panic!("there is no {name}")).parse().unwrap()
}

fn resident_bytes(broker: &BrokerProcess) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", broker.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// A socket that takes little before it is read.
fn narrow(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    set_socket_recv_buffer_size(&stream, 4096).unwrap();
    stream
}

/// Repeats a call that is refused for want of memory until it is answered, and looks at the figures meanwhile.
fn until_answered(broker: &BrokerProcess, mut call: impl FnMut() -> Answer) -> Answer {
    let (mut probe, began) = (broker.client(), Instant::now());
    loop {
        let answer = call();
        if answer.status != 503 {
            return answer;
        }
        assert_eq!(answer.header("retry-after"), Some("1"));
        answer.refused(503, "overloaded");
        assert!(began.elapsed() < PATIENCE, "an honest client is never served");
        assert!(figure(&mut probe, "taskqueue_memory_budget_used_bytes") <= 2 * BUDGET_BYTES as u64);
    }
}

/// Waits until the broker has cut or refused somebody, with the count within the budget and the process small.
fn until_defended(broker: &BrokerProcess, before: u64) {
    let (mut probe, began) = (broker.client(), Instant::now());
    let mut defended = 0;
    // Until a whole round of waits and cuts is over.
    while defended < 5 {
        let used = figure(&mut probe, "taskqueue_memory_budget_used_bytes");
        // Connections may take a little more, so that they can be told that they have to wait.
        assert!(used <= (BUDGET_BYTES + (1 << 20)) as u64, "{used} bytes are counted");
        let grown = resident_bytes(broker).saturating_sub(before);
        assert!(grown < GROWTH_BYTES_MAX, "the process has grown by {grown} bytes");
        let of = |probe: &mut Client, name: &str| figure(probe, name);
        defended = of(&mut probe, "taskqueue_memory_budget_cut_total")
            + of(&mut probe, "taskqueue_memory_budget_refused_total");
        assert!(began.elapsed() < PATIENCE, "nobody was cut or refused");
    }
}

/// Sends what the server takes from many connections, and passes on what it answers to each.
fn attack(address: SocketAddr, count: usize, bytes: &[u8]) -> mpsc::Receiver<String> {
    let (answered, answers) = mpsc::channel();
    for _ in 0..count {
        let (mut stream, bytes, answered) =
            (TcpStream::connect(address).unwrap(), bytes.to_vec(), answered.clone());
        thread::spawn(move || {
            let _ = stream.write_all(&bytes);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            let _ = answered.send(String::from_utf8_lossy(&answer).into_owned());
        });
    }
    answers
}

/// Waits until an attacker is told that the broker has no room.
fn until_told(answers: &mpsc::Receiver<String>) -> String {
    loop {
        let answer = answers.recv_timeout(PATIENCE).expect("those who are refused are told so");
        if answer.contains("overloaded") {
            return answer;
        }
    }
}

#[test]
fn bodies_one_byte_short_do_not_use_up_the_memory() {
    let broker = start();
    let before = resident_bytes(&broker);
    let body = large("half");
    let head = format!(
        "POST /api/v1/tasks HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let short = [head.as_bytes(), &body.as_bytes()[..body.len() - 1]].concat();
    let answers = attack(broker.address, ATTACKERS, &short);
    until_defended(&broker, before);
    let honest = until_answered(&broker, || broker.client().post("/api/v1/tasks", &large("honest")));
    honest.expect(201);
    broker.client().post("/api/v1/tasks", r#"{"type":"small"}"#).expect(201);
    let told = until_told(&answers);
    assert!(told.starts_with("HTTP/1.1 503") && told.contains("retry-after: 1"), "{told}");
    assert_eq!(broker.client().get("/api/v1/tasks/half").status, 404);
}

#[test]
fn answers_that_nobody_reads_do_not_use_up_the_memory() {
    let broker = start();
    broker.client().post("/api/v1/tasks", &large("big")).expect(201);
    let before = resident_bytes(&broker);
    let attackers: Vec<_> = (0..ATTACKERS)
        .map(|_| {
            let mut stream = narrow(broker.address);
            stream.write_all(b"GET /api/v1/tasks/big HTTP/1.1\r\nhost: t\r\n\r\n").unwrap();
            stream
        })
        .collect();
    until_defended(&broker, before);
    let answer = until_answered(&broker, || broker.client().get("/api/v1/tasks/big"));
    assert!(answer.expect(200)["payload"].as_str().unwrap().len() == PAYLOAD_BYTES - 2);
    // Lists of the same tasks are refused or answered; they hold no more than the others.
    until_answered(&broker, || broker.client().get("/api/v1/tasks?limit=10")).expect(200);
    let mut probe = broker.client();
    assert!(figure(&mut probe, "taskqueue_memory_budget_cut_total") > 0, "slow readers are cut");
    drop(attackers);
}

#[test]
fn frames_one_byte_short_and_answers_not_read_do_not_use_up_the_memory() {
    let broker = start();
    broker.frames().call(SUBMIT, large("big")).ok();
    let before = resident_bytes(&broker);
    let whole = frame(SUBMIT, large("half"));
    let answers = attack(broker.tcp_address, ATTACKERS / 2, &whole[..whole.len() - 1]);
    let readers: Vec<_> = (0..ATTACKERS / 2)
        .map(|_| {
            let mut stream = narrow(broker.tcp_address);
            stream.write_all(&frame(STATUS, r#"{"id":"big"}"#).repeat(8)).unwrap();
            stream
        })
        .collect();
    until_defended(&broker, before);
    let began = Instant::now();
    loop {
        let mut frames = Frames::connect(broker.tcp_address);
        // It may be answered and closed before all of it was sent.
        let _ = frames.stream.get_mut().write_all(&frame(SUBMIT, large("honest")));
        match frames.try_read() {
            Ok(answer) if answer.kind == NACK => drop(answer.refused(503, "overloaded")),
            Ok(answer) => break drop(answer.ok()),
            Err(error) => assert!(
                matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset),
                "{error}"
            ),
        }
        assert!(began.elapsed() < PATIENCE, "an honest client is never served");
    }
    until_told(&answers);
    drop(readers);
}

fn framed(message: &impl Message) -> Bytes {
    let message = message.encode_to_vec();
    [&[0], &(message.len() as u32).to_be_bytes()[..], &message].concat().into()
}

fn call(address: SocketAddr, name: &str, body: Body) -> Request<Body> {
    Request::post(format!("http://{address}/windlass.v1.TaskService/{name}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(body)
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_one_byte_short_and_answers_not_read_do_not_use_up_the_memory() {
    let broker = start();
    let address = broker.grpc_address;
    let submit = |id: &str| {
        let payload = Some(new_task::Payload::PayloadBinary(vec![7; PAYLOAD_BYTES].into()));
        let task = NewTask { id: id.into(), r#type: "t".into(), payload, ..NewTask::default() };
        SubmitTaskRequest { task: Some(task), return_task: false }
    };
    let mut honest = tasks(address).await.max_decoding_message_size(usize::MAX);
    honest.submit_task(submit("big")).await.unwrap();
    let before = resident_bytes(&broker);
    let whole = framed(&submit("half"));
    let short = whole.slice(..whole.len() - 1);
    let mut attackers = JoinSet::new();
    let mut senders = Vec::new();
    for number in 0..ATTACKERS {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let mut client = http2::Builder::new(TokioExecutor::new());
        // A window that fits no answer: whatever is not read waits in the server.
        client.initial_stream_window_size(1000);
        let (mut sender, connection) = client.handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = match number % 2 {
            0 => {
                let pieces = iter(vec![Ok::<_, std::io::Error>(short.clone())]).chain(pending());
                call(address, "SubmitTask", Body::from_stream(pieces))
            }
            _ => {
                let get = GetTaskRequest { id: "big".into(), wait_seconds: 0.0 };
                call(address, "GetTask", Body::from(framed(&get)))
            }
        };
        attackers.spawn(sender.send_request(request));
        senders.push(sender);
    }
    tokio::task::block_in_place(|| until_defended(&broker, before));
    let began = Instant::now();
    loop {
        match tasks(address).await.submit_task(submit("honest")).await {
            Ok(_) => break,
            // A connection that waited for its turn may be given up as a whole.
            Err(status) => assert!(is_overload(&status) || Refusal::of(&status).is_none(), "{status:?}"),
        }
        assert!(began.elapsed() < PATIENCE, "an honest client is never served");
    }
    let told = loop {
        let ended = attackers.join_next().await.expect("those who are refused are told so").unwrap();
        let Ok(answer) = ended else { continue };
        if let Some(status) = Status::from_header_map(answer.headers()).filter(is_overload) {
            break status;
        }
    };
    assert_eq!(told.code(), Code::Unavailable);
}

fn is_overload(status: &Status) -> bool {
    Refusal::of(status).is_some_and(|refusal| refusal.code == "overloaded")
}

#[test]
fn a_budget_that_has_no_room_for_the_largest_body_is_refused() {
    use crate::cli::process::{Done, command};
    let check = |value: &str| -> Done {
        let mut command = command(&["config", "check"]);
        command.env("WINDLASS_SERVER__MEMORY_BUDGET_BYTES", value).output().unwrap().into()
    };
    let refused = check("20MB");
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("server.memory_budget_bytes = \"20MB\": expected at least 39MiB"),
        "{}",
        refused.stderr
    );
    assert_eq!(check("39MiB").code, 0);
    assert_eq!(check("auto").code, 0);
    assert!(check("much").stderr.contains("or auto"));
}
