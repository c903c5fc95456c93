//! A little of everything that can happen to a task.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::http::{Client, text};

/// What a scan of the store cannot tell afterwards.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) manual_retries: u64,
    /// By type, of tasks that were retried afterwards or are gone.
    pub(crate) dead_lettered: BTreeMap<&'static str, u64>,
    pub(crate) cancelled: BTreeMap<&'static str, u64>,
    /// By type and class, of tasks that are gone.
    pub(crate) removed: BTreeMap<(&'static str, &'static str), u64>,
}

const TASKS: &str = "/api/v1/tasks";

pub(crate) fn run(client: &mut Client) -> Facts {
    let mut facts = Facts::default();
    finished(client);
    failing(client, &mut facts);
    lost(client);
    cancelled(client, &mut facts);
    bulk(client, &mut facts);
    tied(client);
    client.post(TASKS, &json!({"type": "later", "delay_seconds": 3600}).to_string()).expect(201);
    submit(client, "given", &json!({}));
    for _ in 0..2 {
        let (id, lease) = claim(client, "given", 60);
        report(client, &id, "release", &json!({"lease": lease}));
    }
    submit(client, "kept", &json!({"priority": "critical"}));
    claim(client, "kept", 600);
    facts
}

/// A task of a type in the queue of the same name.
fn submit(client: &mut Client, kind: &str, rest: &Value) -> String {
    let mut task = json!({"type": kind, "queue": kind});
    for (key, value) in rest.as_object().unwrap() {
        task[key] = value.clone();
    }
    text(&client.post(TASKS, &task.to_string()).expect(201)["id"])
}

fn claim(client: &mut Client, queue: &str, lease_seconds: u64) -> (String, Value) {
    let claim =
        json!({"worker_id": "w", "queues": [queue], "wait_seconds": 20, "lease_seconds": lease_seconds});
    let claimed = client.post("/api/v1/claim", &claim.to_string()).expect(200);
    (text(&claimed["tasks"][0]["id"]), claimed["tasks"][0]["lease"].clone())
}

fn report(client: &mut Client, id: &str, verb: &str, body: &Value) -> Value {
    client.post(&format!("{TASKS}/{id}/{verb}"), &body.to_string()).expect(200)
}

fn complete(client: &mut Client, queue: &str) {
    let (id, lease) = claim(client, queue, 60);
    report(client, &id, "complete", &json!({"lease": lease}));
}

fn ended(client: &mut Client, id: &str) -> Value {
    client.get(&format!("{TASKS}/{id}?wait=30s")).expect(200)
}

fn finished(client: &mut Client) {
    for priority in [250, 225, 200, 199, 100, 99, 0] {
        submit(client, "done", &json!({"priority": priority}));
        complete(client, "done");
    }
}

fn failing(client: &mut Client, facts: &mut Facts) {
    for _ in 0..3 {
        submit(client, "flaky", &json!({}));
        let (id, lease) = claim(client, "flaky", 60);
        let again = json!({"lease": lease, "error": "no luck", "retry_after_seconds": 0.01});
        report(client, &id, "fail", &again);
        complete(client, "flaky");
    }
    for i in 0..4 {
        submit(client, "broken", &json!({}));
        let (id, lease) = claim(client, "broken", 60);
        report(client, &id, "fail", &json!({"lease": lease, "error": "no use", "retryable": false}));
        if i == 0 {
            client.post(&format!("{TASKS}/{id}/retry"), "").expect(200);
            complete(client, "broken");
        }
        if i == 1 {
            let which = json!({"ids": [id]}).to_string();
            assert_eq!(client.post("/api/v1/dlq/retry", &which).expect(200)["affected"], 1);
            claim(client, "broken", 600);
        }
    }
    facts.manual_retries += 2;
    *facts.dead_lettered.entry("broken").or_default() += 2;
}

fn lost(client: &mut Client) {
    submit(client, "lost", &json!({}));
    claim(client, "lost", 1);
    complete(client, "lost");
    let id = submit(client, "lost", &json!({"max_crashes": 1}));
    claim(client, "lost", 1);
    assert_eq!(ended(client, &id)["state"], "dead_letter");
}

fn cancelled(client: &mut Client, facts: &mut Facts) {
    let again = submit(client, "gone", &json!({}));
    client.post(&format!("{TASKS}/{again}/cancel"), "").expect(200);
    client.post(&format!("{TASKS}/{again}/retry"), "").expect(200);
    facts.manual_retries += 1;
    *facts.cancelled.entry("gone").or_default() += 1;
    let (id, _) = claim(client, "gone", 60);
    client.post(&format!("{TASKS}/{id}/cancel"), "").expect(200);
    let soon = std::time::SystemTime::now() + Duration::from_millis(400);
    let soon = soon.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    let expires_at = windlass_proto::rest::Time::from_ms(soon);
    let late =
        [(); 2].map(|()| submit(client, "late", &json!({"expires_at": expires_at, "priority": "low"})));
    for id in late {
        assert_eq!(ended(client, &id)["cancel_reason"], "expired");
    }
    for _ in 0..2 {
        submit(client, "only", &json!({"unique_key": "k", "on_conflict": "replace"}));
    }
}

fn bulk(client: &mut Client, facts: &mut Facts) {
    let task =
        |i: usize| json!({"type": "bulk", "queue": "bulk", "priority": if i < 10 { "high" } else { "low" }});
    let tasks: Vec<Value> = (0..50).map(task).collect();
    client.post(&format!("{TASKS}/batch"), &json!({"tasks": tasks}).to_string()).expect(200);
    operate(client, "cancel", "queue:bulk", 50);
    operate(client, "retry", "queue:bulk state:cancelled", 50);
    facts.manual_retries += 50;
    facts.cancelled.insert("bulk", 50);
    assert_eq!(client.delete("/api/v1/queues/bulk/tasks").expect(200)["affected"], 50);
    facts.removed = BTreeMap::from([(("bulk", "high"), 10), (("bulk", "low"), 40)]);
    submit(client, "bulk", &json!({}));
}

fn operate(client: &mut Client, action: &str, filter: &str, changed: u64) {
    let body = json!({"action": action, "filter": filter}).to_string();
    let begun = client.post("/api/v1/operations", &body).expect(202);
    let path = format!("/api/v1/operations/{}", text(&begun["id"]));
    loop {
        let operation = client.get(&path).expect(200);
        if operation["state"] != "running" {
            assert_eq!(operation["changed"], changed, "{operation}");
            return;
        }
        // sleep: progress is only told when asked for.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Schedules and workflows.
fn tied(client: &mut Client) {
    let schedule = json!({"id": "hourly", "cron": "@every 1h", "task": {"type": "tick", "queue": "tick"}});
    client.post("/api/v1/schedules", &schedule.to_string()).expect(201);
    for _ in 0..2 {
        let run = client.post("/api/v1/schedules/hourly/run", "");
        assert!((200..300).contains(&run.status), "{}", run.text);
    }
    complete(client, "tick");
    let node = |after: &[&str]| json!({"type": "node", "queue": "node", "after": after});
    let tasks = json!({"a": node(&[]), "b": node(&["a"]), "c": node(&["b"]), "d": node(&["a"])});
    client.post("/api/v1/workflows", &json!({"id": "graph", "tasks": tasks}).to_string()).expect(201);
    complete(client, "node");
    client.post(&format!("{TASKS}/graph:b/cancel"), "").expect(200);
    assert_eq!(ended(client, "graph:c")["cancel_reason"], "dependency");
    complete(client, "node");
}
