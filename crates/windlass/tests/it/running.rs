//! What happens to a task while it runs, through every door: cancels that reach the worker and are final, checkpoints, expiry,
//! snooze and the ways to fail.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_proto::grpc::v1::work_request::Message as Said;
use windlass_proto::grpc::v1::work_response::Message as Told;
use windlass_proto::grpc::v1::worker_service_client::WorkerServiceClient;
use windlass_proto::grpc::v1::{
    ClaimRequest, ExtendRequest, Extension, Extensions, Failed, HeartbeatRequest, LeaseRef, Outcome,
    Outcomes, Released, outcome,
};

use crate::broker_process::BrokerProcess;
use crate::frames::{CLAIM, Frames, HEARTBEAT, RESULT, STATUS, SUBMIT};
use crate::grpc_client::{Work, connect, hello, submit};
use crate::http::{Client, text};

const CLAIM_ONE: &str = r#"{"worker_id":"w","wait_seconds":20}"#;

fn post(client: &mut Client, body: &str) {
    client.post("/api/v1/tasks", body).expect(201);
}

/// The next task and its lease.
fn claim(client: &mut Client) -> (Value, String) {
    let task = client.post("/api/v1/claim", CLAIM_ONE).expect(200)["tasks"][0].clone();
    let lease = text(&task["lease"]);
    (task, lease)
}

fn report(client: &mut Client, id: &str, verb: &str, body: Value) -> crate::http::Answer {
    client.post(&format!("/api/v1/tasks/{id}/{verb}"), &body.to_string())
}

fn look(client: &mut Client, id: &str) -> Value {
    client.get(&format!("/api/v1/tasks/{id}")).expect(200)
}

fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

#[test]
fn a_checkpoint_outlives_failures_losses_releases_and_kill_9_over_rest() {
    let mut broker = BrokerProcess::start();
    let mut client = broker.client();
    post(&mut client, r#"{"id":"a","type":"t","retry":{"initial_ms":1}}"#);
    let (task, lease) = claim(&mut client);
    assert!(task["checkpoint_base64"].is_null());
    let save = |page: &str, lease: &str| json!({"lease": lease, "checkpoint_base64": encoded(page)});
    let saved = report(&mut client, "a", "extend", save("page 1", &lease)).expect(200);
    assert_eq!(saved["cancel_requested"], false);
    report(&mut client, "a", "extend", save("page 2", &lease)).expect(200);
    broker.kill_and_restart();
    let mut client = broker.client();
    assert_eq!(look(&mut client, "a")["checkpoint_base64"], encoded("page 2"), "durable when answered");
    report(&mut client, "a", "fail", json!({"lease": lease, "error": "no"})).expect(200);
    report(&mut client, "a", "extend", save("late", &lease)).refused(409, "lease_lost");
    let (task, lease) = claim(&mut client);
    assert_eq!((&task["attempts"], &task["checkpoint_base64"]), (&2.into(), &encoded("page 2").into()));
    report(&mut client, "a", "release", json!({"lease": lease})).expect(200);
    let (task, lease) = claim(&mut client);
    assert_eq!(task["checkpoint_base64"], encoded("page 2"));
    let listed = client.get("/api/v1/tasks").expect(200)["items"][0].clone();
    assert!(listed["checkpoint_base64"].is_null() && listed["checkpoint_at"].is_string(), "{listed}");
    let large = save(&"x".repeat(64 * 1024 + 1), &lease);
    let problem = report(&mut client, "a", "extend", large).refused(413, "too_large");
    assert_eq!(problem["errors"][0]["field"], "checkpoint_base64");
    report(&mut client, "a", "complete", json!({"lease": lease})).expect(200);
    let completed = look(&mut client, "a");
    assert!(completed["checkpoint_base64"].is_null() && completed["checkpoint_at"].is_null());
}

#[test]
fn a_cancelled_task_keeps_its_last_checkpoint_and_takes_no_other() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    post(&mut client, r#"{"id":"a","type":"t"}"#);
    let (_, lease) = claim(&mut client);
    let save = |page: &str| json!({"lease": lease, "checkpoint_base64": encoded(page)});
    report(&mut client, "a", "extend", save("one")).expect(200);
    client.post("/api/v1/tasks/a/cancel", "").expect(200);
    let told = report(&mut client, "a", "extend", save("two")).expect(200);
    assert_eq!((&told["cancel_requested"], &told["lease_expires_at"]), (&true.into(), &Value::Null));
    report(&mut client, "a", "complete", json!({"lease": lease})).refused(409, "lease_lost");
    let task = look(&mut client, "a");
    assert_eq!((&task["state"], &task["cancel_reason"]), (&"cancelled".into(), &"asked".into()));
    client.post("/api/v1/tasks/a/retry", "").expect(200);
    assert_eq!(claim(&mut client).0["checkpoint_base64"], encoded("one"));
}

#[test]
fn an_empty_checkpoint_takes_the_last_one_away() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    post(&mut client, r#"{"id":"a","type":"t"}"#);
    let (_, lease) = claim(&mut client);
    for page in ["one", ""] {
        let body = json!({"lease": lease, "checkpoint_base64": encoded(page)});
        report(&mut client, "a", "extend", body).expect(200);
    }
    report(&mut client, "a", "release", json!({"lease": lease})).expect(200);
    assert!(claim(&mut client).0["checkpoint_base64"].is_null());
}

#[test]
fn a_checkpoint_of_a_task_that_is_gone_costs_no_other_lease() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let mut leases = Vec::new();
    for id in ["a", "b", "c"] {
        post(&mut client, &json!({"id": id, "type": "t"}).to_string());
        let (_, lease) = claim(&mut client);
        leases.push(json!({"id": id, "lease": lease, "checkpoint_base64": encoded(id)}));
    }
    client.post("/api/v1/tasks/a/cancel", "").expect(200);
    assert_eq!(client.delete("/api/v1/tasks/a?purge=true").status, 204);
    let beat = json!({"worker_id": "w", "incarnation": 7, "leases": leases}).to_string();
    let pulse = client.post("/api/v1/workers/w/heartbeat", &beat).expect(200);
    assert_eq!(pulse, json!({"extended": ["b", "c"], "lost": ["a"], "cancel": [], "paused": false}));
    assert_eq!(look(&mut client, "b")["checkpoint_base64"], encoded("b"));
    assert_eq!(look(&mut client, "c")["checkpoint_base64"], encoded("c"));
    let pulse = broker.frames().call(HEARTBEAT, beat).ok();
    assert_eq!((&pulse["extended"], &pulse["lost"]), (&json!(["b", "c"]), &json!(["a"])));
    let gone = json!({"lease": leases[0]["lease"], "checkpoint_base64": encoded("a")});
    report(&mut client, "a", "extend", gone).refused(404, "not_found");
}

