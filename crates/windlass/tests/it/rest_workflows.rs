//! Dependencies and workflows over REST, on the running binary.

use serde_json::{Value, json};

use crate::broker_process::BrokerProcess;
use crate::http::Client;

const TASKS: &str = "/api/v1/tasks";
const WORKFLOWS: &str = "/api/v1/workflows";

/// Claims the next task, completes it with its own id as result, and returns that id.
fn work(client: &mut Client) -> String {
    let claim = json!({"worker_id": "w", "queues": ["default"], "wait_seconds": 20});
    let claimed = client.post("/api/v1/claim", &claim.to_string()).expect(200);
    let task = &claimed["tasks"][0];
    let id = task["id"].as_str().unwrap_or_else(|| panic!("nothing to claim: {claimed}")).to_owned();
    let done = json!({"lease": task["lease"], "result": {"of": id}});
    client.post(&format!("{TASKS}/{id}/complete"), &done.to_string()).expect(200);
    id
}

fn submit(client: &mut Client, body: Value) -> Value {
    client.post(TASKS, &body.to_string()).expect(201)
}

#[test]
fn a_task_waits_for_others_and_sees_their_results() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    submit(&mut client, json!({"type": "t", "id": "a"}));
    let waiting = submit(&mut client, json!({"type": "t", "id": "b", "dependencies": ["a"]}));
    assert_eq!((&waiting["state"], &waiting["dependencies"]), (&json!("blocked"), &json!(["a"])));
    assert_eq!((&waiting["dependency_count"], &waiting["dependencies_open"]), (&json!(1), &json!(1)));
    let why = client.get(&format!("{TASKS}/b/explain")).expect(200);
    assert_eq!(why["reasons"][0]["text"], "It waits for task a (pending).");
    assert_eq!([work(&mut client), work(&mut client)], ["a", "b"]);
    let seen = client.get(&format!("{TASKS}/b/dependencies")).expect(200);
    assert_eq!(seen["items"], json!([{"id": "a", "state": "completed", "result": {"of": "a"}}]));
    assert_eq!((&seen["total"], &seen["next_cursor"]), (&json!(1), &Value::Null));

    let missing = client.post(TASKS, &json!({"type": "t", "dependencies": ["nowhere"]}).to_string());
    let problem = missing.refused(422, "dependency_missing");
    assert_eq!(problem["errors"][0]["field"], "dependencies");
    assert!(problem["detail"].as_str().unwrap().contains("nowhere"), "{problem}");
    submit(&mut client, json!({"type": "t", "id": "c"}));
    client.post(&format!("{TASKS}/c/cancel"), "").expect(200);
    let cancelled = client.post(TASKS, &json!({"type": "t", "dependencies": ["c"]}).to_string());
    cancelled.refused(409, "dependency_cancelled");
    let batch = json!({"tasks": [{"type": "t", "id": "x"}, {"type": "t", "id": "y", "dependencies": ["x"]}]});
    let results = client.post(&format!("{TASKS}/batch"), &batch.to_string()).expect(200);
    assert_eq!(results["results"][1], json!({"id": "y", "state": "blocked"}));
    let many: Vec<String> = (0..10_000).map(|i| format!("t{i}")).collect();
    let wide = json!({"tasks": vec![json!({"type": "t", "dependencies": many}); 3]});
    let problem = client.post(&format!("{TASKS}/batch"), &wide.to_string()).refused(422, "invalid");
    assert_eq!(problem["errors"][0]["field"], "tasks");
}

