//! What a server must bear: every request here is refused with a clear answer, and changes nothing.

use std::io::Write;
use std::net::TcpStream;

use serde_json::Value;

use crate::broker_process::BrokerProcess;
use crate::http::Client;

/// Method and path, body, status, code, field.
type Row = (&'static str, &'static str, u16, &'static str, &'static str);

const ROWS: &[Row] = &[
    ("GET /api/v1/events?type=task.unknown", "", 400, "malformed", "type"),
    ("GET /api/v1/events?type=", "", 400, "malformed", "type"),
    ("GET /api/v1/events?queue=%3Cscript%3E", "", 400, "malformed", "queue"),
    ("GET /api/v1/events?task=a%20b", "", 400, "malformed", "task"),
    ("GET /api/v1/events?last_id=-1", "", 400, "malformed", "last_id"),
    ("GET /api/v1/events?last_id=18446744073709551616", "", 400, "malformed", "last_id"),
    ("GET /api/v1/events?colour=red", "", 400, "malformed", ""),
    ("GET /ws?colour=red", "", 400, "malformed", ""),
    ("GET /ws?type=nothing", "", 400, "malformed", "type"),
    ("GET /ws", "", 426, "upgrade_required", ""),
    ("POST /api/v1/tasks", "", 400, "malformed", ""),
    ("POST /api/v1/tasks", "{", 400, "malformed", ""),
    ("POST /api/v1/tasks", "[]", 400, "malformed", ""),
    ("POST /api/v1/tasks", "[\"an-id\",\"a\"]", 400, "malformed", ""),
    ("POST /api/v1/tasks", "{\"type\":\"a\",\"retry\":[\"fixed\"]}", 400, "malformed", "retry"),
    ("POST /api/v1/tasks/batch", "[[{\"type\":\"a\"}],false]", 400, "malformed", ""),
    ("PUT /api/v1/limits/queue/q", "[1,null,null,null,false]", 400, "malformed", ""),
    ("POST /api/v1/tasks", "{\"type\":\"a\",\"id\":\".\"}", 400, "malformed", "id"),
    ("POST /api/v1/tasks", "{\"type\":\"a\",\"queue\":\"..\"}", 400, "malformed", "queue"),
    ("POST /api/v1/tasks", "{\"type\":\"a\"} trailing", 400, "malformed", ""),
    ("POST /api/v1/tasks", "{}", 400, "malformed", "type"),
    ("POST /api/v1/tasks", "{\"type\":\"a\",\"colour\":1}", 400, "malformed", "colour"),
    ("POST /api/v1/tasks", "{\"type\":\"a\",\"type\":\"b\"}", 400, "malformed", "type"),
    ("POST /api/v1/tasks", "{\"type\":\"../../etc/passwd\"}", 400, "malformed", "type"),
    ("POST /api/v1/tasks", "{\"type\":\"a\",\"queue\":\"<script>\"}", 400, "malformed", "queue"),
    ("POST /api/v1/tasks", "{\"type\":\"a\",\"queue\":\"\\u001b[31m\"}", 400, "malformed", "queue"),
    ("POST /api/v1/tasks", "{\"type\":\"a\",\"id\":\"a b\"}", 400, "malformed", "id"),
    ("POST /api/v1/tasks", "{\"type\":\"a\",\"delay_seconds\":NaN}", 400, "malformed", ""),
    ("POST /api/v1/tasks", "{\"type\":\"a\",\"delay_seconds\":-1}", 422, "out_of_range", "delay_seconds"),
    ("POST /api/v1/tasks", "{\"type\":\"a\",\"delay_seconds\":1e300}", 422, "out_of_range", "delay_seconds"),
    (
        "POST /api/v1/tasks",
        "{\"type\":\"a\",\"max_retries\":18446744073709551616}",
        400,
        "malformed",
        "max_retries",
    ),
    ("POST /api/v1/tasks", "{\"type\":\"a\",\"priority\":256}", 422, "out_of_range", "priority"),
    ("POST /api/v1/tasks", "{\"type\":\"a\",\"priority\":\"urgent\"}", 422, "out_of_range", "priority"),
    (
        "POST /api/v1/tasks",
        "{\"type\":\"a\",\"scheduled_at\":\"1969-12-31T23:59:59Z\"}",
        422,
        "out_of_range",
        "scheduled_at",
    ),
    (
        "POST /api/v1/tasks",
        "{\"type\":\"a\",\"scheduled_at\":\"9999-01-01T00:00:00Z\"}",
        422,
        "out_of_range",
        "scheduled_at",
    ),
    ("POST /api/v1/tasks", "{\"type\":\"a\",\"expires_at\":\"soon\"}", 400, "malformed", "expires_at"),
    (
        "POST /api/v1/tasks",
        "{\"type\":\"a\",\"dependencies\":[\"b\"]}",
        422,
        "dependency_missing",
        "dependencies",
    ),
    ("POST /api/v1/tasks", "{\"type\":\"a\",\"unique_key\":\"\"}", 422, "out_of_range", "unique_key"),
    ("POST /api/v1/tasks", "{\"type\":\"a\",\"key\":\"a b\"}", 400, "malformed", "key"),
    ("PUT /api/v1/limits/key/a", "{\"weight\":0}", 422, "out_of_range", "weight"),
    ("PUT /api/v1/limits/queue/a", "{\"weight\":2}", 422, "out_of_range", "weight"),
    ("PUT /api/v1/limits/key/a", "{\"rate\":{\"count\":1}}", 400, "malformed", "rate.per_seconds"),
    ("PUT /api/v1/limits/tenant/a", "{}", 400, "malformed", "scope"),
    ("GET /api/v1/limits?cursor=abc", "", 400, "malformed", "cursor"),
    ("GET /api/v1/limits?scope=tenant", "", 400, "malformed", "scope"),
    ("POST /api/v1/tasks/batch", "{\"tasks\":[]}", 400, "malformed", "tasks"),
    ("POST /api/v1/claim", "{}", 400, "malformed", "worker_id"),
    ("POST /api/v1/claim", "{\"worker_id\":\"w\",\"queues\":[]}", 422, "out_of_range", "queues"),
    ("POST /api/v1/claim", "{\"worker_id\":\"w\",\"queues\":[\"../x\"]}", 400, "malformed", "queues"),
    ("POST /api/v1/claim", "{\"worker_id\":\"w\",\"max\":0}", 422, "out_of_range", "max"),
    (
        "POST /api/v1/claim",
        "{\"worker_id\":\"w\",\"lease_seconds\":1e9}",
        422,
        "out_of_range",
        "lease_seconds",
    ),
    ("POST /api/v1/tasks/live/complete", "{}", 400, "malformed", "lease"),
    ("POST /api/v1/tasks/live/complete", "{\"lease\":\"x\"}", 409, "lease_lost", ""),
    ("POST /api/v1/tasks/live/complete", "{\"lease\":\"1-00000000000000ff\"}", 409, "lease_lost", ""),
    ("POST /api/v1/tasks/live/fail", "{\"lease\":\"x\"}", 400, "malformed", "error"),
    ("POST /api/v1/tasks/none/complete", "{\"lease\":\"1-00000000000000ff\"}", 404, "not_found", ""),
    ("POST /api/v1/tasks/%2e%2e%2fx/cancel", "", 400, "malformed", "id"),
    ("POST /api/v1/tasks/live/retry", "", 409, "wrong_state", ""),
    ("POST /api/v1/dlq/retry", "{}", 400, "malformed", "all"),
    ("POST /api/v1/dlq/retry", "{\"ids\":[\"a\"],\"all\":true}", 400, "malformed", "ids"),
    ("POST /api/v1/queues/a%20b/pause", "", 400, "malformed", "name"),
    ("POST /api/v1/workers/none/pause", "", 404, "not_found", ""),
    ("POST /api/v1/workers/w/heartbeat", "{\"worker_id\":\"v\"}", 422, "out_of_range", "worker_id"),
    ("GET /api/v1/tasks?limit=0", "", 422, "out_of_range", "limit"),
    ("GET /api/v1/tasks?limit=many", "", 400, "malformed", "limit"),
    ("GET /api/v1/tasks?cursor=AAAAAAAAAAAAAAAAAAAAAA", "", 400, "malformed", "cursor"),
    ("GET /api/v1/tasks?state=lost", "", 400, "malformed", "state"),
    ("GET /api/v1/tasks?queue=..%2f", "", 400, "malformed", "queue"),
    ("GET /api/v1/tasks?colour=red", "", 400, "malformed", ""),
    ("GET /api/v1/tasks/live?wait=soon", "", 400, "malformed", "wait"),
    ("GET /api/v1/tasks/none", "", 404, "not_found", ""),
    ("GET /api/v1/nowhere", "", 404, "no_such_route", ""),
    ("GET /../../etc/passwd", "", 404, "no_such_route", ""),
    ("PUT /api/v1/tasks", "", 405, "method_not_allowed", ""),
    ("DELETE /api/v1/tasks/live?purge=maybe", "", 400, "malformed", ""),
];

