//! Claiming and reporting, as a worker does it by hand.

use serde_json::{Value, json};

use crate::broker_process::BrokerProcess;
use crate::http::{Client, text};

fn submit(client: &mut Client, body: &str) -> String {
    text(&client.post("/api/v1/tasks", body).expect(201)["id"])
}

/// The lease of the next task, which must come.
fn claim(client: &mut Client) -> (Value, String) {
    let claimed = client.post("/api/v1/claim", r#"{"worker_id":"w1","wait_seconds":30}"#).expect(200);
    let task = claimed["tasks"][0].clone();
    let lease = text(&task["lease"]);
    (task, lease)
}

fn report(client: &mut Client, id: &str, verb: &str, body: Value) -> crate::http::Answer {
    client.post(&format!("/api/v1/tasks/{id}/{verb}"), &body.to_string())
}

fn state(client: &mut Client, id: &str) -> Value {
    client.get(&format!("/api/v1/tasks/{id}")).expect(200)["state"].clone()
}

#[test]
fn a_waiting_claim_is_answered_by_a_submit_and_a_waiting_reader_by_the_end() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| claim(&mut broker.client()));
        let id = submit(&mut client, r#"{"type":"a"}"#);
        let (task, lease) = worker.join().unwrap();
        assert_eq!(task["id"], json!(id));
        assert_eq!(
            (&task["state"], &task["worker_id"], &task["attempts"]),
            (&json!("running"), &json!("w1"), &json!(1))
        );
        let (path, reading) = (format!("/api/v1/tasks/{id}?wait=30s"), &broker);
        let reader = scope.spawn(move || reading.client().get(&path).expect(200));
        report(&mut client, &id, "complete", json!({"lease": lease, "result": {"ok": true}})).expect(200);
        let task = reader.join().unwrap();
        assert_eq!((&task["state"], &task["result"]["ok"]), (&json!("completed"), &json!(true)));
        assert!(task["completed_at"].is_string());
        assert!(task["lease"].is_null(), "a lease is nobody else's business");
    });
}

#[test]
fn a_lease_is_extended_used_once_and_then_void() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let id = submit(&mut client, r#"{"type":"a"}"#);
    let (task, old) = claim(&mut client);
    let progress = json!({"lease": old, "lease_seconds": 600, "progress": {"fraction": 0.5, "note": "half"}});
    let extended = report(&mut client, &id, "extend", progress).expect(200);
    assert!(text(&extended["lease_expires_at"]) > text(&task["lease_expires_at"]));
    assert_eq!(extended["cancel_requested"], false);
    let seen = client.get(&format!("/api/v1/tasks/{id}")).expect(200);
    assert_eq!((&seen["progress"]["fraction"], &seen["progress"]["note"]), (&json!(0.5), &json!("half")));

    let released = report(&mut client, &id, "release", json!({"lease": old})).expect(200);
    assert_eq!((&released["state"], &released["attempts"]), (&json!("pending"), &json!(0)));
    let (_, lease) = claim(&mut client);
    for verb in ["complete", "release", "extend"] {
        report(&mut client, &id, verb, json!({"lease": old})).refused(409, "lease_lost");
    }
    report(&mut client, &id, "fail", json!({"lease": old, "error": "x"})).refused(409, "lease_lost");
    report(&mut client, &id, "complete", json!({"lease": "made-up"})).refused(409, "lease_lost");
    assert_eq!(state(&mut client, &id), "running");

    let first = report(&mut client, &id, "complete", json!({"lease": lease, "result": 1})).expect(200);
    let again = report(&mut client, &id, "complete", json!({"lease": lease, "result": 2})).expect(200);
    assert_eq!(first, again);
    let task = client.get(&format!("/api/v1/tasks/{id}")).expect(200);
    assert_eq!((&task["state"], &task["result"]), (&json!("completed"), &json!(1)));
    report(&mut client, &id, "fail", json!({"lease": lease, "error": "late"})).refused(409, "lease_lost");
}

