//! Limits over REST and the command line, on the running binary.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::broker_process::BrokerProcess;
use crate::http::{Answer, Client, text};

const LIMITS: &str = "/api/v1/limits";

pub(crate) fn put(client: &mut Client, path: &str, body: &Value) -> Answer {
    let body = body.to_string();
    let head = format!(
        "PUT {path} HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.send(&head, body.as_bytes())
}

fn submit(client: &mut Client, key: &str) -> String {
    let body = json!({"type": "t", "key": key}).to_string();
    client.post("/api/v1/tasks", &body).expect(201)["id"].as_str().unwrap().to_owned()
}

fn claim(client: &mut Client, max: usize, wait: u64) -> Vec<Value> {
    let body = json!({"worker_id": "w", "max": max, "wait_seconds": wait}).to_string();
    client.post("/api/v1/claim", &body).expect(200)["tasks"].as_array().unwrap().clone()
}

fn complete(client: &mut Client, task: &Value) {
    let (id, lease) = (task["id"].as_str().unwrap(), &task["lease"]);
    client.post(&format!("/api/v1/tasks/{id}/complete"), &json!({ "lease": lease }).to_string()).expect(200);
}

#[test]
fn a_limit_is_set_shown_changed_and_removed() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let limit = json!({"max_concurrency": 5, "rate": {"count": 100, "per_seconds": 60}, "weight": 3});
    let made = put(&mut client, &format!("{LIMITS}/key/tenant-7"), &limit).expect(201);
    assert_eq!((&made["scope"], &made["name"]), (&json!("key"), &json!("tenant-7")));
    assert_eq!((&made["max_concurrency"], &made["rate"]), (&json!(5), &limit["rate"]));
    assert_eq!((&made["weight"], &made["running"], &made["waiting"]), (&json!(3), &json!(0), &json!(0)));
    let changed = json!({"max_concurrency": 1, "paused": true});
    let changed = put(&mut client, &format!("{LIMITS}/key/tenant-7"), &changed).expect(200);
    assert_eq!((&changed["rate"], &changed["blocked"]["code"]), (&Value::Null, &json!("limit_paused")));
    put(&mut client, &format!("{LIMITS}/queue/default"), &json!({"max_depth": 3})).expect(201);
    let all = client.get(&format!("{LIMITS}?limit=1")).expect(200);
    assert_eq!(all["items"][0]["scope"], "queue");
    let cursor = all["next_cursor"].as_str().unwrap();
    let rest = client.get(&format!("{LIMITS}?limit=5&cursor={cursor}")).expect(200);
    assert_eq!((&rest["items"][0]["name"], &rest["next_cursor"]), (&json!("tenant-7"), &Value::Null));
    assert_eq!(client.get(&format!("{LIMITS}?scope=type")).expect(200)["items"], json!([]));
    client.delete(&format!("{LIMITS}/key/tenant-7")).expect(204);
    client.get(&format!("{LIMITS}/key/tenant-7")).refused(404, "not_found");
    client.delete(&format!("{LIMITS}/key/tenant-7")).refused(404, "not_found");
    // What cannot be is refused, and the field is named.
    put(&mut client, &format!("{LIMITS}/tenant/a"), &json!({})).refused(400, "malformed");
    put(&mut client, &format!("{LIMITS}/key/a"), &json!({"weight": 0})).refused(422, "out_of_range");
    put(&mut client, &format!("{LIMITS}/type/a"), &json!({"weight": 2})).refused(422, "out_of_range");
    put(&mut client, &format!("{LIMITS}/key/a"), &json!({"burst": 2})).refused(400, "malformed");
}

#[test]
fn what_holds_a_task_is_explained_and_a_full_key_is_named() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    put(&mut client, &format!("{LIMITS}/key/t7"), &json!({"max_concurrency": 1, "max_depth": 2})).expect(201);
    let (first, second) = (submit(&mut client, "t7"), submit(&mut client, "t7"));
    let held = claim(&mut client, 5, 0);
    assert_eq!(held.len(), 1);
    let reason = |client: &mut Client, id: &str, code: &str| {
        let explained = client.get(&format!("/api/v1/tasks/{id}/explain")).expect(200);
        let reasons = explained["reasons"].as_array().unwrap().clone();
        let found = reasons.iter().find(|reason| reason["code"] == code);
        found.unwrap_or_else(|| panic!("{explained}"))["text"].as_str().unwrap().to_owned()
    };
    let text = reason(&mut client, &second, "limit_full");
    assert_eq!(text, format!("The key t7 is at 1/1, held by {first}."));
    submit(&mut client, "t7");
    let body = json!({"type": "t", "key": "t7"}).to_string();
    let full = client.post("/api/v1/tasks", &body).refused(503, "queue_full");
    assert!(full["detail"].as_str().unwrap().contains("key t7"), "{full}");
    assert_eq!(full["errors"][0]["field"], "key");
    put(&mut client, &format!("{LIMITS}/type/t"), &json!({"rate": {"count": 1, "per_seconds": 60}}))
        .expect(201);
    complete(&mut client, &held[0]);
    assert_eq!(claim(&mut client, 5, 0).len(), 1);
    let other = submit(&mut client, "other");
    let text = reason(&mut client, &other, "rate_limited");
    assert!(text.starts_with("The type t has used up its rate; next token in "), "{text}");
    put(&mut client, &format!("{LIMITS}/type/t"), &json!({"paused": true})).expect(200);
    let text = reason(&mut client, &other, "limit_paused");
    assert!(text.contains("type t is paused"), "{text}");
}