#[tokio::test]
async fn a_grpc_stream_names_a_task_that_is_gone_as_lost() {
    let broker = BrokerProcess::start();
    let address = broker.grpc_address;
    let (mut work, _) = Work::begin(address, hello("w", 1)).await;
    submit(address, &["a", "b"]).await;
    work.grant(2);
    let tasks = work.take(2).await;
    let mut client = broker.client();
    client.post("/api/v1/tasks/a/cancel", "").expect(200);
    assert!(matches!(work.next().await, Told::Cancels(_)));
    assert_eq!(client.delete("/api/v1/tasks/a?purge=true").status, 204);
    let extension = |task: &windlass_proto::grpc::v1::LeasedTask| Extension {
        id: task.id.clone(),
        lease: task.lease.clone(),
        checkpoint: Some("page 7".into()),
        ..Extension::default()
    };
    let extensions = tasks.iter().map(extension).collect();
    work.say(Said::Extensions(Extensions { sequence: 1, extensions, ..Extensions::default() }));
    let Told::Extended(extended) = work.next().await else { panic!("no answer to the extensions") };
    assert_eq!((extended.lost, extended.refusals.len()), (vec!["a".to_owned()], 0));
    assert_eq!(look(&mut client, "b")["checkpoint_base64"], encoded("page 7"));
}

fn take(frames: &mut Frames) -> Value {
    frames.call(CLAIM, CLAIM_ONE).ok()["tasks"][0].clone()
}

fn beat(frames: &mut Frames, task: &Value, page: Option<&str>) -> Value {
    let mut lease = json!({"id": task["id"], "lease": task["lease"]});
    if let Some(page) = page {
        lease["checkpoint_base64"] = encoded(page).into();
    }
    frames.call(HEARTBEAT, json!({"worker_id": "w", "leases": [lease]}).to_string()).ok()
}

