//! Dead letters grouped by error, over REST, gRPC and the command line.

use serde_json::{Value, json};
use windlass_proto::grpc::v1::ListDeadLetterGroupsRequest;
use windlass_proto::grpc::v1::admin_service_client::AdminServiceClient;

use crate::broker_process::BrokerProcess;
use crate::cli::process::Dev;
use crate::grpc_client::connect;
use crate::http::{Client, text};

fn die(client: &mut Client, queue: &str, error: &str) -> String {
    let task = json!({"type": "t", "queue": queue}).to_string();
    client.post("/api/v1/tasks", &task).expect(201);
    let claim = json!({"worker_id": "w", "queues": [queue], "max": 1}).to_string();
    let claimed = client.post("/api/v1/claim", &claim).expect(200);
    let task = &claimed["tasks"][0];
    let body = json!({"lease": task["lease"], "error": error, "retryable": false}).to_string();
    let id = text(&task["id"]);
    client.post(&format!("/api/v1/tasks/{id}/fail"), &body).expect(200);
    id
}

fn items(page: &Value) -> &Vec<Value> {
    page["items"].as_array().unwrap()
}

#[tokio::test]
async fn groups_over_rest_and_grpc() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    die(&mut client, "a", "dial 10.0.0.1:5432: refused");
    let newest = die(&mut client, "b", "dial 10.0.0.2:5432: refused");
    die(&mut client, "a", "<script>alert(1)</script>");
    let page = client.get("/api/v1/dlq/groups").expect(200);
    assert_eq!((&page["scanned"], &page["complete"], items(&page).len()), (&json!(3), &json!(true), 2));
    let group = &page["items"][0];
    assert_eq!((&group["count"], &group["type"], &group["queue"]), (&json!(2), &json!("t"), &Value::Null));
    assert_eq!(group["sample_error"], "dial 10.0.0.2:5432: refused");
    assert_eq!(group["sample_task_id"], newest);
    assert!(text(&group["first_at"]) <= text(&group["last_at"]));
    assert_eq!(page["items"][1]["queue"], "a");

    let fingerprint = text(&group["fingerprint"]);
    let listed = client.get(&format!("/api/v1/dlq?filter=fingerprint:{fingerprint}")).expect(200);
    assert_eq!(items(&listed).len(), 2);
    let of_a = client.get("/api/v1/dlq/groups?queue=a&type=t&limit=1").expect(200);
    assert_eq!((&of_a["scanned"], &of_a["complete"]), (&json!(2), &json!(false)));
    let by_line = client.get(&format!("/api/v1/dlq/groups?filter=-fingerprint:{fingerprint}")).expect(200);
    assert_eq!(items(&by_line).len(), 1);
    for (query, field) in [
        ("limit=0", "limit"),
        ("queue=%20", "queue"),
        ("filter=fingerprint:x", "filter"),
        ("colour=1", "colour"),
    ] {
        let answer = client.get(&format!("/api/v1/dlq/groups?{query}"));
        assert!(matches!(answer.status, 400 | 422) && answer.text.contains(field), "{}", answer.text);
    }

    let mut admin = AdminServiceClient::new(connect(broker.grpc_address).await);
    let request = ListDeadLetterGroupsRequest { queue: Some("b".into()), ..Default::default() };
    let groups = admin.list_dead_letter_groups(request).await.unwrap().into_inner();
    let group = &groups.groups[0];
    assert_eq!((groups.scanned, groups.complete, group.count), (1, true, 1));
    assert_eq!((group.fingerprint.as_str(), group.queue.as_deref()), (fingerprint.as_str(), Some("b")));
    assert_eq!(group.sample_task_id, newest);
}

#[test]
fn a_group_is_found_and_retried_from_the_command_line() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(&["--data-dir", data.path().join("data").to_str().unwrap()]);
    for message in ["user 1 is gone", "user 2 is gone", "disk full"] {
        let payload = json!({"message": message, "retryable": false}).to_string();
        assert_eq!(dev.run(&["submit", "fail", &payload, "--wait"]).code, 10);
    }
    let shown = dev.run(&["dlq", "groups"]).stdout;
    assert!(shown.contains("user 2 is gone") && !shown.contains("user 1"), "{shown}");
    let groups: Value = serde_json::from_str(&dev.run(&["dlq", "groups", "-o", "json"]).stdout).unwrap();
    assert_eq!(groups["items"][0]["count"], 2);
    let fingerprint = text(&groups["items"][0]["fingerprint"]);
    let text_only = dev.run(&["dlq", "groups", "--text", "disk full", "-o", "json"]).stdout;
    assert_eq!(items(&serde_json::from_str(&text_only).unwrap()).len(), 1);

    let looked = dev.run(&["dlq", "retry", "--fingerprint", &fingerprint, "--dry-run"]);
    assert!(looked.stdout.contains("would change  2"), "{} {}", looked.stdout, looked.stderr);
    let none =
        dev.run(&["dlq", "retry", "--fingerprint", &fingerprint, "--queue", "other", "--yes", "-o", "json"]);
    assert!(none.stdout.contains("\"changed\":0"), "{} {}", none.stdout, none.stderr);
    let done = dev.run(&["dlq", "clear", "--fingerprint", &fingerprint, "--yes", "-o", "json"]);
    let done: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(
        (&done["action"], &done["changed"], &done["state"]),
        (&json!("delete"), &json!(2), &json!("done"))
    );
    let left: Value = serde_json::from_str(&dev.run(&["dlq", "groups", "-o", "json"]).stdout).unwrap();
    let other = text(&left["items"][0]["fingerprint"]);
    assert_eq!(items(&left).len(), 1);
    let done = dev.run(&["dlq", "retry", "--fingerprint", &other, "--yes", "-o", "json"]);
    let done: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!((&done["action"], &done["changed"]), (&json!("retry"), &json!(1)));
    for wrong in
        [&["dlq", "retry", "--fingerprint", "xyz"][..], &["dlq", "retry", "a", "--fingerprint", &other]]
    {
        assert_eq!(dev.run(wrong).code, 2, "{wrong:?}");
    }
    assert_eq!(dev.stop(), Some(0));
}
