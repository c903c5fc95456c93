//! Submitting: one, many, twice, all at once.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::broker_process::BrokerProcess;
use crate::http::text;

#[test]
fn a_task_is_taken_with_everything_it_says() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let body = r#"{"type":"email.send","queue":"mail","payload":{"to" : "a","n":1.50},"priority":"critical",
        "delay_seconds":3600,"max_retries":7,"timeout_seconds":1.5,"metadata":{"traceparent":"00-1"},
        "retry":{"policy":"fixed","initial_ms":5}}"#;
    let answer = client.post("/api/v1/tasks", body);
    let task = answer.expect(201);
    assert!(
        answer.text.contains(r#""payload":{"to" : "a","n":1.50}"#),
        "passed on as it came: {}",
        answer.text
    );
    let fields = ["type", "queue", "state", "priority", "max_retries", "timeout_seconds", "attempts"];
    let values = fields.map(|field| task[field].clone());
    assert_eq!(json!(values), json!(["email.send", "mail", "scheduled", 250, 7, 1.5, 0]));
    assert_eq!(task["metadata"]["traceparent"], "00-1");
    assert_eq!(task["retry"]["policy"], "fixed");
    assert!(text(&task["scheduled_at"]) > text(&task["created_at"]));
    let path = format!("/api/v1/tasks/{}", text(&task["id"]));
    assert_eq!(client.get(&path).expect(200), task);
    let bytes = client.post("/api/v1/tasks", r#"{"type":"t","payload_base64":"AAEC"}"#).expect(201);
    assert_eq!((&bytes["payload_base64"], &bytes["payload"]), (&json!("AAEC"), &Value::Null));
}

#[test]
fn the_same_submit_twice_is_one_task() {
    let mut broker = BrokerProcess::start();
    let mut client = broker.client();
    let body = r#"{"id":"order-1","type":"a","payload":[1]}"#;
    let first = client.post("/api/v1/tasks", body).expect(201);
    assert_eq!(client.post("/api/v1/tasks", body).expect(200), first);
    let other = r#"{"id":"order-1","type":"a","payload":[2]}"#;
    client.post("/api/v1/tasks", other).refused(409, "task_exists");

    let keyed = |client: &mut crate::http::Client, body: &str| {
        client.post_with("/api/v1/tasks", "idempotency-key: k-1\r\n", body)
    };
    let plain = r#"{"type":"a","delay_seconds":5}"#;
    let first = keyed(&mut client, plain).expect(201);
    assert_eq!(keyed(&mut client, plain).expect(200)["id"], first["id"]);
    keyed(&mut client, r#"{"type":"a","delay_seconds":6}"#).refused(409, "idempotency_key_reused");

    broker.kill_and_restart();
    let mut client = broker.client();
    assert_eq!(client.post("/api/v1/tasks", body).expect(200)["id"], "order-1");
    assert_eq!(keyed(&mut client, plain).expect(200)["id"], first["id"]);
    client.post("/api/v1/tasks", other).refused(409, "task_exists");
}

#[test]
fn sixty_four_clients_with_one_id_make_one_task() {
    let broker = BrokerProcess::start();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let submit = || broker.client().post("/api/v1/tasks", r#"{"id":"one","type":"a"}"#).status;
        let threads: Vec<_> = (0..64).map(|_| scope.spawn(submit)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 63, "{statuses:?}");
    let stats = broker.client().get("/api/v1/stats").expect(200);
    assert_eq!((&stats["ledger"]["submitted"], &stats["tasks"]["pending"]), (&json!(1), &json!(1)));
}

#[test]
fn a_batch_answers_for_each_task() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let tasks: Vec<Value> = (0..1000).map(|n| json!({"type": "a", "payload": n})).collect();
    let body = json!({ "tasks": tasks }).to_string();
    let send = |client: &mut crate::http::Client| {
        let results = client.post_with("/api/v1/tasks/batch", "idempotency-key: b\r\n", &body).expect(200);
        let ids = results["results"].as_array().unwrap().iter().map(|item| text(&item["id"]));
        ids.collect::<Vec<_>>()
    };
    let ids = send(&mut client);
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 1000);
    assert_eq!(send(&mut client), ids, "a repeated batch is the same batch");
    let third = client.get(&format!("/api/v1/tasks/{}", ids[3])).expect(200);
    assert_eq!(third["payload"], 3, "answers are in order");

    let mixed = r#"{"tasks":[{"type":"b"},{"type":"b","priority":256},{"type":"b","id":"x"}]}"#;
    let results = client.post("/api/v1/tasks/batch", mixed).expect(200);
    assert_eq!(results["results"][0]["state"], "pending");
    assert_eq!(results["results"][1]["error"]["code"], "out_of_range");
    assert_eq!(results["results"][1]["error"]["errors"][0]["field"], "priority");
    assert_eq!(results["results"][2]["id"], "x");
    let atomic = r#"{"atomic":true,"tasks":[{"type":"c"},{"type":"c","id":"x"}]}"#;
    let results = client.post("/api/v1/tasks/batch", atomic).expect(200);
    let codes = [0, 1].map(|i| text(&results["results"][i]["error"]["code"]));
    assert_eq!(codes, ["aborted", "task_exists"]);
    let stats = client.get("/api/v1/stats").expect(200);
    assert_eq!(stats["ledger"]["submitted"], 1002);
}

#[test]
fn mixed_priorities_drain_in_order() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let priority = |n: u64| (n * 7919) % 256;
    let tasks: Vec<Value> =
        (0..1000).map(|n| json!({"type": "a", "payload": n, "priority": priority(n)})).collect();
    client.post("/api/v1/tasks/batch", &json!({ "tasks": tasks }).to_string()).expect(200);
    let mut drained: Vec<u64> = Vec::new();
    loop {
        let claimed = client.post("/api/v1/claim", r#"{"worker_id":"w","max":77}"#).expect(200);
        let claimed = claimed["tasks"].as_array().unwrap().clone();
        if claimed.is_empty() {
            break;
        }
        drained.extend(claimed.iter().map(|task| task["payload"].as_u64().unwrap()));
    }
    let mut wanted: Vec<u64> = (0..1000).collect();
    wanted.sort_by_key(|n| (std::cmp::Reverse(priority(*n)), *n));
    assert_eq!(drained, wanted);
}

#[test]
fn a_full_queue_says_so() {
    let broker = BrokerProcess::start_with(&[("WINDLASS_QUEUE__MAX_DEPTH", "2")]);
    let mut client = broker.client();
    for _ in 0..2 {
        client.post("/api/v1/tasks", r#"{"type":"a"}"#).expect(201);
    }
    let answer = client.post("/api/v1/tasks", r#"{"type":"a"}"#);
    answer.refused(503, "queue_full");
    assert_eq!(answer.header("retry-after"), Some("1"));
    client.post("/api/v1/tasks", r#"{"type":"a","queue":"other"}"#).expect(201);
}
