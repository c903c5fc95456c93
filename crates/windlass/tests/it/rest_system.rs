//! Health, metrics and documents of the running binary.

use crate::broker_process::BrokerProcess;

#[test]
fn the_broker_tells_how_it_is() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    for path in ["/health", "/api/v1/health"] {
        let health = client.get(path).expect(200);
        assert_eq!((health["status"].as_str(), health["durability"].as_str()), (Some("ok"), Some("sync")));
        assert_eq!(health["persistent"], true);
    }
    assert_eq!(client.get("/livez").status, 200);
    assert_eq!(client.get("/readyz").status, 200);
    client.post("/api/v1/tasks", r#"{"type":"a"}"#).expect(201);
    let metrics = client.get("/metrics");
    assert!(metrics.text.contains("taskqueue_queue_depth{queue=\"default\",priority=\"normal\"} 1\n"));
    assert!(client.get("/api/openapi.json").expect(200)["paths"]["/api/v1/tasks"].is_object());
    assert_eq!(client.get("/api/docs").header("location"), Some("/api/docs/"));
    assert!(client.get("/api/docs/").text.contains("<html"));
}