/// The low one came first and the high one right after it: it is ahead only where waiting counts.
#[test]
fn waiting_counts_as_priority_where_a_queue_ages() {
    let mut broker = BrokerProcess::start();
    let mut client = broker.client();
    let path = format!("{LIMITS}/queue/aged");
    put(&mut client, &path, &json!({"ageing": {"every_seconds": 0}})).refused(422, "out_of_range");
    put(&mut client, &format!("{LIMITS}/key/k"), &json!({"ageing": {"every_seconds": 1}}))
        .refused(422, "out_of_range");
    let set = put(&mut client, &path, &json!({"ageing": {"every_seconds": 0.001}})).expect(201);
    assert_eq!(set["ageing"]["every_seconds"], json!(0.001));
    let add = |client: &mut Client, queue: &str, priority: u8| {
        let body = json!({"type": "t", "queue": queue, "priority": priority}).to_string();
        client.post("/api/v1/tasks", &body).expect(201)["id"].as_str().unwrap().to_owned()
    };
    let lows = ["aged", "strict"].map(|queue| add(&mut client, queue, 10));
    let explained = format!("/api/v1/tasks/{}/explain", lows[0]);
    // Ninety steps are worth ninety milliseconds; the broker says when they are over.
    let counts_as = |client: &mut Client| {
        let reasons = client.get(&explained).expect(200)["reasons"].to_string();
        let (_, rest) = reasons.split_once("counts as ").unwrap_or_else(|| panic!("{reasons}"));
        rest.split(',').next().unwrap().parse::<u64>().unwrap()
    };
    while counts_as(&mut client) <= 101 {
        thread::yield_now();
    }
    let highs = ["aged", "strict"].map(|queue| add(&mut client, queue, 100));
    assert_eq!(client.get("/api/v1/queues/aged").expect(200)["ageing"]["every_seconds"], json!(0.001));
    broker.kill_and_restart();
    let mut client = broker.client();
    for (queue, first) in [("aged", &lows[0]), ("strict", &highs[1])] {
        let body = json!({"worker_id": "w", "queues": [queue], "max": 1}).to_string();
        let claimed = client.post("/api/v1/claim", &body).expect(200);
        assert_eq!(claimed["tasks"][0]["id"], json!(first), "{queue}");
    }
    put(&mut client, &path, &json!({})).expect(200);
    assert_eq!(client.get(&path).expect(200)["ageing"], Value::Null);
}

/// Four workers check with each other that a cap of five is never exceeded, while the broker is killed and started again.
#[test]
fn a_cap_holds_at_every_instant_over_a_kill() {
    const TASKS: usize = 120;
    let mut broker = BrokerProcess::start();
    let mut client = broker.client();
    put(&mut client, &format!("{LIMITS}/key/k"), &json!({"max_concurrency": 5})).expect(201);
    for _ in 0..TASKS {
        submit(&mut client, "k");
    }
    // What the workers hold, whatever the broker says.
    let held: Mutex<HashSet<String>> = Mutex::default();
    let (done, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let address = Mutex::new(broker.address);
    thread::scope(|scope| {
        for number in 0..4 {
            let (held, done, over, address) = (&held, &done, &over, &address);
            scope.spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    let address = *address.lock().unwrap();
                    work(address, number, held, done);
                }
            });
        }
        while done.load(Ordering::SeqCst) < TASKS / 2 {
            thread::yield_now();
        }
        broker.kill_and_restart();
        *address.lock().unwrap() = broker.address;
        // A task whose outcome was lost with the broker runs again when its lease is over.
        let patience = Instant::now() + Duration::from_secs(60);
        let mut client = broker.client();
        loop {
            let limit = client.get(&format!("{LIMITS}/key/k")).expect(200);
            let left = (limit["waiting"].as_u64(), limit["running"].as_u64());
            over.store(left == (Some(0), Some(0)) || Instant::now() > patience, Ordering::SeqCst);
            if over.load(Ordering::SeqCst) {
                assert_eq!(left, (Some(0), Some(0)));
                break;
            }
            // sleep: the next look at how far the workers are.
            thread::sleep(Duration::from_millis(20));
        }
    });
}

/// Claims, works and reports once, as far as the broker is there.
fn work(address: SocketAddr, number: usize, held: &Mutex<HashSet<String>>, done: &AtomicUsize) {
    let body = json!({"worker_id": format!("w{number}"), "max": 3, "wait_seconds": 1, "lease_seconds": 2});
    let Some(claimed) = post(address, "/api/v1/claim", &body) else { return };
    let tasks = claimed["tasks"].as_array().cloned().unwrap_or_default();
    {
        let mut held = held.lock().unwrap();
        held.extend(tasks.iter().map(|task| text(&task["id"])));
        assert!(held.len() <= 5, "{} run at once", held.len());
    }
    // sleep: the work of a task, during which too many others must not start.
    thread::sleep(Duration::from_millis(2));
    for task in tasks {
        let id = text(&task["id"]);
        // It is over for this worker before the broker can give its place away.
        held.lock().unwrap().remove(&id);
        let path = format!("/api/v1/tasks/{id}/complete");
        let answer = post(address, &path, &json!({ "lease": task["lease"] }));
        done.fetch_add(
            usize::from(answer.is_some_and(|task| task["state"] == "completed")),
            Ordering::SeqCst,
        );
    }
}

/// `None` if the broker is not there or goes away meanwhile.
fn post(address: SocketAddr, path: &str, body: &Value) -> Option<Value> {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}
