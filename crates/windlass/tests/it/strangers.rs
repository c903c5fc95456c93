//! Clients that are careless, gone or too many, and what others notice of them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::broker_process::BrokerProcess;
use crate::frames::{ACK, CLAIM, frame};
use crate::http::Client;

fn pause(ms: u64) {
    // sleep: each caller says what for.
    std::thread::sleep(Duration::from_millis(ms));
}

fn head(line: &str, length: usize) -> String {
    format!(
        "{line} HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
}

/// These routes answer without looking at the body, which comes in a second packet.
#[test]
fn an_early_answer_keeps_the_connection_or_says_that_it_closes() {
    let broker = BrokerProcess::start();
    let routes = [
        ("POST /api/v1/tasks/nope/cancel", 404),
        ("POST /api/v1/tasks/nope/retry", 404),
        ("POST /nowhere", 404),
        ("PUT /api/v1/tasks", 405),
    ];
    for (line, status) in routes.into_iter().cycle().take(40) {
        let mut stream = TcpStream::connect(broker.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.write_all(head(line, 2).as_bytes()).unwrap();
        // sleep: the head is meant to arrive alone.
        pause(2);
        stream.write_all(b"{}").unwrap();
        let mut client = Client::over(stream);
        let answer = client.read();
        assert_eq!((answer.status, answer.header("connection")), (status, None), "{line}");
        assert_eq!(client.get("/livez").status, 200, "{line}");
    }
    for (line, status) in routes {
        let large = vec![b' '; 100_000];
        let answer = broker.client().send(&head(line, large.len()), &large);
        assert_eq!((answer.status, answer.header("connection")), (status, Some("close")), "{line}");
    }
    let asks = "POST /nowhere HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n";
    let answer = broker.client().send(asks, b"");
    assert_eq!((answer.status, answer.header("connection")), (404, Some("close")));
}

#[test]
fn compressed_bodies_and_wrong_hosts_are_refused() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    client
        .post_with("/api/v1/tasks", "content-encoding: gzip\r\n", "x")
        .refused(415, "unsupported_media_type");
    client.post_with("/api/v1/tasks", "content-encoding: identity\r\n", r#"{"type":"t"}"#).expect(201);
    for hosts in ["", "host: t\r\nhost: t\r\n"] {
        let request = format!("GET /livez HTTP/1.1\r\n{hosts}\r\n");
        broker.client().send(&request, b"").refused(400, "malformed");
    }
    assert_eq!(broker.client().send("GET /livez HTTP/1.0\r\n\r\n", b"").status, 200);
}

#[test]
fn a_hangup_does_not_end_the_broker() {
    let broker = BrokerProcess::start();
    let sent = Command::new("kill").args(["-HUP", &broker.pid().to_string()]).status().unwrap();
    assert!(sent.success());
    // sleep: a broker that does not ignore the signal ends at once.
    pause(300);
    broker.client().post("/api/v1/tasks", r#"{"type":"t"}"#).expect(201);
}

#[test]
fn nothing_is_leased_to_a_client_that_is_gone() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let claim = json!({"worker_id": "gone", "wait_seconds": 60}).to_string();
    let claims = frame(CLAIM, &claim).repeat(300);

    let mut half = broker.frames();
    half.send(&claims);
    half.close_sending();
    for _ in 0..300 {
        let answer = half.read();
        assert_eq!((answer.kind, answer.body["tasks"].as_array().map(Vec::len)), (ACK, Some(0)));
    }

    let mut whole = broker.frames();
    whole.send(&claims);
    drop(whole);
    let mut pipelined = TcpStream::connect(broker.address).unwrap();
    let request = head("POST /api/v1/claim", claim.len()) + &claim;
    pipelined.write_all(request.repeat(5).as_bytes()).unwrap();
    // sleep: as long as the broker may take to notice.
    pause(500);
    drop(pipelined);
    pause(500);
    let tasks = json!({"tasks": vec![json!({"type": "t"}); 20]}).to_string();
    client.post("/api/v1/tasks/batch", &tasks).expect(200);
    pause(300);
    let counts = &client.get("/api/v1/stats").expect(200)["tasks"];
    assert_eq!((&counts["pending"], &counts["running"]), (&json!(20), &json!(0)), "{counts}");
}

#[test]
fn idle_connections_leave_the_store_its_descriptors() {
    let home = tempfile::tempdir().unwrap();
    let mut child = Command::new("prlimit")
        .args(["--nofile=128:256", env!("CARGO_BIN_EXE_windlass"), "serve", "--data-dir"])
        .arg(home.path().join("data"))
        .args(["--http-addr", "127.0.0.1:0", "--tcp-addr", "127.0.0.1:0", "--grpc-addr", "none"])
        .envs([("WINDLASS_STORE__SEGMENT_BYTES", "1MiB"), ("WINDLASS_STORE__DISK_RESERVE_BYTES", "16MiB")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut text = String::new();
    let mut out = child.stdout.take().unwrap();
    let mut byte = [0];
    while !text.contains("listening http ") || !text.ends_with('\n') {
        assert_eq!(out.read(&mut byte).unwrap(), 1, "{text}");
        text.push(byte[0] as char);
    }
    let address =
        |what: &str| text.lines().find_map(|line| line.strip_prefix(what)?.parse().ok()).expect("an address");
    let (tcp, http): (std::net::SocketAddr, _) = (address("listening tcp "), address("listening http "));
    let mut client = Client::connect(http);
    assert_eq!(client.get("/readyz").status, 200);
    let idle: Vec<TcpStream> = (0..400).filter_map(|_| TcpStream::connect(tcp).ok()).collect();
    assert!(idle.len() > 200, "more than there are descriptors");
    let payload = "x".repeat(600);
    for _ in 0..20 {
        let tasks = json!({"tasks": vec![json!({"type": "t", "payload": payload}); 1000]}).to_string();
        client.post("/api/v1/tasks/batch", &tasks).expect(200);
    }
    assert!(child.try_wait().unwrap().is_none(), "the broker is still there");
    drop(idle);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn pages_of_allowed_origins_may_call_and_read() {
    let broker = BrokerProcess::start_with(&[("WINDLASS_SERVER__ALLOWED_ORIGINS", "https://board.example")]);
    let preflight = |origin: &str| {
        let asked = "access-control-request-method: POST\r\naccess-control-request-headers: content-type\r\n";
        let head = format!("OPTIONS /api/v1/tasks HTTP/1.1\r\nhost: t\r\norigin: {origin}\r\n{asked}\r\n");
        broker.client().send(&head, b"")
    };
    let allowed = preflight("https://board.example");
    assert_eq!(allowed.status, 200);
    assert_eq!(allowed.header("access-control-allow-origin"), Some("https://board.example"));
    assert!(allowed.header("access-control-allow-methods").unwrap().contains("POST"));
    assert!(allowed.header("access-control-allow-headers").unwrap().contains("content-type"));
    assert_eq!(preflight("https://evil.example").header("access-control-allow-origin"), None);

    let origin = "origin: https://board.example\r\n";
    let submitted = broker.client().post_with("/api/v1/tasks", origin, r#"{"type":"t"}"#);
    submitted.expect(201);
    assert_eq!(submitted.header("access-control-allow-origin"), Some("https://board.example"));
    let refused = broker.client().post_with("/api/v1/tasks", origin, "{");
    assert_eq!(refused.status, 400);
    assert_eq!(refused.header("access-control-allow-origin"), Some("https://board.example"));

    let without = BrokerProcess::start();
    let answer = without.client().get("/api/v1/queues");
    assert!(answer.headers.iter().all(|(name, _)| !name.starts_with("access-control") && name != "vary"));
}
