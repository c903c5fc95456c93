//! Schedules over REST, on the running binary.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::broker_process::BrokerProcess;
use crate::http::{Answer, Client, text};

const SCHEDULES: &str = "/api/v1/schedules";

fn put(client: &mut Client, path: &str, body: &Value) -> Answer {
    let body = body.to_string();
    let head = format!(
        "PUT {path} HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.send(&head, body.as_bytes())
}

fn nightly() -> Value {
    json!({
        "id": "nightly", "cron": "0 2 * * MON-FRI", "timezone": "america/new_york", "overlap": "skip",
        "catch_up": "all", "catch_up_window_seconds": 3600, "jitter_seconds": 30,
        "task": {"type": "report", "queue": "reports", "payload": {"day": "{{scheduled_at}}"}, "priority": "high"},
    })
}

/// Waits for a fire; a slot is at most a second away.
fn fires(client: &mut Client, id: &str, count: usize) -> Vec<Value> {
    let patience = Instant::now() + Duration::from_secs(30);
    loop {
        let fires = client.get(&format!("{SCHEDULES}/{id}/fires")).expect(200);
        let items = fires["items"].as_array().unwrap().clone();
        if items.len() >= count {
            return items;
        }
        assert!(Instant::now() < patience, "{fires}");
        // sleep: nothing announces a fire over REST yet.
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_schedule_is_made_shown_changed_and_forgotten() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let made = client.post(SCHEDULES, &nightly().to_string()).expect(201);
    assert_eq!((&made["timezone"], &made["overlap"]), (&json!("America/New_York"), &json!("skip")));
    assert_eq!((&made["task"]["queue"], &made["task"]["priority"]), (&json!("reports"), &json!(200)));
    assert_eq!(made["standing"]["code"], "scheduled");
    client.post(SCHEDULES, &nightly().to_string()).refused(409, "schedule_exists");
    assert_eq!(client.get(&format!("{SCHEDULES}/nightly")).expect(200)["next_at"], made["next_at"]);

    let next = client.get(&format!("{SCHEDULES}/nightly/next?count=3")).expect(200);
    assert_eq!(next["items"].as_array().unwrap().len(), 3);
    assert_eq!(next["items"][0]["scheduled_at"], made["next_at"]);
    assert!(next["items"][0]["starts_at"].as_str() >= made["next_at"].as_str());

    let mut changed = nightly();
    changed["cron"] = json!("@hourly");
    let answer = put(&mut client, &format!("{SCHEDULES}/nightly"), &changed).expect(200);
    assert_eq!((&answer["cron"], &answer["created_at"]), (&json!("@hourly"), &made["created_at"]));
    changed["id"] = json!("other");
    put(&mut client, &format!("{SCHEDULES}/nightly"), &changed).refused(400, "malformed");
    put(&mut client, &format!("{SCHEDULES}/other"), &changed).expect(201);

    let page = client.get(&format!("{SCHEDULES}?limit=1")).expect(200);
    assert_eq!(page["items"][0]["id"], "nightly");
    let cursor = text(&page["next_cursor"]);
    let page = client.get(&format!("{SCHEDULES}?limit=5&cursor={cursor}")).expect(200);
    assert_eq!((&page["items"][0]["id"], &page["next_cursor"]), (&json!("other"), &Value::Null));
    client.get(&format!("{SCHEDULES}?cursor=forged")).refused(400, "malformed");

    let paused = client.post(&format!("{SCHEDULES}/nightly/pause"), "").expect(200);
    assert_eq!((&paused["paused"], &paused["standing"]["code"]), (&json!(true), &json!("paused")));
    assert_eq!(client.post(&format!("{SCHEDULES}/nightly/resume"), "").expect(200)["paused"], false);
    assert_eq!(client.delete(&format!("{SCHEDULES}/nightly")).status, 204);
    for path in ["", "/next", "/fires"] {
        client.get(&format!("{SCHEDULES}/nightly{path}")).refused(404, "not_found");
    }
    client.delete(&format!("{SCHEDULES}/nightly")).refused(404, "not_found");
    client.post(&format!("{SCHEDULES}/nightly/run"), "").refused(404, "not_found");
}

#[test]
fn mistakes_are_named_and_change_nothing() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let mut refused = |change: &dyn Fn(&mut Value), status, field: &str| {
        let mut body = nightly();
        change(&mut body);
        let code = match status {
            400 => "malformed",
            413 => "too_large",
            _ => "",
        };
        let answer = client.post(SCHEDULES, &body.to_string());
        let problem = answer.expect(status);
        assert!(code.is_empty() || problem["code"] == code, "{problem}");
        assert_eq!(problem["errors"][0]["field"], field, "{problem}");
    };
    for cron in ["*/0 * * * *", "0 0 30 2 *", "61 * * * *", "every day", "@every 1ms", ""] {
        refused(&|body| body["cron"] = json!(cron), 422, "cron");
    }
    refused(&|body| body["timezone"] = json!("Mars/Olympus"), 422, "timezone");
    refused(&|body| body["ends_at"] = json!("2020-01-01T00:00:00Z"), 422, "ends_at");
    refused(&|body| body["overlap"] = json!("sometimes"), 422, "overlap");
    refused(&|body| body["jitter_seconds"] = json!(90_000), 422, "jitter_seconds");
    refused(&|body| body["task"]["delay_seconds"] = json!(5), 422, "task.delay_seconds");
    refused(&|body| body["task"]["colour"] = json!(5), 400, "task.colour");
    refused(&|body| body["task"]["payload"] = json!("x".repeat(20_000)), 413, "task.payload");
    refused(&|body| body["id"] = json!("a/b"), 400, "id");
    refused(&|body| drop(body.as_object_mut().unwrap().remove("task")), 400, "task");
    assert_eq!(client.get(SCHEDULES).expect(200)["items"], json!([]));
}

#[test]
fn slots_fire_over_a_kill_and_runs_by_hand_are_told_apart() {
    let mut broker = BrokerProcess::start();
    let mut client = broker.client();
    let body = json!({"id": "tick", "cron": "@every 1s", "catch_up": "all",
        "task": {"type": "t", "payload": {"slot": "{{scheduled_at}}"}}});
    client.post(SCHEDULES, &body.to_string()).expect(201);
    let fired = fires(&mut client, "tick", 1).remove(0);
    let task = client.get(&format!("/api/v1/tasks/{}", text(&fired["task_id"]))).expect(200);
    assert_eq!(task["payload"]["slot"], fired["scheduled_at"]);
    assert_eq!(fired["state"], "pending");

    broker.kill_and_restart();
    let mut client = broker.client();
    let fired = fires(&mut client, "tick", 3);
    client.post(&format!("{SCHEDULES}/tick/pause"), "").expect(200);
    let all = client.get(&format!("{SCHEDULES}/tick/fires?limit=100")).expect(200);
    assert!(all["items"].as_array().unwrap().len() >= fired.len());
    let slots: Vec<String> =
        all["items"].as_array().unwrap().iter().rev().map(|fire| text(&fire["scheduled_at"])).collect();
    let stats = client.get("/api/v1/stats").expect(200);
    assert_eq!(stats["ledger"]["submitted"], slots.len(), "one task for each slot");
    assert!(slots.is_sorted_by(|a, b| a < b), "{slots:?}");

    let run = client.post(&format!("{SCHEDULES}/tick/run"), "").expect(201);
    assert!(text(&run["id"]).starts_with("tick:run:"), "{run}");
    client.post(&format!("/api/v1/tasks/{}/cancel", text(&run["id"])), "").expect(200);
    let newest = client.get(&format!("{SCHEDULES}/tick/fires?limit=1")).expect(200);
    let newest = &newest["items"][0];
    assert_eq!((&newest["manual"], &newest["state"]), (&json!(true), &json!("cancelled")));
    assert_eq!(newest["task_id"], run["id"]);
}