#[test]
fn failures_are_retried_until_the_task_is_a_dead_letter() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let slow = submit(&mut client, r#"{"type":"a","retry":{"policy":"fixed","initial_ms":3600000}}"#);
    let (_, lease) = claim(&mut client);
    let failed = report(&mut client, &slow, "fail", json!({"lease": lease, "error": "boom"})).expect(200);
    assert_eq!(failed["state"], "retrying");
    let task = client.get(&format!("/api/v1/tasks/{slow}")).expect(200);
    assert!(text(&task["next_retry_at"]) > text(&task["created_at"]));
    assert_eq!(task["error"], "boom");

    let quick =
        submit(&mut client, r#"{"type":"a","max_retries":1,"retry":{"policy":"fixed","initial_ms":1}}"#);
    for want in ["retrying", "dead_letter"] {
        let (task, lease) = claim(&mut client);
        assert_eq!(task["id"], json!(quick));
        let failed =
            report(&mut client, &quick, "fail", json!({"lease": lease, "error": "boom"})).expect(200);
        assert_eq!(failed["state"], want);
    }
    let attempts = client.get(&format!("/api/v1/tasks/{quick}/attempts")).expect(200);
    for (index, row) in attempts["items"].as_array().unwrap().iter().enumerate() {
        assert_eq!((&row["attempt"], &row["worker_id"]), (&json!(index + 1), &json!("w1")));
        assert_eq!((&row["outcome"], &row["error"]), (&json!("failed"), &json!("boom")));
        assert!(row["duration_ms"].is_u64() && row["started_at"].is_string());
    }
    assert_eq!(attempts["items"].as_array().unwrap().len(), 2);

    let dead = client.get("/api/v1/dlq").expect(200);
    assert_eq!(dead["items"].as_array().unwrap().len(), 1);
    let dry = client.post("/api/v1/dlq/retry", r#"{"all":true,"dry_run":true}"#).expect(200);
    assert_eq!(dry["affected"], 1);
    assert_eq!(
        client.post("/api/v1/dlq/retry", r#"{"all":true,"queue":"other"}"#).expect(200)["affected"],
        0
    );
    let by_id = json!({"ids": [quick, "none"]}).to_string();
    assert_eq!(client.post("/api/v1/dlq/retry", &by_id).expect(200)["affected"], 1);
    let (task, lease) = claim(&mut client);
    assert_eq!((&task["id"], &task["attempts"]), (&json!(quick), &json!(1)), "attempts are counted anew");
    let fatal = json!({"lease": lease, "error": "no use", "retryable": false});
    assert_eq!(report(&mut client, &quick, "fail", fatal).expect(200)["state"], "dead_letter");
    assert_eq!(client.delete("/api/v1/dlq").expect(200)["affected"], 1);
    client.get(&format!("/api/v1/tasks/{quick}")).refused(404, "not_found");
}

#[test]
fn a_task_is_cancelled_in_every_live_state_and_in_no_other() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let retrying = submit(&mut client, r#"{"type":"a","retry":{"policy":"fixed","initial_ms":3600000}}"#);
    let (_, lease) = claim(&mut client);
    report(&mut client, &retrying, "fail", json!({"lease": lease, "error": "x"})).expect(200);
    let running = submit(&mut client, r#"{"type":"a"}"#);
    let (_, lease) = claim(&mut client);
    let scheduled = submit(&mut client, r#"{"type":"a","delay_seconds":3600}"#);
    let pending = submit(&mut client, r#"{"type":"a"}"#);
    for (id, want) in
        [(&retrying, "retrying"), (&running, "running"), (&scheduled, "scheduled"), (&pending, "pending")]
    {
        assert_eq!(state(&mut client, id), want);
        let cancelled = client.post(&format!("/api/v1/tasks/{id}/cancel"), "").expect(200);
        assert_eq!(cancelled["state"], "cancelled", "{want}");
        client.delete(&format!("/api/v1/tasks/{id}")).refused(409, "task_terminal");
    }
    let told = report(&mut client, &running, "extend", json!({"lease": lease})).expect(200);
    assert_eq!(told["cancel_requested"], true);
    report(&mut client, &running, "complete", json!({"lease": lease})).refused(409, "lease_lost");
    assert_eq!(client.post(&format!("/api/v1/tasks/{pending}/retry"), "").expect(200)["state"], "pending");
    client.post(&format!("/api/v1/tasks/{pending}/retry"), "").refused(409, "wrong_state");
    client.delete(&format!("/api/v1/tasks/{pending}?purge=true")).refused(409, "wrong_state");
    client.delete(&format!("/api/v1/tasks/{running}?purge=true")).expect(204);
    client.get(&format!("/api/v1/tasks/{running}")).refused(404, "not_found");
}

#[test]
fn every_waiting_task_can_say_why() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let codes = |client: &mut Client, id: &str| -> Vec<String> {
        let explanation = client.get(&format!("/api/v1/tasks/{id}/explain")).expect(200);
        explanation["reasons"].as_array().unwrap().iter().map(|reason| text(&reason["code"])).collect()
    };
    let retrying = submit(&mut client, r#"{"type":"a","retry":{"policy":"fixed","initial_ms":3600000}}"#);
    assert!(codes(&mut client, &retrying).contains(&"no_worker".to_owned()));
    let (_, lease) = claim(&mut client);
    assert_eq!(codes(&mut client, &retrying), ["running"]);
    report(&mut client, &retrying, "fail", json!({"lease": lease, "error": "x"})).expect(200);
    assert_eq!(codes(&mut client, &retrying)[0], "retrying");
    let scheduled = submit(&mut client, r#"{"type":"a","delay_seconds":3600}"#);
    assert_eq!(codes(&mut client, &scheduled)[0], "scheduled");
    let pending = submit(&mut client, r#"{"type":"a"}"#);
    assert_eq!(codes(&mut client, &pending), ["position"]);
    client.post("/api/v1/workers/w1/pause", "").expect(200);
    assert!(codes(&mut client, &pending).contains(&"worker_paused".to_owned()));
    client.post("/api/v1/workers/w1/resume", "").expect(200);
    client.post("/api/v1/queues/default/pause", "").expect(200);
    assert_eq!(codes(&mut client, &pending)[0], "paused");
    client.post(&format!("/api/v1/tasks/{pending}/cancel"), "").expect(200);
    assert_eq!(codes(&mut client, &pending), ["terminal"]);
}

#[test]
fn a_paused_queue_gives_out_nothing_until_it_is_resumed() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    submit(&mut client, r#"{"type":"a"}"#);
    assert_eq!(client.post("/api/v1/queues/default/pause", "").expect(200)["paused"], true);
    let none = client.post("/api/v1/claim", r#"{"worker_id":"w1"}"#).expect(200);
    assert_eq!(none["tasks"], json!([]));
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| claim(&mut broker.client()));
        assert_eq!(client.post("/api/v1/queues/default/resume", "").expect(200)["paused"], false);
        assert_eq!(worker.join().unwrap().0["state"], "running");
    });
}

#[test]
fn a_heartbeat_keeps_leases_and_tells_what_is_lost() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let mine = submit(&mut client, r#"{"type":"a"}"#);
    let (_, lease) = claim(&mut client);
    let cancelled = submit(&mut client, r#"{"type":"a"}"#);
    let (_, second) = claim(&mut client);
    client.post(&format!("/api/v1/tasks/{cancelled}/cancel"), "").expect(200);
    let beat = json!({
        "incarnation": 7, "host": "here", "pid": 1, "queues": ["default"], "slots": 4, "cpu": 0.5, "memory_bytes": 1000,
        "leases": [{"id": mine, "lease": lease}, {"id": cancelled, "lease": second}, {"id": "gone", "lease": "forged"}],
    });
    let pulse = client.post("/api/v1/workers/w1/heartbeat", &beat.to_string()).expect(200);
    assert_eq!(pulse, json!({"extended": [mine], "lost": ["gone"], "cancel": [cancelled], "paused": false}));
    let worker = client.get("/api/v1/workers/w1").expect(200);
    assert_eq!(
        (&worker["host"], &worker["slots"], &worker["tasks"]),
        (&json!("here"), &json!(4), &json!([mine]))
    );
    assert_eq!(client.get("/api/v1/workers").expect(200)["items"][0]["id"], "w1");
    client.post("/api/v1/workers/w1/pause", "").expect(200);
    let pulse = client.post("/api/v1/workers/w1/heartbeat", r#"{"incarnation":7}"#).expect(200);
    assert_eq!(pulse["paused"], true);
    client.get("/api/v1/workers/nobody").refused(404, "not_found");
}

#[test]
fn running_leases_outlive_a_killed_broker() {
    let mut broker = BrokerProcess::start();
    let id = submit(&mut broker.client(), r#"{"type":"a"}"#);
    let (_, lease) = claim(&mut broker.client());
    broker.kill_and_restart();
    let done =
        report(&mut broker.client(), &id, "complete", json!({"lease": lease, "result": "kept"})).expect(200);
    assert_eq!(done["state"], "completed");
}