fn request(client: &mut Client, line: &str, headers: &str, body: &[u8]) -> crate::http::Answer {
    let length = body.len();
    client.send(&format!("{line} HTTP/1.1\r\nhost: t\r\n{headers}content-length: {length}\r\n\r\n"), body)
}

/// What must not change.
fn counts(client: &mut Client) -> (Value, Value) {
    let stats = client.get("/api/v1/stats").expect(200);
    (stats["tasks"].clone(), stats["ledger"].clone())
}

fn started() -> (BrokerProcess, Client) {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    client.post("/api/v1/tasks", r#"{"id":"live","type":"a"}"#).expect(201);
    (broker, client)
}

#[test]
fn each_mistake_has_its_answer() {
    let (_broker, mut client) = started();
    let before = counts(&mut client);
    for (line, body, status, code, field) in ROWS {
        let answer = request(&mut client, line, "content-type: application/json\r\n", body.as_bytes());
        assert_eq!(answer.status, *status, "{line} {body}: {}", answer.text);
        let problem = answer.refused(*status, code);
        let named = problem["errors"][0]["field"].as_str().unwrap_or_default();
        assert_eq!(named, *field, "{line} {body}: {problem}");
        assert!(!answer.text.contains('\u{1b}'), "control characters come back escaped");
        assert_eq!(answer.header("allow").is_some(), *status == 405, "{line}");
    }
    assert_eq!(counts(&mut client), before);
}

#[test]
fn the_wrong_kind_of_body_is_refused() {
    let (_broker, mut client) = started();
    let before = counts(&mut client);
    let good = br#"{"type":"a"}"#;
    for kind in ["", "content-type: text/plain\r\n", "content-type: application/jsonp\r\n"] {
        request(&mut client, "POST /api/v1/tasks", kind, good).refused(415, "unsupported_media_type");
    }
    let json = "content-type: application/json\r\n";
    request(&mut client, "POST /api/v1/tasks", json, b"{\"type\":\"\xff\xfe\"}").refused(400, "malformed");
    request(&mut client, "POST /api/v1/tasks", json, b"{\"type\":\"a\",\"payload\":\"\xff\"}")
        .refused(400, "malformed");
    let deep = format!(r#"{{"type":"a","payload":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    request(&mut client, "POST /api/v1/tasks", json, deep.as_bytes()).refused(400, "malformed");
    let key = format!("{json}idempotency-key: {}\r\n", "k".repeat(300));
    request(&mut client, "POST /api/v1/tasks", &key, good).refused(400, "malformed");
    let many = format!(r#"{{"tasks":[{}]}}"#, vec![r#"{"type":"a"}"#; 1001].join(","));
    request(&mut client, "POST /api/v1/tasks/batch", json, many.as_bytes()).refused(413, "too_large");
    assert_eq!(counts(&mut client), before);
}

#[test]
fn too_much_is_refused_declared_or_not() {
    let broker = BrokerProcess::start_with(&[("WINDLASS_SERVER__MAX_PAYLOAD_BYTES", "1000000")]);
    let mut client = broker.client();
    client.post("/api/v1/tasks", r#"{"id":"live","type":"a"}"#).expect(201);
    let before = counts(&mut client);
    let large = format!(r#"{{"type":"a","payload":"{}"}}"#, "x".repeat(1_000_001));
    client.post("/api/v1/tasks", &large).refused(413, "too_large");

    let head = "POST /api/v1/tasks HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\n";
    let declared = format!("{head}content-length: 99999999999\r\n\r\n");
    broker.client().send(&declared, b"{").refused(413, "too_large");
    let chunk = [b"10000\r\n", "x".repeat(0x10000).as_bytes(), b"\r\n"].concat();
    broker
        .client()
        .send(&format!("{head}transfer-encoding: chunked\r\n\r\n"), &chunk.repeat(40))
        .refused(413, "too_large");

    client.post("/api/v1/claim", r#"{"worker_id":"w"}"#).expect(200);
    let lease = client.get("/api/v1/tasks/live").expect(200);
    assert_eq!(lease["state"], "running");
    let result = format!(r#"{{"lease":"x","result":"{}"}}"#, "x".repeat(1_000_001));
    client.post("/api/v1/tasks/live/complete", &result).refused(413, "too_large");
    assert_eq!(counts(&mut client).1, before.1);
}

#[test]
fn broken_http_hurts_nobody_else() {
    let (broker, mut client) = started();
    let before = counts(&mut client);
    let endless = format!("GET /livez HTTP/1.1\r\nhost: t\r\nx: {}\r\n\r\n", "y".repeat(64 * 1024));
    assert_eq!(broker.client().send(&endless, b"").status, 431);
    let many = format!("GET /livez HTTP/1.1\r\nhost: t\r\n{}\r\n", "a: b\r\n".repeat(500));
    assert_eq!(broker.client().send(&many, b"").status, 431);
    assert_eq!(broker.client().send("NONSENSE\r\n\r\n", b"").status, 400);
    let mut idle: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(broker.address).unwrap()).collect();
    for stream in &mut idle {
        stream.write_all(b"POST /api/v1/tasks HTTP/1.1\r\nhost: t\r\ncontent-le").unwrap();
    }
    assert_eq!(counts(&mut client), before);
    client.post("/api/v1/tasks", r#"{"type":"a"}"#).expect(201);
}

#[test]
fn pages_from_elsewhere_change_nothing() {
    let broker = BrokerProcess::start_with(&[("WINDLASS_SERVER__ALLOWED_ORIGINS", "https://board.example")]);
    let pause = |host: &str, origin: &str| {
        let path = "/api/v1/queues/default/pause";
        let head = format!("POST {path} HTTP/1.1\r\nhost: {host}\r\n{origin}content-length: 0\r\n\r\n");
        broker.client().send(&head, b"")
    };
    let own = broker.address.to_string();
    pause(&own, "origin: http://evil.example\r\n").refused(403, "foreign_origin");
    pause("evil.example", "origin: http://evil.example\r\n").refused(421, "unknown_host");
    pause("evil.example:8080", "").refused(421, "unknown_host");
    assert!(!broker.client().get("/api/v1/queues").expect(200).to_string().contains("default"));
    pause(&own, &format!("origin: http://{own}\r\n")).expect(200);
    pause(&own, "origin: https://board.example\r\n").expect(200);
    pause("board.example", "").expect(200);
}