#[test]
fn a_workflow_is_submitted_shown_cancelled_and_retried() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let graph = json!({"id": "nightly", "tasks": {
        "load": {"type": "t", "after": ["clean", "fetch"]},
        "clean": {"type": "t", "after": ["fetch"]},
        "fetch": {"type": "t", "payload": {"from": "here"}},
    }, "then": {"type": "t"}});
    let made = client.post(WORKFLOWS, &graph.to_string()).expect(201);
    assert_eq!((&made["state"], &made["size"]), (&json!("running"), &json!(4)));
    assert_eq!(made["tasks"]["clean"], "nightly:clean");
    client.post(WORKFLOWS, &graph.to_string()).expect(200);
    let other = json!({"id": "nightly", "tasks": {"a": {"type": "t"}}});
    client.post(WORKFLOWS, &other.to_string()).refused(409, "workflow_exists");

    assert_eq!(work(&mut client), "nightly:fetch");
    let path = format!("{WORKFLOWS}/nightly");
    let cancelled = client.post(&format!("{path}/cancel"), "").expect(200);
    assert_eq!((&cancelled["state"], &cancelled["affected"]), (&json!("cancelled"), &json!(3)));
    let retried = client.post(&format!("{path}/retry"), "").expect(200);
    assert_eq!((&retried["state"], &retried["affected"]), (&json!("running"), &json!(3)));
    let order: Vec<String> = (0..3).map(|_| work(&mut client)).collect();
    assert_eq!(order, ["nightly:clean", "nightly:load", "nightly:then"]);

    let shown = client.get(&format!("{path}?limit=3")).expect(200);
    assert_eq!((&shown["state"], &shown["tasks_by_state"]["completed"]), (&json!("completed"), &json!(4)));
    let names: Vec<&str> =
        shown["nodes"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["fetch", "clean", "load"]);
    assert_eq!(shown["nodes"][2]["after"], json!(["clean", "fetch"]));
    let cursor = shown["next_cursor"].as_str().unwrap();
    let rest = client.get(&format!("{path}?cursor={cursor}")).expect(200);
    assert_eq!((&rest["nodes"][0]["name"], &rest["next_cursor"]), (&json!("then"), &Value::Null));
    let listed = client.get(WORKFLOWS).expect(200);
    assert_eq!(listed["items"][0]["id"], "nightly");
    let task = client.get(&format!("{TASKS}/nightly:load")).expect(200);
    assert_eq!(task["workflow_id"], "nightly");
    client.get(&format!("{WORKFLOWS}/unknown")).refused(404, "not_found");
}

/// Cancels the first task of a workflow and retries the workflow at once, `rounds` times. No task may be cancelled
/// after the retry was answered.
pub(crate) fn cancel_and_retry(cancelling: &mut Client, retrying: &mut Client, rounds: usize) {
    const DEPENDENTS: usize = 20;
    let mut tasks = json!({"a": {"type": "t"}});
    for i in 0..DEPENDENTS {
        tasks[format!("b{i}")] = json!({"type": "t", "after": ["a"]});
    }
    let mut wrong = Vec::new();
    for round in 0..rounds {
        let graph = json!({"id": format!("w{round}"), "tasks": tasks});
        cancelling.post(WORKFLOWS, &graph.to_string()).expect(201);
        cancelling.post(&format!("{TASKS}/w{round}:a/cancel"), "").expect(200);
        retrying.post(&format!("{WORKFLOWS}/w{round}/retry"), "").expect(200);
    }
    // A late cancellation has had all the later rounds to show up.
    for round in 0..rounds {
        let counts = &retrying.get(&format!("{WORKFLOWS}/w{round}")).expect(200)["tasks_by_state"];
        if (&counts["pending"], &counts["blocked"]) != (&json!(1), &json!(DEPENDENTS)) {
            wrong.push(counts.clone());
        }
    }
    assert!(wrong.is_empty(), "{} of {rounds}, the first one {}", wrong.len(), wrong[0]);
}

#[test]
fn a_retry_right_after_a_cancel_loses_no_dependent() {
    let broker = BrokerProcess::start();
    cancel_and_retry(&mut broker.client(), &mut broker.client(), 200);
}

#[test]
fn a_cycle_is_refused_by_name() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let graph = json!({"tasks": {
        "a": {"type": "t", "after": ["c"]}, "b": {"type": "t", "after": ["a"]}, "c": {"type": "t", "after": ["b"]},
    }});
    let problem = client.post(WORKFLOWS, &graph.to_string()).refused(422, "out_of_range");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("in a cycle: a → b → c → a"), "{detail}");
    let keyed = json!({"tasks": {"a": {"type": "t"}}}).to_string();
    let first = client.post_with(WORKFLOWS, "idempotency-key: k\r\n", &keyed).expect(201);
    let second = client.post_with(WORKFLOWS, "idempotency-key: k\r\n", &keyed).expect(200);
    assert_eq!(first["id"], second["id"]);
    assert_eq!(
        client.get("/api/v1/stats").expect(200)["tasks"]["pending"],
        1,
        "nothing but the last was added"
    );
}
