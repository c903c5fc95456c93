//! The TCP frames of the running binary.

use std::process::Command;

use serde_json::{Value, json};

use crate::broker_process::BrokerProcess;
use crate::frames::{
    ACK, CANCEL, CLAIM, Frames, HEARTBEAT, LIST, NACK, RESULT, STATS, STATUS, SUBMIT, frame,
};
use crate::http::text;

fn result(task: &Value, rest: &str) -> String {
    format!(r#"{{"id":{},"lease":{},{rest}}}"#, task["id"], task["lease"])
}

fn claim(frames: &mut Frames, body: &str) -> Vec<Value> {
    frames.call(CLAIM, body).ok()["tasks"].as_array().unwrap().clone()
}

#[test]
fn the_page_about_the_protocol_runs_as_written() {
    let page = include_str!("../../../../docs/protocol-tcp.md");
    let script = page.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let broker = BrokerProcess::start();
    let script = script.replace("7070", &broker.tcp_address.port().to_string());
    let done = Command::new("python3").args(["-c", &script]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(String::from_utf8_lossy(&done.stdout), "completed\n");
    let tasks = broker.client().get("/api/v1/tasks?queue=tcp").expect(200);
    assert_eq!(tasks["items"][0]["result"], json!({"hello": "world"}));
}

#[test]
fn answers_come_in_order_whatever_they_wait_for() {
    let broker = BrokerProcess::start();
    let mut frames = broker.frames();
    // The first answer depends on the third request, and there are mistakes in between.
    let requests = [
        frame(CLAIM, r#"{"worker_id":"w","queues":["q"],"wait_seconds":50}"#),
        frame(STATUS, r#"{"id":"nobody"}"#),
        frame(SUBMIT, r#"{"id":"a","type":"t","queue":"q"}"#),
        frame(SUBMIT, r#"{"id":"b","type":"t","queue":"other"}"#),
        frame(SUBMIT, r#"{"id":"c"}"#),
        frame(SUBMIT, r#"{"id":"d","type":"t","queue":"other"}"#),
        frame(CLAIM, r#"{"worker_id":"w","queues":["empty"]}"#),
        frame(STATS, "{}"),
        frame(77, "{}"),
    ];
    frames.send(&requests.concat());
    let answers: Vec<_> = requests.iter().map(|_| frames.read()).collect();
    let kinds: Vec<u8> = answers.iter().map(|answer| answer.kind).collect();
    assert_eq!(kinds, [ACK, NACK, ACK, ACK, NACK, ACK, ACK, ACK, NACK]);
    assert_eq!(answers[0].body["tasks"][0]["id"], "a");
    assert_eq!(answers[1].body["code"], "not_found");
    assert_eq!(
        [&answers[2], &answers[3], &answers[5]].map(|it| text(&it.body["task"]["id"])),
        ["a", "b", "d"]
    );
    assert_eq!(answers[4].body["errors"][0]["field"], "type");
    assert_eq!(answers[6].body, json!({"tasks": []}));
    assert!(answers[7].body["ledger"].is_object());
    assert_eq!(answers[8].body["code"], "unknown_type");
}

#[test]
fn a_pipeline_longer_than_the_window_is_answered_whole() {
    let broker = BrokerProcess::start();
    let mut frames = broker.frames();
    let submit = |n: usize| frame(SUBMIT, format!(r#"{{"id":"t{n}","type":"t","payload":{n}}}"#));
    frames.send(&(0..1000).flat_map(submit).collect::<Vec<u8>>());
    for n in 0..1000 {
        let task = frames.read().ok()["task"].clone();
        assert_eq!((text(&task["id"]), &task["payload"]), (format!("t{n}"), &json!(n)));
    }
    // First in, first out: the order of a pipeline is the order of the queue.
    let tasks = claim(&mut frames, r#"{"worker_id":"w","max":1000}"#);
    assert!(tasks.iter().enumerate().all(|(n, task)| task["payload"] == n));

    let mut results: Vec<Vec<u8>> =
        tasks.iter().map(|task| frame(RESULT, result(task, r#""status":"completed","result":1"#))).collect();
    results.insert(500, frame(RESULT, result(&tasks[499], r#""status":"completed""#)));
    let stolen = json!({"id": tasks[0]["id"], "lease": tasks[1]["lease"]});
    results.insert(700, frame(RESULT, result(&stolen, r#""status":"completed""#)));
    results.push(frame(RESULT, r#"{"id":"none","lease":"1-00000000000000ff","status":"completed"}"#));
    frames.send(&results.concat());
    for n in 0..results.len() {
        let answer = frames.read();
        match n {
            700 => drop(answer.refused(409, "lease_lost")),
            1002 => drop(answer.refused(404, "not_found")),
            // The same result again changes nothing and is no mistake.
            _ => assert_eq!(answer.ok(), json!({})),
        }
    }
    let stats = frames.call(STATS, "{}").ok();
    assert_eq!((&stats["ledger"]["submitted"], &stats["ledger"]["completed"]), (&json!(1000), &json!(1000)));
}

#[test]
fn results_end_attempts_in_each_way() {
    let broker = BrokerProcess::start();
    let mut frames = broker.frames();
    for id in ["done", "bytes", "again", "dead", "back", "later"] {
        frames.call(SUBMIT, format!(r#"{{"id":"{id}","type":"t"}}"#)).ok();
    }
    let tasks = claim(&mut frames, r#"{"worker_id":"w","max":10}"#);
    let ends = [
        r#""status":"completed","result":{"a":[1]}"#,
        r#""status":"completed","result_base64":"AAE=""#,
        r#""status":"failed","error":"oh","retry_after_seconds":60"#,
        r#""status":"failed","error":"never","retryable":false"#,
        r#""status":"released""#,
        r#""status":"released","delay_seconds":60"#,
    ];
    for (task, end) in tasks.iter().zip(ends) {
        assert_eq!(frames.call(RESULT, result(task, end)).ok(), json!({}));
    }
    let mut look = |id: &str| frames.call(STATUS, format!(r#"{{"id":"{id}"}}"#)).ok()["task"].clone();
    assert_eq!(look("done")["result"], json!({"a": [1]}));
    assert_eq!(look("bytes")["result_base64"], "AAE=");
    let states = ["done", "again", "dead", "back", "later"].map(|id| text(&look(id)["state"]));
    assert_eq!(states, ["completed", "retrying", "dead_letter", "pending", "scheduled"]);
    assert_eq!(look("dead")["error"], "never");
    frames.call(RESULT, result(&tasks[4], r#""status":"completed""#)).refused(409, "lease_lost");
}

#[test]
fn a_heartbeat_extends_and_tells_of_loss_and_cancel() {
    let broker = BrokerProcess::start();
    let mut frames = broker.frames();
    for id in ["kept", "cancelled", "lost"] {
        frames.call(SUBMIT, format!(r#"{{"id":"{id}","type":"t"}}"#)).ok();
    }
    let tasks = claim(&mut frames, r#"{"worker_id":"w","max":3}"#);
    assert_eq!(frames.call(CANCEL, r#"{"id":"cancelled"}"#).ok()["task"]["state"], "cancelled");
    frames.call(RESULT, result(&tasks[2], r#""status":"released""#)).ok();
    let mut leases: Vec<Value> =
        tasks.iter().map(|task| json!({"id": task["id"], "lease": task["lease"]})).collect();
    leases.push(json!({"id": "never", "lease": "made up"}));
    let pulse = frames.call(HEARTBEAT, json!({"worker_id": "w", "leases": leases}).to_string()).ok();
    assert_eq!(
        pulse,
        json!({"extended": ["kept"], "lost": ["lost", "never"], "cancel": ["cancelled"], "paused": false})
    );
    let workers = broker.client().get("/api/v1/workers/w").expect(200);
    assert_eq!(workers["tasks"], json!(["kept"]));
}

#[test]
fn tasks_are_listed_and_cancelled() {
    let broker = BrokerProcess::start();
    let mut frames = broker.frames();
    for n in 0..5 {
        frames.call(SUBMIT, format!(r#"{{"id":"t{n}","type":"t","queue":"q{}"}}"#, n % 2)).ok();
    }
    frames.call(CANCEL, r#"{"id":"t2"}"#).ok();
    frames.call(CANCEL, r#"{"id":"t2"}"#).refused(409, "task_terminal");
    let ids = |page: &Value| {
        page["items"].as_array().unwrap().iter().map(|task| text(&task["id"])).collect::<Vec<_>>()
    };
    let page = frames.call(LIST, r#"{"queue":"q0","state":"pending,cancelled","limit":2}"#).ok();
    assert_eq!(ids(&page), ["t4", "t2"]);
    let next = format!(r#"{{"queue":"q0","limit":"2","cursor":{}}}"#, page["next_cursor"]);
    let page = frames.call(LIST, next).ok();
    assert_eq!((ids(&page), &page["next_cursor"]), (vec!["t0".to_owned()], &Value::Null));
    assert_eq!(frames.call(LIST, "{}").ok()["items"].as_array().unwrap().len(), 5);
    assert_eq!(frames.call(STATS, "{}").ok()["tasks"]["cancelled"], 1);
}

#[test]
fn a_submit_may_be_a_batch() {
    let broker = BrokerProcess::start();
    let mut frames = broker.frames();
    let results = frames.call(SUBMIT, r#"{"tasks":[{"id":"a","type":"t"},{"type":""},{"type":"t"}]}"#).ok();
    assert_eq!(results["results"][0], json!({"id": "a", "state": "pending"}));
    assert_eq!(results["results"][1]["error"]["errors"][0]["field"], "type");
    assert_eq!(results["results"][2]["state"], "pending");
    let atomic = r#"{ "atomic": true, "tasks":[{"id":"b","type":"t"},{"type":""}]}"#;
    assert_eq!(frames.call(SUBMIT, atomic).ok()["results"][0]["error"]["code"], "aborted");
    frames.call(SUBMIT, r#"{"tasks":[]}"#).refused(400, "malformed");
    assert_eq!(frames.call(STATS, "{}").ok()["ledger"]["submitted"], 2);
}

#[test]
fn an_answered_submit_survives_a_kill() {
    let mut broker = BrokerProcess::start();
    let submit = |n: usize| frame(SUBMIT, format!(r#"{{"id":"t{n}","type":"t"}}"#));
    let mut frames = broker.frames();
    frames.send(&(0..300).flat_map(submit).collect::<Vec<u8>>());
    (0..300).for_each(|_| drop(frames.read().ok()));
    broker.kill_and_restart();
    let mut frames = broker.frames();
    let again: Vec<_> = (0..300).flat_map(submit).collect();
    frames.send(&again);
    (0..300).for_each(|_| drop(frames.read().ok()));
    assert_eq!(frames.call(STATS, "{}").ok()["tasks"]["pending"], 300);
}

#[test]
fn single_submits_of_many_clients_survive_a_kill() {
    const CLIENTS: usize = 16;
    let mut broker = BrokerProcess::start();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let mut frames = broker.frames();
            scope.spawn(move || {
                for n in 0..20 {
                    frames.call(SUBMIT, format!(r#"{{"id":"t{client}-{n}","type":"t"}}"#)).ok();
                }
            });
        }
    });
    broker.kill_and_restart();
    assert_eq!(broker.frames().call(STATS, "{}").ok()["tasks"]["pending"], 20 * CLIENTS);
}

#[test]
fn a_connection_goes_on_in_order_when_it_changes_what_it_sends() {
    let broker = BrokerProcess::start();
    let mut frames = broker.frames();
    let submit = |id: String| frame(SUBMIT, format!(r#"{{"id":"{id}","type":"t"}}"#));
    // One at a time, a few, many at once, other requests, and one at a time again, without waiting in between.
    let mut requests = vec![submit("first".to_owned())];
    requests.push((0..3).flat_map(|n| submit(format!("few-{n}"))).collect());
    requests.push((0..30).flat_map(|n| submit(format!("many-{n}"))).collect());
    requests.push(frame(STATS, "{}"));
    requests.push(submit("last".to_owned()));
    requests.iter().for_each(|bytes| frames.send(bytes));
    let mut answers: Vec<Value> = (0..36).map(|_| frames.read().ok()).collect();
    assert!(answers.remove(34)["ledger"].is_object());
    let ids: Vec<String> = answers.iter().map(|answer| text(&answer["task"]["id"])).collect();
    let many = (0..30).map(|n| format!("many-{n}"));
    let expected: Vec<String> =
        ["first", "few-0", "few-1", "few-2"].map(str::to_owned).into_iter().chain(many).collect();
    assert_eq!(ids[..34], expected);
    assert_eq!(ids[34..], ["last"]);
    // In this order they stand in the queue.
    let tasks = claim(&mut frames, r#"{"worker_id":"w","max":100}"#);
    assert_eq!(tasks.iter().map(|task| text(&task["id"])).collect::<Vec<_>>(), ids);
}

#[test]
fn a_client_that_stops_sending_gets_its_answers_and_no_more_tasks() {
    let broker = BrokerProcess::start();
    let mut frames = broker.frames();
    frames.send(&frame(SUBMIT, r#"{"id":"a","type":"t","queue":"elsewhere"}"#));
    frames.send(&frame(CLAIM, r#"{"worker_id":"w","wait_seconds":60}"#));
    frames.close_sending();
    assert_eq!(frames.read().ok()["task"]["id"], "a");
    assert_eq!(frames.read().ok(), json!({"tasks": []}));
    assert!(frames.is_closed());
    let mut frames = broker.frames();
    frames.call(SUBMIT, r#"{"id":"b","type":"t"}"#).ok();
    assert_eq!(frames.call(STATUS, r#"{"id":"b"}"#).ok()["task"]["state"], "pending");
}

#[test]
fn a_shutdown_answers_what_is_under_way() {
    let mut broker = BrokerProcess::start();
    let mut frames = broker.frames();
    frames.send(&frame(SUBMIT, r#"{"id":"a","type":"t"}"#));
    frames.read().ok();
    frames.send(&frame(CLAIM, r#"{"worker_id":"w","queues":["empty"],"wait_seconds":60}"#));
    // The claim waits once the worker is known.
    let mut http = broker.client();
    while http.get("/api/v1/workers/w").status != 200 {
        std::thread::yield_now();
    }
    broker.terminate();
    assert_eq!(frames.read().ok(), json!({"tasks": []}));
    assert!(frames.is_closed());
    assert_eq!(broker.wait(), Some(0));
}
