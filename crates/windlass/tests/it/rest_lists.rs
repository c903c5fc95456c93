//! Listing: filters, pages, queues.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::broker_process::BrokerProcess;
use crate::http::{Client, text};

fn ids(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|task| text(&task["id"])).collect()
}

fn seed(client: &mut Client) {
    for (id, rest) in [
        ("t1", r#""queue":"a","type":"x""#),
        ("t2", r#""queue":"a","type":"y","delay_seconds":3600"#),
        ("t3", r#""queue":"b","type":"x""#),
        ("t4", r#""queue":"b","type":"y","priority":255"#),
    ] {
        client.post("/api/v1/tasks", &format!(r#"{{"id":"{id}",{rest}}}"#)).expect(201);
    }
    client.post("/api/v1/claim", r#"{"worker_id":"w","queues":["b"],"types":["y"]}"#).expect(200);
    client.post("/api/v1/tasks/t3/cancel", "").expect(200);
}

#[test]
fn filters_select() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    seed(&mut client);
    let table: [(&str, &[&str]); 13] = [
        ("", &["t4", "t3", "t2", "t1"]),
        ("?queue=a", &["t2", "t1"]),
        ("?type=x", &["t3", "t1"]),
        ("?state=pending", &["t1"]),
        ("?state=queued,scheduled", &["t2", "t1"]),
        ("?state=active", &["t4"]),
        ("?state=failed", &[]),
        ("?worker_id=w", &["t4"]),
        ("?q=t2", &["t2"]),
        ("?queue=b&type=x&state=cancelled", &["t3"]),
        ("?created_after=2100-01-01T00:00:00Z", &[]),
        ("?created_before=2100-01-01T00:00:00Z&limit=1000000000", &["t4", "t3", "t2", "t1"]),
        ("?queue=&state=", &["t4", "t3", "t2", "t1"]),
    ];
    for (query, want) in table {
        let page = client.get(&format!("/api/v1/tasks{query}")).expect(200);
        assert_eq!(ids(&page), want, "{query}");
    }
}

#[test]
fn one_line_filters_select_and_complain() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    seed(&mut client);
    let table: [(&str, &[&str]); 10] = [
        ("filter=queue:a", &["t2", "t1"]),
        ("filter=state:queued,scheduled", &["t2", "t1"]),
        ("filter=-state:queued+-queue:b", &["t2"]),
        ("filter=type:x+state:cancelled", &["t3"]),
        ("filter=priority:%3E=225+worker:w", &["t4"]),
        ("filter=id:t1,t3,none", &["t3", "t1"]),
        ("filter=id:t1,t3&limit=1", &["t3"]),
        ("filter=since:1h+T2", &["t2"]),
        ("filter=created:%3C2020-01-01", &[]),
        ("filter=state:queued&queue=b", &[]),
    ];
    for (query, want) in table {
        let page = client.get(&format!("/api/v1/tasks?{query}")).expect(200);
        assert_eq!(ids(&page), want, "{query}");
    }
    let answer = client.get("/api/v1/tasks?filter=stat:dead");
    assert!(answer.text.contains("did you mean state?"), "{}", answer.text);
    answer.refused(400, "malformed");
    assert_eq!(ids(&client.get("/api/v1/dlq?filter=queue:a").expect(200)), Vec::<String>::new());
    let retry = r#"{"all":true,"filter":"error:timeout since:1h"}"#;
    assert_eq!(client.post("/api/v1/dlq/retry", retry).expect(200)["affected"], 0);
    client.delete("/api/v1/dlq?filter=colour:red").refused(400, "malformed");
    client.post("/api/v1/tasks", r#"{"id":"t9","type":"x","key":"acme"}"#).expect(201);
    for query in ["key=acme", "key=acme&filter=type:x", "filter=key:acme"] {
        assert_eq!(ids(&client.get(&format!("/api/v1/tasks?{query}")).expect(200)), ["t9"], "{query}");
    }
    assert_eq!(ids(&client.get("/api/v1/tasks?key=acme&filter=type:y").expect(200)), Vec::<String>::new());
    client.get("/api/v1/tasks?key=a*").refused(400, "malformed");
    for nothing in ["/api/v1/dlq?filter=", "/api/v1/dlq?filter=+&dry_run=true"] {
        let problem = client.delete(nothing).refused(400, "malformed");
        assert_eq!(problem["errors"][0]["field"], "filter");
    }
    client.post("/api/v1/dlq/retry", r#"{"all":true,"filter":""}"#).refused(400, "malformed");
}

#[test]
fn pages_follow_each_other_without_gap_or_repeat() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let tasks: Vec<Value> = (0..25).map(|_| json!({"type": "a"})).collect();
    client.post("/api/v1/tasks/batch", &json!({ "tasks": tasks }).to_string()).expect(200);
    let mut seen = Vec::new();
    let mut path = "/api/v1/tasks?limit=10".to_owned();
    loop {
        let page = client.get(&path).expect(200);
        assert!(ids(&page).len() <= 10);
        seen.extend(ids(&page));
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/api/v1/tasks?limit=10&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen.len(), 25);
    assert_eq!(seen.iter().collect::<HashSet<_>>().len(), 25);
}

#[test]
fn queues_count_and_can_be_emptied() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    seed(&mut client);
    let queues = client.get("/api/v1/queues").expect(200);
    let names: Vec<_> =
        queues["items"].as_array().unwrap().iter().map(|queue| text(&queue["name"])).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(queues["next_cursor"].is_null());
    let first = client.get("/api/v1/queues?limit=1").expect(200);
    let next = format!("/api/v1/queues?limit=1&cursor={}", text(&first["next_cursor"]));
    let second = client.get(&next).expect(200);
    assert_eq!((&first["items"][0]["name"], &second["items"][0]["name"]), (&json!("a"), &json!("b")));
    client.get("/api/v1/queues?limit=0").refused(422, "out_of_range");
    client.get("/api/v1/queues?cursor=b").refused(400, "malformed");
    client.get("/api/v1/workers?rows=1").refused(400, "malformed");
    let queue = client.get("/api/v1/queues/a").expect(200);
    assert_eq!((&queue["tasks"]["pending"], &queue["tasks"]["scheduled"]), (&json!(1), &json!(1)));
    assert_eq!(queue["pending_by_priority"]["normal"], 1);
    assert!(queue["oldest_pending_age_seconds"].is_number());
    assert_eq!(client.delete("/api/v1/queues/a/tasks?dry_run=true").expect(200)["affected"], 1);
    assert_eq!(client.delete("/api/v1/queues/a/tasks").expect(200)["affected"], 1);
    assert_eq!(client.get("/api/v1/queues/a").expect(200)["tasks"]["pending"], 0);
    client.get("/api/v1/queues/none").refused(404, "not_found");
    let stats = client.get("/api/v1/stats").expect(200);
    assert_eq!((&stats["ledger"]["submitted"], &stats["ledger"]["removed"]), (&json!(4), &json!(1)));
    assert_eq!((&stats["tasks"]["running"], &stats["tasks"]["cancelled"]), (&json!(1), &json!(1)));
}
