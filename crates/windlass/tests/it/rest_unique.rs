//! Unique keys through the REST interface and the command line, over restarts too.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::time::Duration;

use serde_json::Value;
use windlass_client::{Client, OnConflict, Submit};

use crate::broker_process::BrokerProcess;
use crate::cli::process::Dev;
use crate::http::{self, text};

const TASKS: &str = "/api/v1/tasks";
const RACERS: usize = 64;

fn submit(client: &mut http::Client, key: &str, rule: &str) -> (u16, Value) {
    let body = format!(r#"{{"type":"t","unique_key":"{key}","on_conflict":"{rule}"}}"#);
    let answer = client.post(TASKS, &body);
    (answer.status, answer.json())
}

/// Everybody submits the key at once; the ids that they were given.
fn race(broker: &BrokerProcess, key: &str) -> BTreeSet<String> {
    let (start, mut ids) = (Barrier::new(RACERS), BTreeSet::new());
    std::thread::scope(|scope| {
        let racer = || {
            let mut client = broker.client();
            start.wait();
            let (status, task) = submit(&mut client, key, "return");
            assert!(matches!(status, 200 | 201), "{task}");
            text(&task["id"])
        };
        let racers: Vec<_> = (0..RACERS).map(|_| scope.spawn(racer)).collect();
        ids.extend(racers.into_iter().map(|racer| racer.join().unwrap()));
    });
    ids
}

fn live(client: &mut http::Client) -> usize {
    let page = client.get("/api/v1/tasks?state=pending,running&limit=1000").expect(200);
    page["items"].as_array().unwrap().len()
}

fn complete_next(client: &mut http::Client) -> String {
    let claimed = client.post("/api/v1/claim", r#"{"worker_id":"w","wait_seconds":10}"#).expect(200);
    let task = &claimed["tasks"][0];
    let (id, lease) = (text(&task["id"]), text(&task["lease"]));
    client.post(&format!("{TASKS}/{id}/complete"), &format!(r#"{{"lease":"{lease}"}}"#)).expect(200);
    id
}

#[test]
fn sixty_four_clients_and_one_key_make_one_live_task_over_kills_and_restarts() {
    let mut broker = BrokerProcess::start();
    let first = race(&broker, "k");
    assert_eq!((first.len(), live(&mut broker.client())), (1, 1));
    broker.kill_and_restart();
    assert_eq!(race(&broker, "k"), first, "kill -9 does not free it");
    let mut client = broker.client();
    assert!(first.contains(&complete_next(&mut client)));
    assert_eq!(live(&mut client), 0);
    let second = race(&broker, "k");
    assert_eq!((second.len(), live(&mut client)), (1, 1), "free after completion, and taken once");
    assert!(second.is_disjoint(&first));
    complete_next(&mut client);
    broker.kill_and_restart();
    let third = race(&broker, "k");
    assert_eq!((third.len(), live(&mut broker.client())), (1, 1), "still free after kill -9");
    assert!(third.is_disjoint(&second));
}

#[test]
fn the_rules_by_status_and_code() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let (status, first) = submit(&mut client, "k", "return");
    assert_eq!((status, &first["unique_key"]), (201, &"k".into()));
    let id = text(&first["id"]);
    let (status, same) = submit(&mut client, "k", "return");
    assert_eq!((status, &same["id"]), (200, &first["id"]));
    let refused = client.post(TASKS, r#"{"type":"t","unique_key":"k","on_conflict":"reject"}"#);
    let problem = refused.refused(409, "unique_conflict");
    assert_eq!((&problem["task_id"], &problem["errors"][0]["field"]), (&first["id"], &"unique_key".into()));
    let (status, second) = submit(&mut client, "k", "replace");
    assert_eq!(status, 201);
    let replaced = client.get(&format!("{TASKS}/{id}")).expect(200);
    assert_eq!((&replaced["state"], &replaced["cancel_reason"]), (&"cancelled".into(), &"replaced".into()));
    let explained = client.get(&format!("{TASKS}/{id}/explain")).expect(200).to_string();
    assert!(explained.contains("took its place"), "{explained}");
    let retry = client.post(&format!("{TASKS}/{id}/retry"), "");
    assert_eq!(retry.refused(409, "unique_conflict")["task_id"], second["id"]);
    assert_eq!(client.get(&format!("{TASKS}/{id}")).expect(200), replaced, "nothing changed");
    let schedule = r#"{"id":"s","cron":"@daily","task":{"type":"t","unique_key":"k"}}"#;
    let problem = client.post("/api/v1/schedules", schedule).refused(422, "not_supported");
    assert_eq!(problem["errors"][0]["field"], "task.unique_key");
}

#[test]
fn a_batch_goes_one_after_the_other() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let item = |rule: &str| format!(r#"{{"type":"t","unique_key":"k","on_conflict":"{rule}"}}"#);
    let tasks = [item("reject"), item("return"), item("reject"), item("replace")].join(",");
    let atomic = format!(r#"{{"atomic":true,"tasks":[{tasks}]}}"#);
    let results = client.post("/api/v1/tasks/batch", &atomic).expect(200)["results"].clone();
    let code = |i: usize| results[i]["error"]["code"].clone();
    assert_eq!([code(0), code(2), code(3)], ["aborted", "unique_conflict", "aborted"]);
    assert_eq!(live(&mut client), 0);
    let plain = format!(r#"{{"tasks":[{tasks}]}}"#);
    let results = client.post("/api/v1/tasks/batch", &plain).expect(200)["results"].clone();
    assert_eq!(results[0]["id"], results[1]["id"]);
    assert_eq!(results[2]["error"]["task_id"], results[0]["id"]);
    assert_ne!(results[3]["id"], results[0]["id"]);
    assert_eq!(live(&mut client), 1);
}

#[test]
fn a_running_holder_that_is_replaced_hears_of_it() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let (_, first) = submit(&mut client, "k", "return");
    let claimed = client.post("/api/v1/claim", r#"{"worker_id":"w","wait_seconds":10}"#).expect(200);
    let lease = text(&claimed["tasks"][0]["lease"]);
    submit(&mut client, "k", "replace");
    let path = format!("{TASKS}/{}", text(&first["id"]));
    let body = format!(r#"{{"lease":"{lease}"}}"#);
    let extended = client.post(&format!("{path}/extend"), &body).expect(200);
    assert_eq!(extended["cancel_requested"], true);
    client.post(&format!("{path}/complete"), &body).refused(409, "lease_lost");
}

#[tokio::test]
async fn the_library_says_who_has_the_key_over_grpc_and_rest() {
    let broker = BrokerProcess::start();
    let grpc = Client::connect(&format!("http://{}", broker.grpc_address)).unwrap();
    let rest = Client::rest(&format!("http://{}", broker.address)).unwrap();
    for (client, key) in [(grpc, "by grpc"), (rest, "by rest")] {
        let submit = || Submit::new("t", &1).unwrap().unique_key(key);
        let first = client.submit(submit().unique_for(Duration::from_secs(60))).await.unwrap();
        assert_eq!(client.submit(submit()).await.unwrap().id, first.id);
        let refused = client.submit(submit().on_conflict(OnConflict::Reject)).await.unwrap_err();
        assert_eq!((refused.status(), refused.code()), (Some(409), Some("unique_conflict")));
        assert_eq!(refused.holder().as_ref(), Some(&first.id));
        let batch = [submit(), submit().on_conflict(OnConflict::Reject)];
        let answers = client.submit_batch(&batch).await.unwrap();
        assert_eq!(answers[0].as_ref().unwrap().id, first.id);
        assert_eq!(answers[1].as_ref().unwrap_err().holder().as_ref(), Some(&first.id));
        let second = client.submit(submit().on_conflict(OnConflict::Replace)).await.unwrap();
        let replaced = client.task(&first.id).await.unwrap();
        assert_eq!(replaced.cancel_reason.as_deref(), Some("replaced"));
        assert_eq!(replaced.unique_key.as_deref(), Some(key));
        assert!(replaced.unique_until.is_some());
        assert_eq!(client.retry(&first.id).await.unwrap_err().holder(), Some(second.id));
        let stray = client.submit(Submit::new("t", &1).unwrap().unique_for(Duration::from_secs(1))).await;
        assert_eq!(stray.unwrap_err().code(), Some("malformed"));
    }
}

#[test]
fn unique_keys_from_the_command_line() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(&["--data-dir", data.path().join("data").to_str().unwrap()]);
    for wire in [&["--rest"][..], &[]] {
        let key = format!("key {}", wire.len());
        let submit = |more: &[&str]| {
            let words = ["submit", "nobody", "--unique-key", &key];
            dev.run(&words.iter().chain(wire).chain(more).copied().collect::<Vec<_>>())
        };
        let first = submit(&[]);
        assert_eq!(first.code, 0, "{}", first.stderr);
        assert_eq!(submit(&[]).stdout, first.stdout);
        let refused = submit(&["--on-conflict", "reject"]);
        assert_eq!(refused.code, 4, "{}", refused.stderr);
        assert!(refused.stderr.contains(first.stdout.trim()), "{}", refused.stderr);
        assert_ne!(submit(&["--on-conflict", "replace"]).stdout, first.stdout);
        assert_eq!(submit(&["--unique-for", "0s"]).code, 2);
        assert_eq!(submit(&["--on-conflict", "wait"]).code, 2);
        let shown = dev.run(&["task", "get", first.stdout.trim()]).stdout;
        assert!(shown.contains("replaced") && shown.contains(&key), "{shown}");
    }
    assert_eq!(dev.stop(), Some(0));
}

#[test]
fn what_depends_on_a_replaced_task_is_cancelled_with_it() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    client.post(TASKS, r#"{"id":"parent","type":"t","unique_key":"k"}"#).expect(201);
    client.post(TASKS, r#"{"id":"child","type":"t","dependencies":["parent"]}"#).expect(201);
    submit(&mut client, "k", "replace");
    let child = client.get(&format!("{TASKS}/child?wait=20s")).expect(200);
    assert_eq!((&child["state"], &child["cancel_reason"]), (&"cancelled".into(), &"dependency".into()));
}