#[test]
fn tcp_frames_carry_checkpoints_and_cancels_that_are_final() {
    let broker = BrokerProcess::start();
    let mut frames = broker.frames();
    frames.call(SUBMIT, r#"{"id":"a","type":"t"}"#).ok();
    let task = take(&mut frames);
    assert_eq!(beat(&mut frames, &task, Some("page 7"))["extended"], json!(["a"]));
    let result =
        |task: &Value, rest: &str| format!(r#"{{"id":{},"lease":{},{rest}}}"#, task["id"], task["lease"]);
    frames.call(RESULT, result(&task, r#""status":"released""#)).ok();
    assert_eq!(beat(&mut frames, &task, Some("late"))["lost"], json!(["a"]));
    let task = take(&mut frames);
    assert_eq!(task["checkpoint_base64"], encoded("page 7"));
    broker.client().post("/api/v1/tasks/a/cancel", "").expect(200);
    assert_eq!(beat(&mut frames, &task, None)["cancel"], json!(["a"]));
    frames.call(RESULT, result(&task, r#""status":"completed""#)).refused(409, "lease_lost");
    assert_eq!(frames.call(STATUS, r#"{"id":"a"}"#).ok()["task"]["state"], "cancelled");
}

#[tokio::test]
async fn a_grpc_stream_carries_checkpoints_and_cancels_that_are_final() {
    let broker = BrokerProcess::start();
    let address = broker.grpc_address;
    let (mut work, _) = Work::begin(address, hello("w", 1)).await;
    submit(address, &["a"]).await;
    work.grant(3);
    let mut task = work.take(1).await.remove(0);
    assert_eq!(task.checkpoint, None);
    let extend = |work: &Work, sequence: u64, task: &windlass_proto::grpc::v1::LeasedTask, page: &str| {
        let extension = Extension {
            id: task.id.clone(),
            lease: task.lease.clone(),
            checkpoint: Some(page.to_owned().into()),
            ..Extension::default()
        };
        let extensions = vec![extension];
        work.say(Said::Extensions(Extensions { sequence, extensions, ..Extensions::default() }));
    };
    extend(&work, 1, &task, "page 7");
    let Told::Extended(extended) = work.next().await else { panic!("no answer to the extensions") };
    assert_eq!((extended.sequence, extended.lost.len(), extended.refusals.len()), (1, 0, 0));
    let end = |work: &Work, sequence, task: &windlass_proto::grpc::v1::LeasedTask, verdict| {
        let outcome = Outcome { id: task.id.clone(), lease: task.lease.clone(), verdict: Some(verdict) };
        work.say(Said::Outcomes(Outcomes { sequence, outcomes: vec![outcome], credits: 0 }));
    };
    end(&work, 2, &task, outcome::Verdict::Released(Released { delay_seconds: None }));
    // The acknowledgement and the task that came back overtake each other.
    let (mut acknowledged, mut again) = (false, None);
    while !acknowledged || again.is_none() {
        match work.next().await {
            Told::Ack(ack) => acknowledged = ack.refusals.is_empty(),
            Told::Tasks(mut tasks) => again = tasks.tasks.pop(),
            other => panic!("unexpected {other:?}"),
        }
    }
    task = again.unwrap();
    assert_eq!(task.checkpoint.as_deref(), Some(&b"page 7"[..]));
    extend(&work, 3, &task, &"x".repeat(64 * 1024 + 1));
    let Told::Extended(extended) = work.next().await else { panic!("no answer to the extensions") };
    let error = extended.refusals[0].error.clone().unwrap();
    assert_eq!((error.code.as_str(), error.field.as_deref()), ("too_large", Some("checkpoint")));

    broker.client().post("/api/v1/tasks/a/cancel", "").expect(200);
    assert!(matches!(work.next().await, Told::Cancels(_)));
    let failed = Failed { error: "too late".into(), fatal: true, retry_after_seconds: None };
    end(&work, 4, &task, outcome::Verdict::Failed(failed));
    assert_eq!(work.ack().await.refusals[0].error.as_ref().unwrap().code, "lease_lost");
    assert_eq!(look(&mut broker.client(), "a")["state"], "cancelled");
}

#[tokio::test]
async fn single_grpc_calls_save_and_are_given_back() {
    let broker = BrokerProcess::start();
    let address = broker.grpc_address;
    submit(address, &["a"]).await;
    let mut worker = WorkerServiceClient::new(connect(address).await);
    let request = ClaimRequest { worker_id: "w".into(), wait_seconds: 20.0, ..ClaimRequest::default() };
    let task = worker.claim(request.clone()).await.unwrap().into_inner().tasks.remove(0);
    let extend = ExtendRequest {
        id: task.id,
        lease: task.lease.clone(),
        checkpoint: Some("page 7".into()),
        ..ExtendRequest::default()
    };
    assert!(!worker.extend(extend).await.unwrap().into_inner().cancel_requested);
    report(&mut broker.client(), "a", "release", json!({"lease": task.lease})).expect(200);
    let again = worker.claim(request).await.unwrap().into_inner().tasks.remove(0);
    assert_eq!(again.checkpoint.as_deref(), Some(&b"page 7"[..]));
    let mut lease = crate::grpc_client::lease(&again);
    let beat = |lease: &LeaseRef| HeartbeatRequest {
        worker_id: "w".into(),
        incarnation: 7,
        leases: vec![lease.clone()],
        ..HeartbeatRequest::default()
    };
    lease.checkpoint = Some(vec![0; 64 * 1024 + 1].into());
    let refused = worker.heartbeat(beat(&lease)).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted, "{refused}");
    lease.checkpoint = Some("page 8".into());
    let pulse = worker.heartbeat(beat(&lease)).await.unwrap().into_inner();
    assert_eq!((pulse.extended, pulse.lost.len(), pulse.unsaved.len()), (vec!["a".to_owned()], 0, 0));
    assert_eq!(look(&mut broker.client(), "a")["checkpoint_base64"], encoded("page 8"));
}

#[tokio::test]
async fn a_task_pushed_over_grpc_names_its_keys() {
    let broker = BrokerProcess::start();
    let body = r#"{"id":"a","type":"t","key":"acme","unique_key":"report 7"}"#;
    broker.client().post("/api/v1/tasks", body).expect(201);
    let (mut work, _) = Work::begin(broker.grpc_address, hello("w", 1)).await;
    work.grant(1);
    let task = work.take(1).await.remove(0);
    assert_eq!((task.key.as_deref(), task.unique_key.as_deref()), (Some("acme"), Some("report 7")));
}

#[test]
fn a_task_that_expires_before_its_start_or_its_retry_is_cancelled() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let soon = (std::time::SystemTime::now() + std::time::Duration::from_millis(1500))
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let expires_at = windlass_proto::rest::Time::from_ms(soon.as_millis() as u64);
    for id in ["started", "never"] {
        let body = json!({"id": id, "type": "t", "expires_at": expires_at, "retry": {"initial_ms": 60_000}});
        post(&mut client, &body.to_string());
    }
    let (task, lease) = claim(&mut client);
    assert_eq!(task["id"], "started");
    let failed = report(&mut client, "started", "fail", json!({"lease": lease, "error": "no"})).expect(200);
    assert_eq!(failed["state"], "retrying");
    for id in ["never", "started"] {
        let ended = client.get(&format!("/api/v1/tasks/{id}?wait=20s")).expect(200);
        assert_eq!((&ended["state"], &ended["cancel_reason"]), (&"cancelled".into(), &"expired".into()));
    }
}

#[test]
fn snooze_retry_after_and_fatal_over_rest() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    post(&mut client, r#"{"id":"a","type":"t"}"#);
    let (_, lease) = claim(&mut client);
    let snoozed = report(&mut client, "a", "release", json!({"lease": lease, "delay_seconds": 0.05}));
    assert_eq!(snoozed.expect(200)["state"], "scheduled");
    let (task, lease) = claim(&mut client);
    assert_eq!(task["attempts"], 1, "no attempt was used");
    let failed = json!({"lease": lease, "error": "no", "retry_after_seconds": 0.05});
    assert_eq!(report(&mut client, "a", "fail", failed).expect(200)["state"], "retrying");
    let (task, lease) = claim(&mut client);
    assert_eq!(task["attempts"], 2);
    let fatal = json!({"lease": lease, "error": "no use", "retryable": false});
    assert_eq!(report(&mut client, "a", "fail", fatal).expect(200)["state"], "dead_letter");
}
