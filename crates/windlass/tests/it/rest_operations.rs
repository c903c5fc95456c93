//! Acts on many tasks, by filter.

use std::time::Duration;

use serde_json::{Value, json};

use crate::broker_process::BrokerProcess;
use crate::http::{Client, text};

fn submit(client: &mut Client, count: usize, rest: &Value) {
    for _ in 0..count {
        let mut task = json!({"type": "report.make", "queue": "reports"});
        for (key, value) in rest.as_object().unwrap() {
            task[key] = value.clone();
        }
        client.post("/api/v1/tasks", &task.to_string()).expect(201);
    }
}

fn operate(client: &mut Client, body: Value) -> Value {
    let begun = client.post("/api/v1/operations", &body.to_string()).expect(202);
    let path = format!("/api/v1/operations/{}", text(&begun["id"]));
    loop {
        let operation = client.get(&path).expect(200);
        if operation["state"] != "running" {
            return operation;
        }
        // sleep: progress is only told when asked for.
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn tasks_are_moved_raised_cancelled_retried_and_deleted() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    submit(&mut client, 20, &json!({}));
    submit(&mut client, 5, &json!({"type": "email.send"}));
    let filter = "queue:reports type:report.*";
    let dry = json!({"action": "move", "filter": filter, "queue": "slow", "dry_run": true});
    let preview = client.post("/api/v1/operations", &dry.to_string()).expect(200);
    assert_eq!((&preview["matched"], &preview["would_change"]), (&json!(20), &json!(20)));
    assert_eq!(preview["sample"].as_array().unwrap().len(), 10);
    let done =
        operate(&mut client, json!({"action": "move", "filter": filter, "queue": "slow", "by": "anna"}));
    assert_eq!((&done["changed"], &done["progress"], &done["by"]), (&json!(20), &json!(1.0), &json!("anna")));
    let queue = client.get("/api/v1/queues/slow").expect(200);
    assert_eq!(
        (&queue["tasks"]["pending"], &queue["pending_by_priority"]["normal"]),
        (&json!(20), &json!(20))
    );
    let done =
        operate(&mut client, json!({"action": "set_priority", "filter": "queue:slow", "priority": "high"}));
    assert_eq!((&done["changed"], &done["priority"]), (&json!(20), &json!(200)));
    assert_eq!(client.get("/api/v1/queues/slow").expect(200)["pending_by_priority"]["high"], 20);
    let done = operate(&mut client, json!({"action": "cancel", "filter": "queue:slow"}));
    assert_eq!(done["changed"], 20);
    let done = operate(&mut client, json!({"action": "retry", "filter": "state:cancelled,pending"}));
    assert_eq!((&done["changed"], &done["skipped"], &done["seen"]), (&json!(20), &json!(5), &json!(25)));
    let done = operate(&mut client, json!({"action": "delete", "filter": "type:report.*"}));
    assert_eq!(done["changed"], 20);
    let stats = client.get("/api/v1/stats").expect(200);
    assert_eq!((&stats["ledger"]["removed"], &stats["tasks"]["pending"]), (&json!(20), &json!(5)));
    let page = client.get("/api/v1/operations?limit=2").expect(200);
    let actions: Vec<String> =
        page["items"].as_array().unwrap().iter().map(|it| text(&it["action"])).collect();
    assert_eq!(actions, ["delete", "retry"]);
    let cursor = text(&page["next_cursor"]);
    let rest = client.get(&format!("/api/v1/operations?cursor={cursor}")).expect(200);
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next_cursor"]), (3, &Value::Null));
}

#[test]
fn mistakes_are_named_and_change_nothing() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    submit(&mut client, 2, &json!({}));
    for (body, status, code, word) in [
        (json!({"action": "delete", "filter": " "}), 400, "malformed", "which tasks"),
        (json!({"action": "delete", "filter": "stat:dead"}), 400, "malformed", "did you mean state?"),
        (json!({"action": "explode", "filter": "a"}), 400, "malformed", "retry, cancel"),
        (json!({"action": "move", "filter": "a"}), 400, "malformed", "queue"),
        (json!({"action": "set_priority", "filter": "a", "priority": 256}), 422, "out_of_range", "priority"),
        (json!({"action": "retry", "filter": "a", "colour": 1}), 400, "malformed", "colour"),
    ] {
        let answer = client.post("/api/v1/operations", &body.to_string());
        assert!(answer.text.contains(word), "{}", answer.text);
        answer.refused(status, code);
    }
    client.get("/api/v1/operations/none").refused(404, "not_found");
    client.post("/api/v1/operations/none/cancel", "").refused(404, "not_found");
    client.get("/api/v1/operations?cursor=forged").refused(400, "malformed");
    assert_eq!(client.get("/api/v1/operations").expect(200)["items"], json!([]));
    let done = operate(&mut client, json!({"action": "cancel", "filter": "state:pending"}));
    let path = format!("/api/v1/operations/{}/cancel", text(&done["id"]));
    client.post(&path, "").refused(409, "operation_ended");
}
