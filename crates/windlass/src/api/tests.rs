//! The edge on a broker in memory, without a network. The whole interface is tested on the running binary in `tests/it`.

use axum::body::Body;
use axum::http::{HeaderValue, Request, StatusCode};
use axum::response::Response;
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;
use windlass_broker::Broker;
use windlass_store::SystemClock;
use windlass_store::memory::MemoryStore;

use super::*;

pub(super) fn app() -> Front {
    let clock = SystemClock::shared();
    let store = MemoryStore::new(clock.clone());
    let broker = Broker::start(store, clock, windlass_broker::Settings::default());
    serve(std::sync::Arc::new(State::new(broker, Settings::default())))
}

pub(super) async fn send(app: &Front, mut request: Request<Body>) -> (Response<()>, Value) {
    request.headers_mut().insert("host", HeaderValue::from_static("t"));
    let response = app.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let value = serde_json::from_slice(&bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
    (Response::from_parts(parts, ()), value)
}

fn post(path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post(path).header("content-type", "application/json").body(body.into()).unwrap()
}

pub(super) fn get(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn a_task_goes_in_and_comes_out() {
    let app = app();
    let text = r#"{"type":"echo","payload":{"b" : 1,  "a":[2]},"priority":"high"}"#;
    let (head, task) = send(&app, post("/api/v1/tasks", text)).await;
    assert_eq!(head.status(), StatusCode::CREATED, "{task}");
    assert_eq!(task["payload"]["a"][0], 2);
    let (_, claimed) = send(&app, post("/api/v1/claim", r#"{"worker_id":"w"}"#)).await;
    let lease = claimed["tasks"][0]["lease"].as_str().unwrap();
    let path = format!("/api/v1/tasks/{}/complete", task["id"].as_str().unwrap());
    let (head, done) = send(&app, post(&path, format!(r#"{{"lease":"{lease}","result":[1]}}"#))).await;
    assert_eq!((head.status(), &done["state"]), (StatusCode::OK, &Value::from("completed")));
}

#[tokio::test]
async fn every_refusal_is_a_problem_with_the_id_of_its_request() {
    let app = app();
    let patch = Request::patch("/api/v1/tasks").body(Body::empty()).unwrap();
    let plain = Request::post("/api/v1/tasks").body(Body::from("{}")).unwrap();
    let table = [
        (get("/nowhere"), 404, "no_such_route"),
        (patch, 405, "method_not_allowed"),
        (plain, 415, "unsupported_media_type"),
        (get("/api/v1/tasks/none"), 404, "not_found"),
        (get("/api/v1/tasks/%3Cscript%3E"), 400, "malformed"),
        (post("/api/v1/tasks", "{"), 400, "malformed"),
    ];
    for (request, status, code) in table {
        let name = format!("{} {}", request.method(), request.uri());
        let (head, body) = send(&app, request).await;
        assert_eq!((head.status().as_u16(), body["code"].as_str()), (status, Some(code)), "{name}");
        assert_eq!(head.headers()["content-type"], "application/problem+json", "{name}");
        assert_eq!(head.headers()["x-request-id"].to_str().ok(), body["request_id"].as_str(), "{name}");
    }
    let mut named = get("/nowhere");
    named.headers_mut().insert("x-request-id", "mine-1".parse().unwrap());
    assert_eq!(send(&app, named).await.1["request_id"], "mine-1");
}

#[tokio::test]
async fn a_body_that_stops_coming_is_given_up() {
    tokio::time::pause();
    let body = Body::from_stream(futures_util::stream::pending::<Result<bytes::Bytes, std::io::Error>>());
    let (head, problem) = send(&app(), post("/api/v1/tasks", body)).await;
    assert_eq!(
        (head.status(), &problem["code"]),
        (StatusCode::REQUEST_TIMEOUT, &Value::from("body_timeout"))
    );
}

#[tokio::test]
async fn a_panic_is_an_answer_and_a_number() {
    let clock = SystemClock::shared();
    let broker = Broker::start(MemoryStore::new(clock.clone()), clock, windlass_broker::Settings::default());
    let state = Arc::new(State::new(broker, Settings::default()));
    async fn trip() -> &'static str {
        panic!("on purpose")
    }
    let routes = axum::Router::new().route("/trip", axum::routing::get(trip));
    let app = Front::new(routes, state.clone());
    let (head, problem) = send(&app, get("/trip")).await;
    assert_eq!((head.status().as_u16(), &problem["code"]), (500, &Value::from("internal")));
    assert_eq!(state.counters.panics.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[tokio::test]
async fn the_document_names_every_route_of_the_table() {
    let app = app();
    let (_, document) = send(&app, get("/api/openapi.json")).await;
    let routes = [
        ("/api/v1/tasks", "post get"),
        ("/api/v1/tasks/batch", "post"),
        ("/api/v1/tasks/{id}", "get delete"),
        ("/api/v1/tasks/{id}/cancel", "post"),
        ("/api/v1/tasks/{id}/retry", "post"),
        ("/api/v1/tasks/{id}/attempts", "get"),
        ("/api/v1/tasks/{id}/explain", "get"),
        ("/api/v1/claim", "post"),
        ("/api/v1/tasks/{id}/extend", "post"),
        ("/api/v1/tasks/{id}/complete", "post"),
        ("/api/v1/tasks/{id}/fail", "post"),
        ("/api/v1/tasks/{id}/release", "post"),
        ("/api/v1/queues", "get"),
        ("/api/v1/queues/{name}", "get"),
        ("/api/v1/queues/{name}/pause", "post"),
        ("/api/v1/queues/{name}/resume", "post"),
        ("/api/v1/queues/{name}/tasks", "delete"),
        ("/api/v1/dlq", "get delete"),
        ("/api/v1/dlq/retry", "post"),
        ("/api/v1/workers", "get"),
        ("/api/v1/workers/{id}", "get"),
        ("/api/v1/workers/{id}/pause", "post"),
        ("/api/v1/workers/{id}/resume", "post"),
        ("/api/v1/workers/{id}/heartbeat", "post"),
        ("/api/v1/stats", "get"),
        ("/api/v1/health", "get"),
        ("/health", "get"),
        ("/api/openapi.json", "get"),
        ("/livez", "get"),
        ("/readyz", "get"),
        ("/metrics", "get"),
    ];
    for (path, methods) in routes {
        for method in methods.split(' ') {
            assert!(document["paths"][path][method].is_object(), "{method} {path}");
        }
    }
    assert!(document["components"]["schemas"]["SubmitBody"]["properties"]["type"].is_object(), "{document}");
    let (head, page) = send(&app, get("/api/docs/")).await;
    assert_eq!(head.status(), StatusCode::OK);
    assert!(page.as_str().unwrap().contains("swagger-ui"));
    let (_, script) = send(&app, get("/api/docs/swagger-initializer.js")).await;
    assert!(script.as_str().unwrap().contains("/api/openapi.json"));
}

#[tokio::test]
async fn the_metrics_have_their_names() {
    let app = app();
    send(&app, post("/api/v1/tasks", r#"{"type":"echo","priority":"critical"}"#)).await;
    let (_, text) = send(&app, get("/metrics")).await;
    let text = text.as_str().unwrap();
    for line in [
        "taskqueue_tasks_submitted_total{type=\"echo\",priority=\"critical\"} 1\n",
        "taskqueue_tasks_completed_total{type=\"echo\",status=\"completed\"} 0\n",
        "taskqueue_task_duration_seconds_bucket{type=\"echo\",le=\"+Inf\"} 0\n",
        "taskqueue_queue_depth{queue=\"default\",priority=\"critical\"} 1\n",
        "taskqueue_active_workers 0\n",
        "taskqueue_dlq_size 0\n",
        "taskqueue_store_commit_seconds_count 1\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}
