//! A Redis that asks for a password, and one that stands still.

use std::process::Command;

use super::*;
use crate::cli::process;

#[test]
fn a_missing_or_wrong_password_is_named() {
    let redis = Redis::start_with(&["--requirepass", "secret"]);
    let words = |url: &str| {
        let store = ["serve", "--http-addr", "127.0.0.1:0", "--store", url];
        let done = process::run(&store);
        assert_eq!(done.code, 1, "{done:?}");
        done.stderr
    };
    let missing = words(&format!("redis://127.0.0.1:{}", redis.port));
    assert!(missing.contains("it asks for a password"), "{missing}");
    let wrong = words(&format!("redis://:other@127.0.0.1:{}", redis.port));
    assert!(wrong.contains("it refuses the user or the password"), "{wrong}");
    assert!(!wrong.contains("other@"), "{wrong}");
}

#[test]
fn probes_are_answered_while_redis_stands_still() {
    let redis = Redis::start();
    let broker = redis.broker();
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &redis.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    };
    signal("-STOP");
    // Without a bound of its own, each of these would answer with what the store says when its patience has ended.
    let health = broker.client().get("/health").expect(503);
    assert!(text(&health["problem"]).contains("did not answer within"), "{health}");
    broker.client().get("/readyz").refused(503, "store_failed");
    let metrics = broker.client().get("/metrics");
    assert_eq!(metrics.status, 200);
    assert!(metrics.text.contains("taskqueue_store_up 0\n"), "{}", metrics.text);
    assert!(metrics.text.contains("process_start_time_seconds"));
    signal("-CONT");
    broker.client().post(TASKS, r#"{"type":"t"}"#).expect(201);
    assert!(broker.client().get("/metrics").text.contains("taskqueue_store_up 1\n"));
}
